package provider_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/llmgw/llmgw/fleet/provider"
	"github.com/llmgw/llmgw/storage"
	"github.com/llmgw/llmgw/storage/sqlite"
)

// open returns a store on a file, and the fence of a term that was begun on it.
func open(t testing.TB, path string) (*sqlite.Store, storage.Fence) {
	t.Helper()
	cfg := sqlite.DefaultConfig()
	cfg.Path = path
	s, err := sqlite.New(cfg, sqlite.Deps{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	term, err := s.BeginTerm(t.Context(), storage.TermRequest{Cluster: "c", Holder: "cp", At: epoch})
	if err != nil {
		t.Fatal(err)
	}
	return s, term.Fence()
}

// start runs a registry until stop is called or the test ends.
func start(t testing.TB, cfg provider.Config, deps provider.Deps) (r *provider.Registry, stop func() error) {
	t.Helper()
	r, err := provider.New(cfg, deps)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	stop = sync.OnceValue(func() error { cancel(); return <-ended })
	t.Cleanup(func() { _ = stop() })
	return r, stop
}

func always(f storage.Fence) func() storage.Fence { return func() storage.Fence { return f } }

// locked is a buffer for a log.
type locked struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *locked) Write(p []byte) (int, error) { l.mu.Lock(); defer l.mu.Unlock(); return l.b.Write(p) }
func (l *locked) String() string              { l.mu.Lock(); defer l.mu.Unlock(); return l.b.String() }

// The drift story, with a store: an engine is swapped under its port, goes, and comes
// back; and no credential is in any sink.
func TestStory(t *testing.T) {
	ctx, dir := t.Context(), filepath.Join(t.TempDir(), "s.db")
	store, fence := open(t, dir)
	var models atomic.Pointer[string]
	models.Store(new(`{"data":[{"id":"qwen"},{"id":"bge"}]}`))
	var sent atomic.Pointer[string]
	at := serve(t, func(w http.ResponseWriter, r *http.Request) {
		sent.Store(new(r.Header.Get("Authorization")))
		body := *models.Load()
		if body == "" {
			http.Error(w, "gone "+canary, http.StatusServiceUnavailable)
			return
		}
		fmt.Fprint(w, body)
	})
	var log locked
	reg := prometheus.NewRegistry()
	deps := provider.Deps{
		Store: store, Fence: always(fence), Sealer: sealer(t, key1()), Logger: slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})), Registerer: reg,
	}
	r, stop := start(t, local(), deps)
	registered, err := r.Register(ctx, provider.Register{BaseURL: strings.TrimSuffix(at, "/v1") + "/", Principal: "ada", Node: "gpu07", Name: "gpu07", Engine: "vllm"})
	if err != nil || !registered.Leased {
		t.Fatal(registered, err)
	}
	id := registered.ID
	probe := func() provider.View {
		t.Helper()
		v, err := r.Probe(ctx, id)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	if v := probe(); !v.Rotates("qwen") || !v.Rotates("bge") {
		t.Errorf("registered: %+v", v)
	}
	if _, err := r.SetCredential(ctx, id, secret(t, canary), "cli", "req-1"); err != nil {
		t.Fatal(err)
	}
	probe()
	if got := *sent.Load(); got != "Bearer "+canary {
		t.Errorf("it was asked with %q", got)
	}
	models.Store(new(`{"data":[{"id":"llama"},{"id":"bge"}]}`))
	if v := probe(); v.Rotates("qwen") || !v.Rotates("bge") || v.State() != "drifted" {
		t.Errorf("swapped: %+v", v)
	}
	models.Store(new(""))
	if v := probe(); v.Rotates("bge") || v.State() != "degraded" || v.DegradedReason != "it answered 503" {
		t.Errorf("gone: %+v", v)
	}
	models.Store(new(`{"data":[{"id":"qwen"},{"id":"bge"}]}`))
	if v := probe(); !v.Rotates("qwen") || !v.Rotates("bge") || v.Rotates("llama") {
		t.Errorf("back: %+v", v)
	}
	if _, err := r.Add(ctx, provider.Add{BaseURL: at, Kind: storage.ProviderStatic}, provider.Secret{}, ""); !errors.Is(err, provider.ErrExists) {
		t.Errorf("added again: %v", err)
	}
	if _, err := r.Add(ctx, provider.Add{BaseURL: "http://u:" + canary + "@a", Kind: storage.ProviderStatic}, provider.Secret{}, ""); !errors.Is(err, provider.ErrAddress) {
		t.Errorf("with a password: %v", err)
	}
	for _, bad := range []string{"http://169.254.169.254", "http://metadata.google.internal", "ftp://a", "http://[::1]:8000"} {
		if _, err := r.Register(ctx, provider.Register{BaseURL: bad, Principal: "ada"}); !errors.Is(err, provider.ErrAddress) {
			t.Errorf("%s: %v", bad, err)
		}
	}
	metrics, err := testutil.GatherAndCount(reg)
	if err != nil || metrics == 0 {
		t.Error(metrics, err)
	}
	if problems, err := testutil.GatherAndLint(reg); err != nil || len(problems) > 0 {
		t.Error(problems, err)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}

	// Another process, with a new key before the old one.
	deps.Sealer, deps.Registerer = sealer(t, key(2), key1()), nil
	r, stop = start(t, local(), deps)
	if v := probe(); !v.Rotates("qwen") || v.Name != "gpu07" || *sent.Load() != "Bearer "+canary {
		t.Errorf("after a restart: %+v", v)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	kept, err := store.Provider(ctx, id)
	if err != nil || kept.CredentialKey != deps.Sealer.KeyID() || len(kept.Models) != 3 {
		t.Errorf("sealed anew: %+v, %v", kept, err)
	}
	deps.Sealer = sealer(t, key(2))
	r, stop = start(t, local(), deps)
	if err := r.Delete(ctx, provider.Delete{ID: id, Actor: "cli"}, ""); err != nil {
		t.Error(err)
	}
	if _, err := r.Probe(ctx, id); !errors.Is(err, provider.ErrNotFound) {
		t.Errorf("deleted: %v", err)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}

	audit, _, err := store.ListAudit(ctx, storage.AuditQuery{})
	if err != nil {
		t.Fatal(err)
	}
	actions := map[string]int{}
	for _, a := range audit {
		actions[a.Action]++
	}
	if actions["provider.register"] != 1 || actions["provider.credential"] != 1 || actions["provider.reseal"] != 1 || actions["provider.delete"] != 1 {
		t.Errorf("audit rows: %v", actions)
	}
	var dump bytes.Buffer
	if err := store.Export(ctx, &dump); err != nil {
		t.Fatal(err)
	}
	rows, _ := json.Marshal(audit)
	for sink, text := range map[string]string{"log": log.String(), "audit": string(rows), "dump": dump.String()} {
		if strings.Contains(text, canary) || strings.Contains(text, key1()) || text == "" {
			t.Errorf("the %s has a secret, or nothing", sink)
		}
	}
}

func key1() string { return key(1) }

// away is a store that is not there until it is.
type away struct {
	provider.Store
	gone atomic.Bool
}

func (a *away) CreateProvider(ctx context.Context, f storage.Fence, p storage.Provider, why storage.Audit) error {
	if a.gone.Load() {
		return fmt.Errorf("away: %w", storage.ErrUnavailable)
	}
	return a.Store.CreateProvider(ctx, f, p, why)
}

// While the store is away agents register and operators wait; when it is back all is
// kept.
func TestStoreAway(t *testing.T) {
	ctx := t.Context()
	store, fence := open(t, filepath.Join(t.TempDir(), "s.db"))
	s := &away{Store: store}
	s.gone.Store(true)
	r, stop := start(t, local(), provider.Deps{Store: s, Fence: always(fence)})
	at := serve(t, says(`{"data":[{"id":"a"}]}`))
	reg, err := r.Register(ctx, provider.Register{BaseURL: at, Principal: "ada", Name: "x"})
	if err != nil {
		t.Fatal(err)
	}
	if v, err := r.Probe(ctx, reg.ID); err != nil || !v.Rotates("a") {
		t.Errorf("%+v, %v", v, err)
	}
	short, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
	defer cancel()
	if _, err := r.Add(short, provider.Add{BaseURL: "http://10.0.0.1", Kind: storage.ProviderStatic, Name: "s"}, provider.Secret{}, ""); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("an operator's: %v", err)
	}
	s.gone.Store(false)
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	got, _, err := store.ListProviders(ctx, storage.ProviderQuery{})
	if err != nil || len(got) != 2 || got[0].Name != "s" || len(got[1].Models) != 1 {
		t.Errorf("kept: %+v, %v", got, err)
	}
	if _, err := r.Register(ctx, provider.Register{BaseURL: at, Principal: "ada"}); !errors.Is(err, provider.ErrNotReady) {
		t.Errorf("after its end: %v", err)
	}
}

// Who leads no longer ends.
func TestFenced(t *testing.T) {
	store, fence := open(t, filepath.Join(t.TempDir(), "s.db"))
	if _, err := store.BeginTerm(t.Context(), storage.TermRequest{Cluster: "c", Holder: "other", At: epoch}); err != nil {
		t.Fatal(err)
	}
	r, err := provider.New(local(), provider.Deps{Store: store, Fence: always(fence)})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- r.Run(t.Context()) }()
	if _, err := r.Add(t.Context(), provider.Add{BaseURL: "http://10.0.0.1", Kind: storage.ProviderStatic}, provider.Secret{}, ""); !errors.Is(err, storage.ErrFenced) && !errors.Is(err, provider.ErrNotReady) {
		t.Errorf("add: %v", err)
	}
	if err := <-ended; !errors.Is(err, storage.ErrFenced) {
		t.Errorf("Run: %v", err)
	}
}
