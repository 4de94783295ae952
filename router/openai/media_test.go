package openai_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/llmgw/llmgw/router/openai"
)

func TestMediaStream(t *testing.T) {
	used := openai.Usage{PromptTokens: openai.CountOf(14), CompletionTokens: openai.CountOf(3), TotalTokens: openai.CountOf(17)}
	const usage = `"usage":{"input_tokens":14,"output_tokens":3,"total_tokens":17}`
	big := strings.Repeat("A", 2*openai.MaxHeldBytes)
	tests := []struct {
		name, in string
		want     state
	}{
		{"delta", events(`data: {"type":"transcript.text.delta","delta":"h"}`), state{Content: true, Events: 1}},
		{"done", events(`data: {"type":"transcript.text.done","text":"hi",` + usage + `}`), state{Usage: used, HasUsage: true, Content: true, Done: true, Events: 1}},
		{"speech", events(`data: {"type":"speech.audio.delta","audio":"//N"}`, `data: {"type":"speech.audio.done",`+usage+`}`), state{Usage: used, HasUsage: true, Content: true, Done: true, Events: 2}},
		{"images", events(`event: image_generation.partial_image`+"\n"+`data: {"type":"image_generation.partial_image","b64_json":"`+big+`"}`,
			`event: image_generation.completed`+"\n"+`data: {"type":"image_generation.completed","b64_json":"`+big+`",`+usage+`}`),
			state{Usage: used, HasUsage: true, Content: true, Done: true, Events: 2}},
		{"error", events(`data: {"type":"error","message":"m"}`), state{Failed: true, Error: `{"type":"error","message":"m"}`, Events: 1}},
		{"vLLM", events(textChunk, usageChunk, done), state{Usage: chatUsage, HasUsage: true, Content: true, Done: true, Events: 3}},
		{"vLLM's error", events(`data: {"error":{"message":"m"}}`), state{Failed: true, Error: `{"error":{"message":"m"}}`, Events: 1}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, pieces := range [][]string{{tt.in}, strings.SplitAfter(tt.in, "\n"), strings.SplitAfter(tt.in, `"`)} {
				out, got := run(openai.StreamOptions{Dialect: openai.DialectMedia}, pieces...)
				if diff := cmp.Diff(tt.want, got, counts); diff != "" || out != tt.in {
					t.Errorf("in %d pieces, -want +got:\n%s", len(pieces), diff)
				}
			}
		})
	}
}

func TestStreamEnded(t *testing.T) {
	finish := func(reason string) string {
		return `data: {"id":"c1","choices":[{"index":0,"delta":{},"finish_reason":` + reason + `}]}`
	}
	tests := []struct {
		name    string
		dialect openai.Dialect
		in      string
		want    bool
	}{
		{"nothing", openai.DialectChat, "", false},
		{"[DONE]", openai.DialectChat, events(textChunk, done), true},
		{"a reason", openai.DialectChat, events(textChunk, finish(`"stop"`)), true},
		{"a reason, then usage", openai.DialectChat, events(textChunk, finish(` "length"`), usageChunk), true},
		{"no reason", openai.DialectChat, events(textChunk, finish("null")), false},
		{"a reason in the text", openai.DialectChat, events(`data: {"choices":[{"delta":{"content":"\"finish_reason\":\"stop\""}}]}`), false},
		{"responses", openai.DialectResponses, events(`data: {"type":"response.incomplete","response":{}}`), true},
		{"responses without their end", openai.DialectResponses, events(`data: {"type":"response.output_text.delta","delta":"x"}`), false},
		{"messages", openai.DialectMessages, events(`data: {"type":"message_stop"}`), true},
		{"messages without their end", openai.DialectMessages, events(`data: {"type":"message_delta","delta":{"stop_reason":"end_turn"}}`), false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for n := 1; n <= len(tt.in)+1; n += 1 + n/4 {
				var s openai.Stream
				s.Reset(openai.StreamOptions{Dialect: tt.dialect})
				for rest := tt.in; rest != ""; {
					k := min(n, len(rest))
					s.Feed([]byte(rest[:k]))
					rest = rest[k:]
				}
				if s.Ended() != tt.want {
					t.Errorf("in pieces of %d: %v", n, s.Ended())
				}
				if s.Reset(openai.StreamOptions{}); s.Ended() {
					t.Error("the next answer has ended before it begins")
				}
			}
		})
	}
}

func TestResponseID(t *testing.T) {
	for _, tt := range []struct{ name, doc, want string }{
		{"first", `{"id":"resp_1","object":"response"}`, "resp_1"},
		{"later", `{"background":false,"error":null,"id":"resp_1"}`, "resp_1"},
		{"none", `{"object":"response","output":[{"id":"msg_1"}]}`, ""},
		{"no string", `{"id":7}`, ""},
		{"an escape", `{"id":"resp\u005f1"}`, ""},
		{"a space", `{"id":"resp 1"}`, ""},
		{"long", `{"id":"` + strings.Repeat("x", 257) + `"}`, ""},
		{"as long as may be", `{"id":"` + strings.Repeat("x", 256) + `"}`, strings.Repeat("x", 256)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var b openai.Body
			b.Reset(openai.DialectResponses)
			b.Feed([]byte(tt.doc[:len(tt.doc)/2]))
			b.Feed([]byte(tt.doc[len(tt.doc)/2:]))
			b.Feed([]byte(strings.Repeat(" ", 10_000)))
			if got := b.ResponseID(); got != tt.want {
				t.Errorf("document: %q", got)
			}
			for _, name := range []string{"response.created", "response.in_progress", "response.completed"} {
				in := events(`data: {"type":"`+name+`","response":`+tt.doc+`}`, `data: {"type":"response.completed","response":{"id":"another"}}`)
				for dialect, want := range map[openai.Dialect]string{openai.DialectResponses: tt.want, openai.DialectMessages: ""} {
					if dialect == openai.DialectResponses && want == "" {
						want = "another"
					}
					var s openai.Stream
					s.Reset(openai.StreamOptions{Dialect: dialect})
					s.Feed([]byte(in))
					if got := s.ResponseID(); got != want {
						t.Errorf("%s of %v: %q; want %q", name, dialect, got, want)
					}
				}
			}
		})
	}
}

func TestPeekStored(t *testing.T) {
	type want struct {
		id                             string
		has, noStore, talk, background bool
	}
	for body, want := range map[string]want{
		`{"model":"m"}`: {},
		`{"model":"m","previous_response_id":"resp_1","store":true}`:          {id: "resp_1", has: true},
		`{"model":"m","previous_response_id":null,"store":false}`:             {noStore: true},
		`{"model":"m","previous_response_id":7,"store":null}`:                 {has: true},
		`{"model":"m","previous_response_id":"a\u0000"}`:                      {id: "a\x00", has: true},
		`{"model":"m","previous_response_id":""}`:                             {has: true},
		`{"model":"m","previous_response_id":["a"]}`:                          {has: true},
		`{"model":"m","previous\u005fresponse_id":"a"}`:                       {id: "a", has: true},
		`{"model":"m","Previous_Response_ID":"a"}`:                            {id: "a", has: true},
		`{"model":"m","previou\u017f_responſe_id":"a"}`:                       {id: "a", has: true},
		`{"model":"m","previous_response_id2":"a","previous-response-id":1}`:  {},
		`{"model":"m","metadata":{"previous_response_id":"a","store":false}}`: {},
		`{"model":"m","conversation":"conv_1"}`:                               {talk: true},
		`{"model":"m","CONVERSATION":{"id":"conv_1"}}`:                        {talk: true},
		`{"model":"m","converſation":"x"}`:                                    {talk: true},
		`{"model":"m","conversation":null,"background":false}`:                {},
		`{"model":"m","background":true}`:                                     {background: true},
		`{"model":"m","Background":1,"background":null}`:                      {background: true},
		`{"model":"m","bacKground":"on"}`:                                     {background: true},
		`{"model":"m","bac\u212Aground":"on"}`:                                {background: true},
	} {
		var p openai.Peek
		if err := openai.PeekBody([]byte(body), &p); err != nil {
			t.Fatal(err)
		}
		got := want
		got.id, got.has, got.noStore, got.talk, got.background = p.Previous, p.HasPrevious, p.NoStore, p.HasConversation, p.Background
		if got != want {
			t.Errorf("%s: got %+v; want %+v", body, got, want)
		}
	}
}

// What says in two ways what it goes on from is refused, whatever the spelling.
func TestPeekStoredTwice(t *testing.T) {
	for body, param := range map[string]string{
		`{"model":"m","previous_response_id":"a","previous_response_id":null}`:      "previous_response_id",
		`{"model":"m","previous_response_id":null,"previous\u005fresponse_id":"a"}`: "previous_response_id",
		`{"model":"m","previous_response_id":"a","Previous_Response_ID":"b"}`:       "previous_response_id",
		`{"conversation":null,"model":"m","Conversation":"b"}`:                      "conversation",
	} {
		var p openai.Peek
		err := openai.PeekBody([]byte(body), &p)
		if !errors.Is(err, openai.ErrDuplicateField) {
			t.Errorf("%s: %v; want ErrDuplicateField", body, err)
		}
		if e := openai.PeekFailed(err); e.Status != 400 || e.Code != openai.CodeInvalidRequest || e.Param != param || !strings.Contains(e.Message, param) || !e.NoRetry {
			t.Errorf("%s: answered %+v", body, e)
		}
	}
}
