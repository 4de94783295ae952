package auth_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/llmgw/llmgw/auth"
	"github.com/llmgw/llmgw/storage"
)

func cached(t testing.TB, keys int) (*auth.Authenticator, []*http.Request) {
	t.Helper()
	store := newStore()
	a := newAuth(t, store, func(c *auth.Config, _ *auth.Deps) { c.CacheTTL = 3600e9 })
	stop := start(t, a)
	requests := make([]*http.Request, keys)
	for i := range requests {
		requests[i] = request(store.add(t, storage.Key{ID: fmt.Sprint("key_", i), Models: []string{"coder", "b/*"}}))
		requests[i].Header.Set("Content-Type", "application/json")
		if _, err := a.Authenticate(requests[i]); err != nil {
			t.Fatal(err)
		}
	}
	stop()
	return a, requests
}

func TestAuthenticateAllocs(t *testing.T) {
	a, requests := cached(t, 1)
	if n := testing.AllocsPerRun(100, func() {
		if _, err := a.Authenticate(requests[0]); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations for a cached key, want 0", n)
	}
}

func BenchmarkAuthenticate(b *testing.B) {
	for _, keys := range []int{1, 10_000} {
		b.Run(fmt.Sprintf("keys=%d", keys), func(b *testing.B) {
			a, requests := cached(b, keys)
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				if _, err := a.Authenticate(requests[i%keys]); err != nil {
					b.Fatal(err)
				}
				i++
			}
		})
	}
}

func BenchmarkAuthenticateParallel(b *testing.B) {
	a, requests := cached(b, 10_000)
	b.ReportAllocs()
	b.RunParallel(func(p *testing.PB) {
		for i := 0; p.Next(); i++ {
			if _, err := a.Authenticate(requests[i%10_000]); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

func BenchmarkMiddleware(b *testing.B) {
	a, requests := cached(b, 1000)
	h := a.Middleware(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if _, ok := auth.FromContext(r.Context()); !ok {
			b.Error("nobody")
		}
	}), auth.DefaultExempt(), refuse)
	w := httptest.NewRecorder()
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		h.ServeHTTP(w, requests[i%1000])
		i++
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
