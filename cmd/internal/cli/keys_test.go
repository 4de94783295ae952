package cli_test

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/llmgw/llmgw/auth"
	"github.com/llmgw/llmgw/auth/account"
	"github.com/llmgw/llmgw/auth/limit"
	"github.com/llmgw/llmgw/cmd/internal/cli"
	"github.com/llmgw/llmgw/cmd/internal/storedsn"
	"github.com/llmgw/llmgw/fleet/api"
	"github.com/llmgw/llmgw/router/gateway/gatewayapi"
	"github.com/llmgw/llmgw/storage"
	"github.com/llmgw/llmgw/storage/sqlite/sqlitetest"
)

// run runs a command in this process.
func run(t *testing.T, args ...string) (code int, out, errs string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code = cli.Main(t.Context(), args, cli.Streams{Out: &stdout, Err: &stderr})
	return code, stdout.String(), stderr.String()
}

// must runs a command that must succeed.
func must(t *testing.T, args ...string) (out, errs string) {
	t.Helper()
	code, out, errs := run(t, args...)
	if code != 0 {
		t.Fatalf("llmgw %s: exit code %d, %s", strings.Join(args, " "), code, errs)
	}
	return out, errs
}

// told is what an authenticator of the server would be told.
type told struct {
	mu        sync.Mutex
	revoked   []string // guarded by mu
	forgotten []string // guarded by mu
}

func (t *told) Revoke(id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.revoked = append(t.revoked, id)
}

func (t *told) Forget(id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.forgotten = append(t.forgotten, id)
}

// admin is the admin listener of a server with keys, as far as these commands
// know it.
type admin struct {
	url     string
	dsn     storedsn.DSN
	store   storedsn.Store
	limiter *limit.Limiter
	told    told
	log     bytes.Buffer // read when nothing is asked
}

func startAdmin(t *testing.T) *admin {
	t.Helper()
	a := &admin{dsn: storedsn.DSN("sqlite:" + sqlitetest.Database(t))}
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	var err error
	a.store, err = storedsn.Open(a.dsn, nil, nil)
	check(err)
	check(a.store.Open(t.Context()))
	t.Cleanup(func() { _ = a.store.Close() })
	a.limiter, err = limit.New(limit.DefaultConfig(), limit.Deps{})
	check(err)
	issuer, err := auth.NewIssuer(auth.IssuerDeps{Keys: a.store, Told: &a.told})
	check(err)
	accounts, err := account.New(account.DefaultConfig(), account.Deps{Store: a.store, Issuer: issuer, Told: &a.told})
	check(err)
	pages := &gatewayapi.Pages{URL: func() (string, bool) { return "https://llm.example", true }}
	keys, err := gatewayapi.NewKeys(gatewayapi.KeysDeps{
		Store: a.store, Issuer: issuer, Tells: true, Accounts: accounts, Pages: pages, Where: a.dsn.Where(),
	})
	check(err)
	users, err := gatewayapi.NewUsers(gatewayapi.UsersDeps{Accounts: accounts, Store: a.store, Pages: pages})
	check(err)
	limits, err := gatewayapi.NewLimits(gatewayapi.LimitsDeps{
		Keys:  a.store,
		State: func(_ context.Context, now time.Time, s *limit.Subject) limit.State { return a.limiter.State(now, s) },
	})
	check(err)
	a.url = serveAPI(t, api.Deps{
		Keys: keys, Users: users, Limits: limits, Usage: gatewayapi.Usage{Store: a.store}, Audit: gatewayapi.Audit{Store: a.store},
		Logger: slog.New(slog.NewTextHandler(&a.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
	return a
}

func serveAPI(t *testing.T, deps api.Deps) string {
	t.Helper()
	mux := http.NewServeMux()
	h := api.NewHandler(deps)
	for _, p := range api.Paths() {
		mux.Handle(p, h)
	}
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	return srv.URL
}

// A key's life by the server: it is asked, says so, is told of a revocation, and
// the key's text is in one answer and nowhere else.
func TestKeysByServer(t *testing.T) {
	t.Parallel()
	a := startAdmin(t)
	out, errs := must(t, "keys", "create", "--admin", a.url, "--name", "ci", "--rpm", "60", "--concurrency", "4", "--budget", "2/total", "--json")
	var made struct{ ID, Key string }
	if err := json.Unmarshal([]byte(out), &made); err != nil || made.ID == "" || len(made.Key) != 55 {
		t.Fatalf("%s, %v", out, err)
	}
	var others strings.Builder
	others.WriteString(errs)
	keep := func(out, errs string) string { others.WriteString(out + errs); return out }
	if !strings.Contains(errs, "asking the server at "+a.url) {
		t.Errorf("stderr %q", errs)
	}
	if list := keep(must(t, "keys", "list", "--admin", a.url)); !strings.Contains(list, made.ID) || !strings.Contains(list, "60 rpm, 4 at once") {
		t.Errorf("list\n%s", list)
	}

	budget, err := limit.NewBudget(2_000_000_000, limit.PeriodTotal, "")
	if err != nil {
		t.Fatal(err)
	}
	sub := limit.Subject{ID: made.ID, Limits: limit.Limits{RequestsPerMinute: 60, Concurrency: 4}, Budget: budget}
	if _, err := a.limiter.TryAcquire(time.Now(), &sub, limit.Request{CostNanos: 500_000_000}); err != nil {
		t.Fatal(err)
	}
	show := keep(must(t, "keys", "show", made.ID, "--admin", a.url))
	limits := keep(must(t, "ctl", "limits", made.ID, "--admin", a.url))
	for _, want := range []string{
		"requests   59 of 60 left in this minute, all of them in ", "tokens     no bound\n", "under way  1 of 4\n",
		"budget     0.00 of 2.00 spent; 0.50 set aside for requests under way, 1.50 free\n",
	} {
		if !strings.Contains(show, want) || !strings.Contains(limits, want) {
			t.Errorf("want %q in\n%s\nand\n%s", want, show, limits)
		}
	}
	var standing struct {
		Limits, Key struct{}
		InFlight    string `json:"in_flight"`
		Requests    struct{ Remaining string }
		Budget      struct {
			Free string `json:"free_nanos"`
		}
	}
	text := keep(must(t, "ctl", "limits", made.ID, "--admin", a.url, "--json"))
	if err := json.Unmarshal([]byte(text), &standing); err != nil || standing.InFlight != "1" || standing.Requests.Remaining != "59" || standing.Budget.Free != "1500000000" {
		t.Errorf("%s: %+v, %v", text, standing, err)
	}
	var doc map[string]json.RawMessage
	if text := keep(must(t, "keys", "show", made.ID, "--admin", a.url, "--json")); json.Unmarshal([]byte(text), &doc) != nil || len(doc) != 3 {
		t.Errorf("%s; want key, budget and limits", text)
	}

	out, errs = must(t, "keys", "rotate", made.ID, "--admin", a.url, "--overlap", "7d")
	id, secret, ok := strings.Cut(strings.TrimPrefix(out, "id: "), "\nkey: ")
	if others.WriteString(errs); !ok || !strings.HasPrefix(secret, "llmgw_") || !strings.Contains(errs, "the old key "+made.ID+": usable until ") ||
		!strings.Contains(errs, "the new key "+id+": usable\n") {
		t.Errorf("rotate: %q %q", out, errs)
	}
	for _, cmd := range [][]string{{"ctl", "limits"}, {"keys", "show"}} {
		if out := keep(must(t, append(cmd, id, "--admin", a.url)...)); !regexp.MustCompile(`(?m)^lineage +`+made.ID+", ").MatchString(out) ||
			!strings.Contains(out, "requests   59 of 60 left") || !strings.Contains(out, "under way  1 of 4") {
			t.Errorf("%v of the new key:\n%s", cmd, out)
		}
	}
	out = keep(must(t, "keys", "update", id, "--admin", a.url, "--name", "ci2", "--rpm", "0", "--concurrency", "9", "--budget", "none", "--models", "a/*,b", "--allow-unknown-models", "--tag", "a=b"))
	for _, want := range []string{"name      ci2\n", "limits    9 at once\n", "budget    -\n", "models    a/*, b\n", "tag       a=b\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("keys update: want %q in\n%s", want, out)
		}
	}
	if out := keep(must(t, "keys", "revoke", id, "--admin", a.url)); !strings.HasPrefix(out, id+" revoked 20") {
		t.Errorf("revoke: %q", out)
	}
	if len(a.told.revoked) != 1 || a.told.revoked[0] != id {
		t.Errorf("the server was told of %v; want %s", a.told.revoked, id)
	}
	code, _, errs := run(t, "keys", "rotate", id, "--admin", a.url)
	if others.WriteString(errs); code != 1 || !strings.Contains(errs, "revoked or has expired; make a new one") {
		t.Errorf("rotating a revoked key: %d %q", code, errs)
	}

	rows, _, err := a.store.ListAudit(t.Context(), storage.AuditQuery{})
	if err != nil || len(rows) != 5 {
		t.Fatalf("audit rows: %d, %v", len(rows), err)
	}
	for _, r := range rows {
		if !strings.HasPrefix(r.Actor, "cli:") || !strings.Contains(r.Actor, "@") {
			t.Errorf("%s by %q", r.Action, r.Actor)
		}
		others.WriteString(string(r.Before) + string(r.After))
	}
	for _, s := range []string{made.Key, strings.TrimSpace(secret)} {
		if strings.Contains(others.String()+a.log.String(), s) {
			t.Errorf("a key's text is where it should not be")
		}
	}
}

// A server that asks for keys: the demo has one, the commands make more, what they
// set is enforced, and a revocation counts at once.
func TestDemoKeys(t *testing.T) {
	t.Parallel()
	s := start(t, "demo", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--json")
	defer s.stop(t)
	chat := func(key string) int {
		code, _ := askWith(t, key, http.MethodPost, s.BaseURL+"/v1/chat/completions",
			`{"model": "`+s.Models[0]+`", "max_tokens": 5, "messages": [{"role": "user", "content": "Hello"}]}`)
		return code
	}
	if with, without := chat(s.APIKey), chat(""); with != http.StatusOK || without != http.StatusUnauthorized {
		t.Errorf("with the demo's key %d, without one %d", with, without)
	}
	out, _ := must(t, "keys", "create", "--admin", s.AdminURL, "--models", s.Models[0], "--rpm", "2", "--json")
	var made struct{ ID, Key string }
	if err := json.Unmarshal([]byte(out), &made); err != nil {
		t.Fatal(err)
	}
	if a, b, c := chat(made.Key), chat(made.Key), chat(made.Key); a != http.StatusOK || b != http.StatusOK || c != http.StatusTooManyRequests {
		t.Errorf("two requests a minute: %d, %d, %d", a, b, c)
	}
	if out, _ := must(t, "ctl", "limits", made.ID, "--admin", s.AdminURL); !strings.Contains(out, "requests   0 of 2 left in this minute") {
		t.Errorf("limits:\n%s", out)
	}
	must(t, "keys", "revoke", made.ID, "--admin", s.AdminURL)
	if code := chat(made.Key); code != http.StatusUnauthorized {
		t.Errorf("once revoked: %d", code)
	}
	if code, _, errs := run(t, "keys", "create", "--admin", s.AdminURL, "--models", "nope"); code != 1 || !strings.Contains(errs, `there is no model "nope"`) {
		t.Errorf("a model that there is not: %d, %s", code, errs)
	}
}

// Who is asked, of what answers and what is named.
func TestWhoKeepsKeys(t *testing.T) {
	t.Parallel()
	a := startAdmin(t)
	none := serveAPI(t, api.Deps{})
	other := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(other.Close)
	dir := t.TempDir()
	mine := "sqlite:" + filepath.Join(dir, "mine.db")
	must(t, "keys", "create", "--store", mine, "--admin", "http://127.0.0.1:1")
	config := filepath.Join(dir, "server.yaml")
	for _, tt := range []struct {
		name, answers string // answers at admin_listen
		args          []string
		code          int
		want          string
	}{
		{"the server", a.url, nil, 0, "asking the server at " + a.url},
		{"the server, by its store", a.url, []string{"--store", string(a.dsn)}, 0, "asking the server at " + a.url},
		{"a server with another store", a.url, []string{"--store", mine}, 0, "has another store, " + a.dsn.Where() + "; using the store " + mine},
		{"two that differ", a.url, []string{"--store", mine, "--admin", a.url}, 1, "leave one of --admin and --store out"},
		{"a server without keys", none, nil, 1, "this server keeps no keys: auth.enabled is false"},
		{"a server without keys, and a store", none, []string{"--store", mine}, 0, "keeps no keys; using the store " + mine},
		{"something else, and a store", other.URL, []string{"--store", mine}, 0, "is not the admin listener of llmgw server; using the store " + mine},
		{"something else, by name", "", []string{"--admin", other.URL}, 1, "is that the admin listener of llmgw server"},
		{"nobody, by name", "", []string{"--admin", "http://127.0.0.1:1"}, 1, "nothing listens at http://127.0.0.1:1"},
		{"nobody, and a store", "http://127.0.0.1:1", []string{"--store", mine}, 0, "nothing listens at http://127.0.0.1:1; using the store " + mine},
		{"any port, and a store", "http://127.0.0.1:0", []string{"--store", mine}, 0, "is not known; using the store " + mine},
	} {
		t.Run(tt.name, func(t *testing.T) {
			args := append([]string{"keys", "list"}, tt.args...)
			if tt.answers != "" {
				text := fmt.Sprintf("admin_listen: %s\n", strings.TrimPrefix(tt.answers, "http://"))
				if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
				args = append(args, "-c", config)
			}
			code, out, errs := run(t, args...)
			if code != tt.code || !strings.Contains(errs, tt.want) || (code == 0) == (out == "") {
				t.Errorf("exit code %d, %q, %q; want %d with %q", code, out, errs, tt.code, tt.want)
			}
		})
	}
}

// Sums by what is asked for, and rows as they are kept; the same by the server and
// by its store.
func TestUsageOfKeys(t *testing.T) {
	t.Parallel()
	a := startAdmin(t)
	now := time.Now().UTC()
	var rows []storage.Usage
	for i := range 502 { // more than a page
		u := storage.Usage{
			RequestID: fmt.Sprintf("r%03d", i), KeyID: "key_" + string(rune('a'+i%2)), Owner: "team-a", Model: "m", At: now.Add(-time.Duration(i) * time.Second),
			Status: 200, Result: "ok", Source: storage.SourceEngine, Tokens: storage.Tokens{Input: new(int64(10)), Output: new(int64(2))}, CostNanos: new(int64(1_000_000)),
		}
		if i == 1 {
			u.Status, u.Owner = 502, "=1+1"
		}
		rows = append(rows, u)
	}
	if _, err := a.store.InsertUsage(t.Context(), rows); err != nil {
		t.Fatal(err)
	}
	heir := storage.Key{ID: "key_b", Hash: storage.KeyHash{1}, Lineage: "key_0", CreatedAt: now}
	if err := a.store.CreateKey(t.Context(), heir, storage.Audit{ID: "a", Action: "key.rotate", At: now}); err != nil {
		t.Fatal(err)
	}
	for name, from := range map[string][]string{"server": {"--admin", a.url}, "store": {"--store", string(a.dsn), "--admin", "http://127.0.0.1:1"}} {
		t.Run(name, func(t *testing.T) {
			usage := func(args ...string) string {
				out, _ := must(t, append(append([]string{"usage"}, from...), args...)...)
				return out
			}
			want := "KEY    MODEL  REQUESTS  FAILED  INPUT  CACHED  OUTPUT  COST\n" +
				"key_a  m      251       0       2510   0       502     0.251\n" +
				"key_b  m      251       1       2510   0       502     0.251\n" +
				"total         502       1       5020   0       1004    0.502\n"
			if got := usage("--by", "key,model", "--from", "2d"); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
			if got := usage("--by", "model", "--from", "12h", "--key", "key_a"); !strings.Contains(got, "m      251 ") || strings.Contains(got, "total") {
				t.Errorf("by hours\n%s", got)
			}
			if got := usage("--by", "key", "--from", "12h", "--lineage", "key_0"); !strings.Contains(got, "key_b  251 ") || strings.Contains(got, "key_a") {
				t.Errorf("of a lineage\n%s", got)
			}
			table, err := csv.NewReader(strings.NewReader(usage("--csv", "--from", "2d"))).ReadAll()
			if err != nil || len(table) != 503 {
				t.Fatalf("%d lines, %v", len(table), err)
			}
			if owner := table[len(table)-2][3]; owner != "'=1+1" { // the one before the last is r001
				t.Errorf("owner %q; want it as text", owner)
			}
			lines := strings.Split(strings.TrimSpace(usage("--json", "--from", "2d", "--key", "key_b")), "\n")
			var row struct {
				ID   string `json:"request_id"`
				Cost *int64 `json:"cost_nanos"`
				TTFT *int64 `json:"ttft_ms"`
			}
			if err := json.Unmarshal([]byte(lines[0]), &row); err != nil || len(lines) != 251 || row.ID != "r501" || row.Cost == nil || row.TTFT != nil {
				t.Errorf("%d lines, first %s: %v", len(lines), lines[0], err)
			}
			if got := usage("--from", "2020-01-01", "--to", "2020-02-01"); got != "Nothing was used in that time.\n" {
				t.Errorf("long ago: %s", got)
			}
		})
	}
}

// A backup is of one moment while a server writes.
func TestStoreBackupWhileWriting(t *testing.T) {
	a := startAdmin(t)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	first := make(chan struct{})
	wg.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			u := storage.Usage{
				RequestID: fmt.Sprintf("r%d", i), KeyID: "key_a", Model: "m", At: time.Now(), Status: 200, Source: storage.SourceEngine, CostNanos: new(int64(5)),
				Charged: &storage.BudgetPeriod{KeyID: "key_a", Period: storage.PeriodTotal},
			}
			if _, err := a.store.InsertUsage(context.WithoutCancel(ctx), []storage.Usage{u}); err != nil {
				t.Error(err)
				return
			}
			if i == 0 {
				close(first)
			}
		}
	})
	<-first
	dir := t.TempDir()
	dump, copied := filepath.Join(dir, "a.dump"), "sqlite:"+filepath.Join(dir, "a.db")
	must(t, "store", "backup", dump, "--store", string(a.dsn))
	must(t, "store", "restore", dump, "--store", copied)
	// It compares the sums and what is spent with the rows.
	must(t, "store", "check", "--store", copied)
	if info, err := os.Stat(dump); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v; want it readable by its owner alone", info.Mode(), err)
	}
	cancel()
	wg.Wait()
}
