package portal_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/llmgw/llmgw/auth"
	"github.com/llmgw/llmgw/auth/portal"
	"github.com/llmgw/llmgw/auth/webui"
	"github.com/llmgw/llmgw/storage"
)

const hello = `{"key":"key_00000","model":"m<&>","messages":[{"role":"user","content":"hi & <b>"}]}`

func chatWorld(t *testing.T) (*world, *browser, string) {
	t.Helper()
	w := filled(t, nil)
	if _, err := w.mint(storage.Key{Account: w.accounts[ann].ID, Name: "mine"}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.mint(storage.Key{Account: w.accounts[bob].ID, Name: "his"}); err != nil {
		t.Fatal(err)
	}
	b := w.signedIn(ann)
	return w, b, b.token(t, "/chat", "")
}

func (b *browser) say(token, body string) *httptest.ResponseRecorder {
	return b.do("POST", "/chat/completions", strings.NewReader(body), "Content-Type", "application/json", "X-Form-Token", token)
}

func TestChat(t *testing.T) {
	w, b, token := chatWorld(t)
	var seen http.Header
	var body string
	w.plane = func(rw http.ResponseWriter, r *http.Request) {
		id, ok := auth.FromContext(r.Context())
		text, err := io.ReadAll(r.Body)
		if !ok || id.KeyID() != "key_00000" || err != nil || r.Method != "POST" || r.URL.Path != "/v1/chat/completions" || r.ContentLength != int64(len(text)) {
			t.Errorf("the plane was asked by %v: %s %s of %d bytes, %v", id.KeyID(), r.Method, r.URL, r.ContentLength, err)
		}
		seen, body = r.Header, string(text)
		h := rw.Header()
		h.Set("Content-Type", "text/event-stream")
		h.Set("Cache-Control", "no-cache")
		h.Set("Access-Control-Allow-Origin", "*")
		h.Set("Set-Cookie", "a=b")
		h.Set("X-Request-Id", "r1")
		_, _ = io.WriteString(rw, "data: one\n\n")
		if err := http.NewResponseController(rw).Flush(); err != nil {
			t.Error(err)
		}
	}
	b.header.Set("Authorization", "Bearer nonsense")
	b.header.Set("X-Forwarded-For", "1.2.3.4")
	b.header.Set("X-Session-Id", "x")
	answer := b.say(token, hello)
	wantCode(t, answer, 200, "data: one")
	if diff := cmp.Diff(http.Header{"Content-Type": {"application/json"}, "Accept": {"text/event-stream"}}, seen); diff != "" {
		t.Error(diff)
	}
	if want := `{"model":"m<&>","messages":[{"role":"user","content":"hi & <b>"}],"stream":true}` + "\n"; body != want {
		t.Errorf("the plane was sent %s", body)
	}
	h := answer.Header()
	if h.Get("Cache-Control") != "no-store" || h.Get("Access-Control-Allow-Origin") != "" || len(b.cookies) != 1 || h.Get("X-Request-Id") != "r1" || h.Get("Vary") != "Cookie" {
		t.Errorf("headers of the answer: %v", h)
	}
}

func TestChatRefuses(t *testing.T) {
	w, b, token := chatWorld(t)
	w.plane = func(http.ResponseWriter, *http.Request) { t.Error("the plane was asked") }
	for _, tt := range []struct {
		name, body string
		code       int
		says       string
	}{
		{"another's key", strings.ReplaceAll(hello, "key_00000", "key_00001"), 403, "This key does not work"},
		{"no key", strings.ReplaceAll(hello, "key_00000", ""), 403, "This key does not work"},
		{"no model", strings.ReplaceAll(hello, "m<&>", ""), 400, "Choose a model"},
		{"no message", `{"key":"key_00000","model":"m","messages":[]}`, 400, "Write something"},
		{"a tool", strings.ReplaceAll(hello, `"user"`, `"tool"`), 400, "damaged"},
		{"more fields", strings.ReplaceAll(hello, `"model"`, `"n":5,"model"`), 400, "damaged"},
		{"not JSON", "hello", 400, "damaged"},
		{"twice", hello + hello, 400, "damaged"},
		{"too many", `{"key":"k","model":"m","messages":[` + strings.Repeat(`{"role":"user","content":"x"},`, 500) + `{"role":"user","content":"x"}]}`, 400, "too many messages"},
		{"too long", `{"key":"k","model":"m","messages":[{"role":"user","content":"` + strings.Repeat("x", 1<<20) + `"}]}`, 413, "fit here"},
		{"too long behind", hello + strings.Repeat(" ", 1<<20), 413, "fit here"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			answer := b.say(token, tt.body)
			wantCode(t, answer, tt.code, tt.says)
			var said struct {
				Error struct{ Message string } `json:"error"`
			}
			if err := json.Unmarshal(answer.Body.Bytes(), &said); err != nil || said.Error.Message == "" {
				t.Errorf("not an error of the API: %v %s", err, answer.Body)
			}
		})
	}
	w.keys[0].RevokedAt = noon()
	wantCode(t, b.say(token, hello), 403, "was revoked")
}

func TestChatPage(t *testing.T) {
	w, b, _ := chatWorld(t)
	wantCode(t, b.get("/chat"), 200, `src="/assets/chat.`, "mine", "model-of-key_00000", `role="log"`, `aria-live="polite"`)
	if body := b.get("/chat").Body.String(); strings.Contains(body, "his") && strings.Contains(body, "key_00001") {
		t.Errorf("Bob's key is offered to Ann: %s", body)
	}
	wantCode(t, b.get("/chat/models?key=key_00000"), 200, `{"models":["model-of-key_00000","other"]}`)
	wantCode(t, b.get("/chat/models?key=key_00001"), 403, "This key does not work")
	wantCode(t, w.signedIn(root).get("/chat"), 200, "To chat you need a key")

	none := filled(t, func(_ *webui.Config, _ *portal.Config, d *portal.Deps) { d.Plane = nil })
	wantCode(t, none.signedIn(ann).get("/chat"), 404)
}

// When the browser goes away, what the plane does ends.
func TestChatStops(t *testing.T) {
	w, b, token := chatWorld(t)
	ended := make(chan error, 1)
	w.plane = func(rw http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(rw, "data: one\n\n")
		_ = http.NewResponseController(rw).Flush()
		<-r.Context().Done()
		ended <- r.Context().Err()
	}
	server := httptest.NewServer(w.h)
	defer server.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, server.URL+"/chat/completions", strings.NewReader(hello))
	if err != nil {
		t.Fatal(err)
	}
	req.Header = http.Header{"Content-Type": {"application/json"}, "X-Form-Token": {token}, "Cookie": {"llmgw=" + b.cookies["llmgw"]}}
	resp, err := server.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if line, err := bufio.NewReader(resp.Body).ReadString('\n'); err != nil || line != "data: one\n" {
		t.Fatalf("%q %v", line, err)
	}
	cancel()
	if err := <-ended; err == nil {
		t.Error("the plane went on")
	}
}

// The script makes no markup of what it is told.
func TestChatScript(t *testing.T) {
	script, err := io.ReadAll(must(portal.Assets().Open("chat.js")))
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "localStorage", "sessionStorage", "http://", "https://"} {
		if strings.Contains(string(script), bad) {
			t.Errorf("chat.js has %s", bad)
		}
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
