package cli_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/llmgw/llmgw/auth"
	"github.com/llmgw/llmgw/cmd/internal/storedsn"
	"github.com/llmgw/llmgw/storage"
)

// signUp keeps an account that waits, as the pages do.
func signUp(t *testing.T, st storage.Store, id, address string) {
	t.Helper()
	now := time.Now().UTC().Truncate(time.Microsecond)
	a := storage.Account{ID: id, Address: address, Password: "$argon2id$v=19$m=8,t=1,p=1$c2FsdHNhbHQ$aGFzaA", State: storage.AccountPending, CreatedAt: now}
	if err := st.CreateAccount(t.Context(), a, 10, storage.Audit{ID: "audit_" + id, At: now, Actor: "test", Action: "account.create", Target: id}); err != nil {
		t.Fatal(err)
	}
}

// A user's life by the server: listed, approved, changed, an admin, suspended, let in
// again; the server is told of their keys, and audit rows have who it was.
func TestUsersByServer(t *testing.T) {
	t.Parallel()
	a := startAdmin(t)
	if out, _ := must(t, "users", "list", "--admin", a.url); out != "There are no users.\n" {
		t.Errorf("%q", out)
	}
	signUp(t, a.store, "acc_1", "ada@example.org")
	signUp(t, a.store, "acc_2", "bob@example.org")
	list, errs := must(t, "users", "list", "--admin", a.url, "--state", "pending")
	if !strings.Contains(list, "\nada@example.org  pending  -") || !strings.Contains(list, "\nbob@example.org") || !strings.Contains(errs, "asking the server at") {
		t.Errorf("%s%s", list, errs)
	}
	out, _ := must(t, "users", "approve", "ada@example.org", "--admin", a.url, "--rpm", "60", "--budget", "1.50/day", "--keys", "3")
	if !strings.Contains(out, "ada@example.org  approved  -      0 of 3  every   -     60 rpm  1.50/day  ") || !strings.HasSuffix(out, "never\n") {
		t.Errorf("approved:\n%s", out)
	}
	if out, _ := must(t, "users", "approve", "ada@example.org", "--admin", a.url, "--budget", "none", "--concurrency", "2"); !strings.Contains(out, "60 rpm, 2 at once  -") {
		t.Errorf("changed:\n%s", out)
	}
	issuer, err := auth.NewIssuer(auth.IssuerDeps{Keys: a.store})
	if err != nil {
		t.Fatal(err)
	}
	key, err := issuer.CreateIn(t.Context(), auth.Spec{}, auth.Custody{Account: "acc_1", Keep: a.store.CreateKey}, auth.By{Actor: "acc_1"})
	if err != nil {
		t.Fatal(err)
	}
	if out, _ := must(t, "keys", "show", key.Key.ID, "--admin", a.url); !strings.Contains(out, "user      acc_1\n") {
		t.Errorf("a key of a user:\n%s", out)
	}
	if out, _ := must(t, "users", "admin", "ada@example.org", "on", "--admin", a.url); !strings.Contains(out, "approved  yes    1 of 3") {
		t.Errorf("admin:\n%s", out)
	}
	out, errs = must(t, "users", "suspend", "ada@example.org", "--admin", a.url)
	if !strings.Contains(out, "suspended  yes    0 of 3") || !strings.Contains(errs, "that server and the routers that follow it refuse their keys from now on") {
		t.Errorf("suspended:\n%s%s", out, errs)
	}
	a.told.mu.Lock()
	if len(a.told.forgotten) == 0 || a.told.forgotten[len(a.told.forgotten)-1] != key.Key.ID {
		t.Errorf("told of %v", a.told.forgotten)
	}
	a.told.mu.Unlock()
	if out, _ := must(t, "keys", "list", "--admin", a.url); !strings.Contains(out, "  suspended\n") {
		t.Errorf("keys of who is suspended:\n%s", out)
	}
	var answer struct {
		User struct {
			State     string
			Allowance struct{ Limits map[string]string }
		}
	}
	out, _ = must(t, "users", "approve", "ada@example.org", "--admin", a.url, "--json")
	if err := json.Unmarshal([]byte(out), &answer); err != nil || answer.User.State != "USER_STATE_APPROVED" || answer.User.Allowance.Limits["requests_per_minute"] != "60" {
		t.Errorf("let in again: %s, %v", out, err)
	}
	if out, _ := must(t, "audit", "--admin", a.url, "--action", "account.approve"); strings.Count(out, "cli:") != 3 || !strings.Contains(out, "acc_1") {
		t.Errorf("audit rows:\n%s", out)
	}

	for name, tt := range map[string]struct {
		args []string
		code int
		want string
	}{
		"unknown":          {[]string{"suspend", "ida@example.org"}, 1, "users suspend: nobody has signed up with ida@example.org; did you mean ada@example.org?"},
		"no address":       {[]string{"suspend", "ada"}, 1, "address: is not an e-mail address"},
		"approved already": {[]string{"approve", "ada@example.org"}, 1, "ada@example.org is approved already"},
		"an admin already": {[]string{"admin", "ada@example.org", "on"}, 1, "ada@example.org has the flag already"},
		"not said":         {[]string{"admin", "ada@example.org"}, 80, `expected "<on|off>"`},
		"neither":          {[]string{"admin", "ada@example.org", "yes"}, 80, `must be one of "on","off"`},
		"a state":          {[]string{"list", "--state", "gone"}, 80, "--state"},
		"a bad limit":      {[]string{"approve", "bob@example.org", "--rpm=-5"}, 1, "requests_per_minute: -5; want"},
		"an empty budget":  {[]string{"approve", "bob@example.org", "--budget", ""}, 1, "--budget is empty; leave it out to keep what there is"},
	} {
		code, out, errs := run(t, append(append([]string{"users"}, tt.args...), "--admin", a.url)...)
		if code != tt.code || !strings.Contains(errs, tt.want) || out != "" {
			t.Errorf("%s: %d %q %q; want %d %q", name, code, out, errs, tt.code, tt.want)
		}
	}
	// Who was turned away before anybody let them in may use nothing, which is not every
	// model and not none of no keys.
	if out, _ := must(t, "users", "suspend", "bob@example.org", "--admin", a.url); !strings.Contains(out, "suspended  -      -     -       -     -       -  ") {
		t.Errorf("turned away:\n%s", out)
	}
}

// The same from the store alone, by the server's configuration.
func TestUsersByStore(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	config := filepath.Join(dir, "server.yaml")
	text := "admin_listen: 127.0.0.1:1\nstore: {dsn: 'sqlite:" + filepath.Join(dir, "llmgw.db") + "'}\naccounts: {max_keys: 7}\nportal: {public_url: 'https://llm.example/'}\n" +
		"models: [{name: m}]\nendpoints: [{id: e, url: 'http://127.0.0.1:2', models: [m]}]\n"
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	must(t, "keys", "create", "-c", config) // which makes the store
	st, err := storedsn.Open(storedsn.DSN("sqlite:"+filepath.Join(dir, "llmgw.db")), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	if err := st.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	signUp(t, st, "acc_1", "ada@example.org")
	out, _ := must(t, "users", "approve", "ada@example.org", "-c", config, "--models", "m")
	if !strings.Contains(out, "0 of 7  m  ") {
		t.Errorf("approved:\n%s", out)
	}
	if code, _, errs := run(t, "users", "approve", "ada@example.org", "-c", config, "--models", "n"); code != 1 || !strings.Contains(errs, `there is no model "n"`) {
		t.Errorf("a model that there is not: %d %s", code, errs)
	}
	out, errs := must(t, "users", "reset", "ada@example.org", "-c", config)
	if !strings.Contains(out, "\nlink: https://llm.example/reset/") || strings.Contains(errs, "warning") {
		t.Errorf("reset:\n%s%s", out, errs)
	}
	if _, errs := must(t, "users", "suspend", "ada@example.org", "-c", config); !strings.Contains(errs, "within its auth.cache_ttl") {
		t.Errorf("suspended: %s", errs)
	}
}

// A link in place of a key, by the server and by the store.
func TestKeyLinks(t *testing.T) {
	t.Parallel()
	a := startAdmin(t)
	out, errs := must(t, "keys", "create", "--link", "--admin", a.url, "--name", "ci", "--link-expires", "24h")
	id, rest, _ := strings.Cut(strings.TrimPrefix(out, "id: "), "\n")
	if !strings.HasPrefix(rest, "link: https://llm.example/link/") || !strings.Contains(rest, "\nexpires: 20") || !strings.Contains(errs, "llmgw keys revoke "+id+" takes it back") {
		t.Errorf("%s%s", out, errs)
	}
	if list, _ := must(t, "keys", "list", "--admin", a.url); list != "There are no keys.\n" {
		t.Errorf("before it is opened:\n%s", list)
	}
	if out, _ := must(t, "keys", "revoke", id, "--admin", a.url); !strings.HasPrefix(out, id+" taken back 20") {
		t.Errorf("revoked: %s", out)
	}
	var made struct {
		ID, Link  string
		ExpiresAt time.Time `json:"expires_at"`
		Warnings  []string
	}
	out, _ = must(t, "keys", "create", "--link", "--store", string(a.dsn), "--admin", a.url, "--json")
	if err := json.Unmarshal([]byte(out), &made); err != nil || !strings.HasPrefix(made.ID, "link_") || time.Until(made.ExpiresAt) < 71*time.Hour || made.Warnings == nil {
		t.Errorf("%s, %v", out, err)
	}
	config := filepath.Join(t.TempDir(), "server.yaml")
	if err := os.WriteFile(config, []byte("admin_listen: 127.0.0.1:1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	out, errs = must(t, "keys", "create", "--link", "--store", string(a.dsn), "-c", config)
	if !strings.Contains(out, "\nlink: http://127.0.0.1:8080/link/") || !strings.Contains(errs, "portal.public_url is not set") {
		t.Errorf("by the store:\n%s%s", out, errs)
	}
	for name, tt := range map[string]struct {
		args []string
		code int
		want string
	}{
		"a life alone":    {[]string{"create", "--link-expires", "24h"}, 80, "want --link with it"},
		"a life that is":  {[]string{"create", "--link", "--link-expires", "soon"}, 1, `--link-expires: "soon"; want such as 7d, 24h or 30m`},
		"a long life":     {[]string{"create", "--link", "--link-expires", "365d"}, 1, "life: 8760h0m0s; want 1s to 30 days"},
		"an unknown link": {[]string{"revoke", "link_none"}, 1, `there is no link "link_none"`},
		"what cannot be":  {[]string{"create", "--link", "--rpm=-1"}, 1, "requests_per_minute: -1; want"},
	} {
		code, _, errs := run(t, append(append([]string{"keys"}, tt.args...), "--admin", a.url)...)
		if code != tt.code || !strings.Contains(errs, tt.want) {
			t.Errorf("%s: %d %q; want %d %q", name, code, errs, tt.code, tt.want)
		}
	}
}
