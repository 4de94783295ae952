package auth

import (
	"context"
	"fmt"
	"net/http"
	"path"
	"slices"
	"strings"
)

// Exempt is the exact list of what needs no key. The zero value exempts nothing.
type Exempt struct {
	exact    map[string][]string // path to methods
	prefixes []prefixRule
}

type prefixRule struct{ method, dir string }

// NewExempt reads the list. An entry is a path, which exempts GET and HEAD there
// and nowhere else, or a method, a space and a path. One that ends in a slash
// exempts what is there and below it; "/" alone is the root and nothing more.
//
// A request is exempt only where its path is written just so. Any other
// spelling of the same place, which a mux may still lead there, needs a key:
// escapes, double slashes, dots, another case.
func NewExempt(entries ...string) (Exempt, error) {
	x := Exempt{exact: make(map[string][]string)}
	for _, entry := range entries {
		method, p, ok := strings.Cut(entry, " ")
		methods := []string{method}
		if !ok {
			methods, p = []string{http.MethodGet, http.MethodHead}, entry
		}
		if !strings.HasPrefix(p, "/") || !clean(p) || strings.ContainsAny(p, " ?#%{}*") || method == "" || ok && strings.ToUpper(method) != method {
			return Exempt{}, fmt.Errorf("%w: exempt path %q; want a clean path such as /health or /assets/, or a method and one", ErrInvalid, entry)
		}
		for _, m := range methods {
			if p != "/" && strings.HasSuffix(p, "/") {
				x.prefixes = append(x.prefixes, prefixRule{m, p})
			} else {
				x.exact[p] = append(x.exact[p], m)
			}
		}
	}
	return x, nil
}

// DefaultExempt is what a server's load balancer asks for: /health and /ready.
func DefaultExempt() Exempt {
	x, err := NewExempt("/health", "/ready")
	if err != nil {
		panic(err) // the list is ours
	}
	return x
}

// Open reports whether a request needs no key.
func (x Exempt) Open(r *http.Request) bool {
	// CONNECT and its like: what they mean a mux decides in its own way.
	if r.URL == nil || r.URL.RawPath != "" || r.URL.Opaque != "" || r.Method == http.MethodConnect {
		return false
	}
	p := r.URL.Path
	if slices.Contains(x.exact[p], r.Method) {
		return true
	}
	for _, rule := range x.prefixes {
		if r.Method == rule.method && strings.HasPrefix(p, rule.dir) {
			return clean(p)
		}
	}
	return false
}

// clean reports whether a path is as short as it can be written.
func clean(p string) bool {
	c := path.Clean(p)
	if c != "/" && strings.HasSuffix(p, "/") {
		c += "/"
	}
	return c == p
}

// RefuseFunc answers a request that is refused. The error is a [*RefusedError].
// The request is a copy without secrets and without a body: its headers that
// hold keys say "[redacted]", and its URL has no query. A 401 should carry
// WWW-Authenticate: Bearer.
type RefuseFunc func(w http.ResponseWriter, r *http.Request, err *RefusedError)

// Middleware puts authentication before all of next but what is exempt: put it
// around the whole mux, and a route that is added later needs a key too. What
// passes has its Identity in the request's context. Nothing of the body is read.
//
// Preflights of browsers (OPTIONS) carry no key and are refused: where other
// origins are allowed, that is decided outside of this.
func (a *Authenticator) Middleware(next http.Handler, exempt Exempt, refuse RefuseFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if exempt.Open(r) {
			next.ServeHTTP(w, r)
			return
		}
		id, err := a.authenticate(r)
		if err != nil {
			out := presentable(r)
			out.Body = http.NoBody
			refuse(w, out, err)
			return
		}
		next.ServeHTTP(w, r.WithContext(NewContext(r.Context(), id)))
	})
}

type contextKey struct{}

// NewContext returns a context that says who sends a request. Nobody is not said.
func NewContext(ctx context.Context, id *Identity) context.Context {
	if id == nil || id.key.ID == "" {
		return ctx
	}
	return context.WithValue(ctx, contextKey{}, id)
}

// FromContext returns who sends a request; false if nobody is known.
func FromContext(ctx context.Context) (*Identity, bool) {
	id, ok := ctx.Value(contextKey{}).(*Identity)
	return id, ok
}
