package generate

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// told is what a stream said, one letter a fact.
func told(e *events, pieces ...string) (string, error) {
	var b strings.Builder
	for _, p := range pieces {
		err := e.feed([]byte(p), func(f facts) error {
			for _, is := range []struct {
				what byte
				is   bool
			}{{'c', f.content}, {'f', f.finish}, {'u', f.hasUsage}, {'D', f.done}, {'E', f.failed}} {
				if is.is {
					b.WriteByte(is.what)
				}
			}
			b.WriteByte('.')
			return nil
		})
		if err != nil {
			return b.String(), err
		}
	}
	return b.String(), nil
}

const (
	roleChunk   = `data: {"id":"1","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}` + "\n\n"
	wordChunk   = `data: {"id":"1","choices":[{"index":0,"delta":{"content":"né"},"finish_reason":null}]}` + "\n\n"
	lastChunk   = `data: {"id":"1","choices":[{"index":0,"delta":{"content":" x"},"finish_reason" : "length"}]}` + "\n\n"
	usageChunk  = `data: {"id":"1","choices":[],"usage":{"prompt_tokens":7,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":3}}}` + "\n\n"
	doneEvent   = "data: [DONE]\n\n"
	wholeStream = roleChunk + wordChunk + lastChunk + usageChunk + doneEvent
)

func TestEvents(t *testing.T) {
	tests := []struct {
		name, in string
		want     string
		err      string // substring; "" for none
		open     bool   // ends inside an event
	}{
		{name: "a whole stream", in: wholeStream, want: ".c.cf.u.D."},
		{name: "CRLF", in: strings.ReplaceAll(wholeStream, "\n", "\r\n"), want: ".c.cf.u.D."},
		{name: "no space after the colon", in: strings.ReplaceAll(wholeStream, "data: ", "data:"), want: ".c.cf.u.D."},
		{name: "comments and other fields", in: ": hello\n\nretry: 3\n\nid: 4\n" + wordChunk + ":\n\n", want: "c."},
		{name: "two data lines", in: "data: {\"choices\":[{\"delta\":\ndata: {\"content\":\"a\"}}]}\n\n", want: "c."},
		{name: "three data lines", in: "data: {\"choices\":\ndata: [{\"delta\":\ndata: {\"content\":\"a\"}}]}\n\n", want: "c."},
		{name: "a call of a tool", in: `data: {"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{"}}]}}]}` + "\n\n", want: "c."},
		{name: "reasoning", in: `data: {"choices":[{"delta":{"reasoning_content":"hm"}}]}` + "\n\n", want: "c."},
		{name: "an answer that speaks of finish_reason", in: `data: {"choices":[{"text":"\"finish_reason\":\"stop\"","finish_reason":null}]}` + "\n\n", want: "c."},
		{name: "an error", in: wordChunk + `data: {"error":{"message":"no","code":500}}` + "\n\n", want: "c.E."},
		{name: "a named error", in: "event: error\ndata: out of memory\n\n", want: "E."},
		{name: "empty data", in: "data:\n\ndata: \n\n" + wordChunk, want: "c."},
		{name: "an unfinished event", in: wordChunk + "data: {", want: "c.", open: true},
		{name: "a blank line more", in: wordChunk + "\n\n", want: "c."},
		{name: "no JSON", in: wordChunk + "data: {\"id\":\n\n", want: "c.", err: `malformed event: its data is neither a JSON object nor [DONE]: "{\"id\":"`},
		{name: "no object", in: "data: 7\n\n", err: "malformed event"},
		{name: "a page", in: "<html>\n\n" + wordChunk, want: "c."},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			check := func(how string, e *events, got string, err error) {
				t.Helper()
				if got != tt.want || (err == nil) != (tt.err == "") || err != nil && (!errors.Is(err, errBadEvent) || !strings.Contains(err.Error(), tt.err)) {
					t.Fatalf("%s: %q, %v; want %q and %q", how, got, err, tt.want, tt.err)
				}
				if err == nil && e.unfinished() != tt.open {
					t.Fatalf("%s: unfinished is %v", how, e.unfinished())
				}
			}
			var e events
			got, err := told(&e, tt.in)
			check("at once", &e, got, err)
			e.reset()
			got, err = told(&e, strings.Split(tt.in, "")...)
			check("byte by byte", &e, got, err)
			for i := range tt.in {
				e.reset()
				got, err = told(&e, tt.in[:i], tt.in[i:])
				check(fmt.Sprintf("cut at %d", i), &e, got, err)
			}
		})
	}
}

func TestEventsReadUsage(t *testing.T) {
	var e events
	var got []int64
	err := e.feed([]byte(wholeStream), func(f facts) error {
		if f.hasUsage {
			for _, c := range []interface{ Get() (int64, bool) }{f.usage.PromptTokens, f.usage.CompletionTokens, f.usage.CachedTokens} {
				n, _ := c.Get()
				got = append(got, n)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]int64{7, 2, 3}, got); diff != "" {
		t.Error(diff)
	}
}

func TestEventsAreBounded(t *testing.T) {
	var e events
	piece := []byte("data: " + strings.Repeat("x", 1<<20))
	var err error
	fed := 0
	for err == nil && fed < 2*maxEventBytes {
		err = e.feed(piece, func(facts) error { return nil })
		fed += len(piece)
	}
	if !errors.Is(err, errTooLong) || fed > maxEventBytes+len(piece) {
		t.Errorf("after %d bytes without an end: %v", fed, err)
	}
}

func FuzzEvents(f *testing.F) {
	for _, seed := range []string{wholeStream, "data: {\n\n", "event: error\ndata: x\r\n\r\n", ": c\n\ndata:\ndata: 1\n\n", "\n\n\r\n"} {
		f.Add(seed, 3)
	}
	f.Fuzz(func(t *testing.T, stream string, at int) {
		var e events
		want, wantErr := told(&e, stream)
		at = min(max(at, 0), len(stream))
		e.reset()
		got, err := told(&e, stream[:at], stream[at:])
		if got != want || (err == nil) != (wantErr == nil) {
			t.Errorf("at once %q, %v; cut at %d %q, %v", want, wantErr, at, got, err)
		}
	})
}

func BenchmarkEvents(b *testing.B) {
	var e events
	stream := []byte(strings.Repeat(wordChunk, 64))
	b.SetBytes(int64(len(stream)))
	for b.Loop() {
		if err := e.feed(stream, func(facts) error { return nil }); err != nil {
			b.Fatal(err)
		}
	}
}
