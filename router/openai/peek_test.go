package openai_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/llmgw/llmgw/router/openai"
)

func TestPeekBody(t *testing.T) {
	at := func(body, value string) openai.Span {
		i := strings.LastIndex(body, value)
		return openai.Span{Start: i, End: i + len(value)}
	}
	tests := []struct {
		name, body string
		want       func(t *testing.T, body string, p *openai.Peek)
	}{
		{"chat", `{"model":"m","messages":[{"role":"user","content":"hi"}],"stream":true,"max_tokens":5}`,
			func(t *testing.T, body string, p *openai.Peek) {
				if !p.Stream || p.MaxTokens != 5 || p.HasStreamOptions() {
					t.Errorf("got %+v", p)
				}
				if want := at(body, `[{"role":"user","content":"hi"}]`); p.PromptSpan != want {
					t.Errorf("prompt at %v, want %v", p.PromptSpan, want)
				}
			}},
		{"model last after white space", " \r\n\t{ \"prompt\" : \"x\" , \"model\" : \"m\" } \n",
			func(t *testing.T, body string, p *openai.Peek) {
				if want := at(body, `"m"`); p.ModelSpan != want {
					t.Errorf("model at %v, want %v", p.ModelSpan, want)
				}
			}},
		{"escaped key and value", `{"mod\u0065l":"\u006d"}`, nil},
		{"keys that only look alike", `{"\u016dodel":"x","models":"x","mode":"x","\u006d\u006f\u0064\u0065\u006c\u0073":"x","s\tream":true,"model":"m"}`,
			func(t *testing.T, _ string, p *openai.Peek) {
				if p.Stream {
					t.Error("a tab is not a t")
				}
			}},
		{"model within is not the model", `{"a":{"model":"x"},"model":"m","b":[{"model":"y"}],"c":"\"model\":\"z\""}`, nil},
		{"stream options", `{"model":"m","stream":true,"stream_options":{"x":[{}],"include_usage":true,"continuous_usage_stats":true}}`,
			func(t *testing.T, _ string, p *openai.Peek) {
				if !p.HasStreamOptions() || !p.IncludeUsage || !p.ContinuousUsage {
					t.Errorf("got %+v", p)
				}
			}},
		{"last of two holds", `{"model":"m","stream":true,"stream_options":{"include_usage":true},"stream":false,"stream_options":{}}`,
			func(t *testing.T, _ string, p *openai.Peek) {
				if p.Stream || p.IncludeUsage {
					t.Errorf("got %+v", p)
				}
			}},
		{"null options", `{"model":"m","stream_options":null,"max_tokens":null,"user":null}`,
			func(t *testing.T, _ string, p *openai.Peek) {
				if !p.HasStreamOptions() || p.MaxTokens != 0 || p.User != "" {
					t.Errorf("got %+v", p)
				}
			}},
		{"largest of the token limits", `{"model":"m","max_tokens":7,"max_completion_tokens":9,"max_output_tokens":8}`,
			func(t *testing.T, _ string, p *openai.Peek) {
				if p.MaxTokens != 9 {
					t.Errorf("max tokens %d, want 9", p.MaxTokens)
				}
			}},
		{"huge token limit", `{"model":"m","max_tokens":1e400}`,
			func(t *testing.T, _ string, p *openai.Peek) {
				if p.MaxTokens != math.MaxInt64 {
					t.Errorf("max tokens %d", p.MaxTokens)
				}
			}},
		{"user", `{"model":"m","user":"ann\u0065"}`,
			func(t *testing.T, _ string, p *openai.Peek) {
				if p.User != "anne" {
					t.Errorf("user %q", p.User)
				}
			}},
		{"long user is left out", `{"model":"m","user":"` + strings.Repeat("x", 2000) + `"}`,
			func(t *testing.T, _ string, p *openai.Peek) {
				if p.User != "" {
					t.Error("long user kept")
				}
			}},
		{"token ids", `{"input":[[1,22, 333,4444444],[12345678, 0],[ ]],"model":"m"}`,
			func(t *testing.T, body string, p *openai.Peek) {
				if want := at(body, `[[1,22, 333,4444444],[12345678, 0],[ ]]`); p.PromptSpan != want {
					t.Errorf("prompt at %v, want %v", p.PromptSpan, want)
				}
			}},
		{"longest prompt wins", `{"query":"q","input":"longer","model":"m"}`,
			func(t *testing.T, body string, p *openai.Peek) {
				if want := at(body, `"longer"`); p.PromptSpan != want {
					t.Errorf("prompt at %v, want %v", p.PromptSpan, want)
				}
			}},
		{"all kinds of values", `{"a":[true,false,null,-0.5e+10,0,1E2,{},[],"",{"b":[{"c":{}}]}],"model":"m"}`, nil},
		{"as deep as allowed", `{"a":` + strings.Repeat("[", openai.MaxDepth-1) + strings.Repeat("]", openai.MaxDepth-1) + `,"model":"m"}`, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var p openai.Peek
			if err := openai.PeekBody([]byte(tt.body), &p); err != nil {
				t.Fatal(err)
			}
			if p.Model != "m" {
				t.Errorf("model %q, want m", p.Model)
			}
			if tt.want != nil {
				tt.want(t, tt.body, &p)
			}
		})
	}
}

func TestPeekBodyRefuses(t *testing.T) {
	deep := strings.Repeat("[", openai.MaxDepth) + strings.Repeat("]", openai.MaxDepth)
	tests := []struct {
		name, body string
		want       error
		offset     int
	}{
		{"empty", ``, openai.ErrNotJSON, 0},
		{"space only", ` `, openai.ErrNotJSON, 1},
		{"byte order mark", "\xef\xbb\xbf{\"model\":\"m\"}", openai.ErrNotJSON, 0},
		{"text", `hello`, openai.ErrNotJSON, 0},
		{"form", `model=m&stream=true`, openai.ErrNotJSON, 0},
		{"list", `["model","m"]`, openai.ErrNotObject, 0},
		{"string", `"model"`, openai.ErrNotObject, 0},
		{"list that ends early", `["model"`, openai.ErrTruncated, 8},
		{"no member", `{}`, openai.ErrNoModel, 1},
		{"no model", `{"stream":true}`, openai.ErrNoModel, 14},
		{"only other case", `{"Model":"m"}`, openai.ErrNoModel, 12},
		{"empty model", `{"model":""}`, openai.ErrNoModel, 9},
		{"number", `{"model":1}`, openai.ErrModelNotString, 9},
		{"null", `{"model":null}`, openai.ErrModelNotString, 9},
		{"object", `{"model":{"a":"b"}}`, openai.ErrModelNotString, 9},
		{"control character in model", "{\"model\":\"a\nb\"}", openai.ErrModelNotString, 9},
		{"invalid UTF-8 in model", "{\"model\":\"a\xff\"}", openai.ErrModelNotString, 9},
		{"lone surrogate in model", `{"model":"a\ud800"}`, openai.ErrModelNotString, 9},
		{"two models", `{"model":"a","model":"b"}`, openai.ErrDuplicateModel, 13},
		{"two equal models", `{"model":"a","x":1,"model":"a"}`, openai.ErrDuplicateModel, 19},
		{"second one escaped", `{"model":"a","\u006dodel":"b"}`, openai.ErrDuplicateModel, 13},
		{"second one in capitals", `{"model":"a","MODEL":"b"}`, openai.ErrDuplicateModel, 13},
		{"first one in capitals", `{"Mod\u0045l":"a","model":"b"}`, openai.ErrDuplicateModel, 18},
		{"second one not a string", `{"model":"a","model":null}`, openai.ErrDuplicateModel, 13},
		{"cut in a string", `{"model":"a`, openai.ErrTruncated, 9},
		{"cut in an escape", `{"model":"a\`, openai.ErrTruncated, 12},
		{"cut in an escape's digits", `{"model":"a\u00`, openai.ErrTruncated, 15},
		{"cut after key", `{"model"`, openai.ErrTruncated, 8},
		{"cut after colon", `{"model":`, openai.ErrTruncated, 9},
		{"cut after comma", `{"model":"a",`, openai.ErrTruncated, 13},
		{"cut before brace", `{"model":"a"`, openai.ErrTruncated, 12},
		{"cut in a list", `{"model":"a","b":[1,2`, openai.ErrTruncated, 21},
		{"cut in a literal", `{"model":"a","b":tru`, openai.ErrTruncated, 20},
		{"cut in a fraction", `{"model":"a","b":1.`, openai.ErrTruncated, 19},
		{"more behind", `{"model":"a"}{"model":"b"}`, openai.ErrNotJSON, 13},
		{"NUL behind", "{\"model\":\"a\"}\x00", openai.ErrNotJSON, 13},
		{"trailing comma", `{"model":"a",}`, openai.ErrNotJSON, 13},
		{"trailing comma in list", `{"model":"a","b":[1,]}`, openai.ErrNotJSON, 20},
		{"comma only", `{,}`, openai.ErrNotJSON, 1},
		{"no comma", `{"model":"a" "b":1}`, openai.ErrNotJSON, 13},
		{"no colon", `{"model" "a"}`, openai.ErrNotJSON, 9},
		{"wrong closer", `{"model":"a","b":[1}}`, openai.ErrNotJSON, 19},
		{"wrong closer of object", `{"model":"a","b":{"c":1]}`, openai.ErrNotJSON, 23},
		{"single quotes", `{'model':'a'}`, openai.ErrNotJSON, 1},
		{"comment", `{"model":"a"/**/}`, openai.ErrNotJSON, 12},
		{"comment in list", `{"a":[/*"*/],"model":"a"}`, openai.ErrNotJSON, 6},
		{"leading zero", `{"a":[01,2],"model":"a","padding":1}`, openai.ErrNotJSON, 7},
		{"high bits in list", "{\"a\":[1,\xb2,3,4,5,6,7,8],\"model\":\"a\"}", openai.ErrNotJSON, 8},
		{"leading plus", `{"a":+1,"model":"a"}`, openai.ErrNotJSON, 5},
		{"NaN", `{"a":NaN,"model":"a"}`, openai.ErrNotJSON, 5},
		{"unknown escape", `{"a":"\x","model":"a"}`, openai.ErrNotJSON, 6},
		{"bad digits in escape", `{"a":"\u00zz","model":"a"}`, openai.ErrNotJSON, 6},
		{"control character in key", "{\"mod\x01el\":1,\"model\":\"a\"}", openai.ErrNotJSON, 1},
		{"invalid UTF-8 in key", "{\"mod\xffel\":1,\"model\":\"a\"}", openai.ErrNotJSON, 1},
		{"too deep", `{"a":` + deep + `,"model":"m"}`, openai.ErrTooDeep, 4 + openai.MaxDepth},
		{"deeper list", "[" + deep + "]", openai.ErrTooDeep, openai.MaxDepth},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var p openai.Peek
			err := openai.PeekBody([]byte(tt.body), &p)
			if !errors.Is(err, tt.want) {
				t.Fatalf("got %v, want %v", err, tt.want)
			}
			if pe, ok := errors.AsType[*openai.PeekError](err); !ok || pe.Offset != tt.offset {
				t.Errorf("got %v, want offset %d", err, tt.offset)
			}
			if e := openai.PeekFailed(err); e.Status != 400 || e.Code == "" {
				t.Errorf("PeekFailed: %+v", e)
			}
		})
	}
}

// TestPeekStrings moves quotes and escapes over every boundary of the search.
func TestPeekStrings(t *testing.T) {
	var p openai.Peek
	for n := range 200 {
		pad := strings.Repeat("x", n)
		for _, tail := range []string{``, `\"`, `\\`, `\\\"`, `\n` + pad, pad + `\u0041`} {
			body := []byte(`{"prompt":"` + pad + tail + `","model":"m"}`)
			if err := openai.PeekBody(body, &p); err != nil || p.Model != "m" {
				t.Fatalf("%s: %v", body, err)
			}
			if err := openai.PeekBody(body[:10+n+len(tail)], &p); !errors.Is(err, openai.ErrTruncated) {
				t.Fatalf("%s cut: %v", body, err)
			}
		}
	}
	for _, n := range []int{8191, 8192, 8193, 8255, 8256, 8257, 16384, 16500, 30000} {
		for d := range 20 {
			pad := strings.Repeat("x", n-d)
			body := []byte(`{"prompt":"` + pad + `\"` + pad + `\\","model":"m"}`)
			if err := openai.PeekBody(body, &p); err != nil || p.Model != "m" {
				t.Fatalf("n=%d: %v", n-d, err)
			}
		}
	}
}

// TestPeekGrammar compares with encoding/json what is JSON, on texts made of few
// bytes so that each rule is hit at each place in a word or a block.
func TestPeekGrammar(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var p openai.Peek
	for _, tt := range []struct{ name, head, alphabet, tail string }{
		{"integers", "[", "0123456789,,,,,, ", "]"},
		{"long integers", "[", "0123456789012345678901234567890123456789, ", "1]"},
		{"zeros", "[1", "0,0, 1", "1]"},
		{"numbers", "[", "0123.,,eE+- ", "]"},
		{"strings", `"`, `\\\"n/u0aF xxxxxxxxxx`, `"`},
		{"escapes", `"`, `\\\\"`, `"`},
		{"nests", "[", `[]{},:"" 1`, "]"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			valid := 0
			for range 20_000 {
				text := []byte(tt.head)
				for range rng.IntN(150) >> rng.IntN(7) {
					text = append(text, tt.alphabet[rng.IntN(len(tt.alphabet))])
				}
				body := []byte(`{"a":` + string(text) + tt.tail + `,"model":"m"}`)
				want := json.Valid(body)
				if err := openai.PeekBody(body, &p); (err == nil) != want {
					// A text may close itself and bring members of its own.
					if want && errors.Is(err, openai.ErrDuplicateModel) {
						continue
					}
					t.Fatalf("%s: got %v, valid is %v", body, err, want)
				}
				if want {
					valid++
				}
			}
			if valid < 20 {
				t.Errorf("only %d valid texts", valid)
			}
		})
	}
}

func TestPeekReuse(t *testing.T) {
	var p openai.Peek
	long := []byte(`{"model":"a","user":"u","stream":true,"stream_options":{"include_usage":true},"max_tokens":5,"messages":[]}`)
	if err := openai.PeekBody(long, &p); err != nil {
		t.Fatal(err)
	}
	model := p.Model
	clear(long)
	if model != "a" || p.User != "u" {
		t.Error("Model or User aliases the body")
	}
	if err := openai.PeekBody([]byte(`{"model":"b"}`), &p); err != nil {
		t.Fatal(err)
	}
	if p.User != "" || p.Stream || p.HasStreamOptions() || p.IncludeUsage || p.MaxTokens != 0 || p.Bounded("") || p.PromptSpan != (openai.Span{}) {
		t.Errorf("old values stay: %+v", p)
	}
}

func TestPeekAllocs(t *testing.T) {
	body := []byte(`{"messages":[{"role":"user","content":"a \"word\""}],"user":"u","model":"m","stream":true,"stream_options":{"include_usage":false},"max_tokens":10}`)
	var p openai.Peek
	if err := openai.PeekBody(body, &p); err != nil {
		t.Fatal(err)
	}
	parts := make([][]byte, 0, 8)
	allocs := testing.AllocsPerRun(100, func() {
		_ = openai.PeekBody(body, &p)
		parts, _ = p.Edit(body, openai.Edit{Model: "other", InjectUsage: true, InjectContinuous: true}, parts[:0])
	})
	if allocs != 0 {
		t.Errorf("%v allocations, want 0", allocs)
	}
}

// topModel finds the top-level models as encoding/json's tokens have them.
func topModel(t *testing.T, body []byte) (models []any, object bool) {
	t.Helper()
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.UseNumber()
	first, err := dec.Token()
	if err != nil {
		t.Fatalf("%q: %v", body, err)
	}
	if first != json.Delim('{') {
		return nil, false
	}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			t.Fatalf("%q: %v", body, err)
		}
		var value any
		if err := dec.Decode(&value); err != nil {
			t.Fatalf("%q: %v", body, err)
		}
		if strings.EqualFold(key.(string), "model") {
			if key != "model" {
				value = nil
			}
			models = append(models, value)
		}
	}
	if _, err := dec.Token(); err != nil {
		t.Fatalf("%q: %v", body, err)
	}
	if _, err := dec.Token(); err != io.EOF {
		t.Fatalf("%q: more behind", body)
	}
	return models, true
}

// withoutControls replaces what PeekBody does not look at within strings.
func withoutControls(body []byte) []byte {
	return bytes.Map(func(r rune) rune {
		if r < ' ' {
			return ' '
		}
		return r
	}, body)
}

func FuzzPeek(f *testing.F) {
	for _, body := range []string{
		`{"model":"m","messages":[{"role":"user","content":"hi"}],"stream":true}`,
		`{"mod\u0065l":"m","stream_options":{"include_usage":false}}`,
		`{"input":[1,22,333, 4444, 55555],"model":"m"}`,
		`{"model":"a","Model":"b"}`,
		`{"model":"a","Previous_Response_ID":"b","converſation":"c","bac\u212aground":true}`,
		`{"model":"a","previous_response_id":"b","previou\u017f_response_id":null}`,
		`{"a":[{"b":[-1.5e3,true,null]}],"model":"\ud83d\ude00"}`,
		"{\"a\":\"\x01\",\"model\":\"m\"} ",
		`{"query":"q","documents":["a",{"text":"b"}, 1,[2]],"text_2":{"content":["a"]},"model":"m"}`,
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var p openai.Peek
		err := openai.PeekBody(body, &p)
		if err != nil {
			if !json.Valid(body) || errors.Is(err, openai.ErrTooDeep) || errors.Is(err, openai.ErrDuplicateField) {
				return
			}
			// Valid JSON is refused only for its model, or where it is not plain.
			models, object := topModel(t, body)
			if !object || len(models) != 1 || !plainASCII(body) {
				return
			}
			if name, ok := models[0].(string); ok && name != "" && !strings.Contains(name, "\ufffd") {
				t.Fatalf("refused %q: %v", body, err)
			}
			return
		}
		clean := withoutControls(body)
		if !json.Valid(clean) {
			t.Fatalf("accepted %q", body)
		}
		models, _ := topModel(t, clean)
		if len(models) != 1 || models[0] != p.Model {
			t.Fatalf("model %q, encoding/json reads %q in %q", p.Model, models, body)
		}
		var got string
		if json.Unmarshal(body[p.ModelSpan.Start:p.ModelSpan.End], &got) != nil || got != p.Model {
			t.Fatalf("span %v is not the model in %q", p.ModelSpan, body)
		}
		var kept struct {
			Previous     json.RawMessage `json:"previous_response_id"`
			Conversation json.RawMessage `json:"conversation"`
			Background   json.RawMessage `json:"background"`
		}
		if err := json.Unmarshal(clean, &kept); err != nil {
			t.Fatal(err)
		}
		said := func(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }
		if said(kept.Previous) && !p.HasPrevious || said(kept.Conversation) && !p.HasConversation ||
			said(kept.Background) && string(kept.Background) != "false" && !p.Background {
			t.Fatalf("encoding/json reads %s in %q, of which %+v knows nothing", kept, body, p)
		}
		var doc struct {
			Stream  json.RawMessage `json:"stream"`
			Options json.RawMessage `json:"stream_options"`
		}
		// encoding/json folds case, of some letters beyond ASCII too.
		if plainASCII(body) && bytes.Equal(body, bytes.ToLower(body)) && !bytes.ContainsRune(body, '\\') {
			if err := json.Unmarshal(clean, &doc); err != nil {
				t.Fatal(err)
			}
			if p.Stream != (string(doc.Stream) == "true") {
				t.Fatalf("stream %v in %q", p.Stream, body)
			}
		}
	})
}

func plainASCII(body []byte) bool {
	for _, c := range body {
		if c >= 0x80 || c < ' ' {
			return false
		}
	}
	return true
}

// codeSample has an escape every 18 bytes once it is a JSON string; Go and
// Python sources have one every 15 to 28.
const codeSample = `// Load reads the table from path. It returns an error when the file is absent
// or a row has the wrong number of columns.
func Load(path string) (*Table, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("load %q: %w", path, err)
	}
	defer f.Close()
	t := &Table{rows: make(map[string]Row)}
	for line := 1; ; line++ {
		row, err := readRow(f, "\t")
		if errors.Is(err, io.EOF) {
			return t, nil
		}
		t.rows[row.Key] = row
	}
}

`

func codeText(size int) string {
	quoted, _ := json.Marshal(strings.Repeat(codeSample, size/len(codeSample)))
	return string(quoted[:size-size%64]) + `"`
}

func tokenIDs(size int, sep string) string {
	var b strings.Builder
	b.WriteByte('[')
	for n := uint32(1); b.Len() < size; {
		n = n*1664525 + 1013904223
		if b.Len() > 1 {
			b.WriteString(sep)
		}
		b.WriteString(strconv.Itoa(int(n>>8) % 128256))
	}
	b.WriteByte(']')
	return b.String()
}

func BenchmarkPeek(b *testing.B) {
	const mb = 1 << 20
	text := `"` + strings.Repeat("The quick brown fox jumps over the lazy dog. ", mb/45) + `"`
	for _, bm := range []struct{ name, body string }{
		{"call=1KB", `{"messages":[{"role":"user","content":"` + strings.Repeat("lorem ipsum ", 80) + `"}],"max_tokens":16,"temperature":0.7,"model":"bench-model"}`},
		{"text=1MB", `{"messages":[{"role":"user","content":` + text + `}],"stream":true,"model":"m"}`},
		{"prose=1MB", `{"prompt":"` + strings.Repeat(strings.Repeat("word ", 58)+`\n`, mb/292) + `","model":"m"}`},
		{"code=1MB", `{"messages":[{"role":"user","content":` + codeText(mb) + `}],"stream":true,"model":"m"}`},
		{"newlines=1MB", `{"prompt":"` + strings.Repeat(strings.Repeat("x", 70)+`\n`, mb/72) + `","model":"m"}`},
		{"quotes=1MB", `{"prompt":"` + strings.Repeat(`\"`, mb/2) + `","model":"m"}`},
		{"tokens=1MB", `{"prompt":` + tokenIDs(mb, ",") + `,"model":"m"}`},
		{"tokens-spaced=1MB", `{"prompt":` + tokenIDs(mb, ", ") + `,"model":"m"}`},
		{"floats=1MB", `{"input":[` + strings.Repeat("-0.0123456,", mb/11) + `1],"model":"m"}`},
		{"messages=1MB", `{"messages":[` + strings.Repeat(`{"role":"user","content":"A short line of talk."},`, mb/50) + `{}],"model":"m"}`},
	} {
		b.Run(bm.name, func(b *testing.B) {
			body := []byte(bm.body)
			var p openai.Peek
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				if err := openai.PeekBody(body, &p); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
