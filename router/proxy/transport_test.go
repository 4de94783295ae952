package proxy_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/llmgw/llmgw/engines/sim/simtest"
	"github.com/llmgw/llmgw/router/proxy"
)

// flavour is one way to reach an engine.
type flavour struct {
	name  string
	start func(t testing.TB, h http.Handler) proxy.TargetConfig
}

// flavours are those that behave the same.
func flavours() []flavour {
	overTLS := func(http2 bool) func(t testing.TB, h http.Handler) proxy.TargetConfig {
		return func(t testing.TB, h http.Handler) proxy.TargetConfig {
			s := httptest.NewUnstartedServer(h)
			s.EnableHTTP2 = http2
			s.Config.ErrorLog = discard()
			s.StartTLS()
			t.Cleanup(s.Close)
			roots := x509.NewCertPool()
			roots.AddCert(s.Certificate())
			return proxy.TargetConfig{URL: s.URL, TLS: &tls.Config{RootCAs: roots}}
		}
	}
	return []flavour{
		{"http", func(t testing.TB, h http.Handler) proxy.TargetConfig {
			s := httptest.NewServer(h)
			t.Cleanup(s.Close)
			return proxy.TargetConfig{URL: s.URL}
		}},
		{"https/1.1", overTLS(false)},
		{"https/2", overTLS(true)},
		{"h2c", func(t testing.TB, h http.Handler) proxy.TargetConfig {
			s := httptest.NewUnstartedServer(h)
			s.Config.Protocols = new(http.Protocols)
			s.Config.Protocols.SetUnencryptedHTTP2(true)
			s.Start()
			t.Cleanup(s.Close)
			return proxy.TargetConfig{URL: "h2c" + strings.TrimPrefix(s.URL, "http")}
		}},
		{"dialled in memory", func(t testing.TB, h http.Handler) proxy.TargetConfig {
			var network simtest.Network
			ln, err := network.Listen("127.0.0.1:1")
			if err != nil {
				t.Fatal(err)
			}
			s := &http.Server{Handler: h, ErrorLog: discard()} //nolint:gosec // a test
			served := make(chan struct{})
			go func() { defer close(served); _ = s.Serve(ln) }()
			t.Cleanup(func() { _ = s.Close(); <-served })
			return proxy.TargetConfig{URL: "http://127.0.0.1:1", Dial: network.Dial}
		}},
	}
}

// each runs f in every flavour; serve starts an engine in it.
func each(t *testing.T, mod func(c *proxy.Config), f func(t *testing.T, serve func(h http.HandlerFunc) *bench)) {
	t.Helper()
	for _, fl := range flavours() {
		t.Run(fl.name, func(t *testing.T) {
			t.Parallel()
			f(t, func(h http.HandlerFunc) *bench {
				cfg := fl.start(t, h)
				cfg.Secret = "ours"
				b := newBench(t, "http://127.0.0.1:1", mod)
				b.target = newTarget(t, b.Proxy, cfg)
				return b
			})
		})
	}
}

func event(w http.ResponseWriter, s string) {
	_, _ = io.WriteString(w, s)
	_ = http.NewResponseController(w).Flush()
}

func TestFlavoursPlain(t *testing.T) {
	t.Parallel()
	h := func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got := http.Header{}
		for name, v := range r.Header {
			got["Got-"+name] = v
		}
		got.Set("Got-Path", r.URL.RequestURI())
		got.Set("Got-Host", map[bool]string{true: "own", false: r.Host}[strings.HasPrefix(r.Host, "127.0.0.1:")])
		got.Set("Got-Body", string(body))
		maps.Copy(w.Header(), got)
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Server", "uvicorn")
		w.Header().Set("X-Ours", "theirs")
		w.Header()["Vary"] = []string{"a", "b"}
		w.WriteHeader(http.StatusTeapot)
		_, _ = io.WriteString(w, "hello")
	}
	each(t, nil, func(t *testing.T, serve func(h http.HandlerFunc) *bench) {
		b := serve(h)
		for range 2 {
			req := post("a", "", "bc")
			req.Path, req.ID = "/v1/x?y=%20z", "req_1"
			req.Header = http.Header{
				"Accept": {"*/*"}, "Authorization": {"Bearer theirs"}, "Cookie": {"a=b"}, "Connection": {"X-Hop"},
				"X-Hop": {"1"}, "X-Forwarded-For": {"10.0.0.1"}, "Accept-Encoding": {"br"}, "Expect": {"100-continue"},
			}
			w := newRecorder()
			w.header.Set("X-Ours", "ours")
			got := b.relay(t.Context(), req, w, &lineTap{}, proxy.Options{KeepLength: true})
			got.want(t, http.StatusTeapot, "hello")
			want := http.Header{
				"Content-Length": {"5"}, "Content-Type": {"application/json"}, "Vary": {"a", "b"}, "X-Ours": {"ours"},
				"Got-Accept": {"*/*"}, "Got-Authorization": {"Bearer ours"}, "Got-X-Request-Id": {"req_1"},
				"Got-Content-Length": {"3"}, "Got-Path": {"/v1/x?y=%20z"}, "Got-Host": {"own"}, "Got-Body": {"abc"},
			}
			if d := cmp.Diff(want, got.header); d != "" {
				t.Errorf("header (-want +got):\n%s", d)
			}
		}
	})
}

func TestFlavoursStream(t *testing.T) {
	t.Parallel()
	events := []string{"data: a\n\n", "data: b\n\n", "data: [DONE]\n\n"}
	each(t, nil, func(t *testing.T, serve func(h http.HandlerFunc) *bench) {
		passed := make(chan struct{}, 1)
		b := serve(func(w http.ResponseWriter, r *http.Request) {
			for _, s := range events {
				event(w, s)
				select {
				case <-passed:
				case <-r.Context().Done():
				}
			}
		})
		w := newRecorder()
		w.onWrite = func([]byte) error { passed <- struct{}{}; return nil }
		got := b.relay(t.Context(), post(), w, &lineTap{}, proxy.Options{})
		got.want(t, 200, strings.Join(events, ""))
		if len(w.writes) != 3 || w.flushes < 2 {
			t.Errorf("%d writes and %d flushes, want 3", len(w.writes), w.flushes)
		}
		if got.out.FirstContent.IsZero() || got.out.Bytes != int64(len(got.body())) {
			t.Errorf("got %+v", got.out)
		}
	})
}

func TestFlavoursCancel(t *testing.T) {
	t.Parallel()
	for _, stage := range []string{"head", "stream"} {
		t.Run(stage, func(t *testing.T) {
			t.Parallel()
			each(t, nil, func(t *testing.T, serve func(h http.HandlerFunc) *bench) {
				reached, left := make(chan struct{}), make(chan struct{})
				b := serve(func(w http.ResponseWriter, r *http.Request) {
					_, _ = io.Copy(io.Discard, r.Body)
					if stage == "stream" {
						event(w, "data: a\n\n")
					}
					close(reached)
					<-r.Context().Done()
					close(left)
				})
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				go func() {
					<-reached
					cancel(errLeft)
				}()
				got := b.do(ctx, post())
				got.wantKind(t, proxy.KindCanceled)
				if !errors.Is(got.err, errLeft) {
					t.Errorf("the cause is lost: %v", got.err)
				}
				select {
				case <-left:
				case <-time.After(patient):
					t.Error("the engine's request goes on")
				}
			})
		})
	}
}

func TestFlavoursDeadlines(t *testing.T) {
	t.Parallel()
	hang := func(pieces ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			for _, s := range pieces {
				event(w, s)
			}
			<-r.Context().Done()
		}
	}
	ping := func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		event(w, "data: a\n\n")
		tick := time.NewTicker(short / 10)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				event(w, ": ping\n\n")
			case <-r.Context().Done():
				return
			}
		}
	}
	for _, tt := range []struct {
		name    string
		handler http.HandlerFunc
		mod     func(to *proxy.Timeouts)
		want    proxy.Kind
	}{
		{"header", hang(), func(to *proxy.Timeouts) { to.ResponseHeader, to.Dial = short, long }, proxy.KindHeaderTimeout},
		{"first token", hang("data: role\n\n"), func(to *proxy.Timeouts) { to.FirstToken = short }, proxy.KindFirstTokenTimeout},
		{"idle", hang("data: a\n\n"), func(to *proxy.Timeouts) { to.Idle = short }, proxy.KindIdleTimeout},
		{"idle with comments", ping, func(to *proxy.Timeouts) { to.Idle = short }, proxy.KindIdleTimeout},
		{"total, no head", hang(), func(to *proxy.Timeouts) { to.Total = short }, proxy.KindTotalTimeout},
		{"total", ping, func(to *proxy.Timeouts) { to.Total = long }, proxy.KindTotalTimeout},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			mod := func(c *proxy.Config) { tt.mod(&c.Timeouts) }
			each(t, mod, func(t *testing.T, serve func(h http.HandlerFunc) *bench) {
				b := serve(tt.handler)
				got := b.do(t.Context(), post())
				got.wantKind(t, tt.want)
				if n := b.metric(t, "failures_total", tt.want.String()); n != 1 {
					t.Errorf("%d failures counted, want 1", n)
				}
			})
		})
	}
}

// A client that is slow to take an answer is no engine that is silent.
func TestFlavoursSlowClient(t *testing.T) {
	t.Parallel()
	const tokens = 4
	token := "data: " + strings.Repeat("x", 20<<10) + "\n\n"
	mod := func(c *proxy.Config) { c.Timeouts.Idle = long }
	each(t, mod, func(t *testing.T, serve func(h http.HandlerFunc) *bench) {
		passed := make(chan struct{}, 1)
		b := serve(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			for range tokens {
				event(w, token)
				select {
				case <-passed:
				case <-r.Context().Done():
				}
			}
		})
		w, n := newRecorder(), 0
		w.onWrite = func(p []byte) error {
			n += len(p)
			if n%len(token) == 0 {
				if n == 2*len(token) {
					<-time.After(2 * long)
				}
				passed <- struct{}{}
			}
			return nil
		}
		b.relay(t.Context(), post(), w, &lineTap{}, proxy.Options{}).want(t, 200, strings.Repeat(token, tokens))
	})
}

func TestFlavoursCut(t *testing.T) {
	t.Parallel()
	h := func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		event(w, "data: a\n\n")
		panic(http.ErrAbortHandler)
	}
	each(t, nil, func(t *testing.T, serve func(h http.HandlerFunc) *bench) {
		b := serve(h)
		got := b.do(t.Context(), post())
		got.wantKind(t, proxy.KindCut)
		if !strings.HasPrefix("data: a\n\n", got.body()) {
			t.Errorf("passed on %q", got.body())
		}
	})
}

// tlsEngine is a scripted engine behind TLS.
func tlsEngine(t *testing.T, pieces ...string) proxy.TargetConfig {
	t.Helper()
	s := httptest.NewUnstartedServer(nil)
	s.StartTLS() // for its certificate
	t.Cleanup(s.Close)
	cfg := &tls.Config{Certificates: s.TLS.Certificates}
	e := newEngine(t, func(p *peer) {
		c := tls.Server(p.TCPConn, cfg)
		defer c.Close()
		// The whole request: where an answer overtakes it, net/http may tell of
		// its failed write in place of what the answer lacks.
		req, err := http.ReadRequest(bufio.NewReader(c))
		if err != nil {
			return
		}
		_, _ = io.Copy(io.Discard, req.Body)
		for _, s := range pieces {
			_, _ = io.WriteString(c, s)
		}
	})
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	return proxy.TargetConfig{URL: "https" + strings.TrimPrefix(e.url(), "http"), TLS: &tls.Config{RootCAs: roots}}
}

func TestHTTPSAnswers(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, answer string
		kind         proxy.Kind
		want         string
	}{
		{"length", hello, 0, "hello"},
		{"until close, whole", okClose + "data: [DONE]\n\n", 0, "data: [DONE]\n\n"},
		{"until close, cut", okClose + "data: a\n\n", proxy.KindCut, "data: a\n\n"},
		{"cut length", ok5 + "hel", proxy.KindCut, "hel"},
		{"cut chunks", okChunked + chunk("hello"), proxy.KindCut, "hello"},
		{"no answer", "", proxy.KindLost, ""},
		{"no HTTP", "hello\r\n\r\n", proxy.KindProtocol, ""},
		{"half a head", "HTTP/1.1 200 OK\r\nX: y", proxy.KindCut, ""},
		{"gzip", "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n" + strings.Join(coded(t, "gzip", "data: [DONE]"), ""), 0, "data: [DONE]"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, "http://127.0.0.1:1", nil)
			b.target = newTarget(t, b.Proxy, tlsEngine(t, tt.answer))
			got := b.do(t.Context(), post())
			got.wantKind(t, tt.kind)
			if got.body() != tt.want {
				t.Errorf("passed on %q, want %q", got.body(), tt.want)
			}
			resp, err := b.Send(t.Context(), b.target, post())
			if err == nil {
				if !resp.SharesBody() {
					t.Error("SharesBody is false")
				}
				resp.Close()
			}
		})
	}
}

// A certificate that is not trusted, and a handshake that nobody answers, are
// failed dials.
func TestHandshake(t *testing.T) {
	t.Parallel()
	t.Run("not trusted", func(t *testing.T) {
		t.Parallel()
		b := newBench(t, "http://127.0.0.1:1", nil)
		cfg := tlsEngine(t, hello)
		cfg.TLS = nil
		b.target = newTarget(t, b.Proxy, cfg)
		b.do(t.Context(), post()).wantKind(t, proxy.KindDial)
	})
	t.Run("not answered", func(t *testing.T) {
		t.Parallel()
		e := newEngine(t, func(p *peer) { _ = p.gone() })
		b := newBench(t, "https"+strings.TrimPrefix(e.url(), "http"), func(c *proxy.Config) { c.Timeouts.Dial = short })
		b.do(t.Context(), post()).wantKind(t, proxy.KindDial)
	})
	t.Run("nobody listens", func(t *testing.T) {
		t.Parallel()
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		_ = ln.Close()
		b := newBench(t, "https://"+ln.Addr().String(), nil)
		b.do(t.Context(), post()).wantKind(t, proxy.KindDial)
	})
}

// A dialer that does not answer is given up after Timeouts.Dial, and one that
// fails is a failed dial.
func TestDialOfTheCaller(t *testing.T) {
	t.Parallel()
	for name, dial := range map[string]func(context.Context, string, string) (net.Conn, error){
		"hangs": func(ctx context.Context, _, _ string) (net.Conn, error) { <-ctx.Done(); return nil, ctx.Err() },
		"fails": func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("no way there") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, "http://127.0.0.1:1", func(c *proxy.Config) { c.Timeouts.Dial = short })
			b.target = newTarget(t, b.Proxy, proxy.TargetConfig{URL: "http://127.0.0.1:1", Dial: dial})
			b.do(t.Context(), post()).wantKind(t, proxy.KindDial)
			if !b.target.Lingers() {
				t.Error("net/http may read on, but Lingers is false")
			}
		})
	}
}

func TestNoKeepAliveOverTLS(t *testing.T) {
	t.Parallel()
	open := make(chan int, 100)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "hello")
	}))
	s.Config.ConnState = func(_ net.Conn, st http.ConnState) {
		switch st {
		case http.StateNew:
			open <- 1
		case http.StateClosed:
			open <- -1
		}
	}
	s.StartTLS()
	t.Cleanup(s.Close)
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	b := newBench(t, "http://127.0.0.1:1", func(c *proxy.Config) { c.PoolIdle = 0 })
	b.target = newTarget(t, b.Proxy, proxy.TargetConfig{URL: s.URL, TLS: &tls.Config{RootCAs: roots}})
	for range 2 {
		b.do(t.Context(), post()).want(t, 200, "hello")
	}
	for n, conns := 0, 0; conns < 2 || n > 0; {
		d := <-open
		n += d
		if d > 0 {
			conns++
		}
	}
}
