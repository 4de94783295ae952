package openai_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/llmgw/llmgw/router/openai"
)

const (
	roleChunk  = `data: {"id":"c1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}`
	textChunk  = `data: {"id":"c1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"Hé \"usage\": {}"},"finish_reason":null}]}`
	usageChunk = `data: {"id":"c1","object":"chat.completion.chunk","choices":[],"usage":{"prompt_tokens":7,"completion_tokens":2,"total_tokens":9,"prompt_tokens_details":{"cached_tokens":4}}}`
	done       = `data: [DONE]`
)

func events(parts ...string) string { return strings.Join(parts, "\n\n") + "\n\n" }

// state is all that a Stream can be asked.
type state struct {
	Usage                     openai.Usage
	HasUsage                  bool
	Content, Done, Failed, In bool
	Events                    int64
	Finished                  bool // Ended, but not Done
	Withheld                  bool
	Error                     string
}

var counts = cmp.AllowUnexported(openai.Count{})

func stateOf(s *openai.Stream) state {
	u, ok := s.Usage()
	return state{
		u, ok, s.SawContent(), s.Done(), s.Failed(), s.MidEvent(), s.Events(),
		s.Ended() && !s.Done(), s.Withheld(), string(s.ErrorData()),
	}
}

// feed runs the pieces through a stream and returns what came out.
func feed(s *openai.Stream, pieces ...string) string {
	var out strings.Builder
	for _, piece := range pieces {
		p := []byte(piece)
		out.Write(s.Feed(p))
		if string(p) != piece {
			panic("Feed changed its argument")
		}
	}
	out.Write(s.Flush())
	return out.String()
}

func run(o openai.StreamOptions, pieces ...string) (string, state) {
	var s openai.Stream
	s.Reset(o)
	return feed(&s, pieces...), stateOf(&s)
}

var chatUsage = openai.Usage{
	PromptTokens: openai.CountOf(7), CompletionTokens: openai.CountOf(2), TotalTokens: openai.CountOf(9), CachedTokens: openai.CountOf(4),
}

func TestStreamStrip(t *testing.T) {
	continuous := `,"usage":{"prompt_tokens":7,"total_tokens":8,"completion_tokens":1}`
	with := func(chunk string, member string) string { return strings.TrimSuffix(chunk, "}") + member + "}" }
	tests := []struct {
		name       string
		usage, con bool
		in, want   string
	}{
		{"nothing asked", false, false, events(roleChunk, textChunk, usageChunk, done), events(roleChunk, textChunk, usageChunk, done)},
		{"usage chunk goes", true, false, events(roleChunk, textChunk, usageChunk, done), events(roleChunk, textChunk, done)},
		{"usage first", true, false, events(usageChunk, textChunk, done), events(textChunk, done)},
		{"usage last", true, false, events(textChunk, usageChunk), events(textChunk)},
		{"usage without its blank line", true, false, events(textChunk) + usageChunk + "\n", events(textChunk)},
		{"usage without its line end", true, false, events(textChunk) + usageChunk, events(textChunk)},
		{"half a usage chunk goes", true, false, events(textChunk) + usageChunk[:150], events(textChunk)},
		{"half a chunk goes", true, false, events(textChunk) + textChunk[:120], events(textChunk)},
		{"a chunk without its blank line stays", true, false, events(roleChunk) + textChunk + "\n", events(roleChunk) + textChunk + "\n"},
		{"a chunk without its line end stays", true, false, events(roleChunk) + textChunk, events(roleChunk) + textChunk},
		{"[DONE] without its blank line stays", true, false, events(textChunk) + done + "\n", events(textChunk) + done + "\n"},
		{"[DONE] without its line end stays", true, false, events(textChunk) + done, events(textChunk) + done},
		{"half a [DONE] goes", true, false, events(textChunk) + "data: [DO", events(textChunk)},
		{"usage with choices stays", true, false, events(with(textChunk, continuous), done), events(with(textChunk, continuous), done)},
		{"usage null stays", true, false, events(with(textChunk, `,"usage":null`), done), events(with(textChunk, `,"usage":null`), done)},
		{"empty choices without usage stay", true, false, events(`data: {"choices":[],"prompt_filter_results":[]}`, done), events(`data: {"choices":[],"prompt_filter_results":[]}`, done)},
		{"empty choices with usage null stay", true, true, events(`data: {"choices":[],"usage":null}`, done), events(`data: {"choices":[],"usage":null}`, done)},
		{"no choices stay", true, true, events(`data: {"id":"x","usage":{"prompt_tokens":1}}`, done), events(`data: {"id":"x","usage":{"prompt_tokens":1}}`, done)},
		{"text about usage stays", true, true, events(textChunk, textChunk, done), events(textChunk, textChunk, done)},
		{"usage deeper stays", true, true, events(`data: {"choices":[{"usage":{"prompt_tokens":3},"delta":{"content":"x"}}]}`), events(`data: {"choices":[{"usage":{"prompt_tokens":3},"delta":{"content":"x"}}]}`)},
		{"no JSON stays", true, true, events(`data: "usage": {}, "choices": []`, `data: {"choices":[],"usage":{}`), events(`data: "usage": {}, "choices": []`, `data: {"choices":[],"usage":{}`)},
		{"continuous goes", true, true, events(with(textChunk, continuous), with(textChunk, `,"usage":null`), with(textChunk, continuous), usageChunk, done), events(textChunk, textChunk, textChunk, done)},
		{"continuous goes, usage chunk stays", false, true, events(with(textChunk, continuous), usageChunk, done), events(textChunk, usageChunk, done)},
		{"continuous in front", true, true, events(`data: {"usage":null ,"choices":[{"text":"a"}]}`), events(`data: {"choices":[{"text":"a"}]}`)},
		{"continuous between", true, true, events(`data: {"a":1, "usage" : {"x":"}"} ,"choices":[{"text":"a"}]}`), events(`data: {"a":1 ,"choices":[{"text":"a"}]}`)},
		{"deeper at the end stays", true, true, events(textChunk, `data: {"choices":[{"text":"a"}],"x":{"y":1,"usage":{}},"z":{}}`), events(textChunk, `data: {"choices":[{"text":"a"}],"x":{"y":1,"usage":{}},"z":{}}`)},
		{"continuous over lines", true, true, "data: {\"choices\":[{\"text\":\"a\"}]\ndata: ,\"usage\":\ndata:null\ndata: }\n\n", "data: {\"choices\":[{\"text\":\"a\"}]\ndata: \ndata:\ndata: }\n\n"},
		{"usage chunk over lines", true, false, "data: {\"choices\":[],\ndata:\"usage\":{\"prompt_tokens\":7}}\n\n" + events(done), events(done)},
		{"comments stay, also before the usage chunk", true, false, ": a\n\n" + textChunk + "\n\n: b\n" + usageChunk + "\n\n: c\n" + done + "\n\n", ": a\n\n" + textChunk + "\n\n: b\n: c\n" + done + "\n\n"},
		{"fields beside the data", true, false, "id: 5\nevent: message\n" + usageChunk + "\nretry: 10\n\n" + done + "\n\n", events(done)},
		{"no space", true, false, strings.ReplaceAll(events(textChunk, usageChunk, done), "data: ", "data:"), strings.ReplaceAll(events(textChunk, done), "data: ", "data:")},
		{"longer than is held", true, false, "data: {\"choices\":[],\"x\":\"" + strings.Repeat("x", openai.MaxHeldBytes) + "\"," + usageChunk[7:] + "\n\n" + events(done), "data: {\"choices\":[],\"x\":\"" + strings.Repeat("x", openai.MaxHeldBytes) + "\"," + usageChunk[7:] + "\n\n" + events(done)},
	}
	for _, tt := range tests {
		for _, nl := range []string{"\n", "\r\n", "\r"} {
			t.Run(fmt.Sprintf("%s/%q", tt.name, nl), func(t *testing.T) {
				o := openai.StreamOptions{Dialect: openai.DialectChat, StripUsage: tt.usage, StripContinuous: tt.con}
				in, want := strings.ReplaceAll(tt.in, "\n", nl), strings.ReplaceAll(tt.want, "\n", nl)
				got, whole := run(o, in)
				if diff := cmp.Diff(want, got); diff != "" {
					t.Error(diff)
				}
				step := max(1, len(in)/400)
				for cut := 0; cut <= len(in); cut += step {
					got, split := run(o, in[:cut], in[cut:])
					if got != want {
						t.Fatalf("cut at %d: got %q, want %q", cut, got, want)
					}
					if diff := cmp.Diff(whole, split, counts); diff != "" {
						t.Fatalf("cut at %d: %s", cut, diff)
					}
				}
				if got, single := run(o, strings.Split(in, "")...); got != want || single != whole {
					t.Errorf("byte by byte: got %q, want %q", got, want)
				}
			})
		}
	}
}

func TestStreamChat(t *testing.T) {
	chunk := func(delta string) string { return `data: {"id":"c1","choices":[{"index":0,"delta":` + delta + `}]}` }
	tests := []struct {
		name, in string
		want     state
	}{
		{"empty", "", state{}},
		{"whole answer", events(roleChunk, textChunk, usageChunk, done), state{Content: true, Done: true, Events: 4, HasUsage: true, Usage: chatUsage}},
		{"no blank line at the end", events(textChunk) + done, state{Content: true, Done: true, Events: 2, In: true}},
		{"role only", events(roleChunk), state{Events: 1}},
		{"role and null", events(chunk(`{"role":"assistant","content":null,"reasoning_content":null,"tool_calls":null}`)), state{Events: 1}},
		{"empty lists", events(chunk(`{"tool_calls":[ ],"audio":{}}`)), state{Events: 1}},
		{"usage only", events(usageChunk), state{Events: 1, HasUsage: true, Usage: chatUsage}},
		{"comments", ": ping\n\n: content\n:\n\n", state{}},
		{"blank lines", "\n\n\r\r\r\n", state{}},
		{"unfinished comment", ": pi", state{In: true}},
		{"event without data", "event: x\nid: 1\n\n", state{}},
		{"unknown fields", "datum: 1\ndatax: 2\nevents: 3\n\n", state{}},
		{"field without colon", "data\n\n", state{Events: 1}},
		{"text", events(`data: {"choices":[{"text":"x"}]}`), state{Content: true, Events: 1}},
		{"text, spaced", events(`data:  { "choices" : [ { "text" : "x" } ] }`), state{Content: true, Events: 1}},
		{"reasoning", events(chunk(`{"reasoning":"x"}`)), state{Content: true, Events: 1}},
		{"reasoning_content", events(chunk(`{"reasoning_content":"x"}`)), state{Content: true, Events: 1}},
		{"refusal", events(chunk(`{"refusal":"x"}`)), state{Content: true, Events: 1}},
		{"tool call", events(chunk(`{"tool_calls":[{"index":0,"id":"t","function":{"name":"f","arguments":""}}]}`)), state{Content: true, Events: 1}},
		{"key in a value", events(chunk(`{"role":"content\":\"x"}`)), state{Events: 1}},
		{"error", events(`data: {"error":{"message":"x"}}`), state{Failed: true, Events: 1, Error: `{"error":{"message":"x"}}`}},
		{"error and end", events(textChunk, `data: {"error":{"message":"x"}}`, done), state{Content: true, Done: true, Failed: true, Events: 3, Error: `{"error":{"message":"x"}}`}},
		{"error behind an id", events(textChunk, `data: {"id":"c1","error":{"message":"x"}}`), state{Content: true, Failed: true, Events: 2, Error: `{"id":"c1","error":{"message":"x"}}`}},
		{"error as the third member", events(textChunk, `data: {"status":500,"request":"r","error":{}}`), state{Content: true, Failed: true, Events: 2, Error: `{"status":500,"request":"r","error":{}}`}},
		{"error beside a choice", events(textChunk, `data: {"id":"c1","error":{"code":502},"choices":[{"index":0,"delta":{"content":""},"finish_reason":"error"}]}`),
			state{Content: true, Failed: true, Events: 2, Error: `{"id":"c1","error":{"code":502},"choices":[{"index":0,"delta":{"content":""},"finish_reason":"error"}]}`}},
		{"text about errors", events(textChunk, `data: {"id":"c1","choices":[{"index":0,"delta":{"content":"{\"error\":1}"}}],"x":{"error":1}}`), state{Content: true, Events: 2}},
		{"flat error", events(`data: {"object":"error","message":"x"}`), state{Failed: true, Events: 1, Error: `{"object":"error","message":"x"}`}},
		{"error string", events(`data: {"error":"x","error_type":"y"}`), state{Failed: true, Events: 1, Error: `{"error":"x","error_type":"y"}`}},
		{"error by name", events("event: error\ndata: x"), state{Failed: true, Events: 1, Error: "x"}},
		{"two errors", events("event: error\ndata: x", "event: error\ndata: y"), state{Failed: true, Events: 2, Error: "x"}},
		{"error null", events(`data: {"error":null,"choices":[{"text":"x"}]}`), state{Content: true, Events: 1}},
		{"end with more", events(`data: [DONE] `), state{Done: true, Events: 1}},
		{"usage zero", events(`data: {"choices":[],"usage":{"prompt_tokens":0,"completion_tokens":0}}`), state{Events: 1, HasUsage: true, Usage: openai.Usage{
			PromptTokens: openai.CountOf(0), CompletionTokens: openai.CountOf(0), TotalTokens: openai.CountOf(0)}}},
		{"usage as strings and floats", events(`data: {"choices":[],"usage":{"prompt_tokens":"12","completion_tokens":3.0}}`), state{Events: 1, HasUsage: true, Usage: openai.Usage{
			PromptTokens: openai.CountOf(12), CompletionTokens: openai.CountOf(3), TotalTokens: openai.CountOf(15)}}},
		{"usage nonsense", events(`data: {"choices":[],"usage":{"prompt_tokens":-1,"completion_tokens":1e99,"total_tokens":{},"prompt_tokens_details":[{"cached_tokens":5}],"x":"\ud800"}}`,
			`data: {"usage":[1]}`, `data: {"usage":"x"}`, `data: {"usage":`, `data: {"usage"`), state{Events: 5}},
		{"usage grows, the last holds", events(`data: {"choices":[{"text":"a"}],"usage":{"prompt_tokens":7,"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":4}}}`,
			`data: {"choices":[{"text":"b"}],"usage":{"completion_tokens":2,"prompt_tokens_details":null}}`), state{Content: true, Events: 2, HasUsage: true, Usage: chatUsage}},
		{"usage within choices", events(`data: {"choices":[{"usage":{"prompt_tokens":7}}]}`), state{Events: 1, HasUsage: true, Usage: openai.Usage{PromptTokens: openai.CountOf(7)}}},
		{"ends of lines mixed", textChunk + "\n\n" + textChunk + "\r" + done[:5] + "\n\n" + textChunk + "\r\r" + done + "\n\n", state{Content: true, Done: true, Events: 4}},
		{"long lines", ": " + strings.Repeat("x", 3000) + "\n" + events(`data: {"id":"c1","choices":[{"text":"`+strings.Repeat("y", 5000)+`"}]}`, done), state{Content: true, Done: true, Events: 2}},
		{"unfinished", textChunk, state{Content: true, Events: 1, In: true}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, whole := run(openai.StreamOptions{}, tt.in)
			if got != tt.in {
				t.Errorf("got %q, want %q", got, tt.in)
			}
			if diff := cmp.Diff(tt.want, whole, counts); diff != "" {
				t.Error(diff)
			}
			if got, single := run(openai.StreamOptions{}, strings.Split(tt.in, "")...); got != tt.in || single != whole {
				t.Errorf("byte by byte: got %q, %+v", got, single)
			}
		})
	}
}

func TestStreamResponses(t *testing.T) {
	event := func(name, data string) string { return "event: " + name + "\ndata: " + data }
	created := event("response.created", `{"type":"response.created","response":{"error":null,"output":[],"usage":null}}`)
	delta := event("response.output_text.delta", `{"type":"response.output_text.delta","delta":"Hi"}`)
	usage := `"usage":{"input_tokens":7,"input_tokens_details":{"cached_tokens":4},"output_tokens":2,"output_tokens_details":{"reasoning_tokens":1},"total_tokens":9}`
	want := chatUsage
	want.ReasoningTokens = openai.CountOf(1)
	tests := []struct {
		name, in string
		want     state
	}{
		{"created", events(created), state{Events: 1}},
		{"completed", events(created, delta, event("response.completed", `{"type":"response.completed","response":{`+usage+`}}`)), state{Events: 3, Content: true, Done: true, HasUsage: true, Usage: want}},
		{"incomplete, type in the data only", events(`data: {"response":{` + usage + `},"type":"response.incomplete"}`), state{Events: 1, Done: true, HasUsage: true, Usage: want}},
		{"failed", events(event("response.failed", `{"response":{"error":{"code":"x"},`+usage+`}}`)), state{Events: 1, Done: true, Failed: true, HasUsage: true, Usage: want, Error: `{"error":{"code":"x"}}`}},
		{"error", events(event("error", `{"type":"error","message":"x"}`)), state{Events: 1, Failed: true, Error: `{"type":"error","message":"x"}`}},
		{"error without type", events(`data: {"error":{"message":"x"}}`, done), state{Events: 2, Failed: true, Error: `{"error":{"message":"x"}}`}},
		{"[DONE] alone is no end", events(created, delta, done), state{Events: 3, Content: true}},
		{"long terminal event, type last", events(`data: {"response":{"output":"` + strings.Repeat("x", 3*openai.MaxHeldBytes) + `",` + usage + `},"type" : "response.completed" }`), state{Events: 1, Done: true, HasUsage: true, Usage: want}},
		{"long terminal event, type at the end", events(`data: {"response":{"output":"` + strings.Repeat("x", 3*openai.MaxHeldBytes) + `",` + usage + `},"type":"response.incomplete","sequence_number":7}`), state{Events: 1, Done: true, HasUsage: true, Usage: want}},
		{"long event about the terminal one", events(`data: {"item":{"text":"` + strings.Repeat("x", 3*openai.MaxHeldBytes) + `\"type\":\"response.completed\""},"type":"response.output_item.done"}`), state{Events: 1}},
		{"empty delta", events(event("response.output_text.delta", `{"delta":""}`)), state{Events: 1}},
		{"arguments", events(event("response.function_call_arguments.delta", `{"delta":"{"}`)), state{Events: 1, Content: true}},
		{"reasoning", events(event("response.reasoning_summary_text.delta", `{"delta":"x"}`)), state{Events: 1, Content: true}},
		{"item added", events(event("response.output_item.added", `{"item":{"type":"message"}}`)), state{Events: 1}},
		{"item done without deltas", events(event("response.output_item.done", `{"item":{"type":"message"}}`)), state{Events: 1, Content: true}},
		{"long terminal event", events(event("response.completed", `{"type":"response.completed","response":{"output":"`+strings.Repeat("x", 3*openai.MaxHeldBytes)+`",`+usage+`,"user":null}}`)), state{Events: 1, Done: true, HasUsage: true, Usage: want}},
		{"long first event", events(event("response.created", `{"response":{"instructions":"`+strings.Repeat("x", 3*openai.MaxHeldBytes)+`","usage":{"input_tokens":1}}}`)), state{Events: 1}},
	}
	testTyped(t, openai.DialectResponses, tests)
}

func TestStreamMessages(t *testing.T) {
	event := func(name, data string) string { return "event: " + name + "\ndata: " + data }
	start := event("message_start", `{"type":"message_start","message":{"id":"m","usage":{"input_tokens":3,"cache_creation_input_tokens":1,"cache_read_input_tokens":4,"output_tokens":1}}}`)
	end := event("message_delta", `{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":5}}`)
	used := openai.Usage{
		PromptTokens: openai.CountOf(8), CompletionTokens: openai.CountOf(5), TotalTokens: openai.CountOf(13),
		CachedTokens: openai.CountOf(4), CacheWriteTokens: openai.CountOf(1),
	}
	corrected := used
	corrected.PromptTokens, corrected.TotalTokens = openai.CountOf(5), openai.CountOf(10)
	block := func(delta string) string {
		return event("content_block_delta", `{"type":"content_block_delta","index":0,"delta":`+delta+`}`)
	}
	tests := []struct {
		name, in string
		want     state
	}{
		{"whole", events(start, event("ping", `{"type":"ping"}`), event("content_block_start", `{"content_block":{"type":"text","text":""}}`),
			block(`{"type":"text_delta","text":"Hi"}`), end, event("message_stop", `{"type":"message_stop"}`)),
			state{Events: 6, Content: true, Done: true, HasUsage: true, Usage: used}},
		{"delta corrects the input", events(start, event("message_delta", `{"usage":{"input_tokens":0,"output_tokens":5}}`)), state{Events: 2, HasUsage: true, Usage: corrected}},
		{"block start is no content", events(event("content_block_start", `{"content_block":{"type":"thinking","thinking":""}}`)), state{Events: 1}},
		{"tool use is", events(event("content_block_start", `{"content_block":{"type":"tool_use","id":"t","name":"f","input":{}}}`)), state{Events: 1, Content: true}},
		{"empty text", events(block(`{"type":"text_delta","text":""}`)), state{Events: 1}},
		{"arguments", events(block(`{"type":"input_json_delta","partial_json":"{"}`)), state{Events: 1, Content: true}},
		{"thinking, without event line", events(`data: {"type":"content_block_delta","delta":{"type":"thinking_delta","thinking":"x"}}`), state{Events: 1, Content: true}},
		{"error", events(event("error", `{"type":"error","error":{"type":"overloaded_error"}}`)), state{Events: 1, Failed: true, Error: `{"type":"error","error":{"type":"overloaded_error"}}`}},
		{"[DONE] alone is no end", events(start, end, done), state{Events: 3, HasUsage: true, Usage: used}},
		{"not an object", events(event("content_block_delta", `5`), event("message_start", `{"message":[]}`), event("message_delta", ``)), state{Events: 3}},
	}
	testTyped(t, openai.DialectMessages, tests)
}

func testTyped(t *testing.T, d openai.Dialect, tests []struct {
	name, in string
	want     state
}) {
	t.Helper()
	// What can be cut in completions cannot be here.
	o := openai.StreamOptions{Dialect: d, StripUsage: true, StripContinuous: true}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, nl := range []string{"\n", "\r\n", "\r"} {
				in := strings.ReplaceAll(tt.in, "\n", nl)
				got, whole := run(o, in)
				if got != in {
					t.Errorf("got %q, want %q", got, in)
				}
				if diff := cmp.Diff(tt.want, whole, counts); diff != "" {
					t.Error(diff)
				}
				if got, single := run(o, strings.Split(in, "")...); got != in || single != whole {
					t.Errorf("byte by byte: %+v, want %+v", single, whole)
				}
			}
		})
	}
}

// TestStreamHolds shows what is held back, and that an error event after a
// failure is never glued to a piece of an event.
func TestStreamHolds(t *testing.T) {
	var s openai.Stream
	s.Reset(openai.StreamOptions{StripUsage: true})
	steps := []struct {
		in, out string
		mid     bool
	}{
		{": ping", ": ping", true},
		{"\n", "\n", false},
		{textChunk[:20], "", false},
		{textChunk[20:], "", false},
		{"\n", "", false},
		{"\n", textChunk + "\n\n", false},
		{usageChunk + "\n\n", "", false},
		{events(textChunk) + "data", events(textChunk), false},
		{strings.Repeat("x", openai.MaxHeldBytes-4), "", false},
		{"y", "data" + strings.Repeat("x", openai.MaxHeldBytes-4) + "y", true},
		{"z\n", "z\n", true},
		{"\n", "\n", false},
	}
	for i, step := range steps {
		if got := string(s.Feed([]byte(step.in))); got != step.out {
			t.Errorf("step %d: got %.80q, want %.80q", i, got, step.out)
		}
		if s.MidEvent() != step.mid {
			t.Errorf("step %d: in an event: %v, want %v", i, s.MidEvent(), step.mid)
		}
	}
	s.Feed([]byte("data: {"))
	if got := string(s.Flush()); got != "" || s.MidEvent() {
		t.Errorf("Flush gave %q", got)
	}
	s.Reset(openai.StreamOptions{StripUsage: true})
	s.Feed([]byte("data: {}"))
	if got := string(s.Flush()); got != "data: {}" || !s.MidEvent() {
		t.Errorf("Flush gave %q", got)
	}

	s.Reset(openai.StreamOptions{})
	if got := string(s.Feed([]byte("data: {"))); got != "data: {" || !s.MidEvent() {
		t.Errorf("got %q when nothing may be held back", got)
	}
}

func TestStreamAliases(t *testing.T) {
	var s openai.Stream
	s.Reset(openai.StreamOptions{StripUsage: true})
	p := []byte(events(textChunk, textChunk))
	if got := s.Feed(p); &got[0] != &p[0] || len(got) != len(p) {
		t.Error("unchanged events were copied")
	}
	p = []byte(events(usageChunk, done))
	if got := s.Feed(p); &got[0] != &p[len(usageChunk)+2] {
		t.Error("events after a cut at the front were copied")
	}
	s.Reset(openai.StreamOptions{})
	p = []byte(textChunk[:30])
	if got := s.Feed(p); &got[0] != &p[0] {
		t.Error("a part was copied")
	}
}
