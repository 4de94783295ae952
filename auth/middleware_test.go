package auth_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/llmgw/llmgw/auth"
	"github.com/llmgw/llmgw/storage"
)

func exempt(t testing.TB, entries ...string) auth.Exempt {
	t.Helper()
	x, err := auth.NewExempt(entries...)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func refuse(w http.ResponseWriter, _ *http.Request, err *auth.RefusedError) {
	w.WriteHeader(err.Status())
	_, _ = io.WriteString(w, err.Message())
}

func TestExempt(t *testing.T) {
	x := exempt(t, "/health", "/ready", "/", "/assets/", "POST /login", "GET /only", "/a.b/", "POST /form/")
	for _, test := range []struct {
		method, target string
		want           bool
	}{
		{"GET", "/health", true},
		{"HEAD", "/health", true},
		{"GET", "/ready", true},
		{"GET", "/health?x=1", true},
		{"GET", "/", true},
		{"GET", "/assets/", true},
		{"GET", "/assets/app.css", true},
		{"GET", "/assets/a/b%20c", true},
		{"HEAD", "/assets/a", true},
		{"POST", "/login", true},
		{"GET", "/only", true},
		{"GET", "/a.b/c", true},
		{"POST", "/form/x", true},
		{"GET", "http://elsewhere/health", true},

		{"POST", "/health", false},
		{"get", "/health", false},
		{"OPTIONS", "/health", false},
		{"OPTIONS", "/v1/models", false},
		{"OPTIONS", "*", false},
		{"CONNECT", "/health", false},
		{"GET", "/login", false},
		{"HEAD", "/only", false},
		{"GET", "/form/x", false},
		{"GET", "/v1/models", false},
		{"GET", "/v1", false},
		{"GET", "/x", false}, // "/" is the root alone
		{"GET", "//", false},
		{"GET", "/.", false},
		{"GET", "/assets", false},
		{"GET", "/assetsx", false},
		{"GET", "/aXb/c", false},
		{"GET", "/health/", false},
		{"GET", "/health.", false},
		{"GET", "/Health", false},
		{"GET", "/healthz", false},
		{"GET", "//health", false},
		{"GET", "/./health", false},
		{"GET", "/x/../health", false},
		{"GET", "/%68ealth", false},
		{"GET", "/health%2f", false},
		{"GET", "/health%00", false},
		{"GET", "/health;x", false},
		{"GET", "/assets/../v1/models", false},
		{"GET", "/assets/%2e%2e/v1/models", false},
		{"GET", "/assets/..%2fv1/models", false},
		{"GET", "/assets/./x", false},
		{"GET", "/assets//v1", false},
		{"GET", "/assets/..", false},
		{"GET", "/health/../v1/models", false},
		{"GET", "//health/../v1/models", false},
	} {
		r := &http.Request{Method: test.method, Header: http.Header{}}
		var err error
		if r.URL, err = url.ParseRequestURI(test.target); err != nil {
			t.Fatal(err)
		}
		if got := x.Open(r); got != test.want {
			t.Errorf("%s %s is open: %v, want %v", test.method, test.target, got, test.want)
		}
	}
	if (auth.Exempt{}).Open(request("")) || auth.DefaultExempt().Open(request("")) || (auth.Exempt{}).Open(&http.Request{Method: "GET"}) {
		t.Error("what is on no list is open")
	}
	r := httptest.NewRequest("GET", "/ready", nil)
	if !auth.DefaultExempt().Open(r) {
		t.Error("/ready is not open")
	}
	r.Header.Set("X-Http-Method-Override", "POST")
	r.Method = "POST"
	if auth.DefaultExempt().Open(r) {
		t.Error("POST /ready is open")
	}
}

func TestNewExemptRefuses(t *testing.T) {
	for _, entry := range []string{"", "health", "*", "/a//b", "/a/../b", "/a/.", "/{x}", "/a?b", "/a#b", "/%61", "get /x", "GET x", " /x", "GET  /x", "GET /a b"} {
		if _, err := auth.NewExempt(entry); err == nil {
			t.Errorf("%q was taken", entry)
		}
	}
}

// Whatever a path looks like: if the mux leads it to a handler that is not
// exempt, that handler saw an identity or was not called.
func TestNoPathGetsAround(t *testing.T) {
	h := guarded(t)
	pieces := rapid.SampledFrom([]string{"/", "//", "health", "ready", "assets", "v1", "models", "..", ".", "%2f", "%2e", "%2E%2e", "%00", ";", "%", "\\", "?", "#", "é", "%68ealth", " ", "@", ":", "http:", "*"})
	rapid.Check(t, func(t *rapid.T) {
		h(t, rapid.SampledFrom([]string{"GET", "HEAD", "POST", "OPTIONS", "CONNECT", "get", "PROPFIND"}).Draw(t, "method"),
			strings.Join(rapid.SliceOfN(pieces, 1, 8).Draw(t, "path"), ""))
	})
}

func FuzzNoPathGetsAround(f *testing.F) {
	for _, p := range []string{"/health", "//health/../v1/models", "/assets/%2e%2e/v1", "/assets/..%2f", "http://x/health", "x:y", "/%2e/health", "*"} {
		f.Add("GET", p)
	}
	h := guarded(f)
	f.Fuzz(func(t *testing.T, method, target string) { h(t, method, target) })
}

// guarded returns a check of one request against a mux in which each handler
// knows whether it may be called without a key.
func guarded(t testing.TB) func(rapid.TB, string, string) {
	mux := http.NewServeMux()
	reached := ""
	open := func(name string) http.HandlerFunc {
		return func(http.ResponseWriter, *http.Request) { reached = "open " + name }
	}
	closed := func(name string) http.HandlerFunc {
		return func(_ http.ResponseWriter, r *http.Request) { reached = "closed " + name + " " + r.URL.String() }
	}
	mux.Handle("GET /health", open("health"))
	mux.Handle("/health", closed("health by another method"))
	mux.Handle("GET /assets/", open("assets"))
	mux.Handle("GET /ready", open("ready"))
	mux.Handle("GET /{$}", open("root"))
	mux.Handle("/v1/", closed("API"))
	mux.Handle("/", closed("else"))
	x := exempt(t, "/health", "/ready", "/assets/", "/")
	a := newAuth(t, newStore(), nil)
	h := a.Middleware(mux, x, refuse)
	return func(t rapid.TB, method, target string) {
		u, err := url.ParseRequestURI(target)
		if err != nil {
			return
		}
		reached = ""
		r := &http.Request{Method: method, URL: u, Host: "x", RequestURI: target, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{}, Body: http.NoBody}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if strings.HasPrefix(reached, "closed") {
			t.Fatalf("%s %q reached %s without a key", method, target, reached)
		}
		if reached == "" && w.Code == 200 {
			t.Fatalf("%s %q was answered 200 by nobody", method, target)
		}
	}
}

// A route that is added later needs a key too, and its handler is told whose it
// is.
func TestMiddleware(t *testing.T) {
	store := newStore()
	key := store.add(t, storage.Key{ID: "key_1", Owner: "ada"})
	a := newAuth(t, store, patient)
	start(t, a)
	mux := http.NewServeMux()
	h := a.Middleware(mux, auth.DefaultExempt(), func(w http.ResponseWriter, r *http.Request, err *auth.RefusedError) {
		if r.Header.Get("Authorization") != "[redacted]" && r.Header.Get("Authorization") != "" || r.URL.RawQuery != "" {
			t.Error("a refusal is told the secret")
		}
		if r.URL.Path != "/new/route" || r.Header.Get("Anthropic-Version") != "x" {
			t.Errorf("a refusal is not told of what: %s", r.URL)
		}
		if n, _ := r.Body.Read(make([]byte, 1)); n != 0 {
			t.Error("a refusal can read the body")
		}
		refuse(w, r, err)
	})
	mux.HandleFunc("/new/route", func(w http.ResponseWriter, r *http.Request) {
		id, ok := auth.FromContext(r.Context())
		fmt.Fprint(w, ok, id.Owner())
	})
	mux.HandleFunc("/health", func(w http.ResponseWriter, r *http.Request) {
		_, ok := auth.FromContext(r.Context())
		fmt.Fprint(w, "health ", ok)
	})
	for _, test := range []struct {
		path, key string
		code      int
		body      string
	}{
		{"/new/route", key, 200, "trueada"},
		{"/new/route", "", 401, "An API key is needed"},
		{"/new/route", stranger(t), 401, "not known here"},
		{"/new/route", "nonsense", 401, "cannot be one of this server. Its keys begin with llmgw_ and have 55 characters"},
		{"/new/route?key=" + key, key, 400, "must not stand in the URL"},
		{"/health", "", 200, "health false"},
		{"/health", "nonsense", 200, "health false"},
	} {
		r := httptest.NewRequest(http.MethodGet, test.path, strings.NewReader("body"))
		r.Header.Set("Anthropic-Version", "x")
		if test.key != "" {
			r.Header.Set("Authorization", "Bearer "+test.key)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != test.code || !strings.Contains(w.Body.String(), test.body) {
			t.Errorf("%s: %d %s, want %d %s", strings.ReplaceAll(test.path, key, "KEY"), w.Code, w.Body, test.code, test.body)
		}
		if rest, _ := io.ReadAll(r.Body); string(rest) != "body" {
			t.Errorf("%d: the body was read", test.code)
		}
	}
}

// What net/http makes of bytes on a connection is what the tests above are about.
func TestMiddlewareOnTheWire(t *testing.T) {
	store := newStore()
	a := newAuth(t, store, nil)
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(http.ResponseWriter, *http.Request) { t.Error("reached without a key") })
	mux.HandleFunc("/health", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "ok") })
	srv := httptest.NewServer(a.Middleware(mux, auth.DefaultExempt(), refuse))
	defer srv.Close()
	for line, want := range map[string]string{
		"GET /health HTTP/1.1":                       "200",
		"GET http://h/health HTTP/1.1":               "200",
		"GET //health/../v1/x HTTP/1.1":              "401",
		"GET /health/..%2f..%2fv1/models HTTP/1.1":   "401",
		"GET /%68ealth HTTP/1.1":                     "401",
		"POST /health HTTP/1.1\r\nContent-Length: 0": "401",
		"GET /v1/models HTTP/1.1\r\nAuthorization: Bearer a\r\nAuthorization: Bearer b": "400",
		"GET /v1/models HTTP/1.1\r\nX-API-KEY: a\r\nauthorization: bearer b":            "400",
		"GET /v1/models HTTP/1.1\r\nauthorization: Bearer\t":                            "401",
	} {
		conn, err := net.Dial("tcp", srv.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(conn, line+"\r\nHost: x\r\nConnection: close\r\n\r\n")
		answer, err := io.ReadAll(conn)
		if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 "+want) {
			t.Errorf("%q: %.60q, %v; want %s", line, answer, err, want)
		}
		_ = conn.Close()
	}
}
