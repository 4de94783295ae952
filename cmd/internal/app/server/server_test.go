package server

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/fx"
	"go.uber.org/goleak"

	config "github.com/llmgw/llmgw/cmd/internal/config/server"
)

func TestMain(m *testing.M) {
	// A server of net/http that gives up a connection lingers on it for half a
	// second, longer than goleak waits.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("net/http.(*conn).closeWriteAndWait"))
}

// fakePlane is a data plane whose answers a test controls.
type fakePlane struct {
	mu       sync.Mutex
	notReady error           // guarded by mu
	reloaded []config.Config // guarded by mu
	refuse   error           // guarded by mu; what Reload returns
	stopped  chan struct{}   // closed when Run returns
	handler  http.HandlerFunc
}

func newFakePlane(h http.HandlerFunc) *fakePlane {
	return &fakePlane{handler: h, stopped: make(chan struct{})}
}

func (p *fakePlane) ServeHTTP(w http.ResponseWriter, r *http.Request) { p.handler(w, r) }

func (p *fakePlane) Run(ctx context.Context) error {
	<-ctx.Done()
	close(p.stopped)
	return nil
}

func (p *fakePlane) Ready() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.notReady
}

func (p *fakePlane) Reload(cfg config.Config) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.refuse != nil {
		return p.refuse
	}
	p.reloaded = append(p.reloaded, cfg)
	return nil
}

func (p *fakePlane) module() fx.Option {
	return fx.Options(
		fx.Provide(func() dataPlane { return p }),
		actor(func(p dataPlane) Actor { return Actor{Name: "fake", Stage: StageGateway, Run: p.Run} }),
	)
}

func testConfig() config.Config {
	cfg := config.DefaultConfig()
	cfg.Listen, cfg.AdminListen, cfg.MetricsListen = "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"
	cfg.Shutdown = config.Shutdown{Grace: 0, Drain: 10 * time.Second}
	cfg.Auth.Enabled = false // see keyed
	return cfg
}

// running is a server under test.
type running struct {
	Addresses
	stop func()     // begins the shutdown
	done chan error // gets what Run returned
}

// start runs a server until the test ends.
func start(t *testing.T, cfg config.Config, p *fakePlane) *running {
	t.Helper()
	return startWith(t, cfg, p.module())
}

// startWith runs a server with what plane provides.
func startWith(t *testing.T, cfg config.Config, plane fx.Option) *running {
	t.Helper()
	return startLogging(t, cfg, plane, slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// startLogging is startWith with a log that the test reads.
func startLogging(t *testing.T, cfg config.Config, plane fx.Option, log slog.Handler) *running {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{stop: cancel, done: make(chan error, 1)}
	serving := make(chan Addresses, 1)
	go func() {
		r.done <- runWith(ctx, Options{
			Config: cfg,
			Logger: slog.New(log),
			Serving: func(a Addresses) {
				serving <- a
			},
		}, plane)
	}()
	select {
	case r.Addresses = <-serving:
	case err := <-r.done:
		cancel()
		t.Fatalf("the server did not start: %v", err)
	}
	t.Cleanup(func() {
		cancel()
		if err := <-r.done; err != nil {
			t.Errorf("Run = %v", err)
		}
		r.done <- nil
		http.DefaultClient.CloseIdleConnections()
	})
	return r
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

func TestListeners(t *testing.T) {
	p := newFakePlane(func(w http.ResponseWriter, r *http.Request) { fmt.Fprintf(w, "plane %s", r.URL.Path) })
	s := start(t, testConfig(), p)
	tests := []struct {
		name, address, path string
		status              int
		want                string
	}{
		{"the data plane serves clients", s.Client, "/v1/models", 200, "plane /v1/models"},
		{"what clients ask for is the data plane's to refuse", s.Client, "/metrics", 200, "plane /metrics"},
		{"liveness for clients", s.Client, "/health", 200, "ok\n"},
		{"readiness for clients", s.Client, "/ready", 200, "ready\n"},
		{"metrics for operators", s.Admin, "/metrics", 200, "llmgw_build_info"},
		{"the registry's own", s.Admin, "/metrics", 200, "go_goroutines"},
		{"pprof for operators", s.Admin, "/debug/pprof/", 200, "heap"},
		{"a profile", s.Admin, "/debug/pprof/goroutine?debug=1", 200, "goroutine profile"},
		{"liveness for operators", s.Admin, "/health", 200, "ok\n"},
		{"readiness for operators", s.Admin, "/ready", 200, "ready\n"},
		{"no data plane for operators", s.Admin, "/v1/models", 404, ""},
		{"metrics", s.Metrics, "/metrics", 200, "llmgw_server_connections "},
		{"health beside metrics", s.Metrics, "/health", 200, "ok\n"},
		{"readiness beside metrics", s.Metrics, "/ready", 200, "ready\n"},
		{"no pprof beside metrics", s.Metrics, "/debug/pprof/", 404, ""},
		{"no heap beside metrics", s.Metrics, "/debug/pprof/heap", 404, ""},
		{"nothing else beside metrics", s.Metrics, "/v1/models", 404, ""},
		{"no root beside metrics", s.Metrics, "/", 404, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			status, body := get(t, "http://"+tt.address+tt.path)
			if status != tt.status || !strings.Contains(body, tt.want) {
				t.Errorf("GET %s = %d %.200q, want %d with %q", tt.path, status, body, tt.status, tt.want)
			}
		})
	}
}

func TestReadinessFollowsTheDataPlane(t *testing.T) {
	p := newFakePlane(nil)
	p.notReady = errors.New("no endpoint is known")
	s := start(t, testConfig(), p)
	for _, address := range []string{s.Client, s.Admin, s.Metrics} {
		if status, body := get(t, "http://"+address+"/ready"); status != 503 || body != "not ready: no endpoint is known\n" {
			t.Errorf("/ready = %d %q, want 503 with the reason", status, body)
		}
		if status, _ := get(t, "http://"+address+"/health"); status != 200 {
			t.Errorf("/health = %d, want 200: the process lives", status)
		}
	}
	p.mu.Lock()
	p.notReady = nil
	p.mu.Unlock()
	if status, _ := get(t, "http://"+s.Client+"/ready"); status != 200 {
		t.Errorf("/ready = %d once there is an endpoint, want 200", status)
	}
}

// The admin page is on loopback, and a browser that was led there by a name is
// turned away.
func TestAdminRefusesOtherHosts(t *testing.T) {
	s := start(t, testConfig(), newFakePlane(nil))
	_, port, err := net.SplitHostPort(s.Admin)
	if err != nil {
		t.Fatal(err)
	}
	for host, want := range map[string]int{
		"localhost:" + port: 200, "127.0.0.1": 200, "[::1]:" + port: 200, "::1": 200, s.Admin: 200,
		"evil.example:" + port: 421, "10.0.0.1": 421, "localhost.evil.example": 421, "127.0.0.1.nip.io": 421,
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+s.Admin+"/debug/pprof/", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = host
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("Host %s: status %d, want %d", host, resp.StatusCode, want)
		}
	}
}

// Readiness fails first, new requests are still served, a running stream ends
// in its own time, and only then does the data plane stop and Run return.
func TestShutdownOrder(t *testing.T) {
	release, begun := make(chan struct{}), make(chan struct{})
	p := newFakePlane(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/stream" {
			fmt.Fprintln(w, "first")
			_ = http.NewResponseController(w).Flush()
			close(begun)
			<-release
			fmt.Fprintln(w, "last")
			return
		}
		fmt.Fprintln(w, "served")
	})
	cfg := testConfig()
	cfg.Shutdown.Grace = 500 * time.Millisecond
	s := start(t, cfg, p)

	stream, err := http.Get("http://" + s.Client + "/stream")
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Body.Close()
	lines := bufio.NewScanner(stream.Body)
	if <-begun; !lines.Scan() || lines.Text() != "first" {
		t.Fatalf("stream begins with %q", lines.Text())
	}

	s.stop()
	for status := 200; status == 200; {
		status, _ = get(t, "http://"+s.Client+"/ready")
	}
	resp, err := http.Get("http://" + s.Client + "/v1/chat")
	if err != nil {
		t.Fatalf("a request within the grace: %v", err)
	}
	resp.Body.Close()
	if resp.StatusCode != 200 || !resp.Close {
		t.Errorf("a request within the grace: status %d, connection closes: %v; want 200, true", resp.StatusCode, resp.Close)
	}

	// Once the grace is over nobody can connect, yet the stream lives and
	// operators still see the process.
	for {
		conn, err := net.Dial("tcp", s.Client)
		if err != nil {
			break
		}
		conn.Close()
	}
	if status, _ := get(t, "http://"+s.Admin+"/health"); status != 200 {
		t.Errorf("admin /health while draining = %d, want 200", status)
	}
	select {
	case <-p.stopped:
		t.Error("the data plane stopped before the stream ended")
	case err := <-s.done:
		t.Fatalf("Run returned %v before the stream ended", err)
	default:
	}
	close(release)
	if !lines.Scan() || lines.Text() != "last" {
		t.Errorf("stream ends with %q, want last", lines.Text())
	}
	if err := <-s.done; err != nil {
		t.Errorf("Run = %v", err)
	}
	s.done <- nil
	<-p.stopped
}

// What outlasts the drain time is cut, and its handler told.
func TestDrainIsBounded(t *testing.T) {
	begun, cut := make(chan struct{}), make(chan struct{})
	p := newFakePlane(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).Flush()
		close(begun)
		<-r.Context().Done()
		close(cut)
	})
	cfg := testConfig()
	cfg.Shutdown.Drain = 50 * time.Millisecond
	s := start(t, cfg, p)
	go func() {
		if resp, err := http.Get("http://" + s.Client + "/stream"); err == nil {
			_, _ = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		}
	}()
	<-begun
	s.stop()
	<-cut
	if err := <-s.done; err != nil {
		t.Errorf("Run = %v", err)
	}
	s.done <- nil
}

func TestAddressTakenEndsTheStart(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	cfg := testConfig()
	cfg.Listen, cfg.MetricsListen = l.Addr().String(), l.Addr().String()
	err = runWith(t.Context(), Options{Config: cfg, Logger: slog.New(slog.DiscardHandler)}, newFakePlane(nil).module())
	if err == nil || strings.Count(err.Error(), "address already in use") != 2 || !strings.Contains(err.Error(), "metrics_listen: ") {
		t.Errorf("error %v; want both keys with their addresses in use", err)
	}
}

func TestAPartThatFailsEndsAll(t *testing.T) {
	broken := errors.New("broken")
	plane := fx.Options(
		newFakePlane(nil).module(),
		actor(func() Actor {
			return Actor{Name: "broken", Stage: StageGateway, Run: func(context.Context) error { return broken }}
		}),
	)
	err := runWith(t.Context(), Options{Config: testConfig(), Logger: slog.New(slog.DiscardHandler)}, plane)
	if !errors.Is(err, broken) {
		t.Errorf("Run = %v, want %v", err, broken)
	}
}

func TestGraph(t *testing.T) {
	for _, router := range []bool{false, true} {
		opts := Options{
			Config: testConfig(), Logger: slog.New(slog.DiscardHandler),
			Reload: func() (config.Config, error) { return testConfig(), nil },
		}
		opts.Config.Router = router
		var actors struct {
			fx.In
			Actors []Actor `group:"actors"`
		}
		if err := fx.ValidateApp(options(opts, gatewayModule()), fx.Populate(&actors)); err != nil {
			t.Errorf("a router %t: %v", router, err)
		}
	}
}

func TestMetricsBeforeTheRegistry(t *testing.T) {
	e := new(exposer)
	h := &health{}
	mux := newMetricsMux(e, h)
	if status, body := serve(mux, "/metrics"); status != 503 || !strings.Contains(body, "not built yet") {
		t.Errorf("/metrics without a registry = %d %q, want 503 that says so", status, body)
	}
	reg := newRegistry()
	e.expose(reg)
	reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "late"}, func() float64 { return 7 }))
	if status, body := serve(mux, "/metrics"); status != 200 || !strings.Contains(body, "late 7\n") {
		t.Errorf("/metrics = %d, lacks a collector registered before it is served", status)
	}
}
