package sim_test

import (
	"encoding/base64"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/llmgw/llmgw/engines/sim"
)

func TestRefusals(t *testing.T) {
	cfg := sim.InstantConfig()
	cfg.MaxModelLen = 100
	e := newEngine(t, cfg)
	const chat = "/v1/chat/completions"
	for _, tt := range []struct {
		name, method, path, body string
		status                   int
		want                     []string
	}{
		{"not JSON", "POST", chat, `{"model"`, 400, []string{`"Bad Request"`, `"code":400`}},
		{"not an object", "POST", chat, `[1]`, 400, []string{`"error":{`}},
		{"wrong type", "POST", chat, `{"model":1}`, 400, []string{`"error":{`}},
		{"unknown model", "POST", chat, `{"model":"x","messages":[{"role":"user","content":"a"}]}`, 404,
			[]string{`"type":"NotFoundError"`, "The model `x` does not exist.", `"param":"model"`, `"code":404`}},
		{"no messages", "POST", chat, `{"model":"sim-8b"}`, 400, []string{"BadRequestError"}},
		{"context length", "POST", chat, `{"messages":[{"role":"user","content":"a"}],"max_tokens":99}`, 400,
			[]string{"This model's maximum context length is 100 tokens. However, you requested 99 output tokens and " +
				"your prompt contains at least 10 input tokens, for a total of at least 109 tokens.", `"param":"input_tokens"`}},
		{"prompt too long", "POST", chat, `{"messages":[{"role":"user","content":"` + strings.Repeat("a ", 100) + `"}]}`, 400,
			[]string{"maximum context length is 100 tokens"}},
		{"max_tokens 0", "POST", chat, `{"messages":[{"role":"user","content":"a"}],"max_tokens":0}`, 400, []string{"max_tokens must be at least 1"}},
		{"stream options", "POST", chat, `{"messages":[{"role":"user","content":"a"}],"stream_options":{"include_usage":true}}`, 400,
			[]string{"Stream options can only be defined"}},
		{"token id", "POST", "/v1/completions", `{"prompt":[999999]}`, 400, []string{"out of vocabulary"}},
		{"no prompt", "POST", "/v1/completions", `{}`, 400, []string{"BadRequestError"}},
		{"anthropic shape", "POST", "/v1/messages", `{"model":"x","max_tokens":5,"messages":[{"role":"user","content":"a"}]}`, 404,
			[]string{`"type":"error"`, `"type":"NotFoundError"`}},
		{"anthropic max_tokens", "POST", "/v1/messages", `{"messages":[{"role":"user","content":"a"}]}`, 400, []string{"max_tokens"}},
		{"method", "GET", chat, "", 405, []string{"Method Not Allowed"}},
		{"path", "GET", "/v1/nothing", "", 404, []string{`{"detail":"Not Found"}`}},
		{"fault control is off", "PUT", "/sim/faults", "wedge=true", 404, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := call(t, e, tt.method, tt.path, tt.body)
			if w.Code != tt.status {
				t.Errorf("status %d, want %d: %s", w.Code, tt.status, w.Body)
			}
			for _, want := range tt.want {
				if !strings.Contains(w.Body.String(), want) {
					t.Errorf("%s lacks %q", w.Body, want)
				}
			}
		})
	}
	if s := e.Stats(); s.Running+s.Waiting+s.UsedBlocks != 0 {
		t.Errorf("left behind: %+v", s)
	}
}

func TestAPIKey(t *testing.T) {
	cfg := sim.InstantConfig()
	cfg.APIKey = "secret"
	e := newEngine(t, cfg)
	for _, tt := range []struct {
		path, key string
		status    int
	}{
		{"/v1/models", "", 401}, {"/v1/models", "wrong", 401}, {"/v1/models", "secret", 200},
		{"/health", "", 200}, {"/metrics", "", 200}, {"/version", "", 200}, {"/ping", "", 200},
	} {
		r := httptest.NewRequestWithContext(t.Context(), "GET", tt.path, nil)
		if tt.key != "" {
			r.Header.Set("Authorization", "Bearer "+tt.key)
		}
		w := httptest.NewRecorder()
		e.ServeHTTP(w, r)
		if w.Code != tt.status {
			t.Errorf("%s with key %q: status %d, want %d", tt.path, tt.key, w.Code, tt.status)
		}
		if tt.status == 401 && w.Body.String() != `{"error":"Unauthorized"}` {
			t.Errorf("body %s", w.Body)
		}
	}
}

func TestModels(t *testing.T) {
	cfg := sim.InstantConfig()
	cfg.Aliases = []string{"other"}
	e := newEngine(t, cfg)
	type card struct {
		ID    string `json:"id"`
		Owner string `json:"owned_by"`
		Root  string `json:"root"`
		Len   int    `json:"max_model_len"`
	}
	got := into[struct{ Data []card }](t, call(t, e, "GET", "/v1/models", "").Body.String())
	want := []card{{"sim-8b", "vllm", "sim-8b", 131072}, {"other", "vllm", "sim-8b", 131072}}
	if d := cmp.Diff(want, got.Data); d != "" {
		t.Error(d)
	}
}

func TestTokenizeCountsThePrompt(t *testing.T) {
	e := newEngine(t, sim.InstantConfig())
	const messages = `"messages":[{"role":"system","content":"be brief"},{"role":"user","content":"hello there"}]`
	type counted struct {
		Count  int      `json:"count"`
		Max    int      `json:"max_model_len"`
		Tokens []uint32 `json:"tokens"`
	}
	c := into[counted](t, call(t, e, "POST", "/tokenize", `{`+messages+`}`).Body.String())
	if c.Count != len(c.Tokens) || c.Max != 131072 || c.Count == 0 {
		t.Errorf("%+v", c)
	}
	chat := into[chatAnswer](t, call(t, e, "POST", "/v1/chat/completions", `{"max_tokens":1,`+messages+`}`).Body.String())
	if chat.Usage.Prompt != c.Count {
		t.Errorf("usage says %d prompt tokens, /tokenize %d", chat.Usage.Prompt, c.Count)
	}
	// Token ids are the same prompt as their text.
	text := into[counted](t, call(t, e, "POST", "/tokenize", `{"prompt":"one two three"}`).Body.String())
	byText := call(t, e, "POST", "/v1/completions", `{"prompt":"one two three"}`).Body.String()
	ids := strings.ReplaceAll(fmt.Sprint(text.Tokens), " ", ",")
	for _, prompt := range []string{ids, "[" + ids + "]"} {
		byIDs := call(t, e, "POST", "/v1/completions", `{"prompt":`+prompt+`}`).Body.String()
		if a, b := completionText(t, byText), completionText(t, byIDs); a != b {
			t.Errorf("%q by text, %q by ids %s", a, b, prompt)
		}
	}
}

func completionText(t *testing.T, body string) string {
	t.Helper()
	v := into[struct{ Choices []struct{ Text string } }](t, body)
	var out strings.Builder
	for _, c := range v.Choices {
		out.WriteString(c.Text + "|")
	}
	return out.String()
}

// TestSamePromptSameTokens: what is equal for a model is equal here, and what
// differs differs.
func TestSamePromptSameTokens(t *testing.T) {
	e := newEngine(t, sim.InstantConfig())
	tokens := func(body string) string {
		w := call(t, e, "POST", "/tokenize", body)
		if w.Code != 200 {
			t.Fatalf("%s: %s", body, w.Body)
		}
		return w.Body.String()
	}
	user := func(content string) string { return `{"messages":[{"role":"user","content":` + content + `}]}` }
	plain := tokens(user(`"hi"`))
	if got := tokens(user(`[{"type":"text","text":"hi"}]`)); got != plain {
		t.Error("a text part differs from a string")
	}
	image := func(url string) string {
		return user(`[{"type":"text","text":"hi"},{"type":"image_url","image_url":{"url":"` + url + `"}}]`)
	}
	tool := func(name string) string {
		return `{"tools":[{"type":"function","function":{"name":"` + name + `"}}],"messages":[{"role":"user","content":"hi"}]}`
	}
	bodies := []string{
		user(`"hi"`), user(`"ho"`), image("http://a"), image("http://b"), tool("x"), tool("y"),
		`{"messages":[{"role":"system","content":"s"},{"role":"user","content":"hi"}]}`,
		`{"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":null,"tool_calls":[{"id":"1"}]}]}`,
		`{"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":null,"tool_calls":[{"id":"2"}]}]}`,
	}
	seen := map[string]string{}
	for _, b := range bodies {
		got := tokens(b)
		if other, ok := seen[got]; ok {
			t.Errorf("%s and %s have equal tokens", b, other)
		}
		seen[got] = b
	}
}

func TestCachedTokensInUsage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngine(t, sim.DefaultConfig())
		ask := func(messages string) chatAnswer {
			return into[chatAnswer](t, call(t, e, "POST", "/v1/chat/completions",
				`{"max_tokens":64,"ignore_eos":true,"messages":[`+messages+`]}`).Body.String())
		}
		user := `{"role":"user","content":"` + strings.Repeat("some words ", 200) + `"}`
		first, again := ask(user), ask(user)
		if first.Usage.Details.Cached != 0 || again.Usage.Details.Cached < again.Usage.Prompt-17 {
			t.Errorf("cached %+v, %+v", first.Usage.Details, again.Usage.Details)
		}
		answer := first.Choices[0].Message.Content
		if answer != again.Choices[0].Message.Content {
			t.Error("equal requests have different answers")
		}
		// The next turn finds the answer in the cache too.
		next := ask(user + `,{"role":"assistant","content":"` + answer + `"},{"role":"user","content":"go on"}`)
		if got := next.Usage.Details.Cached; got < first.Usage.Prompt+64-17 {
			t.Errorf("second turn: %d tokens cached of %d + 64", got, first.Usage.Prompt)
		}
		salted := ask(user)
		w := call(t, e, "POST", "/v1/chat/completions", `{"cache_salt":"s","max_tokens":1,"messages":[`+user+`]}`)
		if got := into[chatAnswer](t, w.Body.String()); got.Usage.Details.Cached != 0 || salted.Usage.Details.Cached == 0 {
			t.Errorf("with a salt %d tokens are cached", got.Usage.Details.Cached)
		}
	})
}

func TestFinishReasons(t *testing.T) {
	e := newEngine(t, sim.InstantConfig())
	ask := func(extra string) chatAnswer {
		return into[chatAnswer](t, call(t, e, "POST", "/v1/chat/completions",
			`{"messages":[{"role":"user","content":"call weather please"}]`+extra+`}`).Body.String())
	}
	if a := ask(""); *a.Choices[0].Finish != "stop" || a.Usage.Completion < 1 {
		t.Errorf("%+v", a)
	}
	if a := ask(`,"max_completion_tokens":2`); *a.Choices[0].Finish != "length" || a.Usage.Completion != 2 {
		t.Errorf("%+v", a)
	}
	whole := ask(`,"max_tokens":10,"ignore_eos":true`).Choices[0].Message.Content
	stop := strings.Split(whole, " ")[4]
	a := ask(`,"max_tokens":10,"ignore_eos":true,"stop":["` + stop + `"]`)
	if want := whole[:strings.Index(whole, stop)]; a.Choices[0].Message.Content != want || *a.Choices[0].Finish != "stop" ||
		*a.Choices[0].Stop != stop || a.Usage.Completion != 5 {
		t.Errorf("with stop %q: %+v, want %q", stop, a.Choices[0], want)
	}
	a = ask(`,"n":3,"max_tokens":4,"ignore_eos":true`)
	if len(a.Choices) != 3 || a.Usage.Completion != 12 || a.Choices[0].Message.Content == a.Choices[1].Message.Content {
		t.Errorf("%+v", a)
	}
	a = ask(`,"tools":[{"type":"function","function":{"name":"weather"}}]`)
	if c := a.Choices[0]; *c.Finish != "tool_calls" || c.Message.ToolCalls[0].Function.Name != "weather" {
		t.Errorf("%+v", a)
	} else {
		args := into[map[string]string](t, c.Message.ToolCalls[0].Function.Arguments)
		if _, whole := sim.CheckText(args["text"]); !whole || args["text"] == "" {
			t.Errorf("arguments %v", args)
		}
	}
	if a = ask(`,"tools":[{"type":"function","function":{"name":"other"}}]`); *a.Choices[0].Finish != "stop" {
		t.Errorf("%+v", a)
	}
}

func TestCompletionsStreamOfSeveralPrompts(t *testing.T) {
	e := newEngine(t, sim.DefaultConfig())
	w := call(t, e, "POST", "/v1/completions",
		`{"prompt":["one","two"],"max_tokens":5,"stream":true,"ignore_eos":true,"stream_options":{"include_usage":true}}`)
	texts := map[int]string{}
	var last *usage
	for _, l := range dataLines(t, w.Body.String()) {
		if l == "[DONE]" {
			break
		}
		v := into[struct {
			Choices []struct {
				Index int
				Text  string
			}
			Usage *usage
		}](t, l)
		for _, c := range v.Choices {
			texts[c.Index] += c.Text
		}
		last = v.Usage
	}
	for i := range 2 {
		if n, whole := sim.CheckText(texts[i]); n != 5 || !whole {
			t.Errorf("choice %d: %q", i, texts[i])
		}
	}
	if texts[0] == texts[1] || last == nil || last.Completion != 10 || last.Prompt != 2 {
		t.Errorf("%v %+v", texts, last)
	}
}

func TestEmbeddings(t *testing.T) {
	e := newEngine(t, sim.InstantConfig())
	const float = `{"input":["a text","a text","another thing"],"dimensions":64}`
	v := into[struct {
		Data  []struct{ Embedding []float32 }
		Usage usage
	}](t, call(t, e, "POST", "/v1/embeddings", float).Body.String())
	if len(v.Data) != 3 || len(v.Data[0].Embedding) != 64 || v.Usage.Prompt != 6 {
		t.Fatalf("%+v", v)
	}
	if !cmp.Equal(v.Data[0], v.Data[1]) || cmp.Equal(v.Data[0], v.Data[2]) {
		t.Error("vectors must be equal exactly for equal input")
	}
	b := into[struct{ Data []struct{ Embedding string } }](t, call(t, e, "POST", "/v1/embeddings",
		`{"input":[[500,501]],"encoding_format":"base64"}`).Body.String())
	raw, err := base64.StdEncoding.DecodeString(b.Data[0].Embedding)
	if err != nil || len(raw) != 4*384 {
		t.Errorf("%d bytes, %v", len(raw), err)
	}
}

func TestRerankAndScore(t *testing.T) {
	e := newEngine(t, sim.InstantConfig())
	type ranked struct {
		Results []struct {
			Index int
			Score float64 `json:"relevance_score"`
		}
	}
	rank := func(body string) ranked {
		return into[ranked](t, call(t, e, "POST", "/v1/rerank", body).Body.String())
	}
	r := rank(`{"query":"red apples","documents":["blue sky","red apples","x"],"top_n":2}`)
	if len(r.Results) != 2 || r.Results[0].Index != 1 || r.Results[0].Score < r.Results[1].Score {
		t.Errorf("%+v", r)
	}
	if r = rank(`{"query":"red apples","documents":[{"text":"blue sky"},{"content":[{"type":"text","text":"red "},{"type":"text","text":"apples"}]}]}`); r.Results[0].Index != 1 {
		t.Errorf("%+v", r)
	}
	type scored struct {
		Data  []struct{ Score float64 }
		Usage struct {
			PromptTokens int `json:"prompt_tokens"`
		}
	}
	// A query is read anew with each text, with three tokens for their places.
	query, texts := sim.CountTokens("red apples"), sim.CountTokens("red apples")+sim.CountTokens("blue sky at noon")
	for body, want := range map[string]int{
		`{"text_1":"red apples","text_2":["red apples","blue sky at noon"]}`:                2*query + texts + 6,
		`{"data_1":["red apples"],"data_2":["red apples","blue sky at noon"]}`:              2*query + texts + 6,
		`{"queries":"red apples","documents":["red apples","blue sky at noon"]}`:            2*query + texts + 6,
		`{"queries":["red apples","red apples"],"items":["red apples","blue sky at noon"]}`: 2*query + texts + 6,
		`{"text_1":"red apples","text_2":"red apples"}`:                                     2*query + 3,
	} {
		s := into[scored](t, call(t, e, "POST", "/v1/score", body).Body.String())
		if s.Usage.PromptTokens != want || len(s.Data) > 1 && s.Data[0].Score <= s.Data[1].Score {
			t.Errorf("%s: %+v; want %d tokens", body, s, want)
		}
	}
	if a := call(t, e, "POST", "/v1/score", `{"text_1":["a","b"],"text_2":["a","b","c"]}`); a.Code != 400 {
		t.Errorf("two with three: %d %s", a.Code, a.Body)
	}
}
