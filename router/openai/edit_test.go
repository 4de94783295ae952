package openai_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/llmgw/llmgw/router/openai"
)

func edit(t *testing.T, body string, e openai.Edit) (string, *openai.Peek) {
	t.Helper()
	var p openai.Peek
	if err := openai.PeekBody([]byte(body), &p); err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	parts, length := p.Edit([]byte(body), e, nil)
	edited := string(bytes.Join(parts, nil))
	if length != len(edited) {
		t.Errorf("length %d, want %d", length, len(edited))
	}
	if len(parts) > 9 {
		t.Errorf("%d parts, want at most 9", len(parts))
	}
	return edited, &p
}

func TestEdit(t *testing.T) {
	rename := openai.Edit{Model: "n"}
	usage := openai.Edit{InjectUsage: true}
	both := openai.Edit{InjectContinuous: true}
	all := openai.Edit{Model: "n", InjectUsage: true, InjectContinuous: true}
	first := openai.Edit{SetPriority: true, Priority: -400}
	every := openai.Edit{Model: "n", InjectUsage: true, InjectContinuous: true, SetPriority: true, Priority: 7}
	tests := []struct {
		name, body string
		edit       openai.Edit
		want       string
	}{
		{"nothing", `{"model":"m"}`, openai.Edit{}, `{"model":"m"}`},
		{"same name", `{"model":"\u006d"}`, openai.Edit{Model: "m"}, `{"model":"\u006d"}`},
		{"rename", ` {"a":1, "model" : "m" ,"n":12345678901234567890.0,"z":null} `, rename, ` {"a":1, "model" : "n" ,"n":12345678901234567890.0,"z":null} `},
		{"rename needs quoting", `{"model":"m"}`, openai.Edit{Model: `a"b\é` + "\x01"}, `{"model":"a\"b\\é\u0001"}`},
		{"rename keeps slashes", `{"model":"m"}`, openai.Edit{Model: "org/name"}, `{"model":"org/name"}`},
		{"only a stream gets options", `{"model":"m"}`, all, `{"model":"n"}`},
		{"stream false", `{"model":"m","stream":false}`, usage, `{"model":"m","stream":false}`},
		{"options missing", `{ "model":"m","stream":true}`, usage, `{"stream_options":{"include_usage":true}, "model":"m","stream":true}`},
		{"options missing, all", `{"model":"m","stream":true}`, all, `{"stream_options":{"include_usage":true,"continuous_usage_stats":true},"model":"n","stream":true}`},
		{"options null", `{"model":"m","stream":true,"stream_options":null}`, usage, `{"model":"m","stream":true,"stream_options":{"include_usage":true}}`},
		{"options null, both", `{"stream_options": null ,"model":"m","stream":true}`, both, `{"stream_options": {"include_usage":true,"continuous_usage_stats":true} ,"model":"m","stream":true}`},
		{"options empty", `{"stream_options":{ },"model":"m","stream":true}`, all, `{"stream_options":{"include_usage":true,"continuous_usage_stats":true },"model":"n","stream":true}`},
		{"options foreign", `{"stream_options":{"x":1},"model":"m","stream":true}`, usage, `{"stream_options":{"include_usage":true,"x":1},"model":"m","stream":true}`},
		{"usage false", `{"stream_options":{"include_usage": false ,"x":1},"model":"m","stream":true}`, usage, `{"stream_options":{"include_usage": true ,"x":1},"model":"m","stream":true}`},
		{"usage null", `{"stream_options":{"include_usage":null},"model":"m","stream":true}`, usage, `{"stream_options":{"include_usage":true},"model":"m","stream":true}`},
		{"usage true already", `{"stream_options":{"include_usage":true},"model":"m","stream":true}`, usage, `{"stream_options":{"include_usage":true},"model":"m","stream":true}`},
		{"usage escaped", `{"stream\u005foptions":{"include\u005fusage":false},"model":"m","stream":true}`, usage, `{"stream\u005foptions":{"include\u005fusage":true},"model":"m","stream":true}`},
		{"continuous joins", `{"model":"m","stream":true,"stream_options":{"include_usage":true}}`, all, `{"model":"n","stream":true,"stream_options":{"continuous_usage_stats":true,"include_usage":true}}`},
		{"both set", `{"stream_options":{"continuous_usage_stats":false,"include_usage":false},"model":"m","stream":true}`, all, `{"stream_options":{"continuous_usage_stats":true,"include_usage":true},"model":"n","stream":true}`},
		{"both set, other order", `{"model":"m","stream_options":{"include_usage":false,"continuous_usage_stats":0},"stream":true}`, all, `{"model":"n","stream_options":{"include_usage":true,"continuous_usage_stats":true},"stream":true}`},
		{"continuous stays when only usage is asked", `{"model":"m","stream":true,"stream_options":{"continuous_usage_stats":false}}`, usage, `{"model":"m","stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":false}}`},
		{"priority missing", `{ "model":"m"}`, first, `{"priority":-400, "model":"m"}`},
		{"priority there", `{"priority": 99 ,"model":"m"}`, first, `{"priority": -400 ,"model":"m"}`},
		{"priority of another type", `{"model":"m","priority":["x",{"priority":1}]}`, first, `{"model":"m","priority":-400}`},
		{"priority null", `{"model":"m","priority":null}`, first, `{"model":"m","priority":-400}`},
		{"priority escaped", `{"model":"m","prio\u0072ity":1}`, first, `{"model":"m","prio\u0072ity":-400}`},
		{"priority is the last of two", `{"priority":1,"model":"m","priority":2}`, first, `{"priority":1,"model":"m","priority":-400}`},
		{"priority further down is another's", `{"model":"m","x":{"priority":1}}`, first, `{"priority":-400,"model":"m","x":{"priority":1}}`},
		{"priority left alone", `{"model":"m","priority":1}`, rename, `{"model":"n","priority":1}`},
		{"everything missing", `{"model":"m","stream":true}`, every, `{"stream_options":{"include_usage":true,"continuous_usage_stats":true},"priority":7,"model":"n","stream":true}`},
		{"everything there", `{"priority":1,"stream":true,"model":"m","stream_options":{"continuous_usage_stats":false,"x":1,"include_usage":false}}`, every, `{"priority":7,"stream":true,"model":"n","stream_options":{"continuous_usage_stats":true,"x":1,"include_usage":true}}`},
		{"everything there, other order", `{"stream_options":null,"model":"m","priority":1,"stream":true}`, every, `{"stream_options":{"include_usage":true,"continuous_usage_stats":true},"model":"n","priority":7,"stream":true}`},
		{"no object", `{"model":"m","stream":true,"stream_options":"all"}`, all, `{"model":"n","stream":true,"stream_options":"all"}`},
		{"last of two options", `{"stream_options":{},"model":"m","stream":true,"stream_options":{"include_usage":true,"include_usage":false}}`, usage, `{"stream_options":{},"model":"m","stream":true,"stream_options":{"include_usage":true,"include_usage":true}}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, p := edit(t, tt.body, tt.edit)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
			var after openai.Peek
			if err := openai.PeekBody([]byte(got), &after); err != nil {
				t.Fatal(err)
			}
			usage, continuous := p.Injects(tt.edit)
			if asked := after.IncludeUsage && !p.IncludeUsage; usage != asked {
				t.Errorf("Injects says usage %v, body says %v", usage, asked)
			}
			if asked := after.ContinuousUsage && !p.ContinuousUsage; continuous != asked {
				t.Errorf("Injects says continuous %v, body says %v", continuous, asked)
			}
		})
	}
}

// TestEditTwice renders the same request for two engines, as a retry does.
func TestEditTwice(t *testing.T) {
	body := []byte(`{"model":"m","stream":true}`)
	var p openai.Peek
	if err := openai.PeekBody(body, &p); err != nil {
		t.Fatal(err)
	}
	var parts [][]byte
	for _, model := range []string{"a", "longer-name", "b"} {
		parts, _ = p.Edit(body, openai.Edit{Model: model, InjectUsage: true}, parts[:0])
		want := `{"stream_options":{"include_usage":true},"model":"` + model + `","stream":true}`
		if got := string(bytes.Join(parts, nil)); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// rest is the token stream of a body without the values that Edit may change,
// numbers with all their digits.
func rest(t interface{ Fatalf(string, ...any) }, body []byte) []string {
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.UseNumber()
	if _, err := dec.Token(); err != nil {
		t.Fatalf("%q: %v", body, err)
	}
	var out []string
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			t.Fatalf("%q: %v", body, err)
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			t.Fatalf("%q: %v", body, err)
		}
		switch key {
		case "model", "stream_options", "priority":
		default:
			out = append(out, key.(string)+"="+string(value))
		}
	}
	if _, err := dec.Token(); err != nil {
		t.Fatalf("%q: %v", body, err)
	}
	if _, err := dec.Token(); err != io.EOF {
		t.Fatalf("%q: more behind", body)
	}
	return out
}

// options is the effective value of "stream_options" but for the two keys that
// Edit may set.
func options(body []byte) map[string]any {
	var doc struct {
		Options map[string]any `json:"stream_options"`
	}
	if json.Unmarshal(body, &doc) != nil {
		return nil
	}
	delete(doc.Options, "include_usage")
	delete(doc.Options, "continuous_usage_stats")
	if len(doc.Options) == 0 {
		return nil
	}
	return doc.Options
}

// A body that an engine may answer without end is, with a bound put in, such that
// none does, and is changed in nothing else.
func TestEditBounds(t *testing.T) {
	const chat, completions, responses, messages = "/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages"
	for _, tt := range []struct{ path, body, want string }{
		{chat, `{"model":"m"}`, `{"max_tokens":100,"model":"m"}`},
		{completions, `{ "model":"m","n":2}`, `{"max_tokens":100, "model":"m","n":2}`},
		{messages, `{"model":"m"}`, `{"max_tokens":100,"model":"m"}`},
		{responses, `{"model":"m","max_tokens":5}`, `{"max_output_tokens":100,"model":"m","max_tokens":5}`},
		{"/v1/other", `{"model":"m"}`, `{"model":"m"}`},
		{chat, `{"model":"m","max_tokens":500}`, `{"model":"m","max_tokens":500}`},
		{chat, `{"model":"m","max_completion_tokens":5}`, `{"model":"m","max_completion_tokens":5}`},
		{chat, `{"max_tokens": null ,"model":"m"}`, `{"max_tokens": 100 ,"model":"m"}`},
		{chat, `{"model":"m","max_completion_tokens":null}`, `{"max_tokens":100,"model":"m","max_completion_tokens":null}`},
		{chat, `{"model":"m","max_tokens":-1,"n_predict":-1}`, `{"model":"m","max_tokens":100,"n_predict":100}`},
		{chat, `{"model":"m","max_tokens":"50"}`, `{"model":"m","max_tokens":50}`},
		{chat, `{"model":"m","max_tokens":0}`, `{"model":"m","max_tokens":100}`},
		{chat, `{"model":"m","Max_Tokens":null}`, `{"max_tokens":100,"model":"m","Max_Tokens":100}`},
		{completions, `{"max_tokens":7,"model":"m","max_tokens":null}`, `{"max_tokens":7,"model":"m","max_tokens":100}`},
		{completions, `{"max_completion_tokens":7,"model":"m"}`, `{"max_tokens":100,"max_completion_tokens":7,"model":"m"}`},
	} {
		if got, _ := edit(t, tt.body, openai.Edit{MaxTokens: 100, Path: tt.path}); got != tt.want {
			t.Errorf("%s %s: %s, want %s", tt.path, tt.body, got, tt.want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		path := rapid.SampledFrom([]string{chat, completions, responses, messages}).Draw(t, "path")
		members := []string{`"model":"m"`, `"stream":true`, `"messages":[{"max_tokens":1}]`}
		for range rapid.IntRange(0, 5).Draw(t, "bounds") {
			name := rapid.SampledFrom([]string{"max_tokens", "Max_Tokens", "max_completion_tokens", "max_output_tokens", "n_predict"}).Draw(t, "name")
			value := rapid.SampledFrom([]string{"1", "900", "0", "0.5", "null", "-1", `"8"`, `"x"`, "true", "{}"}).Draw(t, "value")
			members = append(members, fmt.Sprintf("%q: %s ", name, value))
		}
		body := "{" + strings.Join(rapid.Permutation(members).Draw(t, "order"), ",") + "}"
		var before, after openai.Peek
		if err := openai.PeekBody([]byte(body), &before); err != nil {
			t.Fatal(err)
		}
		e := openai.Edit{Model: "n", InjectUsage: true, SetPriority: true, MaxTokens: 100, Path: path}
		parts, _ := before.Edit([]byte(body), e, nil)
		edited := bytes.Join(parts, nil)
		if err := openai.PeekBody(edited, &after); err != nil {
			t.Fatalf("%s became %s: %v", body, edited, err)
		}
		if !after.Bounded(path) || after.MaxTokens > max(100, before.MaxTokens) {
			t.Fatalf("%s became %s: at most %d, bounded %t", body, edited, after.MaxTokens, after.Bounded(path))
		}
		if after.Model != "n" || !after.IncludeUsage || !after.Stream {
			t.Fatalf("%s became %s", body, edited)
		}
		if e.MaxTokens = 0; before.Bounded(path) {
			if parts, _ = before.Edit([]byte(body), e, nil); !bytes.Equal(edited, bytes.Join(parts, nil)) {
				t.Fatalf("%s is bounded, and became %s", body, edited)
			}
		}
	})
}

// checkEdit makes sure that only what may change has changed.
func checkEdit(t interface{ Fatalf(string, ...any) }, body []byte, e openai.Edit) {
	var p openai.Peek
	if openai.PeekBody(body, &p) != nil || !json.Valid(body) {
		return
	}
	before := bytes.Clone(body)
	parts, length := p.Edit(body, e, nil)
	edited := bytes.Join(parts, nil)
	if !bytes.Equal(before, body) {
		t.Fatalf("the body was changed")
	}
	if length != len(edited) {
		t.Fatalf("length %d, want %d", length, len(edited))
	}
	if diff := cmp.Diff(rest(t, body), rest(t, edited)); diff != "" {
		t.Fatalf("%q became %q: %s", body, edited, diff)
	}
	var after openai.Peek
	if err := openai.PeekBody(edited, &after); err != nil {
		t.Fatalf("%q became %q: %v", body, edited, err)
	}
	want := p.Model
	if e.Model != "" {
		want = e.Model
	}
	usage, continuous := p.Injects(e)
	switch {
	case after.Model != want:
		t.Fatalf("model %q, want %q", after.Model, want)
	case after.IncludeUsage != (p.IncludeUsage || usage):
		t.Fatalf("%q became %q", body, edited)
	case after.ContinuousUsage != (p.ContinuousUsage || continuous):
		t.Fatalf("%q became %q", body, edited)
	case e.SetPriority && string(edited[after.PrioritySpan.Start:after.PrioritySpan.End]) != strconv.FormatInt(e.Priority, 10):
		t.Fatalf("%q became %q", body, edited)
	case !e.SetPriority && !bytes.Equal(edited[after.PrioritySpan.Start:after.PrioritySpan.End], body[p.PrioritySpan.Start:p.PrioritySpan.End]):
		t.Fatalf("%q became %q", body, edited)
	case after.Stream != p.Stream || after.MaxTokens != p.MaxTokens || after.User != p.User:
		t.Fatalf("%q became %q", body, edited)
	}
	// encoding/json merges the objects of a repeated key, which is no parser's
	// rule for maps, so only single ones are compared.
	if strings.Count(string(body), "options") <= 1 {
		if diff := cmp.Diff(options(body), options(edited)); diff != "" {
			t.Fatalf("%q became %q: %s", body, edited, diff)
		}
	}
}

func FuzzEdit(f *testing.F) {
	for _, body := range []string{
		`{"model":"m","stream":true,"stream_options":null,"n":12345678901234567890}`,
		`{"stream":true,"stream_options":{"include_usage":false,"x":[1,{}]},"model":"m"}`,
		`{"stream":true,"stream_options":{},"stream_options":{"continuous_usage_stats":1},"model":"\ud83d\ude00","z":null,"z":1e-7}`,
	} {
		f.Add([]byte(body), "n", true, false, false, int64(0))
		f.Add([]byte(body), "", false, true, true, int64(-400))
	}
	f.Fuzz(func(t *testing.T, body []byte, model string, usage, continuous, set bool, priority int64) {
		if strings.ToValidUTF8(model, "") != model || strings.Contains(model, "\ufffd") {
			return
		}
		checkEdit(t, body, openai.Edit{Model: model, InjectUsage: usage, InjectContinuous: continuous, SetPriority: set, Priority: priority})
	})
}

// value draws JSON text of any kind, with what a round trip would lose.
func value(depth int) *rapid.Generator[string] {
	leaf := rapid.SampledFrom([]string{
		`null`, `true`, `12345678901234567890`, `1.0`, `1e400`, `-0`, `"\u00e9\ud83d\ude00"`, `"é"`, `""`, `"\"model\":\"x\""`, `[]`, `{}`,
	})
	if depth == 0 {
		return leaf
	}
	return rapid.OneOf(leaf,
		rapid.Custom(func(t *rapid.T) string {
			return "[" + strings.Join(rapid.SliceOfN(value(depth-1), 0, 3).Draw(t, "list"), ", ") + "]"
		}),
		rapid.Custom(func(t *rapid.T) string {
			var members []string
			for range rapid.IntRange(0, 3).Draw(t, "members") {
				key := rapid.SampledFrom([]string{"model", "stream_options", "a", "é", "include_usage"}).Draw(t, "key")
				members = append(members, `"`+key+`": `+value(depth-1).Draw(t, "value"))
			}
			return "{" + strings.Join(members, " ,") + "}"
		}))
}

func TestEditKeepsTheRest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		members := []string{`"model":"m"`, `"stream":true`}
		if rapid.Bool().Draw(t, "options") {
			members = append(members, `"stream_options":`+rapid.SampledFrom([]string{
				`null`, `{}`, `{"include_usage":false}`, `{"continuous_usage_stats":true, "include_usage":null}`, `{"x":{"include_usage":false}}`, `5`,
			}).Draw(t, "stream_options"))
		}
		for range rapid.IntRange(0, 2).Draw(t, "priorities") {
			members = append(members, `"priority":`+value(1).Draw(t, "priority"))
		}
		for range rapid.IntRange(0, 5).Draw(t, "others") {
			key := rapid.SampledFrom([]string{"messages", "zeta", "seed", "ключ", "user", "seed"}).Draw(t, "key")
			members = append(members, `"`+key+`":`+value(3).Draw(t, "value"))
		}
		members = rapid.Permutation(members).Draw(t, "order")
		space := rapid.SampledFrom([]string{"", " ", "\n\t"}).Draw(t, "space")
		body := space + "{" + space + strings.Join(members, space+","+space) + space + "}" + space
		checkEdit(t, []byte(body), openai.Edit{
			Model:            rapid.SampledFrom([]string{"", "n", `q"ü`}).Draw(t, "model"),
			InjectUsage:      rapid.Bool().Draw(t, "usage"),
			InjectContinuous: rapid.Bool().Draw(t, "continuous"),
			SetPriority:      rapid.Bool().Draw(t, "set"),
			Priority:         rapid.Int64().Draw(t, "value"),
		})
	})
}
