package discover_test

import (
	"encoding/pem"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/llmgw/llmgw/fleet/discover"
	"github.com/llmgw/llmgw/fleet/discover/discovertest"
)

func caFile(t *testing.T, server *httptest.Server) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ca.crt")
	writeFile(t, path, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})))
	return path
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func newClient(t *testing.T, cfg discover.ClientConfig) *discover.Client {
	t.Helper()
	c, err := discover.NewClient(cfg, discover.ClientDeps{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func registration() discover.Registration {
	return discover.Registration{APIBase: "http://10.0.0.1:8000", Name: "gold-m-8000", TTLSeconds: 90}
}

func TestClientOverTLS(t *testing.T) {
	control := discovertest.NewControlPlane("first")
	server := httptest.NewTLSServer(control)
	defer server.Close()
	token := filepath.Join(t.TempDir(), "token")
	writeFile(t, token, "first\n")
	ca := caFile(t, server)
	c := newClient(t, discover.ClientConfig{ControlURL: server.URL + "/", TokenFile: token, CAFile: ca})
	got, err := c.Register(t.Context(), registration())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(discover.Registered{ID: "prov_http://10.0.0.1:8000", Name: "gold-m-8000", Kind: "dynamic", Leased: true}, got); diff != "" {
		t.Error(diff)
	}
	// A token is replaced, first there and then here.
	control.SetTokens("second")
	if _, err := c.Register(t.Context(), registration()); !errors.Is(err, discover.ErrUnauthorized) || strings.Contains(err.Error(), "first") {
		t.Errorf("a token that is known no more: %v", err)
	}
	writeFile(t, token, "second")
	if _, err := c.Register(t.Context(), registration()); err != nil {
		t.Errorf("the new token: %v", err)
	}
	for _, bad := range []string{"", " \n", "two words", "a\nb", "\x00", strings.Repeat("x", 5000)} {
		writeFile(t, token, bad)
		if _, err := c.Register(t.Context(), registration()); !errors.Is(err, discover.ErrUnauthorized) || !strings.Contains(err.Error(), "holds no key") {
			t.Errorf("token %.10q: %v", bad, err)
		}
	}
	if err := os.Remove(token); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Register(t.Context(), registration()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no token file: %v", err)
	}
	writeFile(t, token, "second")
	// A CA is replaced, too, and verified by from then on.
	writeFile(t, ca, "no certificate")
	if _, err := c.Register(t.Context(), registration()); !errors.Is(err, discover.ErrUnavailable) || !strings.Contains(err.Error(), "holds no certificate") {
		t.Errorf("no CA: %v", err)
	}
}

func TestClientVerifies(t *testing.T) {
	control := discovertest.NewControlPlane("key")
	server := httptest.NewUnstartedServer(control)
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // of the handshake that fails
	server.StartTLS()
	defer server.Close()
	_, err := newClient(t, discover.ClientConfig{ControlURL: server.URL, Token: "key"}).Register(t.Context(), registration())
	if !errors.Is(err, discover.ErrUnavailable) || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("a certificate of nobody: %v", err)
	}
	if control.Requests() != 0 {
		t.Error("the token was sent to a stranger")
	}
}

func TestClientAnswers(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a redirect was followed") }))
	defer elsewhere.Close()
	answer := func(status int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		}
	}
	tests := []struct {
		name    string
		handler http.HandlerFunc
		class   error // nil: none
		status  int
		text    string
	}{
		{"static", answer(200, `{"id":"prov_1","name":"n","kind":"static","leased":false}`), nil, 0, ""},
		{"created", answer(201, `{"id":"prov_1","name":"n","kind":"dynamic","leased":true}`), nil, 0, ""},
		{"unauthorized", answer(401, `{"error":{"message":"no such key"}}`), discover.ErrUnauthorized, 401, "no such key"},
		{"refused", answer(422, `{"error":{"message":"a metadata\naddress `+strings.Repeat("x", 1000)+`"}}`), discover.ErrRefused, 422, "a metadata address xxx"},
		{"forbidden", answer(403, ``), discover.ErrRefused, 403, "says nothing"},
		{"broken", answer(500, `<html>`), discover.ErrUnavailable, 500, "says nothing"},
		{"busy", answer(429, ``), discover.ErrUnavailable, 429, ""},
		{"no JSON", answer(200, `<html>`), discover.ErrUnavailable, 200, "none of a control plane"},
		{"something else", answer(200, `{"ok":true}`), discover.ErrUnavailable, 200, "none of a control plane"},
		{"long", answer(200, strings.Repeat(" ", 1<<20)), discover.ErrUnavailable, 200, "more than 65536 bytes"},
		{"redirect", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
		}, discover.ErrUnavailable, 307, ""},
		{"hangs up", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, discover.ErrUnavailable, 0, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			server := httptest.NewServer(tt.handler)
			defer server.Close()
			_, err := newClient(t, discover.ClientConfig{ControlURL: server.URL, Token: "sk-geheim"}).Register(t.Context(), registration())
			if tt.class == nil {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			refused, ok := errors.AsType[*discover.RegisterError](err)
			if !ok || !errors.Is(err, tt.class) || refused.Status != tt.status || !strings.Contains(err.Error(), tt.text) {
				t.Fatalf("error %v", err)
			}
			if strings.Contains(err.Error(), "geheim") || strings.Contains(err.Error(), "\n") || len(err.Error()) > 600 {
				t.Errorf("error %q", err)
			}
			if want := 7 * time.Second; tt.status >= 400 && refused.RetryAfter != want {
				t.Errorf("RetryAfter %v, want %v", refused.RetryAfter, want)
			}
		})
	}
}

func TestClientConfig(t *testing.T) {
	tests := []struct {
		name string
		cfg  discover.ClientConfig
		want string // "" for none
	}{
		{"good", discover.ClientConfig{ControlURL: "https://control.example:7443", TokenFile: "x"}, ""},
		{"the loopback in the clear", discover.ClientConfig{ControlURL: "http://127.0.0.1:9090", TokenFile: "x"}, ""},
		{"localhost in the clear", discover.ClientConfig{ControlURL: "http://localhost:9090", TokenFile: "x"}, ""},
		{"in the clear", discover.ClientConfig{ControlURL: "http://control.example", TokenFile: "x"}, "sent in the clear; want https://"},
		{"no URL", discover.ClientConfig{ControlURL: "control.example", TokenFile: "x"}, "control_url: "},
		{"a password", discover.ClientConfig{ControlURL: "https://a:geheim@control.example", TokenFile: "x"}, "control_url: "},
		{"no token", discover.ClientConfig{ControlURL: "https://control.example"}, "token_file: "},
		{"two tokens", discover.ClientConfig{ControlURL: "https://control.example", TokenFile: "x", Token: "y"}, "token_file: "},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := discover.NewClient(tt.cfg, discover.ClientDeps{})
			switch {
			case tt.want == "" && err != nil:
				t.Error(err)
			case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
				t.Errorf("%v, want an error with %q", err, tt.want)
			case err != nil && strings.Contains(err.Error(), "geheim"):
				t.Error("a password is repeated")
			}
		})
	}
}
