package calibrate_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgw/llmgw/engines/sim"
	"github.com/llmgw/llmgw/engines/sim/calibrate"
)

// fake answers /v1/models with a list, and chats with a text of its own.
type fake struct {
	models string
	chat   http.HandlerFunc
}

func (f fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/v1/models":
		_, _ = io.WriteString(w, f.models)
	case "/v1/chat/completions":
		f.chat(w, r)
	default:
		http.Error(w, `{"detail":"Not Found"}`, http.StatusNotFound)
	}
}

// says answers with a status, a content type and a text.
func says(status int, contentType, text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, text)
	}
}

func events(lines ...string) http.HandlerFunc {
	var b strings.Builder
	for _, l := range lines {
		fmt.Fprintf(&b, "data: %s\n\n", l)
	}
	return says(200, "text/event-stream; charset=utf-8", b.String())
}

const (
	one     = `{"object":"list","data":[{"id":"m"}]}`
	content = `{"choices":[{"delta":{"content":"word"}}]}`
	usage   = `{"choices":[],"usage":{"prompt_tokens":30,"completion_tokens":48}}`
)

// What stands in the way is named: by a sentinel or type, and in words.
func TestErrors(t *testing.T) {
	html := says(200, "text/html", "<!doctype html><title>Welcome</title>")
	for _, tt := range []struct {
		name    string
		engine  http.Handler
		change  func(*calibrate.Config)
		is      error
		message string
	}{
		{name: "HTML", engine: html, is: calibrate.ErrNotEngine, message: "answers HTML (status 200)"},
		{name: "HTML with 404", engine: says(404, "text/html", "<html>"), is: calibrate.ErrNotEngine, message: "HTML (status 404)"},
		{name: "other JSON", engine: says(200, "application/json", `{"hello":1}`), is: calibrate.ErrNotEngine, message: `without a list "data"`},
		{name: "no JSON", engine: says(200, "text/plain", "ok"), is: calibrate.ErrNotEngine, message: `"ok" (status 200)`},
		{name: "redirect", engine: http.RedirectHandler("http://else", http.StatusFound), is: calibrate.ErrNotEngine, message: `a redirect to "http://else"`},
		{name: "no model", engine: fake{models: `{"data":[]}`}, is: calibrate.ErrModel, message: "lists none"},
		{
			name: "several models", engine: fake{models: `{"data":[{"id":"b"},{"id":"a"}]}`},
			is: calibrate.ErrModel, message: "name one of a, b",
		},
		{
			name: "unknown model", engine: fake{models: one}, change: func(c *calibrate.Config) { c.Model = "x" },
			is: calibrate.ErrModel, message: `"x"; the engine serves m`,
		},
		{
			name: "model gone", engine: fake{one, says(404, "application/json", `{"error":{"message":"The model m does not exist."}}`)},
			is: calibrate.ErrModel, message: "does not exist",
		},
		{name: "stream is HTML", engine: fake{one, html}, is: calibrate.ErrNotEngine, message: "HTML (status 200)"},
		{
			name: "stream is JSON", engine: fake{one, says(200, "application/json", `{"choices":[]}`)},
			is: calibrate.ErrNotEngine, message: "instead of a stream of events",
		},
		{name: "event is no JSON", engine: fake{one, events(content, "{")}, is: calibrate.ErrNotEngine, message: "no JSON: {"},
		{name: "no usage", engine: fake{one, events(content, content, "[DONE]")}, is: calibrate.ErrNoUsage, message: "stream_options.include_usage"},
		{name: "usage of nothing", engine: fake{one, events(content, `{"usage":{"prompt_tokens":0,"completion_tokens":0}}`)}, is: calibrate.ErrNoUsage},
		{
			name: "usage of more than there can be", engine: fake{one, events(content, `{"usage":{"prompt_tokens":9,"completion_tokens":9223372036854775807}}`)},
			is: calibrate.ErrStream, message: "9223372036854775807 completion tokens",
		},
		{name: "no content", engine: fake{one, events(`{"choices":[{"delta":{"role":"assistant"}}]}`, usage, "[DONE]")}, is: calibrate.ErrStream, message: "no content"},
		{name: "error event", engine: fake{one, events(content, `{"error":{"message":"out of memory"}}`)}, is: calibrate.ErrStream, message: "out of memory"},
		{name: "flat error event", engine: fake{one, events(content, `{"object":"error","message":"gone\u001b[2J"}`)}, is: calibrate.ErrStream, message: "gone"},
		{
			name: "cut", engine: fake{one, func(w http.ResponseWriter, r *http.Request) {
				events(content)(w, r)
				_ = http.NewResponseController(w).Flush()
				panic(http.ErrAbortHandler)
			}}, is: calibrate.ErrStream, message: "after 1 events with content",
		},
		{name: "endless line", engine: fake{one, events(strings.Repeat("x", 2<<20))}, is: calibrate.ErrStream, message: "more than 1048576 bytes"},
		{
			name: "ends early", engine: fake{one, events(content, `{"usage":{"prompt_tokens":9,"completion_tokens":2}}`, "[DONE]")},
			is: calibrate.ErrStream, message: "ended after 2 of 48 tokens; the engine must honour ignore_eos",
		},
		{
			name: "hangs", engine: fake{one, func(_ http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body) // only then does the server watch for the client's leave
				<-r.Context().Done()
			}},
			is: calibrate.ErrUnreachable, message: "no whole answer within 1m0s",
		},
		{
			name: "too slow for the budget", engine: fake{one, func(w http.ResponseWriter, r *http.Request) {
				time.Sleep(20 * time.Second) // of virtual time
				events(content, content, usage, "[DONE]")(w, r)
			}}, is: calibrate.ErrBudget, message: "took 20s; want a budget of at least 16m40s",
		},
		{name: "no configuration", change: func(c *calibrate.Config) { *c = calibrate.Config{} }, message: "URL: \"\" is empty"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg := config()
				if tt.change != nil {
					tt.change(&cfg)
				}
				if tt.engine == nil {
					tt.engine = http.NotFoundHandler()
				}
				_, err := calibrate.Run(t.Context(), cfg, calibrate.Deps{Client: serve(t, tt.engine)})
				if err == nil || (tt.is != nil && !errors.Is(err, tt.is)) {
					t.Fatalf("error %v, want %v", err, tt.is)
				}
				if !strings.Contains(err.Error(), tt.message) {
					t.Errorf("error %q lacks %q", err, tt.message)
				}
			})
		})
	}
}

func TestStatusError(t *testing.T) {
	for _, body := range []string{
		`{"error":{"message":"Invalid API Key","code":401}}`, `{"error":"Invalid API Key"}`,
		`{"object":"error","message":"Invalid API Key"}`, `{"detail":"Invalid API Key"}`, "Invalid\n API  Key",
	} {
		synctest.Test(t, func(t *testing.T) {
			_, err := calibrate.Run(t.Context(), config(), calibrate.Deps{Client: serve(t, says(401, "application/json", body))})
			status, ok := errors.AsType[*calibrate.StatusError](err)
			if !ok || status.Status != 401 || status.Message != "Invalid API Key" {
				t.Errorf("%s: %v", body, err)
			}
			if !strings.HasSuffix(err.Error(), "the engine wants an API key") {
				t.Errorf("%q does not say what to do", err)
			}
		})
	}
}

func TestUnreachable(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := ln.Addr().String()
	_ = ln.Close()
	cfg := config()
	cfg.URL = "http://" + address
	if _, err := calibrate.Run(t.Context(), cfg, calibrate.Deps{}); !errors.Is(err, calibrate.ErrUnreachable) {
		t.Errorf("error %v, want %v", err, calibrate.ErrUnreachable)
	}
}

// A key is sent; a cancelled run ends at once and says why.
func TestKeyAndCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := sim.DefaultConfig()
		engine.APIKey = "secret"
		cfg := config()
		cfg.APIKey = "secret"
		e, err := sim.New(engine, sim.Deps{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = e.Close() })
		ctx, cancel := context.WithCancelCause(t.Context())
		steps := 0
		stopped := errors.New("enough")
		_, err = calibrate.Run(ctx, cfg, calibrate.Deps{Client: serve(t, e), Progress: func(string) {
			if steps++; steps == 6 {
				cancel(stopped)
			}
		}})
		if !errors.Is(err, stopped) || steps != 6 {
			t.Errorf("error %v after %d steps", err, steps)
		}
	})
}

// Configurations are refused with every fault named.
func TestValidate(t *testing.T) {
	cfg := calibrate.Config{URL: "ftp://x", API: "x", Words: []string{"one"}, MaxConcurrency: -1}
	err := cfg.Validate()
	for _, want := range []string{"URL:", "API:", "Budget:", "RequestTimeout:", "MaxConcurrency:", "MaxPromptTokens:", "Repeats:", "ToleranceRatio:", "Words:"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v lacks %s", err, want)
		}
	}
	if err := config().Validate(); err != nil {
		t.Error(err)
	}
}

// An engine that takes short prompts only is measured as far as it goes.
func TestShortContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := sim.DefaultConfig()
		engine.MaxModelLen, engine.NumGPUBlocks = 500, 40
		e, err := sim.New(engine, sim.Deps{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = e.Close() })
		// One that does not say how long its context is.
		silent := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/v1/models" {
				_ = json.NewEncoder(w).Encode(map[string]any{"data": []any{map[string]any{"id": engine.Model}}})
				return
			}
			e.ServeHTTP(w, r)
		})
		cfg := config()
		cfg.Repeats, cfg.MaxConcurrency = 2, 4
		r, err := calibrate.Run(t.Context(), cfg, calibrate.Deps{Client: serve(t, silent)})
		if err != nil {
			t.Fatal(err)
		}
		if got := r.Model.MaxModelLen; got == nil || *got < 256 || *got > 500 {
			t.Errorf("max_model_len %v, want 256 to 500", got)
		}
		if !strings.Contains(strings.Join(r.Model.Unknown, "\n"), "one twice as long refused") {
			t.Errorf("unknown: %q", r.Model.Unknown)
		}
	})
}

// A model's name comes from the other side and goes to a terminal.
func TestModelErrorIsPrintable(t *testing.T) {
	err := &calibrate.ModelError{Served: []string{"a\x1b[2J", "b"}}
	if got := err.Error(); !strings.HasSuffix(got, "name one of a?[2J, b") {
		t.Errorf("got %q", got)
	}
}
