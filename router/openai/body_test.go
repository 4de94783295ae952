package openai_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/llmgw/llmgw/router/openai"
)

func TestBodyUsage(t *testing.T) {
	usage := `"usage":{"prompt_tokens":7,"completion_tokens":2,"total_tokens":9,"prompt_tokens_details":{"cached_tokens":4}}`
	long := strings.Repeat("x", 100_000)
	tests := []struct {
		name, body string
		dialect    openai.Dialect
		want       openai.Usage
		ok         bool
	}{
		{"behind", `{"choices":[{"message":{"content":"` + long + `"}}],` + usage + `}`, 0, chatUsage, true},
		{"in front", `{"id":"r",` + usage + `,"results":["` + long + `"]}`, 0, chatUsage, true},
		{"short", `{` + usage + `}`, 0, chatUsage, true},
		{"text about usage", `{"text":"\"usage\":{\"prompt_tokens\":1}"}`, 0, openai.Usage{}, false},
		{"null", `{"usage":null}`, 0, openai.Usage{}, false},
		{"in the middle of a long one", `{"a":"` + long + `",` + usage + `,"b":"` + long + `"}`, 0, openai.Usage{}, false},
		{"cut", `{"choices":[],"usage":{"prompt_tokens":7`, 0, openai.Usage{}, false},
		{"responses", `{"usage":{"input_tokens":7,"input_tokens_details":{"cached_tokens":4},"output_tokens":2,"total_tokens":9}}`, openai.DialectResponses, chatUsage, true},
		{"messages", `{"content":[],"usage":{"input_tokens":3,"cache_read_input_tokens":4,"output_tokens":2}}`, openai.DialectMessages, chatUsage, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var b openai.Body
			for _, piece := range []int{1, 1000, 4095, 4096, 5000, 1 << 20} {
				b.Reset(tt.dialect)
				for rest := []byte(tt.body); len(rest) > 0; {
					n := min(piece, len(rest))
					b.Feed(rest[:n])
					rest = rest[n:]
				}
				got, ok := b.Usage()
				if diff := cmp.Diff(tt.want, got, counts); diff != "" || ok && !tt.ok {
					t.Errorf("pieces of %d: %v, %s", piece, ok, diff)
				}
			}
		})
	}
}

func BenchmarkBody(b *testing.B) {
	read := make([]byte, 8<<10)
	var body openai.Body
	body.Reset(openai.DialectChat)
	b.ReportAllocs()
	for b.Loop() {
		body.Feed(read)
	}
}
