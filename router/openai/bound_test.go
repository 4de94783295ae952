package openai_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/llmgw/llmgw/router/openai"
)

func TestBounded(t *testing.T) {
	const chat, text, responses, messages = "/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages"
	for _, tt := range []struct {
		path, members string
		most          int64
		bounded       bool
	}{
		{chat, `"max_tokens":7`, 7, true},
		{chat, `"max_completion_tokens":7`, 7, true},
		{chat, `"max_tokens":7,"max_completion_tokens":9`, 9, true},
		{chat, `"max_tokens":7,"max_completion_tokens":null`, 7, true},
		{chat, `"max_tokens":0,"max_completion_tokens":7`, 7, true},
		{chat, `"max_tokens":7,"max_tokens":9`, 9, true},
		{chat, `"max_tokens":9,"n_predict":7`, 9, true},
		{chat, `"max_tokens":1,"n_predict":7`, 7, true},
		{chat, `"max_tokens":1e400`, math.MaxInt64, true},
		{text, `"max_tokens":7`, 7, true},
		{messages, `"max_tokens":7`, 7, true},
		{responses, `"max_output_tokens":7`, 7, true},
		{"/v1/other", `"max_output_tokens":7`, 7, true},

		// Another API's member is passed over.
		{chat, `"max_output_tokens":7`, 7, false},
		{chat, `"n_predict":7`, 7, false},
		{text, `"max_completion_tokens":7`, 7, false},
		{responses, `"max_tokens":7`, 7, false},
		{messages, `"max_output_tokens":7`, 7, false},
		// What an engine takes as if it were not there, or as without end.
		{chat, `"x":7`, 0, false},
		{chat, `"max_tokens":null`, 0, false},
		{chat, `"max_tokens":0`, 0, false},
		{chat, `"max_tokens":7,"max_tokens":null`, 7, false},
		{chat, `"max_tokens":null,"max_tokens":7`, 7, false},
		{chat, `"max_tokens":7,"Max_Tokens":null`, 7, false},
		{chat, `"max_tokens":7,"max_completion_tokens":-1`, 7, false},
		{chat, `"max_tokens":7,"n_predict":-1`, 7, false},
		// Some engines read these, and some pass over them.
		{chat, `"max_tokens":"7"`, 7, false},
		{chat, `"max_tokens":1,"max_completion_tokens":"\u0037000"`, 7000, false},
		{chat, `"max_tokens":1,"max_completion_tokens":" +7_000\t"`, 7000, false},
		{chat, `"max_tokens":1,"max_completion_tokens":"7000.0"`, 7000, false},
		{chat, `"max_tokens":1,"max_completion_tokens":"many"`, 1, false},
		{chat, `"max_tokens":1,"max_completion_tokens":""`, 1, false},
		{chat, `"max_tokens":1,"max_completion_tokens":[7000]`, 1, false},
		{chat, `"max_tokens":1,"MAX_TOKENS":7000`, 7000, true},
		{chat, `"max_tokens":1,"max_to\u212aens":7000`, 7000, true},
	} {
		var p openai.Peek
		body := fmt.Sprintf(`{"model":"m",%s}`, tt.members)
		if err := openai.PeekBody([]byte(body), &p); err != nil {
			t.Fatalf("%s: %v", body, err)
		}
		if got := p.Bounded(tt.path); p.MaxTokens != tt.most || got != tt.bounded {
			t.Errorf("%s %s: at most %d, bounded %t; want %d, %t", tt.path, body, p.MaxTokens, got, tt.most, tt.bounded)
		}
	}
}

// Whichever of the members an engine looks at, and whichever of two that have one
// name: it finds a number there, and none beyond MaxTokens.
func TestBoundedWhateverAnEngineReads(t *testing.T) {
	own := map[string][]string{
		"/v1/chat/completions": {"max_tokens", "max_completion_tokens"},
		"/v1/completions":      {"max_tokens"},
		"/v1/messages":         {"max_tokens"},
		"/v1/responses":        {"max_output_tokens"},
	}
	names := []string{"max_tokens", "max_completion_tokens", "max_output_tokens", "n_predict", "temperature"}
	values := map[string]int64{"1": 1, "9": 9, "7e2": 700, "null": -1, "-1": -1, `"8"`: -1, `"x"`: -1, "true": -1, "{}": -1}
	rapid.Check(t, func(t *rapid.T) {
		path := rapid.SampledFrom([]string{"/v1/chat/completions", "/v1/completions", "/v1/messages", "/v1/responses"}).Draw(t, "path")
		said := map[string][]int64{}
		members := []string{`"model":"m"`}
		for range rapid.IntRange(0, 4).Draw(t, "members") {
			name, value := rapid.SampledFrom(names).Draw(t, "name"), rapid.SampledFrom([]string{"1", "9", "7e2", "null", "-1", `"8"`, `"x"`, "true", "{}"}).Draw(t, "value")
			said[name] = append(said[name], values[value])
			members = append(members, fmt.Sprintf("%q:%s", name, value))
		}
		var p openai.Peek
		if err := openai.PeekBody([]byte("{"+strings.Join(members, ",")+"}"), &p); err != nil {
			t.Fatal(err)
		}
		if !p.Bounded(path) {
			return
		}
		some := false
		for _, name := range own[path] {
			least := int64(math.MaxInt64)
			for _, n := range said[name] {
				least = min(least, n)
				if n > p.MaxTokens {
					t.Fatalf("%v: an engine that reads %s gives %d; bounded by %d", members, name, n, p.MaxTokens)
				}
			}
			// An engine looks at one of its members that is not null.
			some = some || len(said[name]) > 0 && least > 0
		}
		if !some {
			t.Fatalf("%s %v: an engine finds no bound; bounded by %d", path, members, p.MaxTokens)
		}
	})
}
