//go:build linux

package discover

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")} //nolint:gochecknoglobals // constant

func newProber(t *testing.T, cfg ProbeConfig) *prober {
	t.Helper()
	m, err := newMetrics(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &prober{cfg: cfg, log: slog.New(slog.DiscardHandler), metrics: m}
}

// What answers, over real connections.
func TestProbe(t *testing.T) {
	const good = `{"object":"list","data":[{"id":"a/b"},{"id":"c"}]}`
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		t.Errorf("a redirect was followed to %s", r.URL)
		_, _ = io.WriteString(w, good)
	}))
	defer elsewhere.Close()
	answer := func(status int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		}
	}
	endless := func(w http.ResponseWriter, _ *http.Request) {
		for {
			if _, err := w.Write(bytes.Repeat([]byte(" "), 32<<10)); err != nil {
				return
			}
		}
	}
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	if _, err := z.Write([]byte(good + strings.Repeat(" ", 10<<20))); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name    string
		handler http.HandlerFunc
		want    outcome
	}{
		{"engine", func(w http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodGet || r.URL.Path != "/v1/models" || r.Header.Get("Authorization") != "" {
				t.Errorf("asked %s %s with %v", r.Method, r.URL, r.Header)
			}
			_, _ = io.WriteString(w, good)
		}, probeEngine},
		{"no such path", answer(404, `{"detail":"Not Found"}`), probeNoEngine},
		{"HTML", answer(200, "<html><title>Grafana</title></html>"), probeNoEngine},
		{"nothing", answer(200, ""), probeNoEngine},
		{"serves nothing yet", answer(200, `{"object":"list","data":[]}`), probeLoading},
		{"loading", answer(503, `{"error":{"message":"Loading model"}}`), probeLoading},
		{"wants a key", answer(401, ""), probeLocked},
		{"forbids", answer(403, ""), probeLocked},
		{"fails", answer(500, good), probeNoEngine},
		{"redirects", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, elsewhere.URL, http.StatusFound) }, probeNoEngine},
		{"never ends", endless, probeNoEngine},
		{"says that it is long", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", "104857600")
			endless(w, r)
		}, probeNoEngine},
		{"is small and becomes long", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write(bomb.Bytes())
		}, probeNoEngine},
		{"is silent", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, probeSilent},
		{"stops in the middle", func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, good[:10])
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}, probeSilent},
		{"sends long headers", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X", strings.Repeat("x", 256<<10))
			_, _ = io.WriteString(w, good)
		}, probeSilent},
		{"hangs up", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, probeSilent},
	}
	cfg := DefaultConfig().Probe
	cfg.MaxAnswerBytes = 64 << 10
	fence := Fence{Allow: loopback}
	transport := newProbeTransport(fence, cfg.DialTimeout)
	client := &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			server := httptest.NewServer(tt.handler)
			defer server.Close()
			cfg := cfg
			if tt.want == probeSilent {
				cfg.Timeout = 300 * time.Millisecond // nobody waits longer for nothing
			}
			models, got, err := newProber(t, cfg).ask(t.Context(), client, server.URL, fence)
			if got != tt.want {
				t.Errorf("%v, %v; want %v", got, err, tt.want)
			}
			if err != nil && len(err.Error()) > 500 {
				t.Errorf("an error of %d bytes", len(err.Error()))
			}
			if got == probeEngine && (len(models) != 2 || models[0] != "a/b") {
				t.Errorf("models %q", models)
			}
		})
	}
}

// Something that speaks, but no HTTP.
func TestProbeOfADatabase(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // of a test
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Write([]byte("E\x00\x00\x00\x85SFATAL\x00unsupported frontend protocol\x00"))
			_ = conn.Close()
		}
	}()
	found, err := newProber(t, DefaultConfig().Probe).probeAll(t.Context(), []Candidate{{BaseURL: "http://" + l.Addr().String()}}, Fence{Allow: loopback})
	if err != nil || len(found) != 0 {
		t.Errorf("%v, %v", found, err)
	}
}

// Nothing forbidden is dialled, whatever a name stands for.
func TestProbeDialsNothingForbidden(t *testing.T) {
	var asked atomic.Bool
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Store(true)
		_, _ = io.WriteString(w, `{"data":[{"id":"a"}]}`)
	}))
	defer server.Close()
	p := newProber(t, DefaultConfig().Probe)
	transport := newProbeTransport(Fence{}, time.Second)
	client := &http.Client{Transport: transport}
	_, port, err := net.SplitHostPort(server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	for _, host := range []string{"127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "0.0.0.0"} {
		if _, got, err := p.ask(t.Context(), client, "http://"+host+":"+port, Fence{}); got != probeForbidden {
			t.Errorf("%s: %v, %v", host, got, err)
		}
	}
	// A name that the first check lets pass is caught when it is dialled.
	allowed := Fence{Allow: loopback}
	if _, got, err := p.ask(t.Context(), client, "http://localhost:"+port, allowed); got != probeForbidden {
		t.Errorf("a name: %v, %v", got, err)
	}
	if asked.Load() {
		t.Error("it was asked")
	}
}

// 330 candidates: every second one takes no connection, as behind a firewall that
// drops what it does not let in. The deadline of dialling is a tenth of the default.
func TestScanOfManyOverLoopback(t *testing.T) {
	const candidates = 330
	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"data":[{"id":"m"}]}`)
	}))
	defer engine.Close()
	silent := droppingListener(t)
	var all []Candidate
	for i := range candidates {
		base := []string{engine.URL, "http://" + silent}[i%2]
		all = append(all, Candidate{BaseURL: fmt.Sprintf("%s/%d", base, i)})
	}
	cfg := DefaultConfig().Probe
	cfg.DialTimeout /= 10
	begun := time.Now()
	found, err := newProber(t, cfg).probeAll(t.Context(), all, Fence{Allow: loopback})
	took := time.Since(begun)
	if err != nil || len(found) != candidates/2 {
		t.Fatalf("%d found, %v", len(found), err)
	}
	t.Logf("%d candidates, half of them silent: %v with a tenth of the default deadline", candidates, took)
	// 165 silent ones, 32 at once: six rounds of 200 ms. A machine that is busy gets
	// twice that; one after the other they would take 33 s.
	if took > 3*time.Second {
		t.Errorf("took %v, want 30 s with the default deadline, 3 s with a tenth of it", took)
	}
}

// droppingListener returns an address whose queue of connections is full, so that
// the kernel drops what comes.
func droppingListener(t *testing.T) string {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	if err := unix.Listen(fd, 0); err != nil {
		t.Fatal(err)
	}
	name, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	address := fmt.Sprintf("127.0.0.1:%d", name.(*unix.SockaddrInet4).Port)
	for range 100 {
		conn, err := net.DialTimeout("tcp", address, 200*time.Millisecond) //nolint:noctx // of a test
		if err != nil {
			return address
		}
		t.Cleanup(func() { _ = conn.Close() })
	}
	t.Fatal("a queue of 0 takes 100 connections")
	return ""
}
