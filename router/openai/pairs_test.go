package openai_test

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/llmgw/llmgw/router/openai"
)

func TestPairs(t *testing.T) {
	tests := []struct {
		name, body  string
		pairs       int64
		bytes, most string // what is read, a space between what is read anew
	}{
		{"none", `{"model":"m","input":["a","b"]}`, 0, ``, `{"model":"m","input":["a","b"]}`},
		{"one", `{"model":"m","query":"q","documents":"d"}`, 1, `"q""d"`, `{"model":"m","query":"q","documents":"d"}`},
		{"a list of one", `{"model":"m","query":"q","documents":["d"]}`, 1, `"q"["d"]`, `{"model":"m","query":"q","documents":["d"]}`},
		{"no documents", `{"model":"m","query":"q","documents":[ ]}`, 1, `"q"[ ]`, `{"model":"m","query":"q","documents":[ ]}`},
		{"three documents", `{"model":"m","query":"q","documents":["a", "b" ,"c"]}`, 3, `"q""q""q"["a", "b" ,"c"]`,
			strings.Repeat(`{"model":"m","query":"q","documents":}`, 3) + `["a", "b" ,"c"]`},
		{"objects, and what may be put into each", `{"model":"m","query":"q","documents":[{"text":"a"},{"text":"b,["}],"instruction":"i"}`, 2,
			`"q""q"[{"text":"a"},{"text":"b,["}]`, strings.Repeat(`{"model":"m","query":"q","documents":,"instruction":"i"}`, 2) + `[{"text":"a"},{"text":"b,["}]`},
		{"an escaped key", `{"model":"m","qu\u0065ry":"q","\u0074exts":["a","b"]}`, 2, `"q""q"["a","b"]`, strings.Repeat(`{"model":"m","qu\u0065ry":"q","\u0074exts":}`, 2) + `["a","b"]`},
		{"the first with the first", `{"model":"m","text_1":["a","b"],"text_2":["c","d"]}`, 2, `["a","b"]["c","d"]`, strings.Repeat(`{"model":"m","text_1":,"text_2":}`, 2) + `["a","b"]["c","d"]`},
		{"one with each of a list", `{"model":"m","data_1":["a"],"data_2":["c","d"]}`, 2, `["a"]["a"]["c","d"]`, strings.Repeat(`{"model":"m","data_1":["a"],"data_2":}`, 2) + `["c","d"]`},
		{"each with each", `{"model":"m","queries":["a","b"],"items":["c","d","e"]}`, 6, strings.Repeat(`["a","b"]["c","d","e"]`, 6), strings.Repeat(`{"model":"m","queries":["a","b"],"items":["c","d","e"]}`, 6)},
		{"tokens are one text", `{"model":"m","query":[1,22, 333],"items":[[4,5],[66]]}`, 2, `[1,22, 333][1,22, 333][[4,5],[66]]`, strings.Repeat(`{"model":"m","query":[1,22, 333],"items":}`, 2) + `[[4,5],[66]]`},
		{"numbers among texts", `{"model":"m","query":"q","items":[1,"a",-2.5,"b",[3]]}`, 3, `"q""q""q"[1,"a",-2.5,"b",[3]]`, strings.Repeat(`{"model":"m","query":"q","items":}`, 3) + `[1,"a",-2.5,"b",[3]]`},
		{"parts of content", `{"model":"m","text_1":"q","text_2":{"role":"x","content":[{"type":"text"},{"type":"image_url"}]}}`, 2,
			`"q""q"{"role":"x","content":[{"type":"text"},{"type":"image_url"}]}`, strings.Repeat(`{"model":"m","text_1":"q","text_2":}`, 2) + `{"role":"x","content":[{"type":"text"},{"type":"image_url"}]}`},
		{"parts of content with as many documents", `{"model":"m","query":{"content":[{"text":"a"},{"text":"b"}]},"documents":["c","d"]}`, 2,
			strings.Repeat(`{"content":[{"text":"a"},{"text":"b"}]}`, 2) + `["c","d"]`,
			strings.Repeat(`{"model":"m","query":{"content":[{"text":"a"},{"text":"b"}]},"documents":}`, 2) + `["c","d"]`},
		{"as many documents as parts of content", `{"model":"m","documents":["c","d"],"query":{"content":[{"text":"a"},{"text":"b"}]}}`, 2,
			strings.Repeat(`{"content":[{"text":"a"},{"text":"b"}]}`, 2) + `["c","d"]`,
			strings.Repeat(`{"model":"m","documents":,"query":{"content":[{"text":"a"},{"text":"b"}]}}`, 2) + `["c","d"]`},
		{"the same member twice", `{"model":"m","query":"q","documents":["a","b"],"documents":["c"]}`, 2, `"q""q"["a","b"]["c"]["c"]`, strings.Repeat(`{"model":"m","query":"q","documents":,"documents":["c"]}`, 2) + `["a","b"]`},
	}
	var p openai.Peek // used again, and remembers nothing
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if err := openai.PeekBody([]byte(tt.body), &p); err != nil {
				t.Fatal(err)
			}
			if got := p.Pairs(); got != tt.pairs {
				t.Errorf("%d pairs, want %d", got, tt.pairs)
			}
			if got, want := p.PairBytes(), int64(len(tt.bytes)); got != want {
				t.Errorf("%d bytes of text, want %d", got, want)
			}
			if got, want := p.MostPairBytes(int64(len(tt.body))), int64(len(tt.most)); got != want {
				t.Errorf("at most %d bytes, want %d", got, want)
			}
		})
	}
}

// Lists of so many lengths that each with each is beyond counting are as many as
// can be counted.
func TestPairsSaturate(t *testing.T) {
	var body strings.Builder
	body.WriteString(`{"model":"m"`)
	for range 16 {
		for _, n := range []int{7, 11} {
			body.WriteString(`,"documents":[""` + strings.Repeat(`,""`, n) + `]`)
		}
	}
	var p openai.Peek
	if err := openai.PeekBody([]byte(body.String()+"}"), &p); err != nil {
		t.Fatal(err)
	}
	if p.Pairs() < 1<<40 || p.PairBytes() != math.MaxInt64 || p.MostPairBytes(1<<40) != math.MaxInt64 {
		t.Errorf("%d pairs, %d bytes, at most %d", p.Pairs(), p.PairBytes(), p.MostPairBytes(1<<40))
	}
}

func TestPairsAllocs(t *testing.T) {
	body := []byte(`{"model":"m","query":"q","documents":["a","b",{"text":"c"}],"text_2":{"content":["x","y","z"]}}`)
	var p openai.Peek
	if n := testing.AllocsPerRun(100, func() { _ = openai.PeekBody(body, &p) }); n != 0 || p.Pairs() != 3 {
		t.Errorf("%v allocations, want 0; %d pairs", n, p.Pairs())
	}
}

// A list of texts is counted and refused as encoding/json has it, whatever is in it.
func TestPairsAsJSONHasThem(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		space := rapid.SampledFrom([]string{"", "", " ", "\n\t"})
		value := rapid.SampledFrom([]string{`""`, `"a\"],b"`, `{}`, `{"a":[1,2]}`, `[]`, `[[1],["x"]]`, `1`, `-2e3`, `true`, `null`, `12345678,9`})
		list := "["
		for i := range rapid.IntRange(0, 12).Draw(t, "n") {
			if i > 0 {
				list += ","
			}
			list += space.Draw(t, "before") + value.Draw(t, "value") + space.Draw(t, "after")
		}
		list += "]"
		if at := rapid.IntRange(0, 4*len(list)).Draw(t, "fault"); at < len(list) {
			list = list[:at] + rapid.SampledFrom([]string{"", ",", "]", "}", ":", "x", `"`}).Draw(t, "put") + list[at+1:]
		}
		body := `{"model":"m","documents":` + list + `}`
		var p openai.Peek
		err := openai.PeekBody([]byte(body), &p)
		if valid := json.Valid([]byte(body)); valid != (err == nil) {
			t.Fatalf("%s: %v, valid %v", body, err, valid)
		}
		if err != nil {
			if fault, ok := errors.AsType[*openai.PeekError](err); !ok || fault.Kind == nil {
				t.Fatalf("%s: %v", body, err)
			}
			return
		}
		var is struct{ Documents any }
		if err := json.Unmarshal([]byte(body), &is); err != nil {
			t.Fatal(err)
		}
		want := int64(0)
		if entries, ok := is.Documents.([]any); ok {
			for _, e := range entries {
				switch e.(type) {
				case string, map[string]any, []any:
					want++
				}
			}
		}
		if got := p.Pairs(); got != max(want, 1) {
			t.Fatalf("%s: %d pairs, want %d", body, got, want)
		}
	})
}
