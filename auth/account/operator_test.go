package account

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/llmgw/llmgw/auth"
	"github.com/llmgw/llmgw/storage"
)

func TestApprove(t *testing.T) {
	b := newBench(t, nil)
	if _, err := b.Approve(t.Context(), ada, Grant{}, op); !errors.Is(err, storage.ErrNotFound) {
		t.Error(err)
	}
	if err := b.SignUp(t.Context(), ada, right, auth.By{}); err != nil {
		t.Fatal(err)
	}
	for name, g := range map[string]Grant{
		"band":     {Band: new("lead")},
		"models":   {Models: &[]string{"nothing"}},
		"budget":   {Budget: new("1.50")},
		"keys":     {Keys: new(10_001)},
		"keys: -1": {Keys: new(-1)},
	} {
		if _, err := b.Approve(t.Context(), ada, g, op); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if a, _ := b.db.AccountByAddress(t.Context(), ada); a.State != storage.AccountPending {
		t.Error("it was approved")
	}
	done, err := b.Approve(t.Context(), "Ada@Example.org", Grant{Models: &[]string{"nothing"}, AllowUnknownModels: true}, op)
	a := done.Account
	if err != nil || a.State != storage.AccountApproved || a.Password != "" || !a.ApprovedAt.Equal(b.clock.Now()) || a.Allowance.Keys != 10 ||
		!slices.Equal(a.Allowance.Models, []string{"nothing"}) || len(done.Warnings) != 1 {
		t.Errorf("%+v, %v", done, err)
	}
	// What is not said stays; an empty list is every model, and 0 no limit.
	if _, err = b.Approve(t.Context(), ada, gold, op); err != nil {
		t.Fatal(err)
	}
	done, err = b.Approve(t.Context(), ada, Grant{Models: &[]string{}, Limits: storage.Limits{Concurrency: new(int64(0))}}, op)
	if al := done.Account.Allowance; err != nil || al.Models != nil || al.Band != "gold" || al.Limits.Concurrency != nil || *al.Limits.RequestsPerMinute != 60 ||
		al.Keys != 3 || auth.FormatBudget(*al.Budget) != "5.00/day" {
		t.Errorf("%+v, %v", al, err)
	}
	kept, err := b.db.AccountByAddress(t.Context(), ada)
	if err != nil || kept.Revision != done.Account.Revision {
		t.Errorf("revision %d, want %d, %v", done.Account.Revision, kept.Revision, err)
	}
	actions, text := b.audits(t)
	if !slices.Equal(actions, []string{"account.approve", "account.approve", "account.approve", "account.signup"}) || strings.Contains(text, "argon2id") ||
		!strings.Contains(text, `"budget":"5.00/day"`) || !strings.Contains(text, "cli:root@host") {
		t.Errorf("%v\n%s", actions, text)
	}
}

// An account's keys follow what it may use, and none has more than before or than it.
func TestApproveChangesKeys(t *testing.T) {
	b := newBench(t, nil)
	b.approved(t, ada, gold)
	v := b.visitor(t, ada)
	whole, err1 := b.CreateKey(t.Context(), v, KeySpec{Name: "whole"})
	coder, err2 := b.CreateKey(t.Context(), v, KeySpec{Name: "coder", Models: []string{"b/coder"}})
	ended, err3 := b.CreateKey(t.Context(), v, KeySpec{Name: "ended"})
	if err := errors.Join(err1, err2, err3); err != nil {
		t.Fatal(err)
	}
	if _, err := b.RevokeKey(t.Context(), v, ended.Key.ID); err != nil {
		t.Fatal(err)
	}
	key := func(id string) storage.Key {
		t.Helper()
		k, err := b.db.Key(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	// More models: who had all of them has all again.
	b.heard.taken()
	done, err := b.Approve(t.Context(), ada, Grant{
		Models: &[]string{"b/*", "c/*"}, Band: new(""), Budget: new(""), Limits: storage.Limits{RequestsPerMinute: new(int64(5)), Concurrency: new(int64(0))},
	}, op)
	if err != nil || done.Keys != 2 || done.Ended != 0 {
		t.Errorf("%+v, %v", done, err)
	}
	if k := key(whole.Key.ID); !slices.Equal(k.Models, []string{"b/*", "c/*"}) || k.Band != "" || k.Budget != nil || *k.Limits.RequestsPerMinute != 5 ||
		k.Limits.Concurrency != nil {
		t.Errorf("%+v", k)
	}
	if k := key(coder.Key.ID); !slices.Equal(k.Models, []string{"b/coder"}) || k.Band != "" || *k.Limits.RequestsPerMinute != 5 {
		t.Errorf("%+v", k)
	}
	if k := key(ended.Key.ID); k.Band != "gold" {
		t.Errorf("a revoked key was changed: %+v", k)
	}
	if _, forgotten := b.heard.taken(); len(forgotten) != 2 {
		t.Errorf("told of %v", forgotten)
	}
	// Fewer: what is left of each.
	if done, err = b.Approve(t.Context(), ada, Grant{Models: &[]string{"b/chat", "c/*"}}, op); err != nil || done.Keys != 1 || done.Ended != 1 {
		t.Errorf("%+v, %v", done, err)
	}
	if k := key(whole.Key.ID); !slices.Equal(k.Models, []string{"b/chat", "c/*"}) {
		t.Errorf("%+v", k)
	}
	if k := key(coder.Key.ID); k.RevokedAt.IsZero() {
		t.Errorf("a key of which nothing is left goes on: %+v", k)
	}
	if revoked, _ := b.heard.taken(); !slices.Equal(revoked, []string{coder.Key.ID}) {
		t.Errorf("told of %v", revoked)
	}
	// Nothing changes, and nothing is written.
	before := key(whole.Key.ID).Revision
	if _, err = b.Approve(t.Context(), ada, Grant{}, op); err != nil || key(whole.Key.ID).Revision != before {
		t.Errorf("revision %d, %v", key(whole.Key.ID).Revision, err)
	}
}

// A key that has fewer models than its account keeps to them, within what is left.
func TestApproveNarrowsKeys(t *testing.T) {
	for _, test := range []struct {
		had, has, allowed, want []string
	}{
		{[]string{"**"}, []string{"b/*"}, []string{"b/chat", "c/big"}, []string{"b/chat"}},
		{[]string{"**"}, []string{"b/**", "c/big"}, []string{"b/*", "c/*"}, []string{"c/big", "b/*"}},
		{[]string{"b/*"}, []string{"b/*"}, []string{}, nil},
		{[]string{"b/*"}, []string{"b/coder"}, []string{}, []string{"b/coder"}},
		{[]string{}, nil, []string{"b/*"}, []string{"b/*"}},
	} {
		b := newBench(t, nil)
		b.approved(t, ada, Grant{Models: &test.had})
		issued, err := b.CreateKey(t.Context(), b.visitor(t, ada), KeySpec{Models: test.has})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := b.Approve(t.Context(), ada, Grant{Models: &test.allowed}, op); err != nil {
			t.Fatal(err)
		}
		if k, err := b.db.Key(t.Context(), issued.Key.ID); err != nil || !slices.Equal(k.Models, test.want) || (k.Models == nil) != (test.want == nil) {
			t.Errorf("%+v: %q, %v", test, k.Models, err)
		}
	}
}

// A suspended account's keys open nothing, once the routers that are told have
// forgotten them, and open again when it is let in again.
func TestSuspend(t *testing.T) {
	b := newBench(t, nil)
	b.approved(t, ada, gold)
	v := b.visitor(t, ada)
	issued, err := b.CreateKey(t.Context(), v, KeySpec{})
	if err != nil {
		t.Fatal(err)
	}
	gone, err := b.CreateKey(t.Context(), v, KeySpec{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.RevokeKey(t.Context(), v, gone.Key.ID); err != nil {
		t.Fatal(err)
	}
	usable := func() bool {
		k, err := b.db.KeyByHash(t.Context(), issued.Secret.Hash())
		if err != nil {
			t.Fatal(err)
		}
		return k.Usable(b.now())
	}
	for range 2 {
		b.heard.taken()
		if done, err := b.Suspend(t.Context(), ada, op); err != nil || done.Account.State != storage.AccountSuspended || done.Account.Password != "" {
			t.Errorf("%+v, %v", done, err)
		}
		if _, forgotten := b.heard.taken(); !slices.Equal(forgotten, []string{issued.Key.ID}) || usable() {
			t.Errorf("told of %v; usable %v", forgotten, usable())
		}
		if _, err := b.Identity(t.Context(), v, issued.Key.ID); !errors.Is(err, storage.ErrNotFound) {
			t.Errorf("it is used on the pages: %v", err)
		}
		if done, err := b.Approve(t.Context(), ada, Grant{}, op); err != nil || done.Keys != 1 || !slices.Equal(done.Account.Allowance.Models, []string{"b/*"}) {
			t.Errorf("%+v, %v", done, err)
		}
		if _, forgotten := b.heard.taken(); !slices.Equal(forgotten, []string{issued.Key.ID}) || !usable() {
			t.Errorf("told of %v; usable %v", forgotten, usable())
		}
	}
	// One that waits to be approved can be turned away.
	if err := b.SignUp(t.Context(), "bob@example.org", right, auth.By{}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Suspend(t.Context(), "bob@example.org", op); err != nil {
		t.Error(err)
	}
	if _, err := b.Suspend(t.Context(), "nobody@example.org", op); !errors.Is(err, storage.ErrNotFound) {
		t.Error(err)
	}
	if _, err := b.Suspend(t.Context(), "nobody", op); !errors.Is(err, ErrInvalid) {
		t.Error(err)
	}
}

// Changes by two operators at once are both made.
func TestChangesMeet(t *testing.T) {
	b := newBench(t, nil)
	b.approved(t, ada, gold)
	b.store.once("UpdateAccount", func() error { _, err := b.SetAdmin(t.Context(), ada, true, op); return err })
	done, err := b.Approve(t.Context(), ada, Grant{Band: new("bronze")}, op)
	if err != nil || !done.Account.Admin || done.Account.Allowance.Band != "bronze" {
		t.Errorf("%+v, %v", done, err)
	}
	// A lost answer is asked for again, and the change made once.
	rows := func() int { actions, _ := b.audits(t); return len(actions) }
	before := rows()
	b.store.once("UpdateAccount", func() error { return errDown })
	if _, err := b.SetAdmin(t.Context(), ada, false, op); err != nil || rows() != before+1 {
		t.Errorf("%d rows, %v", rows()-before, err)
	}
	b.store.fail("UpdateAccount", storage.ErrConflict)
	if _, err := b.SetAdmin(t.Context(), ada, true, op); !errors.Is(err, storage.ErrConflict) {
		t.Error(err)
	}
}

// Who may look at the console signs in anew; who may not any more needs not to.
func TestSetAdmin(t *testing.T) {
	b := newBench(t, nil)
	b.approved(t, ada, Grant{})
	opened, err := b.SignIn(t.Context(), SignIn{Address: ada, Password: right})
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ admin, stays bool }{{true, false}, {true, true}, {false, true}, {false, true}, {true, false}} {
		done, err := b.SetAdmin(t.Context(), ada, test.admin, op)
		if err != nil || done.Account.Admin != test.admin || done.Account.Password != "" {
			t.Errorf("%+v, %v", done, err)
		}
		v, err := b.Visitor(t.Context(), opened.Token)
		if (err == nil) != test.stays {
			t.Errorf("%+v: %v", test, err)
		}
		if err == nil && v.Account.Admin != test.admin {
			t.Errorf("%+v: it is %v", test, v.Account.Admin)
		}
		if err != nil {
			if opened, err = b.SignIn(t.Context(), SignIn{Address: ada, Password: right}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := b.SetAdmin(t.Context(), "nobody@example.org", true, op); !errors.Is(err, storage.ErrNotFound) {
		t.Error(err)
	}
	b.store.fail("EndSessions", errDown)
	if _, err := b.SetAdmin(t.Context(), ada, false, op); err != nil {
		t.Error(err)
	}
	if _, err := b.SetAdmin(t.Context(), ada, true, op); !errors.Is(err, storage.ErrUnavailable) {
		t.Error(err)
	}
}

func TestList(t *testing.T) {
	b := newBench(t, nil)
	b.approved(t, ada, gold)
	if err := b.SignUp(t.Context(), "bob@example.org", right, auth.By{}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.CreateKey(t.Context(), b.visitor(t, ada), KeySpec{}); err != nil {
		t.Fatal(err)
	}
	list, next, err := b.List(t.Context(), storage.AccountQuery{Page: storage.Page{Limit: 1}})
	if err != nil || len(list) != 1 || next == "" || list[0].Address != ada || list[0].Keys != 1 || list[0].Password != "" || list[0].SignedInAt.IsZero() {
		t.Errorf("%+v, %q, %v", list, next, err)
	}
	if list, _, err = b.List(t.Context(), storage.AccountQuery{State: storage.AccountPending}); err != nil || len(list) != 1 || list[0].Address != "bob@example.org" {
		t.Errorf("%+v, %v", list, err)
	}
}
