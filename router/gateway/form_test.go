package gateway_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/llmgw/llmgw/router"
	"github.com/llmgw/llmgw/router/gateway"
)

const (
	transcriptions = "/v1/audio/transcriptions"
	formType       = "multipart/form-data; boundary=bnd"
	transcript     = `{"text":"hi","usage":{"type":"tokens","input_tokens":14,"output_tokens":3,"total_tokens":17}}`
)

// formOf is a form of parts, each a name and a value; the part "file" is one.
func formOf(parts ...string) string {
	var b strings.Builder
	for i := 0; i < len(parts); i += 2 {
		b.WriteString("--bnd\r\nContent-Disposition: form-data; name=\"" + parts[i] + `"`)
		if parts[i] == "file" {
			b.WriteString("; filename=\"a.wav\"\r\nContent-Type: audio/wav")
		}
		b.WriteString("\r\n\r\n" + parts[i+1] + "\r\n")
	}
	return b.String() + "--bnd--\r\n"
}

// sound is n bytes that a scanner could stumble over.
func sound(n int) string { return strings.Repeat("\x00\xff\r\n--bn\r\n\r\n-", n/13+1)[:n] }

func (f *fleet) form(path, body string, header ...string) answer {
	f.t.Helper()
	return f.do("POST", path, body, append([]string{"Content-Type", formType}, header...)...)
}

// A form arrives as it was sent but for the model's name, whatever its size and
// wherever the model stands; what is too long for memory is in a file without a
// name meanwhile.
func TestForms(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, path := range []string{transcriptions, "/v1/audio/translations", "/v1/images/edits", "/v1/images/variations", "/audio/transcriptions"} {
		for _, size := range []int{0, 100, 1<<20 - 600, 3 << 20} {
			for _, renamed := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%d/renamed=%v", path, size, renamed), func(t *testing.T) {
					arrived, answer := make(chan *exchange, 1), make(chan struct{})
					e := newRaw(t, func(x *exchange) { arrived <- x; <-answer; x.write(document(200, transcript)) })
					at := at("a", e.url)
					want := "m"
					if renamed {
						want = "org/a-longer-name"
						at.Models[0].Upstream = want
					}
					cfg := config(at)
					cfg.Router.Core.SpoolDir = dir
					f := newFleet(t, cfg)
					parts := []string{"prompt", "four", "file", sound(size), "model", "m", "language", "de"}
					var wg sync.WaitGroup
					wg.Go(func() {
						if got := f.form(path, formOf(parts...)); got.status != 200 || got.body != transcript {
							t.Errorf("got %d %s, %v", got.status, got.body, got.err)
						}
					})
					x := <-arrived
					if spooled := f.metric("llmgw_router_spool_bytes"); (spooled > 0) != (size > 1<<20) {
						t.Errorf("%v bytes are in files", spooled)
					}
					if names, err := os.ReadDir(dir); err != nil || len(names) > 0 {
						t.Errorf("the directory holds %v, %v", names, err)
					}
					close(answer)
					wg.Wait()
					parts[5] = want
					if !bytes.Equal(x.body, []byte(formOf(parts...))) || x.req.Header.Get("Content-Type") != formType {
						t.Errorf("it arrived as %d bytes of %q", len(x.body), x.req.Header.Get("Content-Type"))
					}
					o := f.next()
					if n, _ := o.Usage.CompletionTokens.Get(); o.Result != router.ResultOK || o.Model != "m" || n != 3 || o.PromptBytes != 4 {
						t.Errorf("recorded %+v", o)
					}
					f.idle()
				})
			}
		}
	}
}

// Another engine gets the whole of it again, under its own name for the model.
func TestFormRetried(t *testing.T) {
	for name, size := range map[string]int{"in memory": 1000, "in a file": 2 << 20} {
		t.Run(name, func(t *testing.T) {
			bad := newRaw(t, func(x *exchange) { _ = x.Close() })
			busy := newRaw(t, func(x *exchange) { x.write(document(503, `{}`, "Retry-After: 1")) })
			var arrived []byte
			good := newRaw(t, func(x *exchange) { arrived = x.body; x.write(document(200, transcript)) })
			a, b, c := at("bad", bad.url), at("busy", busy.url), at("good", good.url)
			a.Weight, b.Weight = 10_000, 100
			a.Models[0].Upstream, c.Models[0].Upstream = "x", "whisper"
			f := newFleet(t, config(a, b, c))
			if got := f.form(transcriptions, formOf("file", sound(size), "model", "m")); got.status != 200 || got.body != transcript {
				t.Fatalf("got %d %s", got.status, got.body)
			}
			if string(arrived) != formOf("file", sound(size), "model", "whisper") {
				t.Errorf("it arrived as %d bytes", len(arrived))
			}
			if o := f.next(); o.Attempts != 3 || o.Endpoint != "good" {
				t.Errorf("%d attempts, at last on %q", o.Attempts, o.Endpoint)
			}
			f.idle()
		})
	}
}

// Behind TLS a form may still be read when its answer has come.
func TestFormsBehindTLS(t *testing.T) {
	t.Parallel()
	early, ca1 := newTLS(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) })
	whole, ca2 := newTLS(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		_, _ = io.WriteString(w, "got ")
		_ = http.NewResponseController(w).Flush() // the answer begins before the request ends
		b, err := io.ReadAll(r.Body)
		if err == nil {
			_, _ = fmt.Fprint(w, string(b) == formOf("file", sound(2<<20), "model", "up"))
		}
	})
	a, b := first(at("early", early)), at("whole", whole)
	a.CAFile, b.CAFile = ca1, ca2
	b.Models[0].Upstream = "up"
	cfg := config(a, b)
	cfg.Router.Breaker.FailureThreshold = 1 << 20
	f := newFleet(t, cfg)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if got := f.form(transcriptions, formOf("file", sound(2<<20), "model", "m")); got.body != "got true" {
				t.Errorf("got %d %s, %v", got.status, got.body, got.err)
			}
		})
	}
	wg.Wait()
	f.idle()
}

// What is wrong with a form is said before an engine is asked, in words of ours.
func TestFormsRefused(t *testing.T) {
	e := newRaw(t, good)
	cfg := config(at("a", e.url))
	cfg.Router.Core.MaxFormBytes = 2 << 20
	f := newFleet(t, cfg)
	const canary = "canary-of-a-form"
	model := formOf("model", "m")
	long := formOf("model", "m", "file", sound(2<<20))
	for _, tt := range []struct {
		name, contentType, body string
		status                  int
		code                    string
	}{
		{"no boundary", "multipart/form-data", model, 400, "invalid_form"},
		{"another multipart", "multipart/mixed; boundary=bnd", model, 415, "invalid_request"},
		{"malformed", formType, canary + model, 400, "invalid_form"},
		{"cut short", formType, strings.TrimSuffix(model, "--\r\n"), 400, "invalid_form"},
		{"no model", formType, formOf("file", canary), 400, "model_required"},
		{"two models", formType, formOf("model", "m", "file", canary, "model", "m"), 400, "duplicate_model"},
		{"long model", formType, formOf("model", strings.Repeat(canary, 1000)), 400, "invalid_form"},
		{"model is no text", formType, formOf("model", canary+"\x00"), 400, "model_not_string"},
		{"many parts", formType, formOf(strings.Split(strings.Repeat("x,y,", 257)+"model,m", ",")...), 400, "invalid_form"},
		{"unknown model", formType, formOf("model", "gpt-99"), 404, "model_not_found"},
		{"too long", formType, long, 413, "request_too_large"},
		{"JSON", "application/json", `{"model":"gpt-99"}`, 404, "model_not_found"},
		{"a form that says it is JSON", "application/json", model, 400, "invalid_json"},
	} {
		for _, chunked := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/chunked=%v", tt.name, chunked), func(t *testing.T) {
				var body io.Reader = strings.NewReader(tt.body)
				if chunked {
					body = io.MultiReader(body) // of unknown length
				}
				res, err := f.send(t.Context(), "POST", transcriptions, body, "Content-Type", tt.contentType)
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = res.Body.Close() }()
				b, err := io.ReadAll(res.Body)
				if got := (answer{body: string(b)}).code(); err != nil || res.StatusCode != tt.status || got != tt.code {
					t.Errorf("got %d %s, %v; want %d %s", res.StatusCode, b, err, tt.status, tt.code)
				}
				if strings.Contains(string(b), canary) {
					t.Errorf("%s shows what was sent", b)
				}
			})
		}
	}
	if e.calls.Load() != 0 {
		t.Errorf("an engine was asked %d times", e.calls.Load())
	}
	if strings.Contains(f.log.String(), canary) {
		t.Error("the log shows what was sent")
	}
	f.idle()
}

// A disk that is full, or away, is a 503 and a line in the log; what fits into
// memory is served all the same.
func TestFormsWithoutADisk(t *testing.T) {
	e := newRaw(t, func(x *exchange) { x.write(document(200, transcript)) })
	cfg := config(at("a", e.url))
	cfg.Router.Core.SpoolDir = t.TempDir()
	f := newFleet(t, cfg)
	if err := os.Remove(cfg.Router.Core.SpoolDir); err != nil {
		t.Fatal(err)
	}
	got := f.form(transcriptions, formOf("model", "m", "file", sound(2<<20)))
	if got.status != 503 || got.code() != "overloaded" || got.header.Get("Retry-After") != "8" || !strings.Contains(got.body, "spool") || e.calls.Load() != 0 {
		t.Errorf("got %d %s", got.status, got.body)
	}
	if !strings.Contains(f.log.String(), `"ERROR"`) || !strings.Contains(f.log.String(), "spool_dir") {
		t.Errorf("the log says %s", f.log)
	}
	if got := f.form(transcriptions, formOf("model", "m", "file", sound(1000))); got.status != 200 {
		t.Errorf("got %d %s", got.status, got.body)
	}
	f.idle()

	cfg = config(at("a", e.url))
	cfg.Router.Core.SpoolDir = "/nowhere/to/be/found"
	if _, err := gateway.New(cfg, gateway.Deps{}); err == nil || !strings.Contains(err.Error(), "spool_dir") {
		t.Errorf("a directory that is not there: %v", err)
	}
}

// All that is in files at a time is bounded; when one goes the next fits.
func TestSpoolIsBounded(t *testing.T) {
	t.Parallel()
	arrived, answer := make(chan struct{}, 2), make(chan struct{})
	e := newRaw(t, func(x *exchange) { arrived <- struct{}{}; <-answer; x.write(document(200, transcript)) })
	cfg := config(at("a", e.url))
	cfg.Router.Core.MaxFormBytes, cfg.Router.Core.SpoolBytes = 4<<20, 4<<20
	f := newFleet(t, cfg)
	body := formOf("file", sound(3<<20), "model", "m")
	var wg sync.WaitGroup
	wg.Go(func() {
		if got := f.form(transcriptions, body); got.status != 200 {
			t.Errorf("got %d %s", got.status, got.body)
		}
	})
	<-arrived
	if got := f.form(transcriptions, body); got.status != 503 || got.code() != "overloaded" || got.header.Get("Retry-After") != "3" || !strings.Contains(got.body, "spool") {
		t.Errorf("got %d %s", got.status, got.body)
	}
	close(answer)
	wg.Wait()
	if got := f.form(transcriptions, body); got.status != 200 {
		t.Errorf("got %d %s", got.status, got.body)
	}
	f.idle()
}

// A client that leaves in the middle of its upload leaves nothing behind.
func TestFormAbandoned(t *testing.T) {
	e := newRaw(t, good)
	f := newFleet(t, config(at("a", e.url)))
	ctx, leave := context.WithCancel(t.Context())
	r, w := io.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		res, err := f.send(ctx, "POST", transcriptions, r, "Content-Type", formType)
		if err == nil {
			_ = res.Body.Close()
		}
	}()
	body := formOf("model", "m", "file", sound(3<<20))
	if _, err := io.WriteString(w, body[:2<<20]); err != nil {
		t.Fatal(err)
	}
	f.eventually("a part of it is in a file", func() bool { return f.metric("llmgw_router_spool_bytes") > 0 })
	leave()
	_ = w.CloseWithError(io.ErrClosedPipe) // net/http waits for its reader
	<-done
	if o := f.next(); o.Result != router.ResultCanceled {
		t.Errorf("recorded %v", o.Result)
	}
	if e.calls.Load() != 0 {
		t.Error("an engine was asked")
	}
	f.idle()
}

// Forms are decoded as other bodies are.
func TestFormEncoded(t *testing.T) {
	t.Parallel()
	var arrived []byte
	e := newRaw(t, func(x *exchange) { arrived = x.body; x.write(document(200, transcript)) })
	cfg := config(at("a", e.url))
	cfg.Router.Core.MaxFormBytes = 4 << 20
	f := newFleet(t, cfg)
	for _, encoding := range []string{"gzip", "deflate", "zstd"} {
		body := formOf("file", sound(2<<20), "model", "m")
		if got := f.form(transcriptions, encoded(t, encoding, body), "Content-Encoding", encoding); got.status != 200 || string(arrived) != body {
			t.Errorf("%s: got %d %s", encoding, got.status, got.body)
		}
		body = formOf("file", sound(5<<20), "model", "m")
		if got := f.form(transcriptions, encoded(t, encoding, body), "Content-Encoding", encoding); got.status != 413 {
			t.Errorf("%s too long: got %d %s", encoding, got.status, got.body)
		}
	}
	f.idle()
}
