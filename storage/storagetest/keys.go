package storagetest

import (
	"context"
	"testing"
	"time"

	"github.com/llmgw/llmgw/storage"
)

func testKeys(t *testing.T, open Open) {
	ctx, s := t.Context(), open(t)
	for _, k := range []storage.Key{simpleKey(1), fullKey()} {
		ok(t, s.CreateKey(ctx, k, because("make "+k.ID)))
		want := k
		want.CreatedAt = k.CreatedAt.Truncate(time.Microsecond)
		want.Revision = 1
		if k.Lineage == "" {
			want.Lineage = k.ID
		}
		got, err := s.Key(ctx, k.ID)
		ok(t, err)
		equal(t, "by ID", got, want)
		got, err = s.KeyByHash(ctx, k.Hash)
		ok(t, err)
		equal(t, "by hash", got, want)
		if k.Models == nil && got.Models != nil {
			t.Error("every model became none")
		}
	}
	// It is there for others, and stays.
	other := open(t)
	_, err := other.Key(ctx, "full")
	ok(t, err)
	_, err = s.Key(ctx, "FULL")
	wantErr(t, "another case", err, storage.ErrNotFound)
	_, err = s.KeyByHash(ctx, storage.KeyHash{9})
	wantErr(t, "another hash", err, storage.ErrNotFound)
	equal(t, "audit rows", len(auditOf(t, s)), 2)
}

func testKeyIdentity(t *testing.T, open Open) {
	ctx, s := t.Context(), open(t)
	k := fullKey()
	ok(t, s.CreateKey(ctx, k, because("a1")))
	ok(t, s.CreateKey(ctx, k, because("a1")))
	ok(t, s.CreateKey(ctx, k, because("a2"))) // it was made already: nothing changed, nothing to audit
	equal(t, "audit rows", len(auditOf(t, s)), 1)

	for name, edit := range map[string]func(*storage.Key){
		"another name":        func(k *storage.Key) { k.Name = "x" },
		"no budget":           func(k *storage.Key) { k.Budget = nil },
		"every model":         func(k *storage.Key) { k.Models = nil },
		"another lineage":     func(k *storage.Key) { k.Lineage = "full" },
		"another right":       func(k *storage.Key) { k.MayExplain = false },
		"another limit":       func(k *storage.Key) { k.Limits.Concurrency = new(int64(5)) },
		"the ID of another":   func(k *storage.Key) { k.Hash = storage.KeyHash{7} },
		"the hash of another": func(k *storage.Key) { k.ID = "another" },
	} {
		taken := fullKey()
		edit(&taken)
		wantErr(t, name, s.CreateKey(ctx, taken, because("a3")), storage.ErrExists)
	}
	equal(t, "audit rows after refusals", len(auditOf(t, s)), 1)

	// Neither is kept if one cannot be.
	wantErr(t, "the audit row of another", s.CreateKey(ctx, simpleKey(1), storage.Audit{ID: "a1", At: epoch, Action: "other"}), storage.ErrExists)
	_, err := s.Key(ctx, simpleKey(1).ID)
	wantErr(t, "the key of a refused audit row", err, storage.ErrNotFound)
}

func testKeyUpdate(t *testing.T, open Open) {
	ctx, s := t.Context(), open(t)
	ok(t, s.CreateKey(ctx, fullKey(), because("make")))
	kept, err := s.Key(ctx, "full")
	ok(t, err)

	changed := storage.Key{
		ID: "full", Hash: storage.KeyHash{42}, Hint: "no", Name: "new", Owner: "bob", CreatedAt: epoch.Add(time.Hour), Replaces: "no", Lineage: "no", Revision: 1,
	}
	ok(t, s.UpdateKey(ctx, changed, because("change")))
	want := storage.Key{
		ID: "full", Hash: kept.Hash, Hint: kept.Hint, Name: "new", Owner: "bob", CreatedAt: kept.CreatedAt, Replaces: kept.Replaces,
		Lineage: kept.Lineage, Revision: 2,
	}
	got, err := s.Key(ctx, "full")
	ok(t, err)
	equal(t, "changed", got, want)

	ok(t, s.UpdateKey(ctx, changed, because("change"))) // once more, as after an answer that was lost
	wantErr(t, "a change of what was changed", s.UpdateKey(ctx, changed, because("again")), storage.ErrConflict)
	changed.ID, changed.Revision = "none", 1
	wantErr(t, "a change of nothing", s.UpdateKey(ctx, changed, because("none")), storage.ErrNotFound)
	got, err = s.Key(ctx, "full")
	ok(t, err)
	equal(t, "after refusals", got, want)
	equal(t, "audit rows", len(auditOf(t, s)), 2)
}

func testKeyRevoke(t *testing.T, open Open) {
	ctx, s := t.Context(), open(t)
	ok(t, s.CreateKey(ctx, simpleKey(1), because("make")))
	at := epoch.Add(time.Hour + 1234)
	k, err := s.RevokeKey(ctx, simpleKey(1).ID, at, because("revoke"))
	ok(t, err)
	want := simpleKey(1)
	want.Lineage = want.ID
	want.RevokedAt, want.Revision = at.Truncate(time.Microsecond), 2
	equal(t, "revoked", k, want)
	again, err := s.RevokeKey(ctx, k.ID, at.Add(time.Hour), because("revoke again"))
	ok(t, err)
	equal(t, "revoked again", again, want)
	kept, err := open(t).KeyByHash(ctx, k.Hash)
	ok(t, err)
	equal(t, "kept", kept, want)
	_, err = s.RevokeKey(ctx, "none", at, because("revoke none"))
	wantErr(t, "nothing", err, storage.ErrNotFound)
	equal(t, "audit rows", len(auditOf(t, s)), 2)

	// An update read before does not bring it back.
	wantErr(t, "an old update", s.UpdateKey(ctx, simpleKey(1), because("old")), storage.ErrConflict)
}

func testKeyList(t *testing.T, open Open) {
	ctx, s := t.Context(), open(t)
	var newest []string
	for n := range 12 {
		k := simpleKey(n)
		k.CreatedAt = epoch.Add(time.Duration(n/3) * time.Minute) // three of each time
		if n%2 == 1 {
			k.Owner = "bob"
		}
		if n == 4 {
			k.ExpiresAt = epoch.Add(time.Hour)
		}
		ok(t, s.CreateKey(ctx, k, because(k.ID)))
		newest = append([]string{k.ID}, newest...)
	}
	_, err := s.RevokeKey(ctx, "key-006", epoch, because("revoke"))
	ok(t, err)

	list := func(q storage.KeyQuery, between func()) (ids []string) {
		for _, k := range everything(t, 5, func(p storage.Page) ([]storage.Key, string, error) {
			q.Page = p
			keys, next, err := s.ListKeys(context.Background(), q)
			if between != nil {
				between()
			}
			return keys, next, err
		}) {
			ids = append(ids, k.ID)
		}
		return ids
	}
	equal(t, "all", list(storage.KeyQuery{}, nil), newest)
	equal(t, "of an owner", list(storage.KeyQuery{Owner: "bob"}, nil), []string{"key-011", "key-009", "key-007", "key-005", "key-003", "key-001"})
	equal(t, "usable of an owner", list(storage.KeyQuery{Owner: "ada", Usable: epoch.Add(time.Hour)}, nil), []string{"key-010", "key-008", "key-002", "key-000"})
	equal(t, "usable before it expires", list(storage.KeyQuery{Owner: "ada", Usable: epoch.Add(time.Hour - 1)}, nil),
		[]string{"key-010", "key-008", "key-004", "key-002", "key-000"})

	// What comes while pages are read moves none of them.
	n := 100
	equal(t, "while keys are made", list(storage.KeyQuery{}, func() {
		n++
		ok(t, s.CreateKey(ctx, simpleKey(n), because(simpleKey(n).ID)))
	}), newest)
}

func testAudit(t *testing.T, open Open) {
	ctx, s := t.Context(), open(t)
	var want []storage.Audit
	for n := range 6 {
		a := storage.Audit{
			ID: string(rune('a' + n)), At: epoch.Add(time.Duration(n/2)*time.Second + 1999), Actor: []string{"cli", "key"}[n%2],
			Action: "key.create", Target: []string{"x", "y", "z"}[n%3], Before: []byte(`{"a":[1,2],"b":"<&>\u2028"}`), RequestID: "r",
		}
		if n == 3 {
			a.Before, a.After = nil, []byte("null")
		}
		ok(t, s.AppendAudit(ctx, a))
		ok(t, s.AppendAudit(ctx, a))
		a.At = a.At.Truncate(time.Microsecond)
		want = append([]storage.Audit{a}, want...)
	}
	equal(t, "rows", auditOf(t, s), want)
	other := want[0]
	other.Actor = "somebody else"
	wantErr(t, "another row of that ID", s.AppendAudit(ctx, other), storage.ErrExists)

	rows, next, err := s.ListAudit(ctx, storage.AuditQuery{Actor: "key", Page: storage.Page{Limit: 2}})
	ok(t, err)
	equal(t, "first of an actor", rows, []storage.Audit{want[0], want[2]})
	rows, next, err = s.ListAudit(ctx, storage.AuditQuery{Actor: "key", Page: storage.Page{Limit: 2, After: next}})
	ok(t, err)
	equal(t, "last of an actor", rows, []storage.Audit{want[4]})
	equal(t, "cursor after the last", next, "")
	rows, _, err = s.ListAudit(ctx, storage.AuditQuery{Target: "x", Action: "key.create", From: epoch.Add(time.Second), To: epoch.Add(2 * time.Second)})
	ok(t, err)
	equal(t, "combined", rows, []storage.Audit{want[2]})

	spaced := storage.Audit{ID: "spaced", At: epoch.Add(time.Hour), Action: "x", After: []byte("{ \"a\" : 1 }")}
	ok(t, s.AppendAudit(ctx, spaced))
	ok(t, s.AppendAudit(ctx, spaced))
}
