// Package suite runs the Go columns of the client matrix: OpenAI's and
// Anthropic's SDKs, and what Codex and Claude Code put on the wire. It needs
// what the command stand starts; .ci/clients/run does all of it.
package suite

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/llmgw/llmgw/ci/clients/engine"
)

// text is what the scripted engine answers.
var text = strings.Join(engine.Pieces(), "") //nolint:gochecknoglobals // constant

const (
	prompt = engine.PromptTokens
	cached = engine.CachedTokens
	output = engine.OutputTokens
	total  = prompt + output
	image  = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY42YAAAAASUVORK5CYII="
)

func setting(t *testing.T, name string) string {
	t.Helper()
	v := os.Getenv(name)
	if v == "" {
		t.Fatalf("%s is not set; run .ci/clients/run", name)
	}
	return v
}

func gateway(t *testing.T) string { t.Helper(); return setting(t, "LLMGW_URL") }

var results sync.Mutex //nolint:gochecknoglobals // one file, many cells

// cell runs one cell of the matrix and writes down what became of it.
func cell(t *testing.T, client, name string, f func(t *testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		t.Parallel()
		begin := time.Now()
		t.Cleanup(func() {
			outcome := "pass"
			if t.Failed() {
				outcome = "fail"
			} else if t.Skipped() {
				outcome = "skip"
			}
			record(t, client, name, outcome, time.Since(begin))
		})
		f(t)
	})
}

func record(t *testing.T, client, name, outcome string, took time.Duration) {
	t.Helper()
	results.Lock()
	defer results.Unlock()
	f, err := os.OpenFile(setting(t, "LLMGW_RESULTS")+"/go.jsonl", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	_, err = fmt.Fprintf(f, "{\"client\":%q,\"cell\":%q,\"outcome\":%q,\"ms\":%d}\n", client, name, outcome, took.Milliseconds())
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// book is what the engine saw of one client and behaviour.
func book(t *testing.T, name string) engine.Seen {
	t.Helper()
	return control(t, "seen", name)
}

func control(t *testing.T, verb, name string) engine.Seen {
	t.Helper()
	resp, err := http.Get(setting(t, "LLMGW_ENGINE") + "/-/" + verb + "/" + name)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var s engine.Seen
	if err := json.NewDecoder(resp.Body).Decode(&s); err != nil {
		t.Fatal(err)
	}
	return s
}

// requests are those whose body holds mark.
func requests(t *testing.T, name, mark string) []engine.Request {
	t.Helper()
	return slices.DeleteFunc(book(t, name).Requests, func(r engine.Request) bool { return !strings.Contains(r.Body, mark) })
}

// gone waits until the engine runs nothing of name any more: the client's leave
// has reached it.
func gone(t *testing.T, name string) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		s := book(t, name)
		if s.Running == 0 && len(s.Requests) > 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the engine still runs %d requests of %s 5 s after the client left", s.Running, name)
		}
	}
}

func equal[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s = %v; want %v", what, got, want)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// retried checks that the engine saw two requests, the second not before the
// Retry-After of the first was over, less what a timer may be early. It must be
// the client's first retry: one that came too early would have been refused by
// the gateway in between.
func retried(t *testing.T, name string, wait time.Duration) {
	t.Helper()
	s := book(t, name).Requests
	if len(s) != 2 {
		t.Fatalf("the engine saw %d requests of %s; want 2", len(s), name)
	}
	if gap := time.Duration(s[1].AtMillis-s[0].AtMillis) * time.Millisecond; gap < wait-10*time.Millisecond {
		t.Errorf("the second request came after %v; Retry-After said %v", gap, wait)
	}
	equal(t, "the client's count of retries", s[1].Header.Get("X-Stainless-Retry-Count"), "1")
}

// woken checks that a client was told to come again while its model was loaded, and
// came again by itself when it was told to, until it was served.
func woken(t *testing.T, client string) {
	t.Helper()
	s := book(t, "door/"+client+"-asleep").Requests
	if len(s) < 2 || s[0].Status != http.StatusServiceUnavailable || s[len(s)-1].Status != http.StatusOK {
		t.Fatalf("the server saw %d requests: %+v; want 503, then 200", len(s), s)
	}
	if gap := time.Duration(s[1].AtMillis-s[0].AtMillis) * time.Millisecond; gap < 2*time.Second-10*time.Millisecond {
		t.Errorf("the second request came %v after the first, which waited for a second and was told to wait for as long at least", gap)
	}
	equal(t, "the client's count of retries", s[1].Header.Get("X-Stainless-Retry-Count"), "1")
}

// post sends a recorded request and returns the answer with its whole body.
func post(t *testing.T, path string, header http.Header, body []byte) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, gateway(t)+path, strings.NewReader(string(body)))
	must(t, err)
	req.Header = header
	resp, err := http.DefaultClient.Do(req)
	must(t, err)
	defer resp.Body.Close()
	all, err := io.ReadAll(resp.Body)
	must(t, err)
	return resp, string(all)
}

// sse reads a whole stream into its events: name and data.
func sse(stream string) (events [][2]string) {
	for block := range strings.SplitSeq(strings.ReplaceAll(stream, "\r\n", "\n"), "\n\n") {
		var ev [2]string
		for line := range strings.SplitSeq(block, "\n") {
			if v, ok := strings.CutPrefix(line, "event:"); ok {
				ev[0] = strings.TrimPrefix(v, " ")
			} else if v, ok := strings.CutPrefix(line, "data:"); ok {
				ev[1] += strings.TrimPrefix(v, " ")
			}
		}
		if ev[1] != "" {
			events = append(events, ev)
		}
	}
	return events
}
