package server

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"go.uber.org/fx"

	"github.com/llmgw/llmgw/auth"
	config "github.com/llmgw/llmgw/cmd/internal/config/server"
)

// raw asks for a path as it is written, without a body, and follows nothing.
func raw(t *testing.T, method, address, path string, header ...string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, "http://"+address, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.URL.Opaque = path
	if strings.HasPrefix(path, "//") { // which would be read as a host
		req.URL.Opaque = "//" + address + path
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	return sent(t, http.DefaultTransport, req)
}

// Without a key nothing is answered but what is on the list, however its path is
// written; with one those other spellings are the data plane's to refuse.
func TestExemptPaths(t *testing.T) {
	cfg := keyed(t)
	r := startWith(t, cfg, gatewayModule())
	_, key := mint(t, opened(t, cfg.Store.DSN), auth.Spec{})
	const token = "0123456789012345678901234567890123456789012"
	open := map[string][]string{ // by path, without a key: methods that are answered by a page
		"/": {"GET", "HEAD"}, "/signup": {"GET", "HEAD", "POST"}, "/login": {"GET", "HEAD", "POST"}, "/logout": {"POST"},
		"/profile": {"GET", "HEAD"}, "/profile/usage": {"GET", "HEAD"}, "/profile/sessions": {"GET", "HEAD"}, "/profile/keys": {"GET", "HEAD", "POST"},
		"/profile/keys/revoke": {"GET", "HEAD", "POST"}, "/profile/password": {"GET", "HEAD", "POST"}, "/profile/nothing": {"GET", "HEAD"},
		"/link/" + token: {"GET", "HEAD", "POST"}, "/link/": {"GET", "HEAD", "POST"}, "/reset/" + token: {"GET", "HEAD", "POST"},
		"/chat": {"GET", "HEAD"}, "/chat/models": {"GET", "HEAD"}, "/chat/completions": {"POST"},
		"/assets/": {"GET", "HEAD"}, "/assets/style.css": {"GET", "HEAD"}, "/health": {"GET", "HEAD"}, "/ready": {"GET", "HEAD"},
		"/admin": {"GET", "HEAD"}, "/admin/": {"GET", "HEAD"}, "/admin/accounts": {"GET", "HEAD"}, "/admin/nothing": {"GET", "HEAD"},
		"//admin/": nil, "/Admin/": nil, "/admin//nodes": nil, "/%61dmin/": nil, "/adminx": nil,
		"/link": nil, "/reset": nil, "/assets": nil, "/profile/": {"GET", "HEAD"}, "/chat/": nil, "/login/": nil, "/signup/x": nil,
		"/v1/models": nil, "/v1/chat/completions": nil, "/metrics": nil, "/debug/pprof/": nil, "/llmgw.api.v1.UserService/ListUsers": nil, "/console/": nil,
		"//": nil, "//login": nil, "/./login": nil, "/x/../login": nil, "/LOGIN": nil, "/login%2f": nil, "/%6cogin": nil, "/login;a": nil,
		"/link//" + token: nil, "/link/../v1/models": nil, "/assets/../v1/models": nil, "/assets/%2e%2e/v1/models": nil, "/profile/../v1/models": nil, "/profile//keys": nil,
		"//profile/keys": nil, "/Link/" + token: nil, "/health/": nil, "//health": nil, "/%68ealth": nil,
	}
	for path, methods := range open {
		for _, method := range []string{"GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "PROPFIND"} {
			resp, body := raw(t, method, r.Client, path)
			page := strings.HasPrefix(resp.Header.Get("Content-Security-Policy"), "default-src 'none'") || (path == "/health" || path == "/ready") && resp.StatusCode != 401
			if want := slices.Contains(methods, method); page != want || !want && resp.StatusCode != 401 {
				t.Errorf("%s %s without a key: %d %v %.80q; want a page %t, else 401", method, path, resp.StatusCode, resp.Header, body, want)
			}
			if len(methods) == 0 {
				resp, body := raw(t, method, r.Client, path, "Authorization", "Bearer "+key)
				if resp.Header.Get("Content-Security-Policy") != "" || resp.StatusCode == 401 {
					t.Errorf("%s %s with a key: %d %v %.80q; want the data plane", method, path, resp.StatusCode, resp.Header, body)
				}
			}
		}
	}
}

// What is added to the client listener and not put on the list needs a key.
func TestAddedRoutesNeedAKey(t *testing.T) {
	cfg := keyed(t)
	extra, err := auth.NewExempt("/extra", "/extra/")
	if err != nil {
		t.Fatal(err)
	}
	added := mount{extra, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { writePlain(w, http.StatusOK, "extra") })}
	r := startWith(t, cfg, fx.Options(gatewayModule(), fx.Decorate(func(p *pages) *pages {
		p.mounts = append(p.mounts, added)
		return p
	})))
	_, key := mint(t, opened(t, cfg.Store.DSN), auth.Spec{})
	for _, path := range []string{"/extra", "/extra/more"} {
		if status, body := ask(t, "GET", "http://"+r.Client+path, ""); status != 401 {
			t.Errorf("%s without a key: %d %q", path, status, body)
		}
		if status, body := ask(t, "GET", "http://"+r.Client+path, key); status != 200 || body != "extra" {
			t.Errorf("%s with a key: %d %q", path, status, body)
		}
	}
}

// Where nobody is asked for a key nobody can sign in: there is the landing page, and
// it holds no data.
func TestLandingAlone(t *testing.T) {
	for name, change := range map[string]func(*config.Config){
		"auth.enabled: false":   func(cfg *config.Config) { cfg.Auth.Enabled = false },
		"portal.enabled: false": func(cfg *config.Config) { cfg.Portal.Enabled = false },
	} {
		cfg := keyed(t)
		change(&cfg)
		cfg.Gateway.Models[0].Name, cfg.Gateway.Endpoints[0].Models[0].Name = "a-secret-model", "a-secret-model"
		r := startWith(t, cfg, gatewayModule())
		status, body := get(t, "http://"+r.Client+"/")
		if status != 200 || !strings.Contains(body, r.Client) || strings.Contains(body, "a-secret-model") || strings.Contains(body, "/login") {
			t.Errorf("%s: / = %d %s", name, status, body)
		}
		for _, path := range []string{"/login", "/signup", "/profile", "/chat", "/admin/", "/link/x"} {
			want := 404
			if cfg.Auth.Enabled {
				want = 401
			}
			if status, body := get(t, "http://"+r.Client+path); status != want || !strings.Contains(body, `"error"`) {
				t.Errorf("%s: %s = %d %s; want the data plane's %d", name, path, status, body, want)
			}
		}
	}
}

// sent sends a request and returns the answer with its whole body.
func sent(t *testing.T, by http.RoundTripper, req *http.Request) (*http.Response, string) {
	t.Helper()
	resp, err := by.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(body)
}
