package openai_test

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"github.com/llmgw/llmgw/router/openai"
)

// A router finds the model and sends the body on under the name that the
// engine knows, asking for usage; all else stays as the client wrote it.
func Example() {
	body := []byte(`{"model": "fast", "stream": true, "seed": 12345678901234567890}`)

	var p openai.Peek
	if err := openai.PeekBody(body, &p); err != nil {
		fmt.Println(err)
		return
	}
	parts, length := p.Edit(body, openai.Edit{Model: "org/model-8b", InjectUsage: true}, nil)
	fmt.Println(p.Model, p.Stream, length)
	fmt.Printf("%s\n", bytes.Join(parts, nil))
	// Output:
	// fast true 111
	// {"stream_options":{"include_usage":true},"model": "org/model-8b", "stream": true, "seed": 12345678901234567890}
}

func ExamplePeekBody() {
	var p openai.Peek
	err := openai.PeekBody([]byte(`{"model":"a","mod\u0065l":"b"}`), &p)
	fmt.Println(errors.Is(err, openai.ErrDuplicateModel))
	fmt.Printf("%s\n", openai.PeekFailed(err).JSON())
	// Output:
	// true
	// {"error":{"message":"The request names \"model\" more than once, which parsers read differently. Send it once.","type":"invalid_request_error","param":"model","code":"duplicate_model"}}
}

// The usage that the relay asked for is read and does not reach the client.
func ExampleStream() {
	var s openai.Stream
	s.Reset(openai.StreamOptions{Dialect: openai.DialectChat, StripUsage: true})
	for _, read := range []string{
		"data: {\"choices\":[{\"delta\":{\"content\":\"Hi\"}}]}\n\nda",
		"ta: {\"choices\":[],\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":1}}\n",
		"\ndata: [DONE]\n\n",
	} {
		fmt.Printf("%q\n", s.Feed([]byte(read)))
	}
	usage, _ := s.Usage()
	prompt, _ := usage.PromptTokens.Get()
	fmt.Println(s.SawContent(), s.Done(), prompt)
	// Output:
	// "data: {\"choices\":[{\"delta\":{\"content\":\"Hi\"}}]}\n\n"
	// ""
	// "data: [DONE]\n\n"
	// true true 5
}

// A hook that refuses returns an *Error, wrapped or not.
func ExampleRateLimited() {
	err := fmt.Errorf("charge: %w", openai.RateLimited(12*time.Second, "Your limit is 10 requests a minute. Try again in 12 s."))
	if e, ok := errors.AsType[*openai.Error](err); ok {
		fmt.Printf("%d %v\n%s\n", e.Status, e.RetryAfter, e.JSON())
	}
	// Output:
	// 429 12s
	// {"error":{"message":"Your limit is 10 requests a minute. Try again in 12 s.","type":"rate_limit_error","param":null,"code":"rate_limit_exceeded"}}
}

func ExampleNormalizeError() {
	body := openai.NormalizeError(404, "application/json", []byte(`{"detail":"Not Found"}`))
	fmt.Printf("%s\n", body)
	// Output:
	// {"error":{"message":"Not Found","type":"invalid_request_error","param":null,"code":"not_found"}}
}
