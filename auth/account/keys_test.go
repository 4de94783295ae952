package account

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/llmgw/llmgw/auth"
	"github.com/llmgw/llmgw/storage"
)

var gold = Grant{
	Models: &[]string{"b/*"}, Band: new("gold"), Budget: new("5/day"), Keys: new(3),
	Limits: storage.Limits{RequestsPerMinute: new(int64(60)), Concurrency: new(int64(2))},
}

func TestCreateKey(t *testing.T) {
	b := newBench(t, nil)
	a := b.approved(t, ada, gold)
	v := b.visitor(t, ada)
	issued, err := b.CreateKey(t.Context(), v, KeySpec{Name: "laptop", Models: []string{"coder"}, Expires: "90d"})
	if err != nil {
		t.Fatal(err)
	}
	k, err := b.db.KeyByHash(t.Context(), issued.Secret.Hash())
	if err != nil || k.Account != a.ID || k.Lineage != a.ID || k.Owner != ada || k.Name != "laptop" || k.Band != "gold" || *k.Limits.RequestsPerMinute != 60 ||
		*k.Limits.Concurrency != 2 || k.Limits.TokensPerMinute != nil || auth.FormatBudget(*k.Budget) != "5.00/day" || !slices.Equal(k.Models, []string{"b/coder"}) ||
		!k.ExpiresAt.Equal(b.clock.Now().Add(90*24*time.Hour)) || len(issued.Warnings) != 0 {
		t.Errorf("%+v, %v; %q", k, err, issued.Warnings)
	}
	whole, err := b.CreateKey(t.Context(), v, KeySpec{})
	if err != nil || !slices.Equal(whole.Key.Models, []string{"b/*"}) || !whole.Key.ExpiresAt.IsZero() {
		t.Errorf("%+v, %v", whole.Key, err)
	}
	// Whatever he may not have, or there is not, is refused alike, and names nothing.
	for _, models := range [][]string{{"c/big"}, {"c/*"}, {"**"}, {"*"}, {"b/coder", "nothing"}, {"b*"}} {
		_, err := b.CreateKey(t.Context(), v, KeySpec{Models: models})
		bad, ok := errors.AsType[*InvalidError](err)
		if !ok || bad.Field != "models" || !errors.Is(err, ErrInvalid) || strings.Contains(err.Error(), "big") && models[0] != "c/big" ||
			strings.Contains(err.Error(), "auth:") {
			t.Errorf("%q: %v", models, err)
		}
	}
	for _, spec := range []KeySpec{{Name: strings.Repeat("x", 257)}, {Name: "a\u202eb"}, {Expires: "yesterday"}, {Expires: "-1h"}, {Name: issued.Secret.Reveal()}} {
		_, err := b.CreateKey(t.Context(), v, spec)
		if bad, ok := errors.AsType[*InvalidError](err); !ok || bad.Field != "key" || strings.Contains(err.Error(), issued.Secret.Reveal()) {
			t.Errorf("%+v: %v", spec, err)
		}
	}
	if _, err := b.CreateKey(t.Context(), v, KeySpec{Name: "third"}); err != nil {
		t.Error(err)
	}
	if _, err := b.CreateKey(t.Context(), v, KeySpec{}); !errors.Is(err, ErrFull) {
		t.Errorf("a fourth: %v", err)
	}
	if _, err := b.RevokeKey(t.Context(), v, whole.Key.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := b.CreateKey(t.Context(), v, KeySpec{Expires: "1h"}); err != nil {
		t.Errorf("after one was revoked: %v", err)
	}
	b.clock.Advance(time.Hour)
	if _, err := b.CreateKey(t.Context(), v, KeySpec{}); err != nil {
		t.Errorf("after one has expired: %v", err)
	}
	list, err := b.Keys(t.Context(), v)
	if err != nil || len(list) != 5 || list[0].CreatedAt.Before(list[4].CreatedAt) || list[0].Hash != (storage.KeyHash{}) {
		t.Errorf("%+v, %v", list, err)
	}
	actions, text := b.audits(t)
	if !strings.Contains(text, "Actor:account:"+a.ID+" Action:key.create") || strings.Contains(text, issued.Secret.Reveal()) {
		t.Errorf("%v\n%s", actions, text)
	}
}

// However many come at once, an account gets no more keys than it may have.
func TestCreateKeyParallel(t *testing.T) {
	b := newBench(t, nil)
	b.approved(t, ada, gold)
	v := b.visitor(t, ada)
	var wg sync.WaitGroup
	var mu sync.Mutex
	made := 0
	for range 20 {
		wg.Go(func() {
			_, err := b.CreateKey(t.Context(), v, KeySpec{})
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				made++
			} else if !errors.Is(err, ErrFull) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if made != 3 {
		t.Errorf("%d keys", made)
	}
}

// A key of another account, or of an operator, is as one that there is not, and nothing
// becomes of it.
func TestForeignKeys(t *testing.T) {
	b := newBench(t, nil)
	b.approved(t, ada, gold)
	b.approved(t, "bob@example.org", Grant{})
	me, bob := b.visitor(t, ada), b.visitor(t, "bob@example.org")
	his, err := b.CreateKey(t.Context(), bob, KeySpec{})
	if err != nil {
		t.Fatal(err)
	}
	operators, err := b.deps.Issuer.Create(t.Context(), auth.Spec{}, op)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range []*Visitor{me, {}} {
		for _, id := range []string{his.Key.ID, operators.Key.ID, "key_none", ""} {
			if _, err := b.RevokeKey(t.Context(), v, id); !errors.Is(err, storage.ErrNotFound) {
				t.Errorf("revoke %q: %v", id, err)
			}
			if who, err := b.Identity(t.Context(), v, id); !errors.Is(err, storage.ErrNotFound) || who != nil {
				t.Errorf("use %q: %v", id, err)
			}
		}
		if list, err := b.Keys(t.Context(), v); len(list) != 0 || v == me && err != nil {
			t.Errorf("%+v, %v", list, err)
		}
	}
	if revoked, _ := b.heard.taken(); len(revoked) != 0 {
		t.Errorf("told of %v", revoked)
	}
	for _, id := range []string{his.Key.ID, operators.Key.ID} {
		if k, err := b.db.Key(t.Context(), id); err != nil || !k.RevokedAt.IsZero() {
			t.Errorf("%+v, %v", k, err)
		}
	}
	if who, err := b.Identity(t.Context(), bob, his.Key.ID); err != nil || who.KeyID() != his.Key.ID || !who.Valid(b.now()) || who.Lineage() != bob.Account.ID {
		t.Errorf("%v, %v", who, err)
	}
	if _, err := b.RevokeKey(t.Context(), bob, his.Key.ID); err != nil {
		t.Error(err)
	}
	if revoked, _ := b.heard.taken(); !slices.Equal(revoked, []string{his.Key.ID}) {
		t.Errorf("told of %v", revoked)
	}
	if _, err := b.Identity(t.Context(), bob, his.Key.ID); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("a revoked key is used: %v", err)
	}
}

// What is bounded is the account: all its keys are of one lineage, and its usage is
// that of all of them and of nobody else's.
func TestUsage(t *testing.T) {
	b := newBench(t, nil)
	b.approved(t, ada, gold)
	b.approved(t, "bob@example.org", gold)
	at := b.now()
	var rows []storage.Usage
	for _, address := range []string{ada, "bob@example.org"} {
		v := b.visitor(t, address)
		for i := range 2 {
			issued, err := b.CreateKey(t.Context(), v, KeySpec{})
			if err != nil {
				t.Fatal(err)
			}
			rows = append(rows, storage.Usage{
				RequestID: fmt.Sprint(address, i), KeyID: issued.Key.ID, Owner: address, Asked: "b/coder", Model: "b/coder", At: at, Status: 200,
				Result: "ok", Path: "/v1/chat/completions", Router: "r", Source: storage.SourceEngine, Tokens: storage.Tokens{Output: new(int64(10))},
			})
			if i == 0 {
				if _, err := b.RevokeKey(t.Context(), v, issued.Key.ID); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	if _, err := b.db.InsertUsage(t.Context(), rows); err != nil {
		t.Fatal(err)
	}
	v := b.visitor(t, ada)
	sums, err := b.Usage(t.Context(), v, at.Add(-24*time.Hour), at.Add(24*time.Hour), storage.GrainDay)
	if err != nil || len(sums) != 2 || sums[0].Output+sums[1].Output != 20 || sums[0].Owner != ada {
		t.Errorf("%+v, %v", sums, err)
	}
	if sums, err := b.Usage(t.Context(), &Visitor{}, time.Time{}, time.Time{}, storage.GrainDay); !errors.Is(err, ErrNoSession) || sums != nil {
		t.Errorf("nobody's usage is %+v, %v", sums, err)
	}
}

// A key that is made while its account is suspended, or is allowed less, has no more
// than the account.
func TestCreateKeyRaces(t *testing.T) {
	b := newBench(t, nil)
	b.approved(t, ada, gold)
	v := b.visitor(t, ada)
	b.store.once("CreateAccountKey", func() error {
		_, err := b.Approve(t.Context(), ada, Grant{Models: &[]string{"b/chat"}, Band: new("bronze")}, op)
		return err
	})
	issued, err := b.CreateKey(t.Context(), v, KeySpec{})
	if err != nil || !slices.Equal(issued.Key.Models, []string{"b/chat"}) || issued.Key.Band != "bronze" {
		t.Errorf("%+v, %v", issued.Key, err)
	}
	if k, err := b.db.Key(t.Context(), issued.Key.ID); err != nil || !slices.Equal(k.Models, []string{"b/chat"}) || k.Band != "bronze" {
		t.Errorf("%+v, %v", k, err)
	}
	b.store.once("CreateAccountKey", func() error { _, err := b.Suspend(t.Context(), ada, op); return err })
	if _, err := b.CreateKey(t.Context(), v, KeySpec{}); !errors.Is(err, ErrSuspended) {
		t.Error(err)
	}
	b.store.set(nil)
	if _, err := b.CreateKey(t.Context(), v, KeySpec{}); !errors.Is(err, ErrSuspended) {
		t.Error(err)
	}
	b.store.fail("Account", errDown)
	if _, err := b.CreateKey(t.Context(), v, KeySpec{}); !errors.Is(err, storage.ErrUnavailable) {
		t.Error(err)
	}
}

// An allowance that fits the configuration no more is the operator's to see to.
func TestCreateKeyOfOldAllowance(t *testing.T) {
	b := newBench(t, nil)
	b.approved(t, ada, gold)
	v := b.visitor(t, ada)
	issuer, err := auth.NewIssuer(auth.IssuerDeps{Keys: b.db, Bands: []string{"lead"}, Models: models, Now: b.clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	deps := b.deps
	deps.Issuer, deps.Registerer = issuer, nil
	s, err := New(b.cfg, deps)
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.CreateKey(t.Context(), v, KeySpec{})
	if bad, ok := errors.AsType[*InvalidError](err); !ok || bad.Field != "allowance" || strings.Contains(err.Error(), "lead") {
		t.Error(err)
	}
	if !strings.Contains(b.log.String(), "lead") {
		t.Error("the operator is not told")
	}
}
