package proxy_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/llmgw/llmgw/router/proxy"
	"github.com/prometheus/client_golang/prometheus"
)

// patient is a limit that no test is meant to meet.
const patient = 20 * time.Second

// bench is a proxy with one target and its metrics.
type bench struct {
	*proxy.Proxy
	target *proxy.Target
	reg    *prometheus.Registry
}

// newBench makes a proxy and a target at url. Its deadlines are patient ones
// unless mod changes them.
func newBench(t testing.TB, url string, mod func(c *proxy.Config)) *bench {
	t.Helper()
	cfg := proxy.DefaultConfig()
	cfg.Timeouts = proxy.Timeouts{Dial: patient, ResponseHeader: patient, FirstToken: patient, Idle: patient, Total: patient}
	cfg.PoolIdle, cfg.ClientWrite = time.Minute, patient
	if mod != nil {
		mod(&cfg)
	}
	reg := prometheus.NewRegistry()
	p, err := proxy.New(cfg, proxy.Deps{Registerer: reg})
	if err != nil {
		t.Fatal(err)
	}
	return &bench{p, newTarget(t, p, proxy.TargetConfig{URL: url}), reg}
}

func newTarget(t testing.TB, p *proxy.Proxy, cfg proxy.TargetConfig) *proxy.Target {
	t.Helper()
	target, err := p.NewTarget(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = target.Close() })
	return target
}

// metric is the sum over a metric's series whose labels have the given values.
func (b *bench) metric(t testing.TB, name string, labels ...string) int {
	t.Helper()
	families, err := b.reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	sum := 0.0
	for _, f := range families {
		if f.GetName() != "llmgw_proxy_"+name {
			continue
		}
		for _, m := range f.GetMetric() {
			var have []string
			for _, l := range m.GetLabel() {
				have = append(have, l.GetValue())
			}
			if len(labels) == 0 || strings.Join(have, ",") == strings.Join(labels, ",") {
				sum += m.GetCounter().GetValue()
			}
		}
	}
	return int(sum)
}

// post is a small request.
func post(body ...string) *proxy.Request {
	if len(body) == 0 {
		body = []string{`{"model":"m"}`}
	}
	r := &proxy.Request{Method: http.MethodPost, Path: "/v1/chat/completions", Header: http.Header{}}
	for _, s := range body {
		r.Body = append(r.Body, []byte(s))
		r.Length += len(s)
	}
	return r
}

// result is how an exchange went.
type result struct {
	*recorder
	out    proxy.Outcome
	err    error
	atSend bool // Send failed
}

// do sends req and relays the answer to a recorder.
func (b *bench) do(ctx context.Context, req *proxy.Request) result {
	return b.relay(ctx, req, newRecorder(), &lineTap{}, proxy.Options{})
}

func (b *bench) relay(ctx context.Context, req *proxy.Request, w *recorder, tap proxy.Tap, o proxy.Options) result {
	resp, err := b.Send(ctx, b.target, req)
	if err != nil {
		return result{recorder: w, err: err, atSend: true}
	}
	out, err := resp.Relay(w, tap, o)
	return result{recorder: w, out: out, err: err}
}

// want fails the test unless the exchange gave this status and body.
func (r result) want(t testing.TB, status int, body string) {
	t.Helper()
	if r.err != nil {
		t.Fatalf("failed: %v", r.err)
	}
	if r.status != status || r.body() != body {
		t.Fatalf("got %d %.200q (%d bytes), want %d %.200q", r.status, r.body(), len(r.body()), status, body)
	}
}

// wantKind fails the test unless the exchange ended with this kind of error.
func (r result) wantKind(t testing.TB, k proxy.Kind) {
	t.Helper()
	if got := kindOf(r.err); got != k {
		t.Fatalf("got kind %v (%v), want %v; passed: %d %.200q", got, r.err, k, r.status, r.body())
	}
}

// kindOf is zero for no error.
func kindOf(err error) proxy.Kind {
	if err == nil {
		return 0
	}
	e, ok := errors.AsType[*proxy.Error](err)
	if !ok {
		return proxy.Kind(255)
	}
	return e.Kind
}

// recorder is a client that keeps what it gets.
type recorder struct {
	header  http.Header
	onWrite func(b []byte) error

	mu      sync.Mutex
	status  int      // guarded by mu
	writes  [][]byte // guarded by mu
	flushes int      // guarded by mu
}

func newRecorder() *recorder { return &recorder{header: http.Header{}} }

func (w *recorder) Header() http.Header { return w.header }

func (w *recorder) WriteHeader(status int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.status = status
}

func (w *recorder) Write(b []byte) (int, error) {
	w.mu.Lock()
	w.writes = append(w.writes, bytes.Clone(b))
	w.mu.Unlock()
	if w.onWrite != nil {
		if err := w.onWrite(b); err != nil {
			return 0, err
		}
	}
	return len(b), nil
}

func (w *recorder) FlushError() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.flushes++
	return nil
}

func (w *recorder) SetWriteDeadline(time.Time) error { return nil }

func (w *recorder) body() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return string(bytes.Join(w.writes, nil))
}

// lineTap passes everything. A "data:" is a token, unless it says "role";
// "[DONE]" ends a stream.
type lineTap struct {
	tokens  int
	content bool
	done    bool
}

func (t *lineTap) Feed(p []byte) []byte {
	n := bytes.Count(p, []byte("data:"))
	t.tokens += n
	t.content = t.content || n > bytes.Count(p, []byte("role"))
	t.done = t.done || bytes.Contains(p, []byte("[DONE]"))
	return p
}

func (t *lineTap) Flush() []byte { return nil }
func (t *lineTap) Progress() int { return t.tokens }
func (t *lineTap) Content() bool { return t.content }
func (t *lineTap) Whole() bool   { return t.done }
func (t *lineTap) Err() error    { return nil }

// tapFuncs is a tap made of its parts.
type tapFuncs struct {
	lineTap
	feed  func(p []byte) []byte
	flush string
}

func (t *tapFuncs) Feed(p []byte) []byte {
	t.lineTap.Feed(p)
	if t.feed != nil {
		return t.feed(p)
	}
	return p
}

func (t *tapFuncs) Flush() []byte { return []byte(t.flush) }

// Heads of answers.
const (
	okChunked = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
	okClose   = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
	ok5       = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"
	hello     = ok5 + "hello"
)

// chunk is s in the chunked coding.
func chunk(s string) string {
	const digits = "0123456789abcdef"
	var size []byte
	for n := len(s); n > 0; n >>= 4 {
		size = append([]byte{digits[n&15]}, size...)
	}
	if s == "" {
		size = []byte("0")
	}
	return string(size) + "\r\n" + s + "\r\n"
}

// discard is a log that nobody reads.
func discard() *log.Logger { return log.New(io.Discard, "", 0) }
