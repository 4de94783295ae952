package portal_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"github.com/llmgw/llmgw/auth/account"
	"github.com/llmgw/llmgw/auth/portal"
	"github.com/llmgw/llmgw/auth/webui"
	"github.com/llmgw/llmgw/storage"
)

// filledPath puts something into a route's variable part.
func filledPath(path string) string {
	switch {
	case strings.HasPrefix(path, "/link/"):
		return "/link/key-link"
	case strings.HasPrefix(path, "/reset/"):
		return "/reset/reset-link"
	}
	return path
}

// Every route that changes something refuses whatever does not come from a form of
// this very session. A route that is added is walked, too.
func TestEveryPostIsGuarded(t *testing.T) {
	w := filled(t, nil)
	if _, err := w.mint(storage.Key{Account: w.accounts[ann].ID, Name: "n"}); err != nil {
		t.Fatal(err)
	}
	walked := 0
	for _, rt := range w.routes {
		if rt.Method != http.MethodPost {
			continue
		}
		walked++
		path := filledPath(rt.Path)
		b, foreign := w.signedIn(ann), w.signedIn(bob)
		right, wrong := b.token(t, "/profile", ""), foreign.token(t, "/profile", "")
		if rt.Access == webui.Open {
			b, foreign = w.browser(), w.browser()
			right, wrong = b.token(t, "/login", ""), foreign.token(t, "/login", "")
		}
		kind, body := "application/x-www-form-urlencoded", "id=x&name=n&seen=&password="+url.QueryEscape(password)
		if rt.JSON {
			kind, body = "application/json", `{"key":"key_00000","model":"m","messages":[{"role":"user","content":"hi"}]}`
		}
		for _, tt := range []struct {
			name   string
			status int
			header []string
		}{
			{"no token", 403, nil},
			{"wrong token", 403, []string{"X-Form-Token", strings.Repeat("A", 43)}},
			{"empty token", 403, []string{"X-Form-Token", ""}},
			{"foreign token", 403, []string{"X-Form-Token", wrong}},
			{"cross-site origin", 403, []string{"X-Form-Token", right, "Origin", "https://evil.example"}},
			{"null origin", 403, []string{"X-Form-Token", right, "Origin", "null"}},
			{"cross-site by fetch metadata", 403, []string{"X-Form-Token", right, "Sec-Fetch-Site", "cross-site"}},
			{"same-site by fetch metadata", 403, []string{"X-Form-Token", right, "Sec-Fetch-Site", "same-site"}},
			{"another type", 415, []string{"X-Form-Token", right, "Content-Type", "text/plain"}},
		} {
			before := w.calls
			w.plane = func(http.ResponseWriter, *http.Request) { t.Errorf("POST %s: %s: the plane was asked", path, tt.name) }
			answer := b.do("POST", path, strings.NewReader(body), append([]string{"Content-Type", kind}, tt.header...)...)
			if answer.Code != tt.status || w.calls != before {
				t.Errorf("POST %s: %s: %d, want %d; did something: %v", path, tt.name, answer.Code, tt.status, w.calls != before)
			}
		}
		before := w.calls
		answer := b.do("POST", path, strings.NewReader("a="+strings.Repeat("a", 10<<20)), "Content-Type", kind, "X-Form-Token", right)
		if answer.Code != 413 || w.calls != before {
			t.Errorf("POST %s: ten million bytes: %d", path, answer.Code)
		}
		for _, method := range []string{"GET", "HEAD", "PUT", "DELETE", "PATCH", "OPTIONS"} {
			before := w.calls
			got := b.do(method, path, strings.NewReader(body), "Content-Type", kind, "X-Form-Token", right)
			if w.calls != before {
				t.Errorf("%s %s did something: %d", method, path, got.Code)
			}
			if method != "GET" && method != "HEAD" && (got.Code != 405 || !strings.Contains(got.Header().Get("Allow"), "POST")) {
				t.Errorf("%s %s: %d, Allow %q", method, path, got.Code, got.Header().Get("Allow"))
			}
		}
	}
	if walked < 11 {
		t.Errorf("walked %d routes", walked)
	}
}

// Every answer of every route has the headers, and no page is large.
func TestEveryAnswerHasHeaders(t *testing.T) {
	w := filled(t, nil)
	for _, rt := range w.routes {
		path := filledPath(rt.Path)
		for _, b := range []*browser{w.browser(), w.signedIn(ann)} {
			answer := b.do(rt.Method, path, strings.NewReader(""), "Content-Type", "application/x-www-form-urlencoded")
			h := answer.Header()
			policy := "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
			if rt.Script {
				policy += "; script-src 'self'; connect-src 'self'"
			}
			for name, want := range map[string]string{
				"Content-Security-Policy": policy, "X-Content-Type-Options": "nosniff", "Referrer-Policy": "same-origin", "Vary": "Cookie",
				"Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin", "Cache-Control": "no-store",
			} {
				if got := h.Get(name); got != want {
					t.Errorf("%s %s: %s: %q, want %q", rt.Method, path, name, got, want)
				}
			}
			if answer.Body.Len() > 100_000 {
				t.Errorf("%s %s: %d bytes", rt.Method, path, answer.Body.Len())
			}
			if strings.Contains(answer.Body.String(), "<script>") || strings.Contains(answer.Body.String(), "<style") || strings.Contains(answer.Body.String(), " style=") {
				t.Errorf("%s %s has inline script or style", rt.Method, path)
			}
		}
	}
}

// shape is what a page is made of: its elements with the names of their attributes.
func shape(t *testing.T, page io.Reader) (list []string) {
	t.Helper()
	doc, err := html.Parse(page)
	if err != nil {
		t.Fatal(err)
	}
	for n := range doc.Descendants() {
		if n.Type == html.CommentNode {
			list = append(list, "comment")
		}
		if n.Type != html.ElementNode {
			continue
		}
		var text strings.Builder
		text.WriteString(n.Data)
		for _, a := range n.Attr {
			text.WriteString(" " + a.Key)
			if a.Key == "href" || a.Key == "action" || a.Key == "src" {
				scheme, _, ok := strings.Cut(a.Val, ":")
				if ok && scheme != "http" && scheme != "https" && scheme != "mailto" {
					text.WriteString("=" + a.Val)
				}
			}
		}
		list = append(list, text.String())
	}
	return list
}

// Whatever people type into any field, or engines and operators say, becomes text.
func TestScriptsAreText(t *testing.T) {
	payloads := []string{
		`<script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`, `' autofocus onfocus='alert(1)`, `</title><svg onload=alert(1)>`,
		`</textarea><b>x`, `javascript:alert(1)//@x`, `{{.}}`, `<!--`, `]]>`, "\x00<b>", `&lt;b&gt;<b>`, "`+alert(1)+`", `--><x>`, `</pre><h1>`,
	}
	pages := func(text string) map[string]*bytes.Buffer {
		w := filled(t, func(_ *webui.Config, c *portal.Config, d *portal.Deps) {
			c.Contact = "ask " + text
			d.Models = nil
		})
		w.accounts[ann].Allowance.Models = []string{text}
		w.accounts[ann].Address = text
		w.accounts[text] = w.accounts[ann]
		if _, err := w.mint(storage.Key{Account: w.accounts[ann].ID, Name: text, Models: []string{text}}); err != nil {
			t.Fatal(err)
		}
		w.keys[0].Hint = text
		w.rollups = []storage.Rollup{{Start: noon().Truncate(24 * 3600e9), KeyID: text, Model: text, Requests: 1}}
		b := w.signedIn(text)
		for _, v := range w.sessions {
			v.Session.Agent, v.Session.From = text, text
		}
		out := map[string]*bytes.Buffer{}
		for _, path := range []string{"/", "/profile", "/profile/usage", "/profile/sessions", "/chat", "/nothing"} {
			out[path] = b.get(path).Body
		}
		q := url.QueryEscape(text)
		out["notes"] = (&browser{h: w.h, cookies: map[string]string{"llmgw": b.cookies["llmgw"]}}).do("GET", "/profile?page="+q, nil, "Cookie", "llmgw-note="+q).Body
		anon := w.browser()
		out["next"] = anon.get("/login?next=" + q).Body
		out["forwarded"] = anon.do("GET", "/", nil, "X-Forwarded-Host", text, "X-Forwarded-Proto", text, "X-Forwarded-Prefix", text).Body
		out["login"] = anon.post(t, "/login", "/login", "address", text, "password", text, "next", text).Body
		out["signup"] = anon.post(t, "/signup", "/signup", "address", "@"+text, "password", "short").Body
		out["link"] = anon.get("/link/" + url.PathEscape(text)).Body
		seen := value(t, b.get("/profile").Body.String(), "seen")
		out["key refused"] = b.post(t, "/profile", "/profile/keys", "name", text, "models", text, "expires", text, "seen", seen).Body
		out["old form"] = b.post(t, "/profile", "/profile/keys", "name", text, "models", text, "expires", text, "seen", text).Body
		out["key"] = b.post(t, "/profile", "/profile/keys", "name", text, "models", text, "expires", "90d", "seen", seen).Body
		out["password"] = b.post(t, "/profile/sessions", "/profile/password", "current", text, "next", text).Body
		return out
	}
	plain := pages("harmless")
	for _, payload := range payloads {
		for name, page := range pages(payload) {
			raw := page.String()
			got := shape(t, page)
			want := shape(t, bytes.NewReader(plain[name].Bytes()))
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%s is another page with %q:\n%v\nwant\n%v\n%s", name, payload, got, want, raw)
			}
		}
	}
}

// tenThousand has that many keys in use, a year of usage of many models, and names as
// long as they may be.
func tenThousand(tb testing.TB) (*world, *browser) {
	tb.Helper()
	w := filled(tb, nil)
	w.accounts[ann].Allowance.Keys = 10_000
	long := strings.Repeat("<", 256)
	for i := range 10_000 {
		w.keys = append(w.keys, storage.Key{ID: fmt.Sprintf("key_%05d", i), Account: w.accounts[ann].ID, Hint: "llmgw-abcd…wxyz", Name: fmt.Sprintf("program %d of many", i), Models: []string{"qwen*"}, CreatedAt: noon()})
	}
	w.keys[9_999].Name = long
	for day := range 30 {
		for m := range 500 {
			w.rollups = append(w.rollups, storage.Rollup{Start: noon().Truncate(24*3600e9).AddDate(0, 0, -day), KeyID: fmt.Sprintf("key_%05d", m), Model: fmt.Sprintf("model-%d", m), Requests: 1 << 40, Input: 1 << 50, Output: 1 << 50, CostNanos: 1 << 50})
		}
	}
	w.links["l"] = account.LinkInfo{}
	return w, w.signedIn(ann)
}

func TestLargePagesStaySmall(t *testing.T) {
	w, b := tenThousand(t)
	for round, change := range []func(){
		func() {},
		func() { // the worst that anybody can call things
			for i := range w.keys {
				w.keys[i].Name, w.keys[i].Models = strings.Repeat("\"", 256), []string{strings.Repeat("'", 256), strings.Repeat("&", 256)}
			}
			for i := range w.rollups {
				w.rollups[i].Model = strings.Repeat("\"", 250) + w.rollups[i].Model
			}
			for range 200 {
				v := w.sessions[w.in(ann)]
				v.Session.Agent, v.Session.From = strings.Repeat("\"", 256), strings.Repeat("\"", 256)
			}
		},
	} {
		change()
		for _, path := range []string{"/profile", "/profile?page=400", "/profile?page=99999999999999999999", "/profile/usage", "/profile/sessions", "/chat"} {
			page := b.get(path)
			wantCode(t, page, 200)
			t.Logf("%d %s: %d bytes", round, path, page.Body.Len())
			if page.Body.Len() > 100_000 {
				t.Errorf("%s has %d bytes", path, page.Body.Len())
			}
		}
		typed := strings.Repeat("\"", 9_000)
		for path, fields := range map[string][]string{"/profile/keys": {"name", typed, "models", typed, "expires", "x"}} {
			page := b.post(t, "/profile", path, fields...)
			t.Logf("%d POST %s: %d bytes", round, path, page.Body.Len())
			if page.Body.Len() > 100_000 {
				t.Errorf("POST %s has %d bytes", path, page.Body.Len())
			}
		}
	}
	wantCode(t, b.get("/profile?page=400"), 200, "Page 400 of 400", "Newer keys")
}

func BenchmarkPages(b *testing.B) {
	_, who := tenThousand(b)
	for _, path := range []string{"/", "/login", "/profile", "/profile/usage", "/profile/sessions", "/chat"} {
		b.Run(path+"/keys=10000", func(b *testing.B) {
			for b.Loop() {
				if w := who.get(path); w.Code != 200 && w.Code != 303 {
					b.Fatal(w.Code)
				}
			}
		})
	}
}
