package portal_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/llmgw/llmgw/auth/account"
	"github.com/llmgw/llmgw/auth/portal"
	"github.com/llmgw/llmgw/auth/webui"
	"github.com/llmgw/llmgw/storage"
)

const ann, bob, root = "ann@example.org", "bob@example.org", "root@example.org"

// filled is a world with a bit of everything.
func filled(tb testing.TB, change func(*webui.Config, *portal.Config, *portal.Deps)) *world {
	tb.Helper()
	w := newWorld(tb, change)
	w.add(ann, nil)
	w.add(bob, nil)
	w.add(root, func(a *storage.Account) { a.Admin = true })
	w.links["key-link"] = account.LinkInfo{Kind: storage.LinkKey, ExpiresAt: noon().Add(time.Hour)}
	w.links["reset-link"] = account.LinkInfo{Kind: storage.LinkReset, ExpiresAt: noon().Add(time.Hour)}
	w.plane = func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(http.StatusOK) }
	return w
}

func TestFromSignUpToSignOut(t *testing.T) {
	w := filled(t, nil)
	b := w.browser()
	wantCode(t, b.post(t, "/signup", "/signup", "address", "new@example.org", "password", password), 200, "An operator has to approve you")
	wantCode(t, b.post(t, "/login", "/login", "address", "new@example.org", "password", password), 403, "Not approved yet")
	wantTo(t, b.get("/profile"), "/login?next=%2Fprofile")

	w.accounts["new@example.org"].State = storage.AccountApproved
	before := b.cookies["llmgw-form"]
	wantTo(t, b.post(t, "/login?next=/chat", "/login", "address", "new@example.org", "password", password, "next", "/chat"), "/chat")
	if b.cookies["llmgw"] == "" || b.cookies["llmgw-form"] != "" || before == "" {
		t.Fatalf("cookies after signing in: %v", b.cookies)
	}
	page := b.get("/profile")
	wantCode(t, page, 200, "You have no key yet", "new@example.org", "Sign out")

	form := url.Values{"form_token": {value(t, page.Body.String(), "form_token")}, "seen": {value(t, page.Body.String(), "seen")}, "name": {"notebook"}, "models": {"qwen*, llama"}, "expires": {"30d"}}
	made := b.send("/profile/keys", form)
	wantCode(t, made, 200, "Copy it now", "notebook", "qwen*, llama", "2026-12-30")
	if got := made.Header().Get("Cache-Control"); got != "no-store" {
		t.Errorf("Cache-Control of a key: %q", got)
	}
	_, rest, _ := strings.Cut(made.Body.String(), `id="secret"`)
	_, rest, _ = strings.Cut(rest, ">")
	secret, _, _ := strings.Cut(rest, "<")
	if len(secret) < 40 || strings.Count(made.Body.String(), secret) != 1 {
		t.Fatalf("the key %q is there %d times", secret, strings.Count(made.Body.String(), secret))
	}

	again := b.send("/profile/keys", form)
	wantCode(t, again, 409, "No key was made now", `value="notebook"`)
	if len(w.keys) != 1 {
		t.Errorf("a reload made %d keys", len(w.keys))
	}
	for _, path := range []string{"/profile", "/profile/usage", "/chat"} {
		if w := b.get(path); strings.Contains(w.Body.String(), secret) {
			t.Errorf("%s shows the key again", path)
		}
	}
	wantTo(t, b.post(t, "/profile", "/profile/keys/revoke", "id", w.keys[0].ID), "/profile")
	wantCode(t, b.get("/profile"), 200, "The key is revoked", "revoked")
	if body := b.get("/profile").Body.String(); strings.Contains(body, "The key is revoked") {
		t.Error("what was done is said twice")
	}

	old := b.cookies["llmgw"]
	wantTo(t, b.post(t, "/profile", "/logout"), "/login")
	wantCode(t, b.get("/login"), 200, "You are signed out")
	wantTo(t, b.get("/profile"), "/login?next=%2Fprofile")
	b.cookies["llmgw"] = old // whoever kept the cookie
	wantTo(t, b.get("/profile"), "/login?next=%2Fprofile")
	wantCode(t, b.send("/profile/keys", form), 403, "You are not signed in any more")
}

func TestTwoClicksMakeOneKey(t *testing.T) {
	w := filled(t, nil)
	b := w.signedIn(ann)
	body := b.get("/profile").Body.String()
	form := url.Values{"form_token": {value(t, body, "form_token")}, "seen": {value(t, body, "seen")}, "name": {"n"}, "expires": {"never"}}
	var wg sync.WaitGroup
	codes := make([]int, 8)
	for i := range codes {
		c := &browser{h: w.h, cookies: map[string]string{"llmgw": b.cookies["llmgw"]}}
		wg.Go(func() { codes[i] = c.send("/profile/keys", form).Code })
	}
	wg.Wait()
	made := 0
	for _, code := range codes {
		if code == 200 {
			made++
		} else if code != 409 {
			t.Errorf("status %d", code)
		}
	}
	if made != 1 || len(w.keys) != 1 {
		t.Errorf("%d answers and %d keys", made, len(w.keys))
	}
}

func TestFaultsOfAKey(t *testing.T) {
	w := filled(t, nil)
	b := w.signedIn(ann)
	body := b.get("/profile").Body.String()
	form := url.Values{"form_token": {value(t, body, "form_token")}, "seen": {value(t, body, "seen")}, "name": {"n"}, "expires": {"soon"}}
	wantCode(t, b.send("/profile/keys", form), 422, `aria-invalid="true"`, `id="f-expires-error"`, `Use a time such as`)
	form.Set("name", "  ")
	wantCode(t, b.send("/profile/keys", form), 422, "Give it a name")
	if len(w.keys) != 0 {
		t.Error("a key was made")
	}
}

func TestAnotherOnesKey(t *testing.T) {
	w := filled(t, nil)
	if _, err := w.mint(storage.Key{Account: w.accounts[bob].ID, Name: "of Bob"}); err != nil {
		t.Fatal(err)
	}
	b := w.signedIn(ann)
	wantCode(t, b.post(t, "/profile", "/profile/keys/revoke", "id", "key_00000"), 404, "You have no such key")
	if !w.keys[0].RevokedAt.IsZero() {
		t.Error("Ann revoked Bob's key")
	}
}

// Sign-up and sign-in say the same of an address that is known and of one that is not.
func TestSameAnswers(t *testing.T) {
	known, unknown := filled(t, nil), filled(t, nil)
	delete(unknown.accounts, ann)
	for _, tt := range []struct{ path, password string }{{"/signup", password + "x"}, {"/signup", "short"}, {"/login", "not the password"}} {
		var bodies []string
		for _, w := range []*world{known, unknown} {
			b := w.browser()
			token := b.token(t, tt.path, tt.path)
			answer := b.send(tt.path, url.Values{"form_token": {token}, "address": {ann}, "password": {tt.password}})
			h := answer.Header().Clone()
			body := fmt.Sprintln(answer.Code, h, strings.ReplaceAll(answer.Body.String(), token, "TOKEN"))
			bodies = append(bodies, body)
			if len(token) != 43 {
				t.Errorf("a token of %d characters", len(token))
			}
		}
		if bodies[0] != bodies[1] {
			t.Errorf("%s answers\n%s\nto a known address and\n%s\nto an unknown one", tt.path, bodies[0], bodies[1])
		}
		if strings.Contains(bodies[0], tt.password) {
			t.Errorf("%s repeats the password", tt.path)
		}
	}
}

func TestSignInProblems(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*world)
		code   int
		says   string
		retry  string
	}{
		{"refused", func(w *world) { w.accounts[ann].Password = "another" }, 403, "is not right", ""},
		{"pending", func(w *world) { w.accounts[ann].State = storage.AccountPending }, 403, "Not approved yet", ""},
		{"suspended", func(w *world) { w.accounts[ann].State = storage.AccountSuspended }, 403, "suspended", ""},
		{"throttled", func(w *world) { w.fail = &account.ThrottledError{RetryAfter: 90500 * time.Millisecond} }, 429, "Try again in 2 minutes", "91"},
		{"busy", func(w *world) { w.fail = account.ErrBusy }, 503, "Wait a few seconds", "5"},
		{"store down", func(w *world) { w.fail = fmt.Errorf("read: %w", storage.ErrUnavailable) }, 503, "Try again in a minute", "30"},
		{"fault", func(w *world) { w.fail = fmt.Errorf("secret detail") }, 500, "with the number", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := filled(t, nil)
			b := w.browser()
			token := b.token(t, "/login", "/login")
			tt.change(w)
			answer := b.send("/login", url.Values{"form_token": {token}, "address": {ann}, "password": {password}})
			wantCode(t, answer, tt.code, tt.says)
			if got := answer.Header().Get("Retry-After"); got != tt.retry {
				t.Errorf("Retry-After %q, want %q", got, tt.retry)
			}
			if b.cookies["llmgw"] != "" || strings.Contains(answer.Body.String(), "secret detail") {
				t.Errorf("cookies %v: %s", b.cookies, answer.Body)
			}
		})
	}
}

func TestSignUpProblems(t *testing.T) {
	for _, tt := range []struct {
		name    string
		fail    error
		address string
		code    int
		says    string
	}{
		{"closed", account.ErrClosed, ann, 403, "Signing up is closed"},
		{"full", account.ErrFull, ann, 503, "Too many people wait"},
		{"busy", account.ErrBusy, ann, 503, "Wait a few seconds"},
		{"no address", nil, "ann", 422, "The address is not an e-mail address. Use one such as ada@example.org."},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := filled(t, nil)
			b := w.browser()
			token := b.token(t, "/signup", "/signup")
			w.fail = tt.fail
			wantCode(t, b.send("/signup", url.Values{"form_token": {token}, "address": {tt.address}, "password": {password}}), tt.code, tt.says)
		})
	}
	w := filled(t, func(_ *webui.Config, _ *portal.Config, d *portal.Deps) { d.SignUp = false })
	wantCode(t, w.browser().get("/signup"), 200, "Signing up is closed")
	if body := w.browser().get("/").Body.String(); strings.Contains(body, "/signup") {
		t.Error("the landing page offers what is closed")
	}
}

func TestNextIsOurs(t *testing.T) {
	w := filled(t, nil)
	for next, want := range map[string]string{
		"/chat": "/chat", "/profile/usage": "/profile/usage", "": "/profile", "https://evil.example": "/profile", "//evil.example": "/profile",
		"/\\evil.example": "/profile", "/logout": "/profile", "/profile/../login": "/profile", "javascript:alert(1)": "/profile", "/chat\r\nX: y": "/profile",
	} {
		b := w.browser()
		wantTo(t, b.post(t, "/login", "/login", "address", ann, "password", password, "next", next), want)
		wantTo(t, b.get("/login?next="+url.QueryEscape(next)), want)
	}
}

// A token that somebody planted never becomes a session.
func TestSessionFixation(t *testing.T) {
	w := filled(t, nil)
	b := w.browser()
	planted := strings.Repeat("p", 43)
	b.cookies["llmgw"] = planted
	wantTo(t, b.post(t, "/login", "/login", "address", ann, "password", password), "/profile")
	if got := b.cookies["llmgw"]; got == planted || w.sessions[planted] != nil || w.sessions[got] == nil {
		t.Errorf("cookie %q after signing in", got)
	}
	first := b.cookies["llmgw"]
	token := w.browser()
	pre := token.token(t, "/login", "/login")
	b.cookies["llmgw-form"] = token.cookies["llmgw-form"]
	wantTo(t, b.send("/login", url.Values{"form_token": {pre}, "address": {bob}, "password": {password}}), "/profile")
	if w.sessions[first] != nil {
		t.Error("the session that the browser had before lives on")
	}
}

// Two tabs: what was opened before signing out and in again is explained.
func TestTwoTabs(t *testing.T) {
	w := filled(t, nil)
	b := w.signedIn(ann)
	old := b.token(t, "/profile", "/profile/password")
	wantTo(t, b.post(t, "/profile", "/logout"), "/login")
	login := b.token(t, "/login", "/login")
	wantTo(t, b.send("/login", url.Values{"form_token": {login}, "address": {bob}, "password": {password}}), "/profile")
	wantCode(t, b.send("/profile/sessions/others", url.Values{"form_token": {old}}), 403, "This page is older than your session", `href="/profile"`)
	wantCode(t, b.send("/login", url.Values{"form_token": {login}, "address": {ann}, "password": {password}}), 403, "This page is older than your session", `href="/login"`)
}

func TestLinks(t *testing.T) {
	w := filled(t, nil)
	b := w.browser()
	for range 3 { // as previews do
		wantCode(t, b.get("/link/key-link"), 200, "Show the key", "2026-11-30 13:00 UTC")
		wantCode(t, b.get("/reset/reset-link"), 200, "Set the password")
		b.do("HEAD", "/link/key-link", nil)
	}
	if w.calls != 0 {
		t.Fatalf("looking at links changed something")
	}
	wantCode(t, b.post(t, "/link/key-link", "/link/key-link"), 200, "Copy it now", "handed over", "&lt;b&gt;mind&lt;/b&gt;")
	wantCode(t, b.get("/link/key-link"), 410, "This link does not work any more")
	w.links["second"] = account.LinkInfo{Kind: storage.LinkKey, ExpiresAt: noon()}
	token := b.token(t, "/link/second", "")
	w.used["second"] = true
	wantCode(t, b.send("/link/second", url.Values{"form_token": {token}}), 410, "It was opened before, has expired, or was taken back")
	wantCode(t, b.get("/link/nothing"), 404, "There is no such link")
	wantCode(t, b.get("/link/reset-link"), 404, "There is no such link")
	w.links["third"] = account.LinkInfo{Kind: storage.LinkKey, ExpiresAt: noon()}
	wantCode(t, b.get("/reset/third"), 404, "There is no such link")

	wantCode(t, b.post(t, "/reset/reset-link", "/reset/reset-link", "password", "short"), 422, "The password is too short. Use at least 15 characters.")
	wantTo(t, b.post(t, "/reset/reset-link", "/reset/reset-link", "password", password), "/login")
	wantCode(t, b.get("/login"), 200, "Your new password is set")
	if b.cookies["llmgw"] != "" {
		t.Error("the link signed somebody in")
	}
}

func TestSessionsAndPassword(t *testing.T) {
	w := filled(t, nil)
	b, other, third := w.signedIn(ann), w.signedIn(ann), w.signedIn(ann)
	bobs := w.signedIn(bob)
	wantCode(t, b.get("/profile/sessions"), 200, "Firefox on Linux", "(this one)", "End all other sessions")
	wantTo(t, b.post(t, "/profile/sessions", "/profile/sessions/end", "id", w.sessions[other.cookies["llmgw"]].Session.ID), "/profile/sessions")
	wantTo(t, other.get("/profile"), "/login?next=%2Fprofile")
	wantTo(t, b.post(t, "/profile/sessions", "/profile/sessions/end", "id", w.sessions[bobs.cookies["llmgw"]].Session.ID), "/profile/sessions")
	wantCode(t, bobs.get("/profile"), 200)
	wantTo(t, b.post(t, "/profile/sessions", "/profile/sessions/others"), "/profile/sessions")
	wantTo(t, third.get("/profile"), "/login?next=%2Fprofile")

	wantCode(t, b.post(t, "/profile/sessions", "/profile/password", "current", "wrong", "next", password+"2"), 403, "That is not your present password")
	wantCode(t, b.post(t, "/profile/sessions", "/profile/password", "current", password, "next", "short"), 422, "The new password is too short")
	fourth, before := w.signedIn(ann), b.cookies["llmgw"]
	wantTo(t, b.post(t, "/profile/sessions", "/profile/password", "current", password, "next", password+"2"), "/profile/sessions")
	wantCode(t, b.get("/profile/sessions"), 200, "Your password is changed")
	wantTo(t, fourth.get("/profile"), "/login?next=%2Fprofile")
	if b.cookies["llmgw"] == before {
		t.Error("the session has the token that it had before")
	}
	wantTo(t, b.post(t, "/profile/sessions", "/profile/sessions/end", "id", w.sessions[b.cookies["llmgw"]].Session.ID), "/login")
	wantTo(t, b.get("/profile"), "/login?next=%2Fprofile")
}

func TestNav(t *testing.T) {
	w := filled(t, nil)
	for _, tt := range []struct {
		name      string
		b         *browser
		has, lack []string
	}{
		{"signed out", w.browser(), []string{`href="/login"`, `href="/signup"`}, []string{"/admin", `href="/profile"`, "Sign out"}},
		{"signed in", w.signedIn(ann), []string{`href="/profile"`, `href="/chat"`, "Sign out"}, []string{"/admin", `href="/login"`, `href="/signup"`}},
		{"admin", w.signedIn(root), []string{`href="/admin/"`, `href="/profile"`}, nil},
	} {
		for _, path := range []string{"/", "/nothing/here", "/profile", "/profile/usage"} {
			body := tt.b.get(path).Body.String()
			if body == "" || strings.HasPrefix(body, `<a href="/login?`) {
				continue
			}
			for _, text := range tt.has {
				if !strings.Contains(body, text) {
					t.Errorf("%s: %s lacks %s", tt.name, path, text)
				}
			}
			for _, text := range tt.lack {
				if strings.Contains(body, text) {
					t.Errorf("%s: %s has %s", tt.name, path, text)
				}
			}
		}
	}
}

func TestUsage(t *testing.T) {
	w := filled(t, func(_ *webui.Config, _ *portal.Config, d *portal.Deps) { d.Budgets = spent(12_500_000_000) })
	limit := int64(60)
	w.accounts[ann].Allowance = storage.Allowance{Keys: 5, Limits: storage.Limits{RequestsPerMinute: &limit}, Budget: &storage.Budget{Nanos: 20_000_000_000, Period: storage.PeriodMonth}}
	day := time.Date(2026, 11, 29, 0, 0, 0, 0, time.UTC)
	w.rollups = []storage.Rollup{
		{Start: day, KeyID: "key_1", Model: "qwen", Requests: 12345, Failed: 2, Input: 1000, Output: 10, CostNanos: 1_500_000_000},
		{Start: day.AddDate(0, 0, -400), KeyID: "key_1", Model: "old", Requests: 1},
	}
	wantCode(t, w.signedIn(ann).get("/profile/usage"), 200,
		"12\u202f345", "Most on 29 Nov", "12.50 of 20.00", "starts again at", "2026-12-01 00:00 UTC", "a month", "Requests a minute</dt><dd>60", "0 of 5", "qwen")
	w.rollups = nil
	wantCode(t, w.signedIn(bob).get("/profile/usage"), 200, "no limit", "Nothing was used in these days.", `<p class="figure">-</p>`)
}
