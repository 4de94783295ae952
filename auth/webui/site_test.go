package webui_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/llmgw/llmgw/auth/webui"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// people are sessions by their tokens.
type people map[string]webui.Visitor

var errDown = errors.New("the store is down")

func (p people) Visit(_ context.Context, token string) (webui.Visitor, error) {
	if token == token43("down") {
		return webui.Visitor{}, errDown
	}
	v, ok := p[token]
	if !ok {
		return webui.Visitor{}, fmt.Errorf("session: %w", webui.ErrNobody)
	}
	return v, nil
}

// token43 makes a text as long as a token is.
func token43(name string) string { return name + strings.Repeat("x", 43-len(name)) }

func visitor(name string, admin bool) webui.Visitor {
	return webui.Visitor{Address: name + "@example.org", Admin: admin, FormToken: "form-" + name, Checks: func(f string) bool { return f == "form-"+name }}
}

func newPeople() people {
	return people{token43("ann"): visitor("ann", false), token43("bob"): visitor("bob", false), token43("root"): visitor("root", true)}
}

func newSite(tb testing.TB, cfg webui.Config, change func(*webui.Deps)) *webui.Site {
	tb.Helper()
	deps := webui.Deps{Sessions: newPeople()}
	if change != nil {
		change(&deps)
	}
	s, err := webui.New(cfg, deps)
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

// table is a small site; done counts what its POST routes did.
func table(tb testing.TB, s *webui.Site, done *int) []webui.Route {
	tb.Helper()
	views, err := s.Views(fstest.MapFS{
		"form.html":  {Data: []byte(`<h1>A form</h1><form method="post">{{template "token" .}}</form>`)},
		"half.html":  {Data: []byte(`<h1>Half</h1>{{.Nothing.At.All}}`)},
		"hello.html": {Data: []byte(`<h1>Hello</h1>`)},
	}, nil, "*.html")
	if err != nil {
		tb.Fatal(err)
	}
	page := func(body string) func(http.ResponseWriter, *http.Request, webui.Visit) error {
		return func(w http.ResponseWriter, r *http.Request, v webui.Visit) error {
			var data any = struct{ Nothing any }{}
			if body == "form.html" {
				token, err := v.FormToken()
				if err != nil {
					return err
				}
				data = token
			}
			return s.Page(w, r, http.StatusOK, webui.Page{Title: "A page", Views: views, Body: body, Data: data})
		}
	}
	act := func(w http.ResponseWriter, r *http.Request, _ webui.Visit) error {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return err
		}
		*done++
		http.Redirect(w, r, "/", http.StatusSeeOther)
		return nil
	}
	return []webui.Route{
		{Method: "GET", Path: "/", Access: webui.Open, Handler: page("hello.html")},
		{Method: "GET", Path: "/form", Access: webui.Open, Handler: page("form.html")},
		{Method: "POST", Path: "/form", Access: webui.Open, Handler: act},
		{Method: "GET", Path: "/mine", Access: webui.SignedIn, Handler: page("form.html")},
		{Method: "POST", Path: "/mine", Access: webui.SignedIn, Handler: act},
		{Method: "GET", Path: "/board", Access: webui.Admin, Handler: page("hello.html")},
		{Method: "POST", Path: "/board", Access: webui.Admin, Handler: act},
		{Method: "POST", Path: "/script", Access: webui.SignedIn, Handler: act, JSON: true, MaxBody: 64},
		{Method: "GET", Path: "/item/{id}", Access: webui.Open, Handler: page("hello.html")},
		{Method: "GET", Path: "/half", Access: webui.Open, Handler: page("half.html")},
		{Method: "GET", Path: "/panic", Access: webui.Open, Handler: func(http.ResponseWriter, *http.Request, webui.Visit) error { panic("at the disco") }},
		{Method: "GET", Path: "/live", Access: webui.SignedIn, Handler: page("hello.html"), Script: true},
	}
}

// ask sends one request, with the header in pairs.
func ask(h http.Handler, method, target, body string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

const formType = "application/x-www-form-urlencoded"

func TestGuards(t *testing.T) {
	done := 0
	s := newSite(t, webui.Config{}, nil)
	h := s.Handler(table(t, s, &done))

	first := ask(h, "GET", "/form", "")
	pre := first.Result().Cookies()
	if len(pre) != 1 || pre[0].Name != "llmgw-form" || !pre[0].HttpOnly || pre[0].SameSite != http.SameSiteLaxMode || pre[0].Secure {
		t.Fatalf("cookies of a form: %v", pre)
	}
	token := between(t, first.Body.String(), `name="form_token" value="`, `"`)
	open := "llmgw-form=" + pre[0].Value
	ann, bob, root := "llmgw="+token43("ann"), "llmgw="+token43("bob"), "llmgw="+token43("root")
	tests := []struct {
		name         string
		method, path string
		body         string
		header       []string
		status       int
		acts         bool
		says         string
	}{
		{name: "open page", method: "GET", path: "/", status: 200, says: "Hello"},
		{name: "head", method: "HEAD", path: "/", status: 200},
		{name: "no such page", method: "GET", path: "/nothing", status: 404, says: "There is nothing here"},
		{name: "post to a page", method: "POST", path: "/", status: 405, says: "does not work here"},
		{name: "delete", method: "DELETE", path: "/form", status: 405},
		{name: "options", method: "OPTIONS", path: "/form", status: 405},
		{name: "get of a post", method: "GET", path: "/script", status: 405},

		{name: "open form", method: "POST", path: "/form", body: "form_token=" + token, header: []string{"Cookie", open}, status: 303, acts: true},
		{name: "token in the header", method: "POST", path: "/form", header: []string{"Cookie", open, "X-Form-Token", token}, status: 303, acts: true},
		{name: "token in the query", method: "POST", path: "/form?form_token=" + token, header: []string{"Cookie", open}, status: 403, says: "older than your session"},
		{name: "no token", method: "POST", path: "/form", body: "a=b", header: []string{"Cookie", open}, status: 403, says: "older than your session"},
		{name: "no cookie", method: "POST", path: "/form", body: "form_token=" + token, status: 403, says: "keeps no cookies"},
		{name: "another's cookie", method: "POST", path: "/form", body: "form_token=" + token, header: []string{"Cookie", "llmgw-form=" + token43("evil")}, status: 403},
		{name: "a session's token on an open form", method: "POST", path: "/form", body: "form_token=form-ann", header: []string{"Cookie", ann}, status: 403},
		{name: "cross-site by fetch metadata", method: "POST", path: "/form", body: "form_token=" + token, header: []string{"Cookie", open, "Sec-Fetch-Site", "cross-site"}, status: 403, says: "another site"},
		{name: "same-site is another site", method: "POST", path: "/form", body: "form_token=" + token, header: []string{"Cookie", open, "Sec-Fetch-Site", "same-site"}, status: 403},
		{name: "same-origin", method: "POST", path: "/form", body: "form_token=" + token, header: []string{"Cookie", open, "Sec-Fetch-Site", "same-origin"}, status: 303, acts: true},
		{name: "cross-site by origin", method: "POST", path: "/form", body: "form_token=" + token, header: []string{"Cookie", open, "Origin", "https://evil.example"}, status: 403},
		{name: "null origin", method: "POST", path: "/form", body: "form_token=" + token, header: []string{"Cookie", open, "Origin", "null"}, status: 403},
		{name: "own origin", method: "POST", path: "/form", body: "form_token=" + token, header: []string{"Cookie", open, "Origin", "http://example.com"}, status: 303, acts: true},
		{name: "multipart", method: "POST", path: "/form", body: "x", header: []string{"Cookie", open, "X-Form-Token", token, "Content-Type", "multipart/form-data; boundary=x"}, status: 415},
		{name: "text", method: "POST", path: "/form", body: "form_token=" + token, header: []string{"Cookie", open, "Content-Type", "text/plain"}, status: 415},
		{name: "large", method: "POST", path: "/form", body: "form_token=" + token + "&a=" + strings.Repeat("a", 65<<10), header: []string{"Cookie", open}, status: 413, says: "64 KiB"},
		{name: "damaged", method: "POST", path: "/form", body: "form_token=" + token + "&a=%zz", header: []string{"Cookie", open}, status: 400},

		{name: "own page signed out", method: "GET", path: "/mine", status: 303},
		{name: "own page", method: "GET", path: "/mine", header: []string{"Cookie", ann}, status: 200, says: "form-ann"},
		{name: "own form", method: "POST", path: "/mine", body: "form_token=form-ann", header: []string{"Cookie", ann}, status: 303, acts: true},
		{name: "foreign token", method: "POST", path: "/mine", body: "form_token=form-bob", header: []string{"Cookie", ann}, status: 403},
		{name: "after sign-out", method: "POST", path: "/mine", body: "form_token=form-ann", status: 403, says: "not signed in any more"},
		{name: "unknown session", method: "POST", path: "/mine", body: "form_token=form-ann", header: []string{"Cookie", "llmgw=" + token43("gone")}, status: 403},
		{name: "store down", method: "POST", path: "/mine", body: "form_token=form-ann", header: []string{"Cookie", "llmgw=" + token43("down")}, status: 503},
		{name: "store down, own page", method: "GET", path: "/mine", header: []string{"Cookie", "llmgw=" + token43("down")}, status: 503, says: "Try again in a minute"},
		{name: "store down, open page", method: "GET", path: "/", header: []string{"Cookie", "llmgw=" + token43("down")}, status: 200},

		{name: "board signed out", method: "GET", path: "/board", status: 404, says: "There is nothing here"},
		{name: "board without the flag", method: "GET", path: "/board", header: []string{"Cookie", bob}, status: 404},
		{name: "board", method: "GET", path: "/board", header: []string{"Cookie", root}, status: 200},
		{name: "act on the board without the flag", method: "POST", path: "/board", body: "form_token=form-bob", header: []string{"Cookie", bob}, status: 404},
		{name: "act on the board", method: "POST", path: "/board", body: "form_token=form-root", header: []string{"Cookie", root}, status: 303, acts: true},

		{name: "script", method: "POST", path: "/script", body: "{}", header: []string{"Cookie", ann, "X-Form-Token", "form-ann", "Content-Type", "application/json"}, status: 303, acts: true},
		{name: "script without a token", method: "POST", path: "/script", body: "{}", header: []string{"Cookie", ann, "Content-Type", "application/json"}, status: 403, says: `{"error":{"message":"This page is older`},
		{name: "form as a script", method: "POST", path: "/script", body: "form_token=form-ann", header: []string{"Cookie", ann}, status: 415, says: `{"error":`},
		{name: "large script", method: "POST", path: "/script", body: strings.Repeat("a", 65), header: []string{"Cookie", ann, "X-Form-Token", "form-ann", "Content-Type", "application/json"}, status: 413},

		{name: "half a page", method: "GET", path: "/half", status: 500, says: "Something went wrong here"},
		{name: "panic", method: "GET", path: "/panic", status: 500, says: "Something went wrong here"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			done = 0
			header := tt.header
			if tt.method == "POST" && !strings.Contains(strings.Join(header, " "), "Content-Type") {
				header = append([]string{"Content-Type", formType}, header...)
			}
			w := ask(h, tt.method, tt.path, tt.body, header...)
			if w.Code != tt.status {
				t.Errorf("status %d, want %d: %s", w.Code, tt.status, w.Body)
			}
			if done == 1 != tt.acts {
				t.Errorf("acted %d times; acts %v", done, tt.acts)
			}
			if !strings.Contains(w.Body.String(), tt.says) {
				t.Errorf("does not say %q: %s", tt.says, w.Body)
			}
			if strings.Contains(w.Body.String(), "Half") {
				t.Errorf("half a page was sent: %s", w.Body)
			}
			wantHeaders(t, tt.path, w.Header())
			if tt.status == 405 && w.Header().Get("Allow") == "" {
				t.Error("405 without Allow")
			}
		})
	}
}

// wantHeaders checks what every answer has.
func wantHeaders(t *testing.T, path string, h http.Header) {
	t.Helper()
	policy := "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
	if path == "/live" {
		policy += "; script-src 'self'; connect-src 'self'"
	}
	for name, want := range map[string]string{
		"Content-Security-Policy":      policy,
		"X-Content-Type-Options":       "nosniff",
		"Referrer-Policy":              "same-origin",
		"Cross-Origin-Opener-Policy":   "same-origin",
		"Cross-Origin-Resource-Policy": "same-origin",
		"Permissions-Policy":           "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
		"Cache-Control":                "no-store",
		"Vary":                         "Cookie",
	} {
		if got := h.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

func TestSignInCookies(t *testing.T) {
	for _, tt := range []struct {
		name, public, target string
		secure               bool
	}{
		{"plain", "", "http://example.com/in", false},
		{"TLS", "", "https://example.com/in", true},
		{"TLS before a proxy", "https://llm.example.org", "http://example.com/in", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newSite(t, webui.Config{PublicURL: tt.public}, nil)
			h := s.Handler([]webui.Route{{Method: "GET", Path: "/in", Access: webui.Open, Handler: func(w http.ResponseWriter, r *http.Request, _ webui.Visit) error {
				s.SignIn(w, r, token43("new"))
				return nil
			}}})
			w := ask(h, "GET", tt.target, "", "X-Forwarded-Proto", "https")
			c := w.Result().Cookies()
			name := "llmgw"
			if tt.secure {
				name = "__Host-llmgw"
			}
			if len(c) != 2 || c[0].Name != name || c[0].Value != token43("new") || c[0].Secure != tt.secure || !c[0].HttpOnly || c[0].Path != "/" || c[0].Domain != "" || c[0].MaxAge != 0 {
				t.Errorf("cookies: %v", c)
			}
			if c[1].Name != name+"-form" || c[1].MaxAge >= 0 {
				t.Errorf("the form's cookie: %v", c[1])
			}
			if hsts := w.Header().Get("Strict-Transport-Security"); (hsts != "") != tt.secure {
				t.Errorf("Strict-Transport-Security: %q", hsts)
			}
		})
	}
}

func TestLists(t *testing.T) {
	done := 0
	s := newSite(t, webui.Config{}, nil)
	routes := table(t, s, &done)[:2]
	routes = append(routes, webui.Route{Method: "POST", Path: "/link/{token}"})
	want := []string{"GET /", "GET /assets/", "GET /form", "HEAD /", "HEAD /assets/", "HEAD /form", "POST /link/"}
	if diff := cmp.Diff(want, s.Exempt(routes)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"/assets/", "/form", "/link/{token}", "/{$}"}, s.Patterns(routes)); diff != "" {
		t.Error(diff)
	}
}

func TestWrongTablePanics(t *testing.T) {
	s := newSite(t, webui.Config{}, nil)
	ok := webui.Route{Method: "GET", Path: "/", Access: webui.Open, Handler: func(http.ResponseWriter, *http.Request, webui.Visit) error { return nil }}
	for name, change := range map[string]func(*webui.Route){
		"method":  func(r *webui.Route) { r.Method = "PUT" },
		"access":  func(r *webui.Route) { r.Access = 0 },
		"handler": func(r *webui.Route) { r.Handler = nil },
		"twice":   func(*webui.Route) {},
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			second := ok
			change(&second)
			s.Handler([]webui.Route{ok, second})
		})
	}
}

func TestGuardOfAHandler(t *testing.T) {
	s := newSite(t, webui.Config{}, nil)
	h := s.Guard(webui.Admin)(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who, ok := webui.VisitFrom(r.Context()).Visitor()
		if err := s.Page(w, r, 200, webui.Page{Title: who.Address, Body: "problem.html", Data: webui.Problem{Title: fmt.Sprint(ok)}}); err != nil {
			t.Error(err)
		}
	}))
	if w := ask(h, "GET", "/admin/nodes", "", "Cookie", "llmgw="+token43("root")); w.Code != 200 || !strings.Contains(w.Body.String(), "root@example.org · llmgw") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if w := ask(h, "GET", "/admin/nodes", "", "Cookie", "llmgw="+token43("ann")); w.Code != 404 {
		t.Errorf("without the flag: %d", w.Code)
	}
	if w := ask(h, "POST", "/admin/nodes", "", "Cookie", "llmgw="+token43("root")); w.Code != 405 || w.Header().Get("Allow") != "GET, HEAD" {
		t.Errorf("POST: %d %v", w.Code, w.Header())
	}
}

func TestAssets(t *testing.T) {
	s := newSite(t, webui.Config{}, func(d *webui.Deps) {
		d.Assets = fstest.MapFS{"more.js": {Data: []byte("'use strict'")}}
	})
	for _, name := range []string{"style.css", "icon.svg", "more.js"} {
		address, err := s.Asset(name)
		if err != nil {
			t.Fatal(err)
		}
		w := ask(s.Assets(), "GET", address, "")
		if w.Code != 200 || w.Header().Get("Cache-Control") != "public, max-age=31536000, immutable" || w.Header().Get("X-Content-Type-Options") != "nosniff" || w.Body.Len() == 0 {
			t.Errorf("%s: %d %v", address, w.Code, w.Header())
		}
	}
	if w := ask(s.Assets(), "GET", "/assets/style.css", ""); w.Code != 404 || w.Header().Get("Cache-Control") != "no-store" {
		t.Errorf("without a hash: %d %v", w.Code, w.Header())
	}
	if _, err := webui.New(webui.Config{}, webui.Deps{Assets: fstest.MapFS{"style.css": {}}}); err == nil {
		t.Error("a second style.css is taken")
	}
}

func TestConfig(t *testing.T) {
	for text, ok := range map[string]bool{
		"": true, "https://llm.example.org": true, "http://10.0.0.5:8080/": true, "https://[2001:db8::1]:8443": true,
		"llm.example.org": false, "https://": false, "https://a/b": false, "ftp://a": false, "https://u:p@a": false, "https://a?x": false, "javascript:alert(1)": false,
	} {
		if err := (webui.Config{PublicURL: text}).Validate(); (err == nil) != ok {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func between(t *testing.T, text, from, to string) string {
	t.Helper()
	_, rest, ok := strings.Cut(text, from)
	found, _, ok2 := strings.Cut(rest, to)
	if !ok || !ok2 {
		t.Fatalf("nothing between %q and %q in %s", from, to, text)
	}
	v, err := url.QueryUnescape(found)
	if err != nil {
		t.Fatal(err)
	}
	return v
}
