package gateway_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/llmgw/llmgw/router/endpoint"
)

// anyName answers whatever name is asked for with the one model that it has
// loaded, as llama-server, SGLang and TGI do.
type anyName struct {
	model, key string
}

func (e anyName) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if e.key != "" && r.Header.Get("Authorization") != "Bearer "+e.key {
		http.Error(w, `{"error":{"message":"Invalid API Key","type":"authentication_error","code":401}}`, http.StatusUnauthorized)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if r.Method == http.MethodGet {
		_, _ = fmt.Fprintf(w, `{"object":"list","data":[{"id":%q,"object":"model"}]}`, e.model)
		return
	}
	_, _ = io.Copy(io.Discard, r.Body)
	_, _ = io.WriteString(w, strings.ReplaceAll(completion, "hi", "I am "+e.model))
}

// seat is a port at which one engine after the other listens.
type seat struct {
	addr string
	srv  *http.Server
	wg   sync.WaitGroup
}

// take lets h answer at the seat, which is free.
func (s *seat) take(t *testing.T, h http.Handler) {
	t.Helper()
	addr := s.addr
	if addr == "" {
		addr = "127.0.0.1:0"
	}
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	s.addr = ln.Addr().String()
	s.srv = &http.Server{Handler: h, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)}
	s.wg.Go(func() { _ = s.srv.Serve(ln) })
}

// leave frees the seat; gently lets what runs there end.
func (s *seat) leave(gently bool) {
	if gently {
		_ = s.srv.Shutdown(context.Background())
	}
	_ = s.srv.Close()
	s.wg.Wait()
}

// An answer comes from the model that was asked, or there is none, also when two
// engines come back at one another's ports while they are used.
func TestSwappedPorts(t *testing.T) {
	for _, test := range []struct {
		name       string
		keyA, keyB string
		gently     bool
	}{
		{"with a key each", "secret-a", "secret-b", false},
		{"without keys", "", "", false},
		{"without keys, ended gently", "", "", true},
	} {
		t.Run(test.name, func(t *testing.T) {
			a, b := anyName{"a", test.keyA}, anyName{"b", test.keyB}
			var first, second seat
			first.take(t, a)
			second.take(t, b)
			t.Cleanup(func() { first.leave(false); second.leave(false) })

			ea, eb := at("ea", "http://"+first.addr, "a"), at("eb", "http://"+second.addr, "b")
			ea.Secret, eb.Secret = endpoint.Secret(test.keyA), endpoint.Secret(test.keyB)
			cfg := config(ea, eb)
			cfg.Router.Breaker.Cooldown = 10 * time.Millisecond
			f := newFleet(t, cfg)
			load := f.load("a", "b")

			load.until(t, "both answer", func() bool { return load.ok["a"].Load() > 50 && load.ok["b"].Load() > 50 })
			swap := func(x, y http.Handler) {
				first.leave(test.gently)
				second.leave(test.gently)
				first.take(t, x)
				second.take(t, y)
			}
			swap(b, a)
			refused := load.refused.Load()
			load.until(t, "nobody answers", func() bool { return load.refused.Load() > refused+200 })
			answered := load.ok["a"].Load() + load.ok["b"].Load()
			load.until(t, "nobody answers still", func() bool { return load.refused.Load() > refused+300 })
			if got := load.ok["a"].Load() + load.ok["b"].Load(); got != answered {
				t.Errorf("%d answers while each sits at the other's port", got-answered)
			}
			swap(a, b)
			before := [2]int64{load.ok["a"].Load(), load.ok["b"].Load()}
			load.until(t, "both answer again", func() bool {
				return load.ok["a"].Load() > before[0]+50 && load.ok["b"].Load() > before[1]+50
			})
			load.stop()
			if n := load.wrong.Load(); n != 0 {
				t.Errorf("%d answers of the wrong model, such as %s", n, load.example.Load())
			}
		})
	}
}

// load asks for models without end.
type load struct {
	ok             map[string]*atomic.Int64 // answers by model
	refused, wrong atomic.Int64
	example        atomic.Value // a wrong answer
	stop           func()
}

func (f *fleet) load(models ...string) *load {
	l := &load{ok: map[string]*atomic.Int64{}}
	for _, m := range models {
		l.ok[m] = &atomic.Int64{}
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for n := i; ctx.Err() == nil; n++ {
				model := models[n%len(models)]
				got := f.doContext(ctx, "POST", chatPath, `{"model":"`+model+`","messages":[{"role":"user","content":"who are you"}]}`)
				switch {
				case got.err != nil: // the end
				case got.status != http.StatusOK:
					l.refused.Add(1)
				case !strings.Contains(got.body, "I am "+model):
					l.wrong.Add(1)
					l.example.Store(model + ": " + got.body)
				default:
					l.ok[model].Add(1)
				}
			}
		})
	}
	l.stop = sync.OnceFunc(func() { cancel(); wg.Wait() })
	f.t.Cleanup(l.stop)
	return l
}

// until waits for a condition that the load will bring about.
func (l *load) until(t *testing.T, what string, met func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !met(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not in 30 s: %s (a %d, b %d, refused %d, wrong %d)", what,
				l.ok["a"].Load(), l.ok["b"].Load(), l.refused.Load(), l.wrong.Load())
		}
	}
}
