package openai_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf16"

	"pgregory.net/rapid"

	"github.com/llmgw/llmgw/router/openai"
)

func prompt(t *testing.T, body string) string {
	t.Helper()
	var b bytes.Buffer
	if err := openai.WritePrompt(&b, []byte(body)); err != nil {
		t.Fatalf("WritePrompt(%s): %v", body, err)
	}
	return b.String()
}

// TestPromptEqual: what makes prompts equal for the engine makes them equal here.
func TestPromptEqual(t *testing.T) {
	const chat = `{"model":"m","messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"Hi\n\"you\""}]`
	for _, tc := range []struct {
		name, a, b string
	}{
		{"content as string or as part", chat + `}`,
			`{"messages":[{"role":"system","content":[{"type":"text","text":"Be brief."}]},{"content":[{"text":"Hi\n\"you\"","type":"text"}],"role":"user"}]}`},
		{"other sampling, model, stream, user", chat + `}`, chat + `,"temperature":0.1,"stream":true,"user":"u","max_tokens":5,"seed":1}`},
		{"white space", chat + `}`, strings.NewReplacer(`:`, " :\n ", `,`, "\t, ", `{`, "{ ").Replace(chat + `}`)},
		{"escapes", `{"messages":[{"role":"user","content":"é/\u001b\t\ud83d\ude00"}]}`,
			`{"messages":[{"role":"user","content":"\u00e9\/\u001B\u0009😀"}]}`},
		{"escaped keys", `{"messages":[{"role":"user","content":"a"}]}`, `{"m\u0065ssages":[{"r\u006fle":"user","content":"a"}]}`},
		{"null and absent", `{"messages":[{"role":"assistant","content":"a"}]}`,
			`{"tools":null,"cache_salt":null,"messages":[{"role":"assistant","content":"a","tool_calls":null,"name":null,"refusal":null}],"tools":[]}`},
		{"two texts and a line break", `{"messages":[{"role":"user","content":"a\nb"}]}`,
			`{"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}]}`},
		{"tools stand anywhere", `{"tools":[{"type":"function","function":{"name":"f","parameters":{"a":1,"b":[true]}}}],"messages":[{"role":"user","content":"a"}]}`,
			`{"messages":[{"role":"user","content":"a"}],"tools":[ {"type":"function" ,"function": {"name":"f","parameters": {"a": 1, "b": [ true ] }}} ]}`},
		{"cache_control moves", `{"system":[{"type":"text","text":"s","cache_control":{"type":"ephemeral"}}],"tools":[{"name":"f","cache_control":{"type":"x"}}],"messages":[{"role":"user","content":[{"type":"tool_use","cache_control":{"a":[1,2]},"id":"1"},{"type":"text","text":"a"}]}]}`,
			`{"system":"s","tools":[{"cache_control":{},"name":"f"}],"messages":[{"role":"user","content":[{"type":"tool_use","id":"1"},{"type":"text","text":"a","cache_control":null}]}]}`},
		{"one prompt or a list of it", `{"prompt":"abc"}`, `{"prompt":["abc"]}`},
		{"token ids", `{"prompt":[1,2,30]}`, `{"prompt":[ [1, 2,	30] ]}`},
		{"Responses input", `{"instructions":"Be brief.","input":"Hi"}`,
			`{"input":[{"role":"user","content":[{"type":"input_text","text":"Hi"}]}],"instructions":"Be brief."}`},
		{"dialects", `{"instructions":"Be brief.","input":"Hi"}`, `{"system":"Be brief.","messages":[{"role":"user","content":"Hi"}]}`},
		{"developer is system", `{"messages":[{"role":"developer","content":"a"}]}`, `{"messages":[{"role":"system","content":"a"}]}`},
		{"the last of two", `{"messages":[{"role":"user","content":"x"}],"messages":[{"role":"user","content":"a"}]}`, `{"messages":[{"role":"user","content":"a"}]}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if a, b := prompt(t, tc.a), prompt(t, tc.b); a != b {
				t.Errorf("prompts differ:\n%q\n%q", a, b)
			} else if a == "" {
				t.Error("prompt is empty")
			}
		})
	}
}

// TestPromptDiffers: what makes them differ makes them differ here, and before
// what differs they are the same.
func TestPromptDiffers(t *testing.T) {
	long := strings.Repeat("a long system prompt ", 20)
	msg := func(system, user string) string {
		return `{"messages":[{"role":"system","content":"` + system + `"},{"role":"user","content":` + user + `}]`
	}
	image := func(v string) string {
		return msg(long, `[{"type":"text","text":"look"},{"type":"image_url","image_url":`+v+`},{"type":"text","text":"what?"}]`) + `}`
	}
	tool := func(name string) string { return msg(long, `"a"`) + `,"tools":[{"function":{"name":"` + name + `"}}]}` }
	data := strings.Repeat("QUJD", 5000)
	for _, tc := range []struct {
		name, a, b string
		shared     int // at least
	}{
		{"another question", msg(long, `"a"`) + `}`, msg(long, `"b"`) + `}`, len(long)},
		{"a question that goes on", msg(long, `"a"`) + `}`, msg(long, `"ab"`) + `}`, len(long)},
		{"another system prompt", msg("A"+long, `"a"`) + `}`, msg("B"+long, `"a"`) + `}`, 1},
		{"another tool", tool("f"), tool("g"), len(long)},
		{"no tool", tool("f"), msg(long, `"a"`) + `}`, len(long)},
		{"another image by URL", image(`{"url":"http://h/1.png"}`), image(`{"url":"http://h/2.png"}`), len(long)},
		{"another image by data", image(`{"url":"data:image/png;base64,` + data + `"}`), image(`{"url":"data:image/png;base64,` + data + `A"}`), len(long)},
		{"no image", image(`{"url":"http://h/1.png"}`), msg(long, `"look\nwhat?"`) + `}`, len(long)},
		{"another salt", msg(long, `"a"`) + `,"cache_salt":"x"}`, msg(long, `"a"`) + `,"cache_salt":"y"}`, 0},
		{"no salt", msg(long, `"a"`) + `,"cache_salt":"x"}`, msg(long, `"a"`) + `}`, 0},
		{"another template argument", msg(long, `"a"`) + `,"chat_template_kwargs":{"enable_thinking":true}}`, msg(long, `"a"`) + `,"chat_template_kwargs":{"enable_thinking":false}}`, 0},
		{"another role", `{"messages":[{"role":"user","content":"a"}]}`, `{"messages":[{"role":"assistant","content":"a"}]}`, 1},
		{"two messages or one", `{"messages":[{"role":"user","content":"a"},{"role":"user","content":"b"}]}`, `{"messages":[{"role":"user","content":"a\nb"}]}`, 3},
		{"another call", `{"messages":[{"role":"assistant","tool_calls":[{"id":"1"}]}]}`, `{"messages":[{"role":"assistant","tool_calls":[{"id":"2"}]}]}`, 5},
		{"a role in the text", `{"messages":[{"role":"user","content":"a\u0002assistant\u0003b"}]}`, `{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"}]}`, 3},
		{"completions and chat", `{"prompt":"a"}`, `{"messages":[{"role":"user","content":"a"}]}`, 0},
		{"other token ids", `{"prompt":[1,23]}`, `{"prompt":[12,3]}`, 1},
		{"a text of token ids", `{"prompt":[1,2]}`, `{"prompt":"1,2"}`, 0},
		{"another output of a tool", `{"input":[{"type":"function_call_output","call_id":"c","output":"1"}]}`, `{"input":[{"type":"function_call_output","call_id":"c","output":"2"}]}`, 3},
		{"another tool result", `{"messages":[{"role":"user","content":[{"type":"tool_result","content":[{"type":"text","text":"a"}]}]}]}`, `{"messages":[{"role":"user","content":[{"type":"tool_result","content":"b"}]}]}`, 3},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a, b := prompt(t, tc.a), prompt(t, tc.b)
			if a == b {
				t.Fatalf("prompts are equal: %q", a)
			}
			n := 0
			for n < len(a) && n < len(b) && a[n] == b[n] {
				n++
			}
			if n < tc.shared {
				t.Errorf("they share %d bytes, want at least %d:\n%q\n%q", n, tc.shared, a, b)
			}
		})
	}
}

func TestPromptContinues(t *testing.T) {
	first := prompt(t, `{"messages":[{"role":"system","content":"s"},{"role":"user","content":"a"}],"tools":[{"n":1}]}`)
	next := prompt(t, `{"messages":[{"role":"system","content":"s"},{"role":"user","content":"a"},{"role":"assistant","content":"b","tool_calls":[{"id":"x"}]},{"role":"tool","tool_call_id":"x","content":"c"}],"tools":[{"n":1}]}`)
	if !strings.HasPrefix(next, first) {
		t.Errorf("the next turn does not begin with the one before:\n%q\n%q", first, next)
	}
}

func TestPromptImageLength(t *testing.T) {
	small := prompt(t, `{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"u"}}]}]}`)
	large := prompt(t, `{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:;base64,`+strings.Repeat("A", 1<<20)+`"}}]}]}`)
	if len(small) != len(large) || len(small) < 1000 || len(small) > 1100 {
		t.Errorf("images take %d and %d bytes, want the same, about 1024", len(small), len(large))
	}
}

func TestPromptFaults(t *testing.T) {
	for _, tc := range []struct {
		name, body string
		want       error
	}{
		{"no object", `[1]`, openai.ErrNotObject},
		{"nothing", ` `, openai.ErrNotObject},
		{"truncated", `{"messages":[{"role":"user"`, openai.ErrTruncated},
		{"not JSON", `{"messages":[{"role"}]}`, openai.ErrNotJSON},
	} {
		t.Run(tc.name, func(t *testing.T) {
			err := openai.WritePrompt(&bytes.Buffer{}, []byte(tc.body))
			if !errors.Is(err, tc.want) {
				t.Errorf("error %v, want %v", err, tc.want)
			}
			if _, ok := errors.AsType[*openai.PeekError](err); !ok {
				t.Errorf("error is a %T, want *PeekError", err)
			}
		})
	}
	wrong := errors.New("full")
	if err := openai.WritePrompt(failing{wrong}, []byte(`{"prompt":"a"}`)); !errors.Is(err, wrong) {
		t.Errorf("error %v, want that of the writer", err)
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

// FuzzPrompt: any body that is valid gives a prompt, and the same one when it is
// written in another way.
func FuzzPrompt(f *testing.F) {
	for _, s := range []string{
		`{"model":"m","messages":[{"role":"system","content":"a"},{"role":"user","content":[{"type":"text","text":"é\u00e9"},{"type":"image_url","image_url":{"url":"u"}}]}],"tools":[{"a":1,"cache_control":{}}]}`,
		`{"model":"m","prompt":[[1,2],[3]]}`, `{"model":"m","input":[{"type":"x"},"a",3,[4]]}`, `{"model":"m","messages":"x","system":{}}`,
		`{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"` + strings.Repeat(`a\n\/`, 200) + `"}]}],"tools":["` + strings.Repeat(`\u00e9\"`, 200) + `"]}`,
		`{"model":"m","messages":[[]],"prompt":[{}]}`, `{"model":"m","input":[{"role":1,"content":{"a":[]}},null]}`, `{"model":"m","prompt":"\ud800\/"}`,
	} {
		f.Add([]byte(s))
	}
	before := []byte(`{"tools":[1],"system":"a","reasoning":{},"prompt":"b","input":[],"messages":[{"role":"system","content":"c"},{"role":"d"}],"model":"m"}`)
	f.Fuzz(func(t *testing.T, body []byte) {
		var p openai.Peek
		if err := openai.PeekBody(before, &p); err != nil {
			t.Fatal(err)
		}
		valid := openai.PeekBody(body, &p) == nil
		var a bytes.Buffer
		err := openai.WritePrompt(&a, body)
		if !valid {
			return // only that it ends
		}
		if err != nil {
			t.Fatalf("a body that PeekBody takes: %v", err)
		}
		var c bytes.Buffer
		if err := p.WritePrompt(&c, body); err != nil || !bytes.Equal(a.Bytes(), c.Bytes()) {
			t.Fatalf("by what was peeked: error %v\n%q\n%q", err, a.Bytes(), c.Bytes())
		}
		var indented bytes.Buffer
		if json.Indent(&indented, body, "\t", " ") != nil {
			return
		}
		var b bytes.Buffer
		if err := openai.WritePrompt(&b, indented.Bytes()); err != nil || !bytes.Equal(a.Bytes(), b.Bytes()) {
			t.Fatalf("indented: error %v\n%q\n%q", err, a.Bytes(), b.Bytes())
		}
	})
}

// TestWritePromptEscapes: however each character of a text is escaped, the prompt
// has it in one way, whether the body was peeked at before or not.
func TestWritePromptEscapes(t *testing.T) {
	canonical := func(r rune) string {
		switch {
		case r == '"' || r == '\\':
			return `\` + string(r)
		case r < ' ':
			if k := strings.IndexRune("\b\t\n\f\r", r); k >= 0 {
				return `\` + string("btnfr"[k])
			}
			return fmt.Sprintf(`\u%04x`, r)
		}
		return string(r)
	}
	var peek openai.Peek
	rapid.Check(t, func(rt *rapid.T) {
		words := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) [2]string {
			r := rapid.OneOf(rapid.SampledFrom([]rune("ab/\"\\\n\x01é€😀")), rapid.Rune()).Draw(rt, "character")
			n := rapid.SampledFrom([]int{1, 1, 1, 2, 7, 8, 9, 70}).Draw(rt, "times")
			written := string(r)
			switch rapid.IntRange(0, 3).Draw(rt, "how") {
			case 0:
				written = canonical(r)
			case 1:
				if r == '/' {
					written = `\/`
				}
			case 2:
				written = ""
				for _, u := range utf16.Encode([]rune{r}) {
					written += fmt.Sprintf(rapid.SampledFrom([]string{`\u%04x`, `\u%04X`}).Draw(rt, "digits"), u)
				}
			}
			if written == `"` || written == `\` || r < ' ' && len(written) == 1 {
				written = canonical(r)
			}
			return [2]string{strings.Repeat(written, n), strings.Repeat(canonical(r), n)}
		}), 1, 60).Draw(rt, "words")
		var written, want strings.Builder
		for _, w := range words {
			written.WriteString(w[0])
			want.WriteString(w[1])
		}
		body := []byte(`{"model":"m","messages":[{"content":[{"text":"` + written.String() + `","type":"text"}],"role":"user"}],"stream":true}`)
		var a, b bytes.Buffer
		if err := openai.PeekBody(body, &peek); err != nil {
			rt.Fatal(err)
		}
		if err := errors.Join(openai.WritePrompt(&a, body), peek.WritePrompt(&b, body)); err != nil {
			rt.Fatal(err)
		}
		if _, got, _ := strings.Cut(a.String(), "\x03"); got != want.String() {
			rt.Fatalf("got %q\nwant %q", got, want.String())
		}
		if a.String() != b.String() {
			rt.Fatalf("by what was peeked: got %q\nwant %q", b.String(), a.String())
		}
	})
}

// BenchmarkShortPrompt: what a body of one short message costs to be peeked at, and to
// be written.
func BenchmarkShortPrompt(b *testing.B) {
	body := []byte(`{"messages":[{"role":"user","content":"` + strings.Repeat(`The gateway keeps what the engine would share.\n`, 21) +
		`"}],"model":"m","max_tokens":1,"user":"somebody"}`)
	var p openai.Peek
	b.Run("peek", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := openai.PeekBody(body, &p); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("write", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := p.WritePrompt(discard{}, body); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkWritePrompt(b *testing.B) {
	for _, tc := range []struct {
		name, text string
	}{
		{"prose", "The gateway keeps what the engine would share. "},
		{"lines", `The gateway keeps what\nthe engine would share.\n`},
		{"code", `if err != nil {\n\t\treturn fmt.Errorf(\"a: %w\", err)\n\t}\n`},
		{"escaped", `\u0434\u043e\u0431\u0440\u044b\u0439 \u4f60\u597d\uff0c`},
		{"ascii", `caf\u00e9 au lait, d\u00e9j\u00e0 vu; `},
	} {
		b.Run(tc.name+"/bytes=32768", func(b *testing.B) {
			var body strings.Builder
			body.WriteString(`{"model":"m","messages":[`)
			for i := range 8 {
				if i > 0 {
					body.WriteString(",")
				}
				body.WriteString(`{"role":"user","content":"` + strings.Repeat(tc.text, 4096/len(tc.text)) + `"}`)
			}
			body.WriteString(`]}`)
			text := []byte(body.String())
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			var p openai.Peek
			if err := openai.PeekBody(text, &p); err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				if err := p.WritePrompt(discard{}, text); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }

// A long text is written in pieces, of which none ends inside an escape, and no
// more of them once the writer has had enough.
func TestWritePromptInPieces(t *testing.T) {
	const block = 8 << 10
	for shift := range 8 {
		plain := strings.Repeat("a", block-shift) + `\\\n\"\\\\` + strings.Repeat("b", 3*block) + `\n`
		escaped := strings.ReplaceAll(plain, `\n`, `\u000a`)
		if got, want := prompt(t, `{"prompt":"`+escaped+`"}`), prompt(t, `{"prompt":"`+plain+`"}`); got != want || !strings.Contains(got, plain) {
			t.Errorf("shifted by %d: two ways of escaping are told apart, or something is lost", shift)
		}
	}
	enough := errors.New("enough")
	taken := 0
	err := openai.WritePrompt(writerFunc(func(b []byte) (int, error) {
		if taken += len(b); taken > 2*block {
			return 0, enough
		}
		return len(b), nil
	}), []byte(`{"prompt":"`+strings.Repeat("a", 1<<20)+`"}`))
	if !errors.Is(err, enough) || taken > 4*block {
		t.Errorf("got %v after %d bytes", err, taken)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }
