package portal_test

import (
	"crypto/sha256"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/llmgw/llmgw/auth"
	"github.com/llmgw/llmgw/auth/account"
	"github.com/llmgw/llmgw/auth/portal"
	"github.com/llmgw/llmgw/auth/webui"
	"github.com/llmgw/llmgw/storage"
	"github.com/llmgw/llmgw/storage/sqlite"
	"github.com/llmgw/llmgw/storage/sqlite/sqlitetest"
)

// reality is a portal with accounts in a store of SQLite.
type reality struct {
	store   *sqlite.Store
	service *account.Service
	h       http.Handler
	plane   http.HandlerFunc
}

func newReality(t *testing.T) *reality {
	t.Helper()
	cfg := sqlite.DefaultConfig()
	cfg.Path = sqlitetest.Database(t)
	re := &reality{}
	var err error
	if re.store, err = sqlite.New(cfg, sqlite.Deps{}); err != nil {
		t.Fatal(err)
	}
	if err := re.store.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := re.store.Close(); err != nil {
			t.Error(err)
		}
	})
	models := auth.Models{
		Version: 1, Names: func() []string { return []string{"mimir-7b", "gaia-70b"} },
		Resolve: func(name string) (string, bool) { return name, name == "mimir-7b" || name == "gaia-70b" },
	}
	issuer, err := auth.NewIssuer(auth.IssuerDeps{Keys: re.store, Bands: []string{"default"}, Models: func() auth.Models { return models }})
	if err != nil {
		t.Fatal(err)
	}
	if re.service, err = account.New(account.DefaultConfig(), account.Deps{Store: re.store, Issuer: issuer}); err != nil {
		t.Fatal(err)
	}
	var accounts portal.Accounts = re.service
	site, err := webui.New(webui.DefaultConfig(), webui.Deps{
		Sessions: portal.Sessions(accounts), Assets: portal.Assets(), Nav: portal.Nav(portal.NavConfig{SignIn: true, SignUp: true, Chat: true}),
	})
	if err != nil {
		t.Fatal(err)
	}
	p, err := portal.New(portal.DefaultConfig(), portal.Deps{
		Site: site, Accounts: accounts, SignUp: true, Budgets: re.store,
		Plane:  http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { re.plane(w, r) }),
		Models: func(id *auth.Identity) []string { return id.ModelList() },
	})
	if err != nil {
		t.Fatal(err)
	}
	re.h = site.Handler(p.Routes())
	return re
}

// opens reports whether a key opens anything, as the store has it.
func (re *reality) opens(t *testing.T, secret string) bool {
	t.Helper()
	k, err := re.store.KeyByHash(t.Context(), sha256.Sum256([]byte(secret)))
	if err != nil {
		t.Fatal(err)
	}
	return k.Usable(time.Now())
}

func secretOf(t *testing.T, page string) string {
	t.Helper()
	_, rest, ok := strings.Cut(page, `id="secret"`)
	_, rest, _ = strings.Cut(rest, ">")
	secret, _, _ := strings.Cut(rest, "<")
	if !ok || len(secret) < 40 {
		t.Fatalf("no key in %s", page)
	}
	return secret
}

// The whole way of a person, with the real accounts and a real store.
func TestReality(t *testing.T) {
	re := newReality(t)
	b := &browser{h: re.h, cookies: map[string]string{}, header: http.Header{"User-Agent": {"Mozilla/5.0 (Windows NT 10.0) Firefox/140.0"}}}
	by := auth.By{Actor: "cli:root@test"}

	both := b.post(t, "/signup", "/signup", "address", "ann", "password", "short")
	wantCode(t, both, 422, "The address is not an e-mail address", "The password has 5 characters")
	wantCode(t, b.post(t, "/signup", "/signup", "address", " Ann@Example.org", "password", password), 200, "An operator has to approve you")
	wantCode(t, b.post(t, "/signup", "/signup", "address", ann, "password", "another long phrase"), 200, "An operator has to approve you")
	wantCode(t, b.post(t, "/login", "/login", "address", ann, "password", "another long phrase"), 403, "is not right")
	wantCode(t, b.post(t, "/login", "/login", "address", ann, "password", password), 403, "Not approved yet")
	budget := auth.FormatBudget(storage.Budget{Nanos: 5e9, Period: storage.PeriodMonth})
	if _, err := re.service.Approve(t.Context(), ann, account.Grant{Budget: &budget}, by); err != nil {
		t.Fatal(err)
	}
	wantTo(t, b.post(t, "/login", "/login", "address", ann, "password", password), "/profile")

	page := b.get("/profile")
	wantCode(t, page, 200, "You have no key yet")
	form := url.Values{"form_token": {value(t, page.Body.String(), "form_token")}, "seen": {value(t, page.Body.String(), "seen")}, "name": {"notebook"}, "models": {"gone"}, "expires": {"30d"}}
	wantCode(t, b.send("/profile/keys", form), 422, `id="f-models-error"`)
	form.Set("models", "mimir-7b")
	made := b.send("/profile/keys", form)
	wantCode(t, made, 200, "Copy it now")
	secret := secretOf(t, made.Body.String())
	wantCode(t, b.send("/profile/keys", form), 409, "No key was made now")
	if !re.opens(t, secret) {
		t.Fatal("the key opens nothing")
	}
	wantCode(t, b.get("/profile"), 200, "notebook", "1 in use, of 10")
	wantCode(t, b.get("/profile/usage"), 200, "0.00 of 5.00", "1 of 10")
	wantCode(t, b.get("/profile/sessions"), 200, "Firefox on Windows", "192.0.2.1")

	landing := b.get("/").Body.String()
	for _, data := range []string{"mimir", "gaia", "notebook"} {
		if strings.Contains(landing, data) {
			t.Errorf("the landing page has data: %s", data)
		}
	}

	keys, _, err := re.store.ListKeys(t.Context(), storage.KeyQuery{})
	if err != nil || len(keys) != 1 {
		t.Fatal(keys, err)
	}
	re.plane = func(w http.ResponseWriter, r *http.Request) {
		id, ok := auth.FromContext(r.Context())
		if !ok || id.KeyID() != keys[0].ID || id.Lineage() != keys[0].Account {
			t.Errorf("the plane was asked by %v", id)
		}
		w.Header().Set("Content-Type", "text/event-stream")
	}
	wantCode(t, b.get("/chat"), 200, `value="mimir-7b"`)
	wantCode(t, b.say(b.token(t, "/chat", ""), strings.ReplaceAll(hello, "key_00000", keys[0].ID)), 200)

	wantTo(t, b.post(t, "/profile", "/profile/keys/revoke", "id", keys[0].ID), "/profile")
	if re.opens(t, secret) {
		t.Error("the revoked key opens something")
	}
	wantCode(t, b.say(b.token(t, "/chat", ""), strings.ReplaceAll(hello, "key_00000", keys[0].ID)), 403, "does not work")

	wantTo(t, b.post(t, "/profile/sessions", "/profile/password", "current", password, "next", password+" more"), "/profile/sessions")
	wantCode(t, b.get("/profile/sessions"), 200, "Your password is changed")
	kept := b.cookies["llmgw"]
	wantTo(t, b.post(t, "/profile", "/logout"), "/login")
	b.cookies["llmgw"] = kept
	wantTo(t, b.get("/profile"), "/login?next=%2Fprofile")

	wantTo(t, b.post(t, "/login", "/login", "address", ann, "password", password+" more"), "/profile")
	if _, err := re.service.Suspend(t.Context(), ann, by); err != nil {
		t.Fatal(err)
	}
	wantTo(t, b.get("/profile"), "/login?next=%2Fprofile")
	wantCode(t, b.post(t, "/login", "/login", "address", ann, "password", password+" more"), 403, "Your account is suspended")
}

// Links of the real service: looking opens nothing, and each opens once.
func TestRealLinks(t *testing.T) {
	re := newReality(t)
	b := &browser{h: re.h, cookies: map[string]string{}, header: http.Header{}}
	by := auth.By{Actor: "cli:root@test"}
	link, err := re.service.KeyLink(t.Context(), auth.Spec{Name: "handed over", Models: []string{"gaia-70b"}}, 0, by)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		wantCode(t, b.get("/link/"+link.Token), 200, "Show the key")
	}
	made := b.post(t, "/link/"+link.Token, "/link/"+link.Token)
	wantCode(t, made, 200, "handed over", "gaia-70b")
	if !re.opens(t, secretOf(t, made.Body.String())) {
		t.Error("the key opens nothing")
	}
	wantCode(t, b.get("/link/"+link.Token), 410, "This link does not work any more")
	wantCode(t, b.get("/link/"+link.Token[:42]+"_"), 404, "There is no such link")

	wantCode(t, b.post(t, "/signup", "/signup", "address", bob, "password", password), 200)
	if _, err := re.service.Approve(t.Context(), bob, account.Grant{}, by); err != nil {
		t.Fatal(err)
	}
	reset, err := re.service.Reset(t.Context(), bob, by)
	if err != nil {
		t.Fatal(err)
	}
	path := "/reset/" + reset.Token
	wantCode(t, b.post(t, path, path, "password", "short"), 422, "The password has 5 characters")
	wantTo(t, b.post(t, path, path, "password", "quite another phrase"), "/login")
	wantCode(t, b.get(path), 410)
	wantTo(t, b.post(t, "/login", "/login", "address", bob, "password", "quite another phrase"), "/profile")
}
