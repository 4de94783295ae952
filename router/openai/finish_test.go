package openai_test

import (
	"strings"
	"testing"

	"github.com/llmgw/llmgw/router/openai"
)

// An answer without [DONE] is complete if each choice says why it finished.
func TestStreamFinished(t *testing.T) {
	choice := func(index, rest string) string {
		return `data: {"id":"c1","object":"chat.completion.chunk","choices":[{"index":` + index + `,"delta":{"content":"x"}` + rest + `}]}`
	}
	const stop, null = `,"finish_reason":"stop"`, `,"finish_reason":null`
	for _, tt := range []struct {
		name, in string
		want     bool
	}{
		{"nothing", "", false},
		{"no reason", events(choice("0", "")), false},
		{"null", events(choice("0", null), choice("0", null)), false},
		{"empty", events(choice("0", `,"finish_reason":""`), choice("0", `,"finish_reason":""`)), false},
		{"null as a string", events(choice("0", `,"finish_reason":"null"`)), false},
		{"a reason", events(choice("0", null), choice("0", null), choice("0", stop)), true},
		{"a reason at once", events(choice("0", stop)), true},
		{"a reason, spaced", events(choice("0", null), choice("0", ` , "finish_reason" : "stop" `)), true},
		{"a reason without its blank line", events(choice("0", null)) + choice("0", stop), true},
		{"a reason and much after it", events(choice("0", null), choice("0", stop+`,"x":"`+strings.Repeat("x", 5000)+`"`)), true},
		{"a reason, then usage", events(choice("0", null), choice("0", stop), usageChunk), true},
		{"a reason in text", events(choice("0", null), choice("0", `,"x":"\"finish_reason\":\"stop\""`)), false},
		{"a reason of a completion", events(`data: {"id":"c","object":"text_completion","choices":[{"text":"a","index":0,"finish_reason":"length"}]}`), true},
		{"a reason before the index", events(choice("0", null), `data: {"choices":[{"finish_reason":"stop","index":0,"delta":{}}],"id":"c"}`), true},
		{"a choice without index", events(`data: {"choices":[{"delta":{"content":"x"},"finish_reason":"stop"}]}`), true},
		{"one of two", events(choice("0", null), choice("1", null), choice("0", stop)), false},
		{"one of two, the other after it", events(choice("0", null), choice("0", stop), choice("1", null)), false},
		{"two of two", events(choice("0", null), choice("1", null), choice("0", stop), choice("1", null), choice("1", stop)), true},
		{"two in one", events(`data: {"choices":[{"index":0,"text":"a","finish_reason":"stop"},{"index":1,"text":"b","finish_reason":null}]}`), false},
		{"both in one", events(`data: {"choices":[{"index":0,"text":"a","finish_reason":"stop"}, {"index":1,"text":"b","finish_reason":"stop"}]}`), true},
		{"the first came only among plain chunks", events(choice("1", null), choice("0", null), choice("1", stop)), false},
		{"ten of eleven", events(choice("10", null), choice("1", null), choice("1", stop)), false},
		{"many", events(choice("100", null), choice("100", stop)), true},
		{"an index that is none", events(choice(`"x"`, stop)), true},
		{"a long chunk", events(choice("0", `,"x":"`+strings.Repeat("x", 2*openai.MaxHeldBytes)+`"`+stop)), true},
		{"a long chunk without a reason", events(choice("0", `,"x":"`+strings.Repeat("x", 2*openai.MaxHeldBytes)+`"`+null)), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, o := range []openai.StreamOptions{{}, {StripUsage: true}, {StripContinuous: true}} {
				for _, nl := range []string{"\n", "\r\n", "\r"} {
					in := strings.ReplaceAll(tt.in, "\n", nl)
					if _, got := run(o, in); got.Finished != tt.want {
						t.Errorf("%+v, %q: ended is %v, want %v", o, nl, got.Finished, tt.want)
					}
					if _, got := run(o, strings.Split(in, "")...); got.Finished != tt.want {
						t.Errorf("%+v, %q, byte by byte: ended is %v, want %v", o, nl, got.Finished, tt.want)
					}
				}
			}
		})
	}
}

// Plain chunks are known by their form; whatever differs is looked at.
func TestStreamForms(t *testing.T) {
	const head, tail = `data: {"id":"c1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"`, `"},"finish_reason":null}]}`
	chunk := func(text string) string { return head + text + tail }
	end := strings.Replace(chunk(""), "null", `"stop"`, 1)
	for _, text := range []string{
		"", "a", " token", `\n`, `\\`, `\"`, `\"},\"finish_reason\":\"stop\"}]}`, `\u00e9`, "é", "x_x", strings.Repeat("long ", 50), strings.Repeat("y", 3000),
	} {
		in := events(chunk("a"), chunk(text), chunk(text), chunk("b"), end)
		got, state := run(openai.StreamOptions{StripUsage: true}, in)
		if got != in || state.Events != 5 || !state.Content || !state.Finished {
			t.Errorf("text %.20q: got %+v", text, state)
		}
		if got, split := run(openai.StreamOptions{StripUsage: true}, strings.Split(in, "")...); got != in || split != state {
			t.Errorf("text %.20q, byte by byte: got %+v", text, split)
		}
	}
	// A text that is none does not hide what comes after it.
	for _, bad := range []string{chunk("\r"), chunk("\n"), head + `x"},"finish_reason":"stop"}]}`, head + `x","error":1},"finish_reason":null}]}`} {
		in := events(chunk("a"), chunk("b"), bad, usageChunk, done)
		want := events(chunk("a"), chunk("b"), bad, done)
		got, state := run(openai.StreamOptions{StripUsage: true}, in)
		if got != want || !state.Done || !state.HasUsage {
			t.Errorf("%q: got %q, %+v", bad, got, state)
		}
	}
}

// An error that comes first is the caller's to tell of; one that does not,
// passes.
func TestStreamWithhold(t *testing.T) {
	const errorEvent = `data: {"error":{"message":"m","code":500}}`
	for _, tt := range []struct {
		name    string
		dialect openai.Dialect
		in      string
		want    string
		held    bool
	}{
		{"error", openai.DialectChat, events(errorEvent), "", true},
		{"error and [DONE]", openai.DialectChat, events(errorEvent, done), "", true},
		{"error and more", openai.DialectChat, events(errorEvent, textChunk) + ": ping\n\n", "", true},
		{"error without its blank line", openai.DialectChat, errorEvent, "", true},
		{"error by name", openai.DialectChat, events("event: error\ndata: boom"), "", true},
		{"error behind an id", openai.DialectChat, events(`data: {"id":"x","error":{"message":"boom"}}`), "", true},
		{"half an error", openai.DialectChat, errorEvent[:20], "", false},
		{"usage, which is cut, then error", openai.DialectChat, events(usageChunk, errorEvent), "", true},
		{"role, then error", openai.DialectChat, events(roleChunk, errorEvent), events(roleChunk, errorEvent), false},
		{"comment, then error", openai.DialectChat, ": ping\n\n" + events(errorEvent), ": ping\n\n" + events(errorEvent), false},
		{"no error", openai.DialectChat, events(roleChunk, textChunk, done), events(roleChunk, textChunk, done), false},
		{"responses", openai.DialectResponses, events("event: error\ndata: {\"type\":\"error\",\"message\":\"m\"}"), "", true},
		{"responses, failed", openai.DialectResponses, events("event: response.failed\ndata: {\"response\":{\"error\":{}}}"), "", true},
		{"responses, other", openai.DialectResponses, events("event: response.created\ndata: {}", errorEvent), events("event: response.created\ndata: {}", errorEvent), false},
		{"messages", openai.DialectMessages, events("event: error\ndata: {\"type\":\"error\",\"error\":{}}"), "", true},
		{"media", openai.DialectMedia, events(errorEvent), "", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := openai.StreamOptions{Dialect: tt.dialect, StripUsage: true, WithholdError: true}
			for cut := range len(tt.in) {
				got, state := run(o, tt.in[:cut], tt.in[cut:])
				if got != tt.want || state.Withheld != tt.held || tt.held && (!state.Failed || state.Error == "") {
					t.Fatalf("cut at %d: got %q, %+v", cut, got, state)
				}
			}
			o.WithholdError = false
			if _, state := run(o, tt.in); state.Withheld {
				t.Error("withheld though nobody asked")
			}
		})
	}
}

// The first event waits for its own end, and no other does.
func TestStreamHoldsTheFirst(t *testing.T) {
	var s openai.Stream
	s.Reset(openai.StreamOptions{WithholdError: true})
	for i, step := range []struct{ in, out string }{
		{roleChunk[:20], ""},
		{roleChunk[20:] + "\n", ""},
		{"\n", roleChunk + "\n\n"},
		{textChunk[:20], textChunk[:20]},
		{textChunk[20:] + "\n\n", textChunk[20:] + "\n\n"},
	} {
		if got := string(s.Feed([]byte(step.in))); got != step.out {
			t.Errorf("step %d: got %q, want %q", i, got, step.out)
		}
	}
}
