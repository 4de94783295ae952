package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/llmgw/llmgw/storage"
	"github.com/llmgw/llmgw/storage/postgres"
	"github.com/llmgw/llmgw/storage/storagetest"
)

// proxy stands between a store and the server, and can be cut.
type proxy struct {
	t        testing.TB
	network  string
	upstream string
	addr     string

	mu    sync.Mutex
	l     net.Listener // guarded by mu; nil while it is cut
	conns map[net.Conn]bool
	wg    sync.WaitGroup
}

// through returns a proxy to the server of a DSN, and the DSN that goes by it.
func through(t testing.TB, dsn string) (*proxy, string) {
	t.Helper()
	cfg, err := pgx.ParseConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{t: t, conns: map[net.Conn]bool{}, addr: "127.0.0.1:0"}
	p.network, p.upstream = "tcp", net.JoinHostPort(cfg.Host, fmt.Sprint(cfg.Port))
	if os.IsPathSeparator(cfg.Host[0]) {
		p.network, p.upstream = "unix", fmt.Sprintf("%s/.s.PGSQL.%d", cfg.Host, cfg.Port)
	}
	p.mend()
	t.Cleanup(p.cut)
	u := url.URL{Scheme: "postgres", User: url.UserPassword(cfg.User, cfg.Password), Host: p.addr, Path: cfg.Database, RawQuery: "sslmode=disable"}
	return p, u.String()
}

func (p *proxy) mend() {
	l, err := net.Listen("tcp", p.addr)
	if err != nil {
		p.t.Fatal(err)
	}
	p.mu.Lock()
	p.l, p.addr = l, l.Addr().String()
	p.mu.Unlock()
	p.wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			p.wg.Go(func() { p.serve(c) })
		}
	})
}

func (p *proxy) serve(c net.Conn) {
	defer c.Close()
	up, err := net.Dial(p.network, p.upstream)
	if err != nil {
		return
	}
	defer up.Close()
	p.mu.Lock()
	if p.l == nil {
		p.mu.Unlock()
		return
	}
	p.conns[c], p.conns[up] = true, true
	p.mu.Unlock()
	var wg sync.WaitGroup
	for _, pair := range [][2]net.Conn{{c, up}, {up, c}} {
		wg.Go(func() {
			_, _ = io.Copy(pair[0], pair[1])
			_ = pair[0].Close()
			_ = pair[1].Close()
		})
	}
	wg.Wait()
	p.mu.Lock()
	delete(p.conns, c)
	delete(p.conns, up)
	p.mu.Unlock()
}

// cut ends all connections and refuses others.
func (p *proxy) cut() {
	p.mu.Lock()
	if p.l != nil {
		_ = p.l.Close()
		p.l = nil
	}
	for c := range p.conns {
		_ = c.Close()
	}
	p.mu.Unlock()
	p.wg.Wait()
}

// poll waits until f is true.
func poll(t testing.TB, f func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !f(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it does not become true")
		}
	}
}

// The process starts without the server, finds it, loses it in the middle of
// calls, and finds it again; every row that was acknowledged is there once.
func TestAway(t *testing.T) {
	cfg := config(t)
	p, dsn := through(t, cfg.DSN)
	cfg.DSN = dsn
	p.cut()
	reg := prometheus.NewRegistry()
	s, err := postgres.New(cfg, postgres.Deps{Registerer: reg})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	up := func(want string) func() bool {
		return func() bool {
			text := "# HELP llmgw_store_up 1 while the store is open and reached; 0 while every call is refused.\n# TYPE llmgw_store_up gauge\nllmgw_store_up " + want + "\n"
			return testutil.GatherAndCompare(reg, strings.NewReader(text), "llmgw_store_up") == nil
		}
	}
	storagetest.Unavailable(t.Context(), t, s)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	storagetest.Unavailable(ctx, t, s)
	p.mend()
	poll(t, func() bool { _, err := s.Key(ctx, "k"); return errors.Is(err, storage.ErrNotFound) })

	row := func(n int) storage.Usage {
		return storage.Usage{RequestID: fmt.Sprint("r", n), KeyID: "k", Model: "m", At: time.Unix(1_700_000_000, 0), Source: storage.SourceNone}
	}
	var wg sync.WaitGroup
	const writers, each = 4, 40
	for w := range writers {
		wg.Go(func() {
			for n := range each {
				// Repeated until it is acknowledged, as whoever drains a buffer does.
				poll(t, func() bool {
					_, err := s.InsertUsage(ctx, []storage.Usage{row(w*each + n)})
					if err != nil && !errors.Is(err, storage.ErrUnavailable) {
						t.Errorf("row %d: %v", n, err)
					}
					return err == nil
				})
			}
		})
	}
	for range 3 {
		poll(t, func() bool { _, _, err := s.ListUsage(ctx, storage.UsageQuery{}); return err == nil })
		p.cut()
		poll(t, func() bool { _, err := s.Key(ctx, "k"); return errors.Is(err, storage.ErrUnavailable) })
		storagetest.Unavailable(ctx, t, s)
		poll(t, up("0"))
		p.mend()
		poll(t, up("1"))
	}
	wg.Wait()
	rows, _, err := s.ListUsage(ctx, storage.UsageQuery{})
	if err != nil || len(rows) != writers*each {
		t.Errorf("%d rows, %v; want %d", len(rows), err, writers*each)
	}
	if err := s.Check(ctx); err != nil {
		t.Error(err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("Run: %v", err)
	}
}

// A connection that the server ended is replaced; without Run too.
func TestBackendKilled(t *testing.T) {
	cfg := config(t)
	s := open(t, cfg)
	defer s.Close()
	for range 3 {
		if _, err := s.RenewRouter(t.Context(), "r", time.Minute); err != nil {
			t.Fatal(err)
		}
		execute(t, cfg.DSN, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND application_name = 'llmgw'
AND EXISTS (SELECT FROM pg_namespace WHERE nspname = '`+cfg.Schema+`')`)
		poll(t, func() bool {
			_, err := s.RenewRouter(t.Context(), "r", time.Minute)
			if err != nil && !errors.Is(err, storage.ErrUnavailable) {
				t.Errorf("%v; want ErrUnavailable", err)
			}
			return err == nil
		})
	}
}

// A call that another transaction holds up ends by its time.
func TestCallTimeout(t *testing.T) {
	cfg := config(t)
	cfg.CallTimeout = 200 * time.Millisecond
	s := open(t, cfg)
	defer s.Close()
	ctx := t.Context()
	conn, err := pgx.Connect(ctx, cfg.DSN)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if _, err := conn.Exec(ctx, "BEGIN; LOCK TABLE "+cfg.Schema+".routers"); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	if _, err := s.RenewRouter(ctx, "r", time.Minute); !errors.Is(err, storage.ErrUnavailable) {
		t.Errorf("held up: %v", err)
	}
	if d := time.Since(begin); d < 150*time.Millisecond || d > 10*time.Second {
		t.Errorf("it took %v; want about 200ms", d)
	}
	if _, err := conn.Exec(ctx, "ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.RenewRouter(ctx, "r", time.Minute); err != nil {
		t.Error(err)
	}
}
