package openai_test

import (
	"bytes"
	"errors"
	"io"
	"mime/multipart"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/llmgw/llmgw/router/openai"
)

// form builds a body from parts, each a header without Content-Disposition's
// first words, a blank line and a value.
func form(boundary string, parts ...string) string {
	var b strings.Builder
	for _, p := range parts {
		b.WriteString("--" + boundary + "\r\nContent-Disposition: form-data; " + p + "\r\n")
	}
	return b.String() + "--" + boundary + "--\r\n"
}

func field(name, value string) string { return `name="` + name + "\"\r\n\r\n" + value }

func file(name, filename, value string) string {
	return `name="` + name + `"; filename="` + filename + "\"\r\nContent-Type: audio/wav\r\n\r\n" + value
}

const formType = "multipart/form-data; boundary=bnd"

// readForm gives a Form the body in pieces of n bytes; 0: whole.
func readForm(contentType, body string, n int) (*openai.Form, error) {
	f, err := openai.NewForm(contentType)
	if err != nil {
		return nil, err
	}
	if n == 0 {
		n = len(body) + 1
	}
	for b := []byte(body); len(b) > 0; {
		piece := b[:min(n, len(b))]
		b = b[len(piece):]
		if _, err := f.Write(piece); err != nil {
			return nil, err
		}
	}
	return f, f.Close()
}

func TestForm(t *testing.T) {
	sound := "RIFF\x00\x01\xff\r\n--bn\r\n--\r\n\r\n" + strings.Repeat("\x00\r\n-", 20_000)
	type want struct {
		model, user string
		stream      bool
		prompt      int
	}
	tests := []struct {
		name, contentType, body string
		want                    want
	}{
		{"model first", formType, form("bnd", field("model", "whisper-1"), file("file", "a.wav", sound)), want{model: "whisper-1"}},
		{"model last", formType, form("bnd", file("file", "a.wav", sound), field("model", "whisper-1")), want{model: "whisper-1"}},
		{"all fields", formType, form("bnd", field("stream", "True"), field("prompt", "four"), field("user", "u"), file("file", "", ""), field("model", "org/m")),
			want{model: "org/m", stream: true, user: "u", prompt: 4}},
		{"the last stream holds", formType, form("bnd", field("stream", "true"), field("stream", "false"), field("model", "m")), want{model: "m"}},
		{"files are no fields", formType, form("bnd", file("stream", "x", "true"), file("user", "x", "u"), file("prompt", "x", "p"), field("model", "m")), want{model: "m"}},
		{"unquoted, as .NET has it", `multipart/form-data; boundary="bnd"`, form("bnd", "name=model\r\nContent-Type: text/plain; charset=utf-8\r\n\r\nm", "name=file; filename=a.wav; filename*=utf-8''a.wav\r\n\r\nx"), want{model: "m"}},
		{"a length, as okhttp has it", formType, "--bnd\r\nContent-Disposition: form-data; name=\"model\"\r\nContent-Length: 1\r\nContent-Transfer-Encoding: binary\r\n\r\nm\r\n--bnd--\r\n", want{model: "m"}},
		{"without the last line end", formType, strings.TrimSuffix(form("bnd", field("model", "m")), "\r\n"), want{model: "m"}},
		{"a path of Windows", formType, form("bnd", file("file", `C:\x\a.wav`, "x"), field("model", "m")), want{model: "m"}},
		{"a quote in a file name, as old curl has it", formType, form("bnd", file("file", `a\"b\".wav`, "x"), field("model", "m")), want{model: "m"}},
		{"a file name that begins with a quote", formType, form("bnd", file("file", `\"`, "x"), field("model", "m")), want{model: "m"}},
		{"a file name in Latin-1", formType, form("bnd", file("file", "Stra\xdfe\x85.wav", "x"), field("model", "m")), want{model: "m"}},
		{"a long user is left out", formType, form("bnd", field("user", strings.Repeat("u", 1025)), field("model", "m")), want{model: "m"}},
		{"in capitals", "Multipart/Form-Data; Boundary=bnd; charset=UTF-8", form("bnd", field("model", "m")), want{model: "m"}},
		{"a boundary of dashes", "multipart/form-data; boundary=----", form("----", field("model", "m"), file("file", "a", "\r\n-----")), want{model: "m"}},
		{"the longest boundary", "multipart/form-data; boundary=" + strings.Repeat("b", 70), form(strings.Repeat("b", 70), field("model", "m")), want{model: "m"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, n := range []int{0, 1, 7, 4096} {
				f, err := readForm(tt.contentType, tt.body, n)
				if err != nil {
					t.Fatalf("in pieces of %d: %v", n, err)
				}
				if got := (want{f.Model, f.User, f.Stream, f.PromptBytes}); got != tt.want {
					t.Errorf("in pieces of %d: got %+v; want %+v", n, got, tt.want)
				}
				if at := tt.body[f.ModelSpan.Start:f.ModelSpan.End]; at != tt.want.model {
					t.Errorf("in pieces of %d: the model stands at %q", n, at)
				}
			}
		})
	}
}

func TestFormRefuses(t *testing.T) {
	model := field("model", "m")
	many := make([]string, openai.MaxFormParts+1)
	for i := range many {
		many[i] = field("x", "")
	}
	tests := []struct {
		name, contentType, body string
		want                    error
	}{
		{"JSON", "application/json", "{}", openai.ErrNotForm},
		{"another multipart", "multipart/mixed; boundary=bnd", "", openai.ErrNotForm},
		{"no boundary", "multipart/form-data", "", openai.ErrNoBoundary},
		{"empty boundary", `multipart/form-data; boundary=""`, "", openai.ErrNoBoundary},
		{"two boundaries", "multipart/form-data; boundary=a; boundary=b", "", openai.ErrNoBoundary},
		{"boundary in pieces", "multipart/form-data; boundary*0=b; boundary*1=nd", "", openai.ErrNoBoundary},
		{"boundary with an escape", `multipart/form-data; boundary="b\nd"`, "", openai.ErrNoBoundary},
		{"long boundary", "multipart/form-data; boundary=" + strings.Repeat("b", 71), "", openai.ErrNoBoundary},
		{"another charset", "multipart/form-data; boundary=bnd; charset=utf-16", "", openai.ErrNoBoundary},

		{"empty", formType, "", openai.ErrTruncated},
		{"preamble", formType, "\r\n" + form("bnd", model), openai.ErrMalformedForm},
		{"epilogue", formType, form("bnd", model) + "x", openai.ErrMalformedForm},
		{"half an epilogue", formType, strings.TrimSuffix(form("bnd", model), "\n"), openai.ErrMalformedForm},
		{"another boundary", formType, form("other", model), openai.ErrMalformedForm},
		{"no part", formType, form("bnd"), openai.ErrNoModel},
		{"cut in a value", formType, form("bnd", model)[:58], openai.ErrTruncated},
		{"cut in the last boundary", formType, strings.TrimSuffix(form("bnd", model), "-\r\n"), openai.ErrTruncated},
		{"cut in a header", formType, "--bnd\r\nContent-Dis", openai.ErrTruncated},
		{"bare line ends", formType, strings.ReplaceAll(form("bnd", model), "\r\n", "\n"), openai.ErrMalformedForm},
		{"space after the boundary", formType, "--bnd \r\n" + form("bnd", model)[7:], openai.ErrMalformedForm},
		{"boundary within a value", formType, form("bnd", field("x", "a--bnd"), model), openai.ErrMalformedForm},
		{"boundary after a bare line end", formType, form("bnd", field("x", "a\n--bnd\r\n"), model), openai.ErrMalformedForm},
		{"longer line that begins with the boundary", formType, form("bnd", field("x", "\r\n--bndx"), model), openai.ErrMalformedForm},
		{"value without its line end", formType, "--bnd\r\nContent-Disposition: form-data; name=\"x\"\r\n\r\n" + form("bnd", model), openai.ErrMalformedForm},

		{"no header", formType, "--bnd\r\n\r\nx\r\n" + form("bnd", model), openai.ErrMalformedForm},
		{"no disposition", formType, "--bnd\r\nX: y\r\n\r\nx\r\n" + form("bnd", model), openai.ErrMalformedForm},
		{"no form-data", formType, "--bnd\r\nContent-Disposition: attachment; name=\"model\"\r\n\r\nm\r\n" + form("bnd", model), openai.ErrMalformedForm},
		{"two dispositions", formType, form("bnd", "name=\"x\"\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nm"), openai.ErrMalformedForm},
		{"folded header", formType, form("bnd", "\r\n name=\"model\"\r\n\r\nm"), openai.ErrMalformedForm},
		{"bare line end in a header", formType, form("bnd", "name=\"x\"\nContent-Type: x/y\r\n\r\nm", model), openai.ErrMalformedForm},
		{"no name", formType, form("bnd", "filename=\"x\"\r\n\r\nm", model), openai.ErrMalformedForm},
		{"two names", formType, form("bnd", "name=\"x\"; name=\"model\"\r\n\r\nm"), openai.ErrMalformedForm},
		{"extended name", formType, form("bnd", "name=\"x\"; name*=utf-8''model\r\n\r\nm"), openai.ErrMalformedForm},
		{"escaped quote in a file name", formType, form("bnd", `name="x"; filename="\"; name=\"model"`+"\r\n\r\nm", model), openai.ErrMalformedForm},
		{"escaped quote before another parameter", formType, form("bnd", `name="x"; filename="a\"b"; y="z"`+"\r\n\r\nm", model), openai.ErrMalformedForm},
		{"escaped quote before the name", formType, form("bnd", `filename="a\"b"; name="x"`+"\r\n\r\nm", model), openai.ErrMalformedForm},
		{"escaped quote and a semicolon", formType, form("bnd", file("x", `a\"; name`, "m"), model), openai.ErrMalformedForm},
		{"escaped quote and an equals sign", formType, form("bnd", file("x", `name=\"model`, "m"), model), openai.ErrMalformedForm},
		{"escaped backslash before a quote", formType, form("bnd", file("x", `a\\"b`, "m"), model), openai.ErrMalformedForm},
		{"backslash before the last quote", formType, form("bnd", file("x", `a\"b\`, "m"), model), openai.ErrMalformedForm},
		{"escaped quote in a name", formType, form("bnd", `name="x\"y"`+"\r\n\r\nm", model), openai.ErrMalformedForm},
		{"name in Latin-1", formType, form("bnd", field("stra\xdfe", "m"), model), openai.ErrMalformedForm},
		{"content type in Latin-1", formType, form("bnd", "name=\"x\"\r\nContent-Type: stra\xdfe/x\r\n\r\nm", model), openai.ErrMalformedForm},
		{"boundary in a header", formType, form("bnd", "name=\"x\"\r\n--bnd: y\r\n\r\nm", model), openai.ErrMalformedForm},
		{"boundary in a file name", formType, form("bnd", file("x", "a--bnd", "m"), model), openai.ErrMalformedForm},
		{"escape in a name", formType, form("bnd", field(`mo\del`, "m")), openai.ErrMalformedForm},
		{"space before the equals sign", formType, form("bnd", "name =\"model\"\r\n\r\nm"), openai.ErrMalformedForm},
		{"encoded value", formType, form("bnd", "name=\"model\"\r\nContent-Transfer-Encoding: base64\r\n\r\nbQ=="), openai.ErrMalformedForm},
		{"a header without end", formType, "--bnd\r\nContent-Disposition: form-data; name=\"x" + strings.Repeat("x", 9000), openai.ErrFormLimit},
		{"too many parts", formType, form("bnd", many...), openai.ErrFormLimit},

		{"no model", formType, form("bnd", field("x", "y")), openai.ErrNoModel},
		{"empty model", formType, form("bnd", field("model", "")), openai.ErrNoModel},
		{"model in capitals only", formType, form("bnd", field("Model", "m")), openai.ErrNoModel},
		{"two models", formType, form("bnd", model, field("model", "n")), openai.ErrDuplicateModel},
		{"two models, one in capitals", formType, form("bnd", model, field("MODEL", "n")), openai.ErrDuplicateModel},
		{"two models, one a list", formType, form("bnd", field("model[]", "n"), model), openai.ErrDuplicateModel},
		{"two models, one a file", formType, form("bnd", model, file("model", "m", "n")), openai.ErrDuplicateModel},
		{"model is a file", formType, form("bnd", file("model", "m", "n")), openai.ErrModelNotString},
		{"model in UTF-16", formType, form("bnd", "name=\"model\"\r\nContent-Type: text/plain; charset=utf-16\r\n\r\nm"), openai.ErrModelNotString},
		{"model in JSON", formType, form("bnd", "name=\"model\"\r\nContent-Type: application/json\r\n\r\n\"m\""), openai.ErrModelNotString},
		{"model with a line end", formType, form("bnd", field("model", "m\r\n")), openai.ErrModelNotString},
		{"model is no UTF-8", formType, form("bnd", field("model", "\xff")), openai.ErrModelNotString},
		{"long model", formType, form("bnd", field("model", strings.Repeat("m", 1025))), openai.ErrFormLimit},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, n := range []int{0, 1, 5} {
				_, err := readForm(tt.contentType, tt.body, n)
				if !errors.Is(err, tt.want) {
					t.Fatalf("in pieces of %d: %v; want %v", n, err, tt.want)
				}
				e := openai.FormFailed(err)
				if wantStatus := map[bool]int{true: 415, false: 400}[tt.want == openai.ErrNotForm]; e.Status != wantStatus || e.Code == "" || e.Message == "" || !e.NoRetry {
					t.Errorf("answered %+v", e)
				}
			}
		})
	}
}

// A Form keeps its first error.
func TestFormStaysRefused(t *testing.T) {
	f, err := openai.NewForm(formType)
	if err != nil {
		t.Fatal(err)
	}
	_, first := f.Write([]byte("x"))
	_, second := f.Write([]byte(form("bnd", field("model", "m"))))
	if first == nil || !errors.Is(second, openai.ErrMalformedForm) || !errors.Is(f.Close(), openai.ErrMalformedForm) {
		t.Errorf("got %v, %v, %v", first, second, f.Close())
	}
}

// What package mime/multipart writes is read.
func TestFormOfMultipartWriter(t *testing.T) {
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	fw, err := w.CreateFormFile("file", "Straße 7.wav")
	if err != nil {
		t.Fatal(err)
	}
	_, _ = fw.Write(bytes.Repeat([]byte{0, '\r', '\n', '-', '-'}, 50_000))
	if err := errors.Join(w.WriteField("language", "de"), w.WriteField("model", "m"), w.Close()); err != nil {
		t.Fatal(err)
	}
	f, err := readForm(w.FormDataContentType(), b.String(), 0)
	if err != nil || f.Model != "m" || f.Parts != 3 {
		t.Errorf("got %+v, %v", f, err)
	}
}

// FuzzForm compares what a Form accepts with what package mime/multipart reads.
func FuzzForm(f *testing.F) {
	f.Add("bnd", form("bnd", field("model", "m"), file("file", "a.wav", "x\r\n--bn")), 3)
	f.Add("----", form("----", field("model", "m"), file("file", "a", "\r\n-----")), 1)
	f.Add("b", form("b", file("x", `a\b`, "--"), "name=model\r\n\r\nm"), 0)
	f.Add("b", form("b", file("x", `a\"b`, "--"), file("y", "stra\xdfe", ""), field("model", "m")), 4)
	f.Add("b", form("b", "name=\"x\"; filename*=utf-8''%e4\r\n\r\n", field("model", "m")), 0)
	f.Add("b", "--b\r\nContent-Disposition: form-data; name=model\r\nContent-Transfer-Encoding: 8bit\r\n\r\nm\r\n--b--", 2)
	f.Add("b", "--b\r\nContent-Disposition: form-data; name=\"model\"; x=\"\"\r\n\r\nm\r\n--b--\r\n", 2)
	f.Add("=?", form("=?", field("model[]", "m")), 9)
	f.Fuzz(func(t *testing.T, boundary, body string, n int) {
		if strings.ContainsAny(boundary, "\"\\") {
			return
		}
		contentType := `multipart/form-data; boundary="` + boundary + `"`
		got, err := readForm(contentType, body, max(n, 0)%64)
		if whole, werr := readForm(contentType, body, 0); (err == nil) != (werr == nil) {
			t.Fatalf("in pieces %v, whole %v", err, werr)
		} else if err == nil && (got.Model != whole.Model || got.ModelSpan != whole.ModelSpan || got.Parts != whole.Parts) {
			t.Fatalf("in pieces %+v, whole %+v", got, whole)
		}
		if err != nil {
			return
		}
		req := http.Request{Method: "POST", Header: http.Header{"Content-Type": {contentType}}, Body: io.NopCloser(iotest.HalfReader(strings.NewReader(body)))}
		r, err := req.MultipartReader()
		if err != nil {
			t.Fatalf("accepted, but net/http says %v", err)
		}
		var models, users []string
		var stream string
		parts, prompt := 0, 0
		for ; ; parts++ {
			p, err := r.NextPart()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("accepted, but mime/multipart says %v", err)
			}
			b, err := io.ReadAll(p)
			if err != nil {
				t.Fatalf("accepted, but mime/multipart says %v", err)
			}
			switch name := p.FormName(); {
			case name == "":
				t.Fatal("a part without a name was accepted")
			case strings.EqualFold(name, "model"):
				if p.FileName() != "" || name != "model" {
					t.Fatalf("model %q, file name %q", name, p.FileName())
				}
				models = append(models, string(b))
			case p.FileName() != "":
			case name == "stream":
				stream = string(b)
			case name == "user":
				users = append(users, string(b))
			case name == "prompt" || name == "input":
				prompt += len(b)
			}
		}
		if parts != got.Parts || len(models) != 1 || models[0] != got.Model || body[got.ModelSpan.Start:got.ModelSpan.End] != got.Model {
			t.Fatalf("mime/multipart has %d parts and the models %q; got %+v", parts, models, got)
		}
		if got.Stream && stream == "" {
			t.Fatalf("stream is %q there; got %+v", stream, got)
		}
		if got.User != "" && (len(users) == 0 || users[len(users)-1] != got.User) {
			t.Fatalf("users are %q there; got %+v", users, got)
		}
		if got.PromptBytes > prompt { // what has an empty file name is no file there
			t.Fatalf("prompts of %d bytes there; got %+v", prompt, got)
		}
	})
}

func BenchmarkForm(b *testing.B) {
	noise := make([]byte, 4<<20)
	for i := range noise {
		noise[i] = byte(i * i >> 7)
	}
	for name, sound := range map[string]string{"noise": string(noise), "silence": strings.Repeat("\x00", 4<<20), "dashes": strings.Repeat("-", 4<<20), "line ends": strings.Repeat("\r\n--", 1<<20)} {
		body := []byte(form("----WebKitFormBoundary7MA4YWxkTrZu0gW", field("model", "m"), file("file", "a", sound)))
		b.Run(name+"/size=4MB", func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			for b.Loop() {
				f, err := openai.NewForm("multipart/form-data; boundary=----WebKitFormBoundary7MA4YWxkTrZu0gW")
				if err == nil {
					_, err = f.Write(body)
				}
				if err == nil {
					err = f.Close()
				}
				if err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
