package openai_test

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/llmgw/llmgw/router/openai"
)

// Events with cumulative usage, whatever they look like, come out as if each byte
// had come alone: what is recognised by the form of the event before is what is
// found by reading the event.
func TestCountedEvents(t *testing.T) {
	const head, tail = `data: {"id":"c1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"`, `"},"logprobs":null,"finish_reason":%s}]`
	rapid.Check(t, func(t *rapid.T) {
		var in, want strings.Builder
		var last int64
		for range rapid.IntRange(1, 12).Draw(t, "events") {
			text := rapid.SampledFrom([]string{" token", "", `\"usage\":{`, "[{", `\\`, strings.Repeat("x", 100), "ö", `,\"usage\":null}`}).Draw(t, "text")
			reason := rapid.SampledFrom([]string{"null", "null", "null", `"stop"`}).Draw(t, "reason")
			n := rapid.Int64Range(0, 1<<40).Draw(t, "count")
			usage := rapid.SampledFrom([]string{
				`,"usage":{"prompt_tokens":7,"total_tokens":9,"completion_tokens":%d}`,
				`,"usage":{"prompt_tokens":7,"total_tokens":9,"completion_tokens":%d}`,
				`,"usage":{"prompt_tokens":7,"total_tokens":9,"completion_tokens":%d}`,
				`,"usage":{"prompt_tokens":7,"completion_tokens":%d,"total_tokens":9}`,
				`,"usage":{"prompt_tokens":7,"total_tokens":9,"completion_tokens":%d,"prompt_tokens_details":{"cached_tokens":4}}`,
				`,"usage":{"prompt_tokens":7, "total_tokens":9,"completion_tokens":%d}`,
				`,"usage":null`,
				``,
			}).Draw(t, "usage")
			more := rapid.SampledFrom([]string{"", "", "", `,"x":1`}).Draw(t, "more")
			end := rapid.SampledFrom([]string{"\n\n", "\n\n", "\n\n", "\r\n\r\n", "\n: ping\n\n"}).Draw(t, "end")
			if strings.Contains(usage, "%d") {
				usage, last = fmt.Sprintf(usage, n), n
			}
			plain := head + text + fmt.Sprintf(tail, reason)
			fmt.Fprintf(&in, "%s%s%s}%s", plain, usage, more, end)
			fmt.Fprintf(&want, "%s%s}%s", plain, more, end)
		}
		read := func(piece int) (string, openai.Usage, int64) {
			var s openai.Stream
			s.Reset(openai.StreamOptions{StripUsage: true, StripContinuous: true})
			var out strings.Builder
			for rest := in.String(); rest != ""; rest = rest[min(piece, len(rest)):] {
				out.Write(s.Feed([]byte(rest[:min(piece, len(rest))])))
			}
			out.Write(s.Flush())
			u, _ := s.Usage()
			return out.String(), u, s.Events()
		}
		pieces := []int{in.Len(), rapid.IntRange(1, in.Len()).Draw(t, "piece"), 1}
		for _, piece := range pieces {
			out, used, events := read(piece)
			if out != want.String() {
				t.Fatalf("in pieces of %d:\n%s\nwant\n%s", piece, out, want.String())
			}
			if n, _ := used.CompletionTokens.Get(); n != last {
				t.Fatalf("in pieces of %d: %d tokens; want %d", piece, n, last)
			}
			if _, one, n := read(1); events != n || used != one {
				t.Fatalf("in pieces of %d: %d events and %v; by bytes %d and %v", piece, events, used, n, one)
			}
		}
	})
}
