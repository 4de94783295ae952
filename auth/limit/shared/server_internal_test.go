package shared

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/llmgw/llmgw/auth/limit"
)

func TestMain(m *testing.M) {
	QuietDriver()
	goleak.VerifyTestMain(m)
}

// server is a real Redis or Valkey of a test, on a socket of its own.
type server struct {
	t    testing.TB
	dir  string
	cmd  *exec.Cmd
	user *redis.Client
}

// startServer starts one. LLMGW_TEST_REDIS names the program, such as
// redis-server or valkey-server; without it the test is skipped.
func startServer(t testing.TB) *server {
	t.Helper()
	if os.Getenv("LLMGW_TEST_REDIS") == "" {
		t.Skip("LLMGW_TEST_REDIS does not name a redis-server or valkey-server")
	}
	dir, err := os.MkdirTemp("", "llmgw-redis") //nolint:usetesting // t.TempDir may be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	s := &server{t: t, dir: dir}
	s.user = redis.NewClient(&redis.Options{Network: "unix", Addr: s.socket(), MaxRetries: -1})
	t.Cleanup(func() {
		_ = s.user.Close()
		s.stop()
		_ = os.RemoveAll(dir)
	})
	s.start()
	return s
}

func (s *server) socket() string { return filepath.Join(s.dir, "s") }

func (s *server) start() {
	s.t.Helper()
	s.cmd = exec.Command(os.Getenv("LLMGW_TEST_REDIS"), "--port", "0", "--unixsocket", s.socket(), "--dir", s.dir, "--save", "", "--appendonly", "no") //nolint:noctx // it is stopped by stop
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	eventually(s.t, "the server answers", func() bool { return s.user.Ping(context.Background()).Err() == nil })
}

func (s *server) stop() {
	if s.cmd != nil {
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait()
		s.cmd = nil
	}
}

func (s *server) signal(sig syscall.Signal) {
	s.t.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil {
		s.t.Fatal(err)
	}
}

// router returns a limiter that shares this server.
func (s *server) router(id string, deps Deps) *Limiter {
	s.t.Helper()
	cfg := DefaultConfig()
	cfg.RedisURL = "unix://" + s.socket()
	cfg.RedisTimeout = 5 * time.Second // the machine may be busy
	deps.RouterID = id
	l, err := New(cfg, deps)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = l.redis.Close() })
	return l
}

// run runs a limiter until the test ends, or until stop is called.
func run(t testing.TB, l *Limiter) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := l.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	stop = sync.OnceFunc(func() { cancel(); wg.Wait() })
	t.Cleanup(stop)
	return stop
}

// clock replaces the server's clock for scripts by one that a test sets.
type clock struct {
	s   *server
	now time.Time
}

func (s *server) clock(routers ...*Limiter) *clock {
	s.t.Helper()
	script := strings.Replace(windowScript, "redis.call('TIME')", "redis.call('LRANGE', 'test-clock', 0, 1)", 1)
	if script == windowScript {
		s.t.Fatal("the script asks for the time in another way")
	}
	for _, l := range routers {
		l.script = redis.NewScript(script)
	}
	c := &clock{s, time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)}
	c.set(c.now)
	return c
}

func (c *clock) set(now time.Time) {
	c.s.t.Helper()
	c.now = now
	pipe := c.s.user.TxPipeline()
	pipe.Del(context.Background(), "test-clock")
	pipe.RPush(context.Background(), "test-clock", now.Unix(), now.Nanosecond()/1000)
	if _, err := pipe.Exec(context.Background()); err != nil {
		c.s.t.Fatal(err)
	}
}

func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !ok(); {
		if time.Now().After(end) {
			t.Fatalf("it never was that %s", what)
		}
		time.Sleep(2 * time.Millisecond) //nolint:forbidigo // a poll
	}
}

// lines keeps what is logged.
type lines struct {
	mu  sync.Mutex
	all []string
}

func (l *lines) Enabled(context.Context, slog.Level) bool { return true }
func (l *lines) WithAttrs([]slog.Attr) slog.Handler       { return l }
func (l *lines) WithGroup(string) slog.Handler            { return l }
func (l *lines) Handle(_ context.Context, r slog.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, r.Level.String()+" "+r.Message)
	return nil
}

func (l *lines) count(part string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.all {
		if strings.Contains(s, part) {
			n++
		}
	}
	return n
}

// metric returns the value of a series, -1 if there is none.
func metric(t testing.TB, reg prometheus.Gatherer, name string, labels ...string) float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			var got []string
			for _, l := range m.GetLabel() {
				got = append(got, l.GetValue())
			}
			if fmt.Sprint(got) == fmt.Sprint(labels) {
				return m.GetGauge().GetValue() + m.GetCounter().GetValue()
			}
		}
	}
	return -1
}

func rpm(n int64) *limit.Subject {
	return &limit.Subject{ID: "k", Limits: limit.Limits{RequestsPerMinute: n}}
}

// passed counts how many of n requests pass.
func passed(t testing.TB, l *Limiter, s *limit.Subject, n int) (passed int64) {
	t.Helper()
	for range n {
		if _, err := l.Acquire(context.Background(), time.Now(), s, limit.Request{Tokens: 1}); err == nil {
			passed++
		}
	}
	return passed
}
