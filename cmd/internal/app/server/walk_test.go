package server_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/llmgw/llmgw/cmd/internal/app/server"
	"github.com/llmgw/llmgw/cmd/internal/cli"
	"github.com/llmgw/llmgw/cmd/internal/storedsn"
	"github.com/llmgw/llmgw/engines/sim"
	"github.com/llmgw/llmgw/storage"
)

// locked is a buffer that several write to.
type locked struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *locked) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *locked) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// operator runs llmgw commands against the admin listener.
type operator struct {
	t     *testing.T
	admin string
}

func (o operator) run(args ...string) string {
	o.t.Helper()
	var out, errs bytes.Buffer
	if code := cli.Main(o.t.Context(), append(args, "--admin", "http://"+o.admin), cli.Streams{Out: &out, Err: &errs}); code != 0 {
		o.t.Fatalf("llmgw %s: %d %s", strings.Join(args, " "), code, errs.String())
	}
	return out.String()
}

// link returns the path of the link that a command printed.
func (o operator) link(seen *secrets, args ...string) string {
	o.t.Helper()
	m := regexp.MustCompile(`(?m)^link: http://[^/]+(/(?:link|reset)/([A-Za-z0-9_-]{43}))$`).FindStringSubmatch(o.run(args...))
	if m == nil {
		o.t.Fatalf("llmgw %s prints no link", strings.Join(args, " "))
	}
	seen.add("link", m[2])
	return m[1]
}

var keyID = regexp.MustCompile(`key_[a-z2-7]{20}`)

// Somebody signs up, is let in, makes a key, uses it, chats, revokes it; looks at the
// console when that is allowed; is suspended and let in again; gets a new password; and
// signs out. Somebody else opens a link. What only one of them may see is nowhere but
// in their browsers.
func TestPeople(t *testing.T) {
	engine := sim.InstantConfig()
	engine.Model = "m"
	simulated, err := sim.New(engine, sim.Deps{})
	if err != nil {
		t.Fatal(err)
	}
	serving := httptest.NewServer(simulated)
	defer func() {
		_ = simulated.Close()
		serving.Close()
	}()
	dir := t.TempDir()
	cfg := server.KeyedConfig(t)
	cfg.Store.DSN = storedsn.DSN("sqlite:" + filepath.Join(dir, "llmgw.db"))
	cfg.Gateway.Recorder.Dir = filepath.Join(dir, "record")
	cfg.Gateway.Router.Core.DefaultProfile = "debug" // which logs each decision
	cfg.Gateway.Endpoints[0].URL = serving.URL
	var log locked
	at, stop := server.StartServer(t, cfg, &log)
	seen := new(secrets)
	ada, op := newBrowser(t, at.Client, seen), operator{t, at.Admin}
	const address, first, second = "ada@example.org", "correct horse battery staple", "staple battery horse correct"
	seen.add("password", first)
	seen.add("password", second)

	ada.want("signing up", ada.submit("/signup", "/signup", "address", address, "password", first), 200, "An operator has to approve you")
	ada.want("signing in too early", ada.signIn(address, first), 403, "Not approved yet")
	if list := op.run("users", "list", "--state", "pending"); !strings.Contains(list, address) {
		t.Fatalf("who waits:\n%s", list)
	}
	op.run("users", "approve", address, "--rpm", "600", "--keys", "3")
	ada.leads("signing in", ada.signIn(address, first), "/profile")

	text := ada.key("a key", ada.submit("/profile", "/profile/keys", "name", "notebook", "models", "", "expires", "30d"))
	id := keyID.FindString(op.run("keys", "list"))
	if status := ada.api(text); status != 200 || id == "" {
		t.Fatalf("the key %s: %d", id, status)
	}
	if shown := ada.get("/profile"); strings.Contains(shown.body, text) || !strings.Contains(shown.body, "notebook") {
		t.Fatalf("the profile:\n%s", shown.body)
	}
	chat := ada.want("the chat", ada.chat(id, "Hello"), 200, "data: {", "data: [DONE]")
	if kind := chat.header.Get("Content-Type"); !strings.HasPrefix(kind, "text/event-stream") || strings.Count(chat.body, "data: ") < 3 {
		t.Errorf("the chat does not stream: %s\n%s", kind, chat.body)
	}

	// Without the flag the console is not there.
	strip := regexp.MustCompile(`form_token" value="[^"]*"`)
	want := ada.want("an unknown page", ada.get("/link/"), 404)
	for _, path := range []string{"/admin", "/admin/", "/admin/accounts", "/admin/models", "/admin/nothing"} {
		for who, b := range map[string]*browser{"without the flag": ada, "nobody": newBrowser(t, at.Client, seen)} {
			expect := want
			if who == "nobody" {
				expect = b.get("/link/")
			}
			got := b.get(path)
			delete(got.header, "Date")
			delete(expect.header, "Date")
			if got.status != 404 || strip.ReplaceAllString(got.body, "") != strip.ReplaceAllString(expect.body, "") || fmt.Sprint(got.header) != fmt.Sprint(expect.header) {
				t.Errorf("%s, %s: %d %v\n%s\nwant as an unknown page\n%d %v\n%s", path, who, got.status, got.header, got.body, expect.status, expect.header, expect.body)
			}
		}
	}
	if strings.Contains(ada.get("/profile").body, "/admin") {
		t.Error("the profile leads to the console without the flag")
	}
	op.run("users", "admin", address, "on")
	ada.leads("the session from before the flag", ada.get("/profile"), "/login?next=%2Fprofile")
	ada.leads("signing in with the flag", ada.signIn(address, first), "/profile")
	ada.want("the profile with the flag", ada.get("/profile"), 200, `href="/admin/"`)
	ada.want("the console", ada.get("/admin/"), 200)
	ada.want("accounts", ada.get("/admin/accounts"), 200, address)
	ada.want("where the rest is", ada.get("/admin/elsewhere"), 200, "pprof")
	ada.want("a page of the console that there is not", ada.get("/admin/nothing"), 404)
	direct := newBrowser(t, at.Admin, seen)
	direct.want("the console of the admin listener", direct.get("/console/"), 200)
	if a := direct.get("/console/accounts"); a.status != 404 {
		t.Errorf("accounts on the admin listener: %d", a.status)
	}
	if body := direct.get("/console/").body; strings.Contains(body, "accounts") || strings.Contains(body, "/login") || strings.Contains(body, "elsewhere") {
		t.Errorf("the admin listener offers what is not there:\n%s", body)
	}
	direct.leads("the root of the admin listener", direct.get("/"), "/console/")

	ada.leads("revoking", ada.submit("/profile", "/profile/keys/revoke", "id", id), "/profile")
	if status := ada.api(text); status != 401 {
		t.Errorf("the revoked key: %d", status)
	}

	// Suspension ends sessions and keys at once; letting in again brings keys back.
	text = ada.key("another key", ada.submit("/profile", "/profile/keys", "name", "next", "models", "m", "expires", ""))
	if status := ada.api(text); status != 200 {
		t.Fatalf("the other key: %d", status)
	}
	op.run("users", "suspend", address)
	ada.leads("a page of who is suspended", ada.get("/profile"), "/login?next=%2Fprofile")
	if status := ada.api(text); status != 401 {
		t.Errorf("a key of who is suspended: %d", status)
	}
	ada.want("signing in while suspended", ada.signIn(address, first), 403, "suspended")
	op.run("users", "approve", address)
	if status := ada.api(text); status != 200 {
		t.Errorf("the key of who is let in again: %d", status)
	}

	// A new password, by a link that opens once and ends all sessions.
	ada.leads("signing in again", ada.signIn(address, first), "/profile")
	other := newBrowser(t, at.Client, seen)
	reset := op.link(seen, "users", "reset", address)
	other.want("looking at the link", other.get(reset), 200, "Set a new password")
	other.leads("setting the password", other.submit(reset, reset, "password", second), "/login")
	other.want("the link again", other.get(reset), 410)
	ada.leads("the session from before", ada.get("/profile"), "/login?next=%2Fprofile")
	ada.want("the old password", ada.signIn(address, first), 403)
	ada.leads("the new password", ada.signIn(address, second), "/profile")

	// A key for somebody who has no account.
	link := op.link(seen, "keys", "create", "--link", "--name", "handed over")
	other.want("looking at the key's link", other.get(link), 200, "Show the key")
	other.want("looking again", other.get(link), 200, "Show the key")
	handed := other.key("the link", other.submit(link, link))
	if status := other.api(handed); status != 200 {
		t.Errorf("the key that was handed over: %d", status)
	}
	if again := other.want("opening it again", other.get(link), 410); strings.Contains(again.body, "llmgw_") {
		t.Errorf("the link shows the key again:\n%s", again.body)
	}
	if again := other.submit("/login", link); again.status != 410 {
		t.Errorf("sending it again: %d", again.status)
	}

	// Signing out ends the session at once, and not only in this browser.
	stolen := newBrowser(t, at.Client, seen)
	stolen.client.Jar = ada.client.Jar
	cookies := ada.client.Jar.Cookies(httptest.NewRequest(http.MethodGet, ada.base, nil).URL)
	ada.leads("signing out", ada.submit("/profile", "/logout"), "/login")
	for _, c := range cookies {
		if a := stolen.do(http.MethodGet, "/profile", http.NoBody, "Cookie", c.Name+"="+c.Value); a.status != 303 {
			t.Errorf("a session that was signed out of: %d", a.status)
		}
	}

	// What is secret, put where none belongs.
	open := op.link(seen, "keys", "create", "--link")
	token := open[len("/link/"):]
	for _, key := range []string{"", handed} {
		for _, path := range []string{
			"//link/" + token, "/Link/" + token, "/link/" + token + "/more", "/link//" + token, "/v1/link/" + token, "/v1/models/" + token, "/?link=" + token,
			"/login?next=" + token, "/link/" + token + "?a=" + token, "/profile/" + token, "/admin/" + token, "/assets/" + token, "/reset/" + token, "/v1/responses/" + token,
		} {
			for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodDelete} {
				header := []string{"Referer", ada.base + open, "X-Form-Token", token, "Content-Type", "application/x-www-form-urlencoded", "User-Agent", token}
				if key != "" {
					header = append(header, "Authorization", "Bearer "+key)
				}
				other.do(method, path, strings.NewReader("form_token="+token+"&password="+token), header...)
			}
		}
	}
	ada.signIn(address, second+" almost")
	seen.add("password", second+" almost")
	ada.signIn(second, second) // the password where the address belongs
	ada.submit("/signup", "/signup", "address", second, "password", "short")

	sinks := map[string]string{"metrics": direct.get("/metrics").body, "decisions": direct.get("/debug/decisions?format=json").body}
	for _, profile := range []string{"goroutine?debug=2", "heap?debug=1", "allocs?debug=1"} {
		sinks["profile "+profile] = direct.get("/debug/pprof/" + profile).body
	}
	sinks["audit by the API"] = op.run("audit", "--json")
	stop()
	sinks["log"] = log.String()
	st := openStore(t, cfg.Store.DSN)
	rows, _, err := st.ListAudit(t.Context(), storage.AuditQuery{})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		sinks["audit"] += fmt.Sprintf("%+v %s %s\n", r, r.Before, r.After)
	}
	var dump bytes.Buffer
	if err := st.Export(t.Context(), &dump); err != nil {
		t.Fatal(err)
	}
	sinks["export"] = dump.String()
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		sinks["on disk"] += string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]int{}
	for _, what := range seen.list {
		kinds[what]++
	}
	if kinds["password"] < 3 || kinds["link"] < 3 || kinds["key"] < 3 || kinds["form token"] < 5 || kinds["cookie llmgw"] < 4 || kinds["cookie llmgw-form"] < 3 {
		t.Errorf("the test saw too little: %v", kinds)
	}
	for _, name := range slices.Sorted(maps.Keys(sinks)) {
		if len(sinks[name]) < 100 {
			t.Errorf("%s has %d bytes: the test sees too little", name, len(sinks[name]))
		}
		for secret, what := range seen.list {
			if i := strings.Index(sinks[name], secret); i >= 0 {
				t.Errorf("%s has a %s: …%q…", name, what, sinks[name][max(0, i-200):min(len(sinks[name]), i+40)])
			}
		}
	}
	for _, path := range []string{"/link/", "/profile", "/login"} {
		if strings.Contains(sinks["metrics"], path) {
			t.Errorf("metrics have the path %s", path)
		}
	}
}

func openStore(t *testing.T, dsn storedsn.DSN) storedsn.Store {
	t.Helper()
	st, err := storedsn.Open(dsn, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	if err := st.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	return st
}
