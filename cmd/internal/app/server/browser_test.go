package server_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
)

// browser is somebody's, as far as the server can tell.
type browser struct {
	t      *testing.T
	base   string
	client *http.Client
	seen   *secrets
}

// secrets are what nobody but one browser may ever see.
type secrets struct {
	mu   sync.Mutex
	list map[string]string // by text, what it is
}

func (s *secrets) add(what, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.list == nil {
		s.list = map[string]string{}
	}
	s.list[text] = what
}

func newBrowser(t *testing.T, address string, seen *secrets) *browser {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &browser{t, "http://" + address, &http.Client{Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}, seen}
}

// answer is what a browser got.
type answer struct {
	status int
	header http.Header
	body   string
}

func (b *browser) do(method, path string, body io.Reader, header ...string) answer {
	b.t.Helper()
	req, err := http.NewRequestWithContext(b.t.Context(), method, b.base+path, body)
	if err != nil {
		b.t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := b.client.Do(req)
	if err != nil {
		b.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	for _, c := range resp.Cookies() {
		if len(c.Value) >= 32 {
			b.seen.add("cookie "+c.Name, c.Value)
		}
	}
	return answer{resp.StatusCode, resp.Header, string(text)}
}

func (b *browser) get(path string) answer {
	b.t.Helper()
	return b.do(http.MethodGet, path, http.NoBody)
}

var hidden = regexp.MustCompile(`<input type="hidden" name="([a-z_]+)" value="([^"]*)">`)

// submit opens a page, fills its form in and sends it to a path, as a browser does.
func (b *browser) submit(page, to string, fields ...string) answer {
	b.t.Helper()
	form := url.Values{}
	for _, m := range hidden.FindAllStringSubmatch(b.get(page).body, -1) {
		form.Set(m[1], m[2])
		if m[1] == "form_token" {
			b.seen.add("form token", m[2])
		}
	}
	for i := 0; i < len(fields); i += 2 {
		form.Set(fields[i], fields[i+1])
	}
	return b.do(http.MethodPost, to, strings.NewReader(form.Encode()), "Content-Type", "application/x-www-form-urlencoded", "Origin", b.base, "Sec-Fetch-Site", "same-origin")
}

// signIn signs in with a password.
func (b *browser) signIn(address, password string) answer {
	b.t.Helper()
	return b.submit("/login", "/login", "address", address, "password", password)
}

// want fails the test unless an answer has that status and text.
func (b *browser) want(what string, a answer, status int, texts ...string) answer {
	b.t.Helper()
	for _, text := range texts {
		if !strings.Contains(a.body, text) {
			b.t.Fatalf("%s: %d without %q:\n%s", what, a.status, text, a.body)
		}
	}
	if a.status != status {
		b.t.Fatalf("%s: %d %v, want %d\n%s", what, a.status, a.header, status, a.body)
	}
	return a
}

// leads fails the test unless an answer leads to a path.
func (b *browser) leads(what string, a answer, path string) {
	b.t.Helper()
	if a.status != http.StatusSeeOther || a.header.Get("Location") != path {
		b.t.Fatalf("%s: %d to %q, want 303 to %q\n%s", what, a.status, a.header.Get("Location"), path, a.body)
	}
}

var secretText = regexp.MustCompile(`id="secret"[^>]*>(llmgw_[^<]+)<`)

// key returns the key that a page shows.
func (b *browser) key(what string, a answer) string {
	b.t.Helper()
	m := secretText.FindStringSubmatch(a.body)
	if a.status != http.StatusOK || m == nil {
		b.t.Fatalf("%s: %d shows no key:\n%s", what, a.status, a.body)
	}
	b.seen.add("key", m[1])
	return m[1]
}

// api asks for an answer with a key, as a program does, and returns the status.
func (b *browser) api(key string) int {
	b.t.Helper()
	plain := &browser{b.t, b.base, http.DefaultClient, b.seen}
	return plain.do(http.MethodPost, "/v1/chat/completions", strings.NewReader(`{"model":"m","messages":[{"role":"user","content":"hi"}],"max_tokens":4}`),
		"Content-Type", "application/json", "Authorization", "Bearer "+key).status
}

// chat sends a message on the chat page with a key, and returns the answer.
func (b *browser) chat(keyID, text string) answer {
	b.t.Helper()
	page := b.get("/chat")
	m := regexp.MustCompile(`name="form_token" value="([^"]+)"|data-token="([^"]+)"|content="([A-Za-z0-9_-]{43})"`).FindStringSubmatch(page.body)
	if m == nil {
		b.t.Fatalf("the chat page has no token: %d\n%s", page.status, page.body)
	}
	return b.do(http.MethodPost, "/chat/completions",
		strings.NewReader(fmt.Sprintf(`{"key":%q,"model":"m","messages":[{"role":"user","content":%q}]}`, keyID, text)),
		"Content-Type", "application/json", "X-Form-Token", m[1]+m[2]+m[3], "Origin", b.base, "Sec-Fetch-Site", "same-origin")
}
