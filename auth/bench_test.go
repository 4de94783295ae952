package auth_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/llmgw/llmgw/auth"
	"github.com/llmgw/llmgw/storage"
)

// cached returns an authenticator that holds that many keys, and what they are
// sent as.
func cached(t testing.TB, keys int) (*auth.Authenticator, [][]string) {
	t.Helper()
	store := newStore()
	a := newAuth(t, store, func(c *auth.Config, _ *auth.Deps) { c.CacheTTL, c.LookupTimeout = time.Hour, time.Minute })
	stop := start(t, a)
	headers := make([][]string, keys)
	for i := range headers {
		key := store.add(t, storage.Key{ID: fmt.Sprint("key_", i), Models: []string{"coder", "b/*"}})
		headers[i] = []string{"Bearer " + key}
		if _, err := a.Authenticate(request(key)); err != nil {
			t.Fatal(err)
		}
	}
	stop()
	return a, headers
}

// received is a request with headers as a client sends them.
func received() *http.Request {
	r := request("x")
	for _, name := range []string{"Accept", "Accept-Encoding", "Content-Type", "User-Agent", "X-Stainless-Lang", "X-Stainless-Os"} {
		r.Header.Set(name, "application/json")
	}
	return r
}

func TestAuthenticateAllocs(t *testing.T) {
	a, headers := cached(t, 1)
	r := received()
	r.Header["Authorization"] = headers[0]
	if n := testing.AllocsPerRun(100, func() {
		if _, err := a.Authenticate(r); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations for a cached key, want 0", n)
	}
}

func BenchmarkAuthenticate(b *testing.B) {
	for _, keys := range []int{1, 10_000} {
		b.Run(fmt.Sprintf("keys=%d", keys), func(b *testing.B) {
			a, headers := cached(b, keys)
			r := received()
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				r.Header["Authorization"] = headers[i%keys]
				if _, err := a.Authenticate(r); err != nil {
					b.Fatal(err)
				}
				i++
			}
		})
	}
}

func BenchmarkAuthenticateParallel(b *testing.B) {
	a, headers := cached(b, 10_000)
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(p *testing.PB) {
		r := received()
		for i := 0; p.Next(); i++ {
			r.Header["Authorization"] = headers[i%10_000]
			if _, err := a.Authenticate(r); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

func BenchmarkMiddleware(b *testing.B) {
	a, headers := cached(b, 1)
	h := a.Middleware(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if _, ok := auth.FromContext(r.Context()); !ok {
			b.Error("nobody")
		}
	}), auth.DefaultExempt(), refuse)
	w, r := httptest.NewRecorder(), received()
	r.Header["Authorization"] = headers[0]
	b.ReportAllocs()
	for b.Loop() {
		h.ServeHTTP(w, r)
	}
}

func BenchmarkMayUse(b *testing.B) {
	m := catalog().version(1)
	for name, id := range map[string]*auth.Identity{"any": identity(), "name": identity("coder"), "wildcards=8": identity("a/*", "b/*/*", "c/*", "d/*", "e/*", "f/*", "g/*", "*/coder")} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if !id.MayUse(m, "coder") {
					b.Fatal("may not")
				}
			}
		})
	}
}
