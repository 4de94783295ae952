package wire

import (
	"fmt"
	"strconv"
	"strings"
)

// Usage says which usage a streamed answer carries.
type Usage uint8

// The forms of usage that vLLM's streams have.
const (
	NoUsage         Usage = iota + 1 // none
	FinalUsage                       // one more event before [DONE]
	ContinuousUsage                  // in every event, and one more before [DONE]
)

// promptTokens is the number that every answer reports.
const promptTokens = 100

// Answer is the body of an answer.
type Answer struct {
	// Body is every byte.
	Body []byte
	// Ends has, for a stream, the offset behind each of its events: the role,
	// the tokens, a usage event if any, [DONE]. Nil for an unstreamed answer.
	Ends []int
}

// tokens are short and long, ASCII and not, and need escapes here and there, as
// the tokens of a model do.
func token(i int) string {
	words := [...]string{" the", " relay", " sends", " each", " token", ",", " as", " it", " comes", `\n`, " naïve", " 東京", `\"`, "."}
	return words[i%len(words)]
}

// StreamAnswer returns the stream of events token events; events is at least 1.
func StreamAnswer(events int, usage Usage) Answer {
	var a Answer
	add := func(data string) {
		a.Body = append(a.Body, "data: "+data+"\n\n"...)
		a.Ends = append(a.Ends, len(a.Body))
	}
	counts := func(done int) string {
		return fmt.Sprintf(`"usage":{"prompt_tokens":%d,"total_tokens":%d,"completion_tokens":%d}`, promptTokens, promptTokens+done, done)
	}
	chunk := func(choices string, done int, withUsage bool) {
		data := `{"id":"chatcmpl-bench","object":"chat.completion.chunk","created":1750000000,"model":"` + Model + `","choices":[` + choices + `]`
		if withUsage {
			data += "," + counts(done)
		}
		add(data + "}")
	}
	each := usage == ContinuousUsage
	chunk(`{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}`, 0, each)
	for i := range events {
		reason := "null"
		if i == events-1 {
			reason = `"stop"`
		}
		chunk(`{"index":0,"delta":{"content":"`+token(i)+`"},"logprobs":null,"finish_reason":`+reason+`}`, i+1, each)
	}
	if usage == FinalUsage || usage == ContinuousUsage {
		chunk("", events, true)
	}
	add("[DONE]")
	return a
}

// WholeAnswer returns an unstreamed answer of at least size bytes.
func WholeAnswer(size int) Answer {
	const head = `{"id":"chatcmpl-bench","object":"chat.completion","created":1750000000,"model":"` + Model +
		`","choices":[{"index":0,"message":{"role":"assistant","content":"`
	const tail = `"},"logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":`
	var text strings.Builder
	n := 0
	for len(head)+text.Len()+len(tail)+40 < size || n == 0 {
		text.WriteString(token(n))
		n++
	}
	return Answer{Body: []byte(head + text.String() + tail + strconv.Itoa(promptTokens) +
		`,"total_tokens":` + strconv.Itoa(promptTokens+n) + `,"completion_tokens":` + strconv.Itoa(n) + `}}`)}
}
