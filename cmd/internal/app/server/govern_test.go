package server

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/llmgw/llmgw/auth"
	config "github.com/llmgw/llmgw/cmd/internal/config/server"
	"github.com/llmgw/llmgw/cmd/internal/storedsn"
	"github.com/llmgw/llmgw/fleet/api"
	"github.com/llmgw/llmgw/fleet/apipb"
	"github.com/llmgw/llmgw/placement/catalog"
	"github.com/llmgw/llmgw/router/endpoint"
	"github.com/llmgw/llmgw/router/gateway"
	"github.com/llmgw/llmgw/storage"
	"github.com/llmgw/llmgw/storage/sqlite/sqlitetest"
)

// keyed is a configuration that asks for keys, with one engine.
func keyed(t *testing.T) config.Config {
	t.Helper()
	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":2}}`)
	}))
	t.Cleanup(engine.Close)
	cfg := testConfig()
	cfg.Auth.Enabled = true
	cfg.Store.DSN = storedsn.DSN("sqlite:" + sqlitetest.Database(t))
	cfg.Gateway.Models = []catalog.Model{{Name: "m", Prices: []catalog.Price{{Output: new(catalog.Money(1_000_000_000))}}, ContextTokens: 4096}}
	cfg.Gateway.Endpoints = []gateway.Endpoint{{Spec: endpoint.Spec{ID: "e", URL: engine.URL, Models: []endpoint.Model{{Name: "m"}}}}}
	return cfg
}

// mint makes a key as llmgw keys does, in the store or by the server.
func mint(t *testing.T, keys auth.KeyStore, spec auth.Spec) (id, text string) {
	t.Helper()
	is, err := auth.NewIssuer(auth.IssuerDeps{Keys: keys})
	if err != nil {
		t.Fatal(err)
	}
	spec.Owner, spec.AllowUnknownModels = "team", true
	made, err := is.Create(t.Context(), spec, auth.By{Actor: "test"})
	if err != nil {
		t.Fatal(err)
	}
	return made.Key.ID, made.Secret.Reveal()
}

func opened(t *testing.T, dsn storedsn.DSN) storedsn.Store {
	t.Helper()
	st, err := storedsn.Open(dsn, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := st.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
	return st
}

func ask(t *testing.T, method, url, key string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(`{"model":"m","messages":[],"max_tokens":4}`))
	if err != nil {
		t.Fatal(err)
	}
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(body)
}

// A whole server: a key that is made beside it works, one that is revoked by it does
// not, what it used is kept to the last row when the server ends, and the budget is
// given back.
func TestKeys(t *testing.T) {
	cfg := keyed(t)
	r := startWith(t, cfg, gatewayModule())
	st := opened(t, cfg.Store.DSN)
	id, text := mint(t, st, auth.Spec{Budget: "1/day"})
	client := "http://" + r.Client
	for path, want := range map[string]int{
		"/v1/chat/completions": 401, "/v1/models": 401, "/metrics": 401, "/debug/pprof/": 401, "/nowhere": 401, "//health": 401, "/health": 200, "/ready": 200,
	} {
		if status, body := ask(t, "GET", client+path, ""); status != want {
			t.Errorf("%s without a key: %d %s", path, status, body)
		}
	}
	const requests = 5
	for range requests {
		if status, body := ask(t, "POST", client+"/v1/chat/completions", text); status != 200 {
			t.Fatalf("%d %s", status, body)
		}
	}
	// What is for operators is nowhere here, key or not.
	for _, path := range append(api.Paths(), "/metrics", "/debug/decisions", "/debug/pprof/") {
		if status, body := ask(t, "GET", client+path, text); status != 404 {
			t.Errorf("%s with a key: %d %s", path, status, body)
		}
	}
	c, err := api.NewClient(api.ClientConfig{URL: "http://" + r.Admin})
	if err != nil {
		t.Fatal(err)
	}
	lim, err := c.Limits.GetLimits(t.Context(), &apipb.GetLimitsRequest{KeyId: id})
	if err != nil || lim.GetBudget().GetSpentNanos() != requests*2000 {
		t.Errorf("limits %v, %v", lim, err)
	}
	if _, page := ask(t, "GET", "http://"+r.Admin+"/metrics", ""); !strings.Contains(page, "\nllmgw_store_up 1\n") ||
		!strings.Contains(page, `llmgw_store_operations_total{operation="key_by_hash",outcome="ok"} 1`) {
		t.Errorf("the store's metrics are not told:\n%s", page)
	}
	if _, err := c.Keys.RevokeKey(t.Context(), &apipb.RevokeKeyRequest{Id: id}); err != nil {
		t.Fatal(err)
	}
	if status, body := ask(t, "POST", client+"/v1/chat/completions", text); status != 401 {
		t.Errorf("a revoked key: %d %s", status, body)
	}
	r.stop()
	if err := <-r.done; err != nil {
		t.Fatal(err)
	}
	r.done <- nil
	rows, _, err := st.ListUsage(t.Context(), storage.UsageQuery{KeyID: id})
	if err != nil {
		t.Fatal(err)
	}
	served := 0
	for _, u := range rows {
		if u.Status == 200 {
			served++
		}
	}
	if served != requests || len(rows) != requests+len(api.Paths())+3 {
		t.Errorf("%d rows, %d of them served", len(rows), served)
	}
	b, err := st.Budget(t.Context(), *rows[0].Charged)
	if err != nil || b.SpentNanos != requests*2000 || b.GrantedNanos != b.SpentNanos {
		t.Errorf("budget %+v, %v", b, err)
	}
}

// A server starts without its store: it says of no key that it is wrong, and serves
// once the store is there.
func TestStartWithoutTheStore(t *testing.T) {
	cfg := keyed(t)
	dir := filepath.Join(t.TempDir(), "later")
	if err := os.WriteFile(dir, nil, 0o600); err != nil { // no directory yet
		t.Fatal(err)
	}
	cfg.Store.DSN = storedsn.DSN("sqlite:" + filepath.Join(dir, "llmgw.db"))
	r := startWith(t, cfg, gatewayModule())
	secret, err := auth.Mint(nil)
	if err != nil {
		t.Fatal(err)
	}
	url := "http://" + r.Client + "/v1/chat/completions"
	if status, body := ask(t, "POST", url, secret.Reveal()); status != 503 {
		t.Errorf("without the store: %d %s", status, body)
	}
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	_, text := mint(t, opened(t, cfg.Store.DSN), auth.Spec{})
	limit := time.After(30 * time.Second)
	for {
		status, body := ask(t, "POST", url, text)
		if status == 200 {
			break
		}
		if status != 503 {
			t.Fatalf("%d %s", status, body)
		}
		select {
		case <-limit:
			t.Fatal("the server does not find its store")
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// hide takes a store's file away, and what the store would make in its place;
// the function that it returns brings both back.
func hide(t *testing.T, dsn storedsn.DSN) (back func()) {
	t.Helper()
	dir := filepath.Dir(dsn.File())
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.Rename(dir, dir+".away"))
	must(os.WriteFile(dir, nil, 0o600))
	return func() {
		t.Helper()
		must(os.Remove(dir))
		must(os.Rename(dir+".away", dir))
	}
}

// A server that is started anew while its store is away knows no key, and what it
// knows first of a budget is what was spent of it: nothing passes that the rest
// does not cover.
func TestBudgetsAreRestoredFirst(t *testing.T) {
	cfg := keyed(t)
	cfg.Store.DSN = storedsn.DSN("sqlite:" + filepath.Join(t.TempDir(), "store", "llmgw.db"))
	st := opened(t, cfg.Store.DSN)
	_, text := mint(t, st, auth.Spec{Budget: "0.00002/total"}) // a request takes a tenth of it, and a fifth at most
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	const path = "/v1/chat/completions"
	r := startWith(t, cfg, gatewayModule())
	for range 9 {
		if status, body := ask(t, "POST", "http://"+r.Client+path, text); status != 200 {
			t.Fatalf("%d %s", status, body)
		}
	}
	r.stop()
	if err := <-r.done; err != nil {
		t.Fatal(err)
	}
	r.done <- nil
	back := hide(t, cfg.Store.DSN)
	r = startWith(t, cfg, gatewayModule())
	for range 3 {
		if status, body := ask(t, "POST", "http://"+r.Client+path, text); status != 503 || !strings.Contains(body, "keys_unavailable") {
			t.Errorf("without the store: %d %s", status, body)
		}
	}
	back()
	for status, body := 503, ""; status == 503; {
		status, body = ask(t, "POST", "http://"+r.Client+path, text)
		if status != 503 && (status != 429 || !strings.Contains(body, "insufficient_quota")) {
			t.Errorf("the first charge after the store was back: %d %s; want it refused", status, body)
		}
		time.Sleep(20 * time.Millisecond) //nolint:forbidigo // a poll
	}
}

// locked is a buffer for a log.
type locked struct {
	mu  sync.Mutex
	buf bytes.Buffer // guarded by mu
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

// A server that asks nobody for a key says so, if others than this machine reach it.
// That has to be written: as it comes a server asks.
func TestOpenServerIsWarnedOf(t *testing.T) {
	if !config.DefaultConfig().Auth.Enabled {
		t.Error("nobody is asked for a key though nobody wrote so")
	}
	for _, tt := range []struct {
		listen    string
		auth, say bool
	}{{"127.0.0.1:0", false, false}, {":0", false, true}, {":0", true, false}} {
		cfg := testConfig()
		cfg.Listen, cfg.Auth.Enabled = tt.listen, tt.auth
		cfg.Store.DSN = storedsn.DSN("sqlite:" + filepath.Join(t.TempDir(), "llmgw.db"))
		var log locked
		ctx, cancel := context.WithCancel(t.Context())
		err := Run(ctx, Options{Config: cfg, Logger: slog.New(slog.NewTextHandler(&log, nil)), Serving: func(Addresses) { cancel() }})
		cancel()
		if err != nil {
			t.Error(err)
		}
		if got := strings.Contains(log.String(), "auth.enabled: false and listen: "); got != tt.say {
			t.Errorf("%+v: warned: %t; log:\n%s", tt, got, log.String())
		}
	}
}

// Whoever starts a server for which there is no key is told how to make one.
func TestFirstKey(t *testing.T) {
	cfg := keyed(t)
	var log locked
	k, err := newKeeper(cfg, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		t.Fatal(err)
	}
	g, err := newGovernance(cfg, k, slog.New(slog.NewTextHandler(&log, nil)), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := g.store.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.store.Close() })
	said := func() int {
		t.Helper()
		g.sayIfNoKey(t.Context(), "127.0.0.1:9090")
		return strings.Count(log.String(), `command="llmgw keys create --name first --admin http://127.0.0.1:9090"`)
	}
	if n := said(); n != 1 {
		t.Errorf("said %d times without a key; log:\n%s", n, log.String())
	}
	id, _ := mint(t, g.store, auth.Spec{})
	if n := said(); n != 1 {
		t.Errorf("said with a key; log:\n%s", log.String())
	}
	if _, err := g.store.RevokeKey(t.Context(), id, time.Now(), storage.Audit{ID: "a", At: time.Now(), Actor: "test", Action: "key.revoke", Target: id}); err != nil {
		t.Fatal(err)
	}
	if n := said(); n != 2 {
		t.Errorf("not said once the only key was revoked; log:\n%s", log.String())
	}
}
