package account

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
	"go.uber.org/goleak"

	"github.com/llmgw/llmgw/auth"
	"github.com/llmgw/llmgw/auth/account/password"
	"github.com/llmgw/llmgw/storage"
	"github.com/llmgw/llmgw/storage/sqlite"
	"github.com/llmgw/llmgw/storage/sqlite/sqlitetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	ada   = "ada@example.org"
	right = "correct horse battery staple"
	wrong = "incorrect horse battery staple"
)

var (
	op      = auth.By{Actor: "cli:root@host"}
	errDown = fmt.Errorf("dial: %w", storage.ErrUnavailable)
)

// clock stands still but for Advance.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// watched is a store that notes what it is asked and can be made to fail.
type watched struct {
	Store

	mu   sync.Mutex
	ops  []string           // guarded by mu
	hook func(string) error // before a call, nil: go on; guarded by mu
}

func (w *watched) begin(op string) error {
	w.mu.Lock()
	w.ops = append(w.ops, op)
	hook := w.hook
	w.mu.Unlock()
	if hook == nil {
		return nil
	}
	return hook(op)
}

// taken returns what was asked since it was last called.
func (w *watched) taken() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	ops := w.ops
	w.ops = nil
	return ops
}

func (w *watched) set(hook func(op string) error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hook = hook
}

// fail has that operation fail.
func (w *watched) fail(op string, err error) {
	w.set(func(o string) error {
		if o == op {
			return err
		}
		return nil
	})
}

// once does something before the next call of that operation, which fails as it does.
func (w *watched) once(op string, do func() error) {
	w.set(func(o string) error {
		if o != op {
			return nil
		}
		w.set(nil)
		return do()
	})
}

func (w *watched) CreateAccount(ctx context.Context, a storage.Account, most int, why storage.Audit) error {
	if err := w.begin("CreateAccount"); err != nil {
		return err
	}
	return w.Store.CreateAccount(ctx, a, most, why)
}

func (w *watched) Account(ctx context.Context, id string) (storage.Account, error) {
	if err := w.begin("Account"); err != nil {
		return storage.Account{}, err
	}
	return w.Store.Account(ctx, id)
}

func (w *watched) AccountByAddress(ctx context.Context, address string) (storage.Account, error) {
	if err := w.begin("AccountByAddress"); err != nil {
		return storage.Account{}, err
	}
	return w.Store.AccountByAddress(ctx, address)
}

func (w *watched) UpdateAccount(ctx context.Context, a storage.Account, why storage.Audit) error {
	if err := w.begin("UpdateAccount"); err != nil {
		return err
	}
	return w.Store.UpdateAccount(ctx, a, why)
}

func (w *watched) RehashAccount(ctx context.Context, id, from, to string) error {
	if err := w.begin("RehashAccount"); err != nil {
		return err
	}
	return w.Store.RehashAccount(ctx, id, from, to)
}

func (w *watched) CreateSession(ctx context.Context, s storage.Session, most int) error {
	if err := w.begin("CreateSession"); err != nil {
		return err
	}
	return w.Store.CreateSession(ctx, s, most)
}

func (w *watched) Session(ctx context.Context, h storage.TokenHash, now, idle time.Time) (storage.Session, storage.Account, error) {
	if err := w.begin("Session"); err != nil {
		return storage.Session{}, storage.Account{}, err
	}
	return w.Store.Session(ctx, h, now, idle)
}

func (w *watched) TouchSession(ctx context.Context, id string, at time.Time) error {
	if err := w.begin("TouchSession"); err != nil {
		return err
	}
	return w.Store.TouchSession(ctx, id, at)
}

func (w *watched) EndSession(ctx context.Context, account, id string) error {
	if err := w.begin("EndSession"); err != nil {
		return err
	}
	return w.Store.EndSession(ctx, account, id)
}

func (w *watched) EndSessions(ctx context.Context, account, except string) (int, error) {
	if err := w.begin("EndSessions"); err != nil {
		return 0, err
	}
	return w.Store.EndSessions(ctx, account, except)
}

func (w *watched) Link(ctx context.Context, h storage.TokenHash) (storage.Link, error) {
	if err := w.begin("Link"); err != nil {
		return storage.Link{}, err
	}
	return w.Store.Link(ctx, h)
}

func (w *watched) RedeemKeyLink(ctx context.Context, h storage.TokenHash, at time.Time, k storage.Key, why storage.Audit) error {
	if err := w.begin("RedeemKeyLink"); err != nil {
		return err
	}
	err := w.Store.RedeemKeyLink(ctx, h, at, k, why)
	if lost := w.begin("RedeemKeyLink done"); lost != nil {
		return lost
	}
	return err
}

func (w *watched) RedeemResetLink(ctx context.Context, h storage.TokenHash, at time.Time, hash string, why storage.Audit) (storage.Account, error) {
	if err := w.begin("RedeemResetLink"); err != nil {
		return storage.Account{}, err
	}
	return w.Store.RedeemResetLink(ctx, h, at, hash, why)
}

func (w *watched) TakeAttempt(ctx context.Context, bucket uint32, now time.Time, t storage.Throttle) (time.Duration, error) {
	if err := w.begin("TakeAttempt"); err != nil {
		return 0, err
	}
	return w.Store.TakeAttempt(ctx, bucket, now, t)
}

func (w *watched) ForgiveAttempts(ctx context.Context, bucket uint32) error {
	if err := w.begin("ForgiveAttempts"); err != nil {
		return err
	}
	return w.Store.ForgiveAttempts(ctx, bucket)
}

func (w *watched) CreateAccountKey(ctx context.Context, k storage.Key, most int, why storage.Audit) error {
	if err := w.begin("CreateAccountKey"); err != nil {
		return err
	}
	return w.Store.CreateAccountKey(ctx, k, most, why)
}

func (w *watched) RevokeAccountKey(ctx context.Context, account, id string, at time.Time, why storage.Audit) (storage.Key, error) {
	if err := w.begin("RevokeAccountKey"); err != nil {
		return storage.Key{}, err
	}
	return w.Store.RevokeAccountKey(ctx, account, id, at, why)
}

func (w *watched) PruneAccounts(ctx context.Context, s storage.StaleAccounts) (int, bool, error) {
	if err := w.begin("PruneAccounts"); err != nil {
		return 0, false, err
	}
	return w.Store.PruneAccounts(ctx, s)
}

// heard notes what it is told.
type heard struct {
	mu                 sync.Mutex
	revoked, forgotten []string // guarded by mu
}

func (h *heard) Revoke(id string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.revoked = append(h.revoked, id)
}

func (h *heard) Forget(id string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.forgotten = append(h.forgotten, id)
}

func (h *heard) taken() (revoked, forgotten []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	revoked, forgotten = h.revoked, h.forgotten
	h.revoked, h.forgotten = nil, nil
	return revoked, forgotten
}

// bench is a service over a real store.
type bench struct {
	*Service

	db    *sqlite.Store
	store *watched
	clock *clock
	heard *heard
	log   *syncBuffer
	reg   *prometheus.Registry
}

// syncBuffer is a buffer for several goroutines.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// models are those of the tests: b/coder, with the alias coder, b/chat and c/big.
func models() auth.Models {
	canonical := map[string]string{"b/coder": "b/coder", "coder": "b/coder", "b/chat": "b/chat", "c/big": "c/big"}
	return auth.Models{
		Version: 1,
		Resolve: func(name string) (string, bool) { c, ok := canonical[name]; return c, ok },
		Names:   func() []string { return []string{"b/coder", "coder", "b/chat", "c/big"} },
	}
}

func newBench(t testing.TB, change func(*Config, *Deps)) *bench {
	t.Helper()
	dbCfg := sqlite.DefaultConfig()
	dbCfg.Path = sqlitetest.Database(t)
	db, err := sqlite.New(dbCfg, sqlite.Deps{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	if err := db.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	b := &bench{
		db: db, store: &watched{Store: db}, clock: &clock{now: time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)}, heard: &heard{},
		log: &syncBuffer{}, reg: prometheus.NewRegistry(),
	}
	log := slog.New(slog.NewJSONHandler(b.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	issuer, err := auth.NewIssuer(auth.IssuerDeps{
		Keys: db, Bands: []string{"gold", "bronze"}, Models: models, Told: b.heard, Now: b.clock.Now, Logger: log,
	})
	if err != nil {
		t.Fatal(err)
	}
	cfg, deps := DefaultConfig(), Deps{
		Store: b.store, Issuer: issuer, Told: b.heard, Now: b.clock.Now, Logger: log, Registerer: b.reg,
		cost: password.Params{MemoryKiB: 64, Passes: 1, Lanes: 1}, settle: time.Nanosecond,
	}
	if change != nil {
		change(&cfg, &deps)
	}
	if b.Service, err = New(cfg, deps); err != nil {
		t.Fatal(err)
	}
	return b
}

// approved signs somebody up and has him approved.
func (b *bench) approved(t testing.TB, address string, g Grant) storage.Account {
	t.Helper()
	if err := b.SignUp(t.Context(), address, right, auth.By{}); err != nil {
		t.Fatal(err)
	}
	changed, err := b.Approve(t.Context(), address, g, op)
	if err != nil {
		t.Fatal(err)
	}
	return changed.Account
}

// visitor signs in.
func (b *bench) visitor(t testing.TB, address string) *Visitor {
	t.Helper()
	opened, err := b.SignIn(t.Context(), SignIn{Address: address, Password: right, Agent: "browser", From: "192.0.2.1"})
	if err != nil {
		t.Fatal(err)
	}
	v, err := b.Visitor(t.Context(), opened.Token)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// audits returns the actions of all audit rows, sorted, and all that the rows say.
func (b *bench) audits(t testing.TB) (actions []string, text string) {
	t.Helper()
	rows, _, err := b.db.ListAudit(t.Context(), storage.AuditQuery{})
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for _, r := range rows {
		actions = append(actions, r.Action)
		fmt.Fprintf(&out, "%+v %s %s\n", r, r.Before, r.After)
	}
	slices.Sort(actions)
	return actions, out.String()
}

// metricsText is all that the metrics say.
func (b *bench) metricsText(t testing.TB) string {
	t.Helper()
	families, err := b.reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for _, f := range families {
		if _, err := expfmt.MetricFamilyToText(&out, f); err != nil {
			t.Fatal(err)
		}
	}
	return out.String()
}

var _ io.Writer = (*syncBuffer)(nil)
