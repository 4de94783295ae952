package openai_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/llmgw/llmgw/engines/sim"
)

// TestPromptAsTheEngine: two chat requests have the same prompt here exactly if an
// engine makes the same tokens of them. Requests are drawn from so few pieces, in
// so many spellings, that equal ones are common.
func TestPromptAsTheEngine(t *testing.T) {
	e, err := sim.New(sim.InstantConfig(), sim.Deps{})
	if err != nil {
		t.Fatal(err)
	}
	tokens := func(rt *rapid.T, body string) []uint32 {
		w := httptest.NewRecorder()
		e.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/tokenize", strings.NewReader(body)))
		var answer struct{ Tokens []uint32 }
		if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil || w.Code != http.StatusOK {
			rt.Fatalf("%s: status %d: %s", body, w.Code, w.Body)
		}
		return answer.Tokens
	}
	text := func(s string) *rapid.Generator[string] { // ways to write the same content
		return rapid.SampledFrom([]string{
			`"` + s + `"`, `[{"type":"text","text":"` + s + `"}]`, ` [ {"text" : "` + s + `" , "type":"text", "x":1} ]`,
			`"` + strings.ReplaceAll(s, "e", `\u0065`) + `"`,
		})
	}
	media := func(url string) *rapid.Generator[string] {
		return rapid.SampledFrom([]string{
			`[{"type":"image_url","image_url":{"url":"` + url + `"}},{"type":"text","text":"see"}]`,
			`[{"image_url":{ "url" :"` + url + `"},"type":"image_url"}, {"type":"text","text":"see"}]`,
		})
	}
	content := rapid.Custom(func(rt *rapid.T) string {
		return rapid.OneOf(text("hello"), text("hello"), text("hello there"), media("a"), media("b")).Draw(rt, "content")
	})
	message := rapid.Custom(func(rt *rapid.T) string {
		role := rapid.SampledFrom([]string{"user", "assistant"}).Draw(rt, "role")
		format := rapid.SampledFrom([]string{`{"role":%q,"content":%s}`, `{"content":%[2]s, "role":%[1]q}`, `{"name":null,"role":%q,"content":%s,"tool_calls":[]}`}).Draw(rt, "order")
		return fmt.Sprintf(format, role, content.Draw(rt, "content"))
	})
	request := rapid.Custom(func(rt *rapid.T) string {
		messages := rapid.SliceOfN(message, 1, 2).Draw(rt, "messages")
		if system := rapid.SampledFrom([]string{"", `"be brief"`, `"be"`, `[{"type":"text","text":"be brief"}]`}).Draw(rt, "system"); system != "" {
			role := rapid.SampledFrom([]string{"system", "developer"}).Draw(rt, "role")
			messages = slices.Insert(messages, 0, fmt.Sprintf(`{"role":%q,"content":%s}`, role, system))
		}
		members := []string{
			`"model":"sim-8b"`, `"messages":[` + strings.Join(messages, ",") + `]`,
			rapid.SampledFrom([]string{`"tools":[]`, `"tools":[{"a":1}]`, `"tools":[ {"a": 1} ]`, `"tools":[{"a":2}]`}).Draw(rt, "tools"),
		}
		return `{` + strings.Join(rapid.Permutation(members).Draw(rt, "members"), ",") + `}`
	})
	same := 0
	rapid.Check(t, func(rt *rapid.T) {
		a := request.Draw(rt, "a")
		for range 10 {
			b := request.Draw(rt, "b")
			ours, engines := prompt(t, a) == prompt(t, b), slices.Equal(tokens(rt, a), tokens(rt, b))
			if ours != engines {
				rt.Fatalf("equal here: %v, for the engine: %v\n%s\n%s", ours, engines, a, b)
			}
			if ours {
				same++
			}
		}
	})
	if same == 0 {
		t.Error("no two requests were equal: the test shows nothing")
	}
}
