package storagetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/llmgw/llmgw/storage"
)

func simpleAccount(n int) storage.Account {
	return storage.Account{
		ID: fmt.Sprintf("acct-%03d", n), Address: fmt.Sprintf("p%03d@example.org", n), Password: "$argon2id$v=19$m=8,t=1,p=1$c2FsdA$aGFzaA",
		State: storage.AccountApproved, Allowance: storage.Allowance{Keys: 3}, CreatedAt: epoch.Add(time.Duration(n) * time.Minute),
	}
}

func fullAccount() storage.Account {
	return storage.Account{
		ID: "acct-full", Address: "o'hara+\"x\"@exämple.org", Password: "$argon2id$other", State: storage.AccountSuspended, Admin: true,
		Allowance: storage.Allowance{
			Models: []string{"qwen3", "llama/*"}, Band: "gold", Keys: 10_000,
			Limits: storage.Limits{RequestsPerMinute: new(int64(60)), TokensPerMinute: new(int64(100_000)), Concurrency: new(int64(4))},
			Budget: &storage.Budget{Nanos: 1_500_000_000, Period: storage.PeriodMonth, Zone: "Europe/Berlin"},
		},
		CreatedAt: epoch.Add(123456789), ApprovedAt: epoch.Add(time.Hour), SignedInAt: epoch.Add(2 * time.Hour),
	}
}

// tokenOf is the hash of a token.
func tokenOf(name string) (h storage.TokenHash) {
	copy(h[:], name)
	return h
}

// accountKey is a key of an account's.
func accountKey(account string, n int) storage.Key {
	k := simpleKey(n)
	k.ID = fmt.Sprintf("%s/%03d", account, n)
	k.Hash = storage.KeyHash{}
	copy(k.Hash[:], k.ID)
	k.Account, k.Lineage = account, account
	return k
}

// people makes accounts 1 to n, who are approved.
func people(t testing.TB, s storage.Store, n int) {
	t.Helper()
	for i := range n {
		a := simpleAccount(i + 1)
		ok(t, s.CreateAccount(t.Context(), a, 0, because("make "+a.ID)))
	}
}

// change edits an account that is there.
func change(t testing.TB, s storage.Store, id, why string, edit func(a *storage.Account)) storage.Account {
	t.Helper()
	a, err := s.Account(t.Context(), id)
	ok(t, err)
	edit(&a)
	ok(t, s.UpdateAccount(t.Context(), a, because(why)))
	a, err = s.Account(t.Context(), id)
	ok(t, err)
	return a
}

func suspend(a *storage.Account) { a.State = storage.AccountSuspended }
func approve(a *storage.Account) { a.State = storage.AccountApproved }

// together runs f so many times at once, in two processes, and returns the errors.
func together(t testing.TB, open Open, times int, f func(s storage.Store, n int) error) []error {
	t.Helper()
	test, is := t.(*testing.T)
	if !is {
		t.Fatal("not a test")
	}
	stores := []storage.Store{open(test), open(test)}
	errs := make([]error, times)
	var wg, ready sync.WaitGroup
	ready.Add(times)
	for n := range times {
		wg.Go(func() {
			// Connections are made before, or each would come when the one before is done.
			_, err := stores[n%2].ListModels(context.Background())
			ready.Done()
			ready.Wait()
			errs[n] = errors.Join(err, f(stores[n%2], n))
		})
	}
	wg.Wait()
	return errs
}

// tally counts what was done and what was refused with want; other errors fail.
func tally(t testing.TB, errs []error, want error) (done, refused int) {
	t.Helper()
	for _, err := range errs {
		switch {
		case err == nil:
			done++
		case errors.Is(err, want):
			refused++
		default:
			t.Errorf("%v; want none, or %v", err, want)
		}
	}
	return done, refused
}

func fillAccounts(t testing.TB, s storage.Store) {
	t.Helper()
	ctx := t.Context()
	ok(t, s.CreateAccount(ctx, fullAccount(), 0, because("acct-full")))
	people(t, s, 2)
	pending := simpleAccount(9)
	pending.State = storage.AccountPending
	ok(t, s.CreateAccount(ctx, pending, 1, because("sign up")))
	change(t, s, "acct-002", "suspend", suspend)
	ok(t, s.CreateAccountKey(ctx, accountKey("acct-001", 1), 3, because("account key")))
	ok(t, s.CreateSession(ctx, simpleSession("acct-001", 1), 5))
	for _, l := range []storage.Link{keyLink(1), keyLink(2), resetLink("acct-001", 3)} {
		ok(t, s.CreateLink(ctx, l, because(l.ID)))
	}
	ok(t, s.RedeemKeyLink(ctx, keyLink(2).Hash, epoch, simpleKey(50), because("open")))
	_, err := s.TakeAttempt(ctx, 7, epoch, throttle())
	ok(t, err)
}

func testAccounts(t *testing.T, open Open) {
	ctx, s, other := t.Context(), open(t), open(t)
	for _, a := range []storage.Account{simpleAccount(1), fullAccount()} {
		ok(t, s.CreateAccount(ctx, a, 0, because("make "+a.ID)))
		ok(t, other.CreateAccount(ctx, a, 0, because("make "+a.ID)))
		ok(t, other.CreateAccount(ctx, a, 0, because("again "+a.ID))) // nothing changed, nothing to audit
		want := a
		want.CreatedAt, want.Revision = a.CreatedAt.Truncate(time.Microsecond), 1
		got, err := other.Account(ctx, a.ID)
		ok(t, err)
		equal(t, "by ID", got, want)
		got, err = other.AccountByAddress(ctx, a.Address)
		ok(t, err)
		equal(t, "by address", got, want)
		if (got.Allowance.Models == nil) != (a.Allowance.Models == nil) {
			t.Error("every model became none")
		}
	}
	for _, none := range []string{"", "acct", "ACCT-001", "a\x00", "\xff"} {
		_, err := s.Account(ctx, none)
		wantErr(t, "ID of nobody", err, storage.ErrNotFound)
		_, err = s.AccountByAddress(ctx, none)
		wantErr(t, "address of nobody", err, storage.ErrNotFound)
	}
	for name, edit := range map[string]func(*storage.Account){
		"another password":       func(a *storage.Account) { a.Password = "x" },
		"another state":          func(a *storage.Account) { a.State = storage.AccountPending },
		"no budget":              func(a *storage.Account) { a.Allowance.Budget = nil },
		"no admin":               func(a *storage.Account) { a.Admin = false },
		"the ID of another":      func(a *storage.Account) { a.Address = "new@example.org" },
		"the address of another": func(a *storage.Account) { a.ID = "another" },
		"of two others":          func(a *storage.Account) { a.ID = "acct-001" },
	} {
		taken := fullAccount()
		edit(&taken)
		wantErr(t, name, s.CreateAccount(ctx, taken, 10, because("taken")), storage.ErrExists)
	}
	equal(t, "audit rows", len(auditOf(t, s)), 2)
	why := because("make acct-001")
	why.Action = "another"
	wantErr(t, "the audit row of another", s.CreateAccount(ctx, simpleAccount(5), 0, why), storage.ErrExists)
	_, err := s.Account(ctx, "acct-005")
	wantErr(t, "the account of a refused audit row", err, storage.ErrNotFound)
	sound(t, s)
}

func testAccountUpdate(t *testing.T, open Open) {
	ctx, s := t.Context(), open(t)
	people(t, s, 2)
	ok(t, s.CreateSession(ctx, simpleSession("acct-001", 1), 5))
	ok(t, s.CreateSession(ctx, simpleSession("acct-002", 2), 5))
	kept, err := s.Account(ctx, "acct-001")
	ok(t, err)
	sessions := func() int {
		t.Helper()
		list, err := s.ListSessions(ctx, "acct-001", epoch, epoch)
		ok(t, err)
		return len(list)
	}

	changed := fullAccount()
	changed.ID, changed.Password, changed.State, changed.Revision = "acct-001", kept.Password, storage.AccountApproved, 1
	ok(t, s.UpdateAccount(ctx, changed, because("change")))
	want := kept
	want.Admin, want.Allowance, want.ApprovedAt, want.Revision = true, changed.Allowance, changed.ApprovedAt, 2
	got, err := s.Account(ctx, "acct-001")
	ok(t, err)
	equal(t, "changed", got, want)
	equal(t, "sessions of one who may still sign in", sessions(), 1)

	ok(t, s.UpdateAccount(ctx, changed, because("change"))) // once more, as after an answer that was lost
	wantErr(t, "a change of what was changed", s.UpdateAccount(ctx, changed, because("again")), storage.ErrConflict)
	changed.ID = "none"
	wantErr(t, "a change of nobody", s.UpdateAccount(ctx, changed, because("none")), storage.ErrNotFound)
	got, err = s.Account(ctx, "acct-001")
	ok(t, err)
	equal(t, "after refusals", got, want)

	change(t, s, "acct-001", "password", func(a *storage.Account) { a.Password = "another" })
	equal(t, "sessions after another password", sessions(), 0)
	ok(t, s.CreateSession(ctx, simpleSession("acct-001", 3), 5))
	change(t, s, "acct-001", "suspend", suspend)
	change(t, s, "acct-001", "let in", approve)
	equal(t, "sessions after it was suspended", sessions(), 0)
	_, _, err = s.Session(ctx, simpleSession("", 2).Hash, epoch, epoch)
	ok(t, err) // another's

	// A better hash of the same password ends nothing, and is not put back by who read
	// the one before.
	ok(t, s.CreateSession(ctx, simpleSession("acct-001", 4), 5))
	before, err := s.Account(ctx, "acct-001")
	ok(t, err)
	ok(t, s.RehashAccount(ctx, "acct-001", "another", "better"))
	ok(t, s.RehashAccount(ctx, "acct-001", "another", "worse"))
	ok(t, s.RehashAccount(ctx, "none", "another", "better"))
	got, err = s.Account(ctx, "acct-001")
	ok(t, err)
	equal(t, "rehashed", got.Password, "better")
	equal(t, "sessions after that", sessions(), 1)
	wantErr(t, "a change of before", s.UpdateAccount(ctx, before, because("before")), storage.ErrConflict)
	sound(t, s)
}

func testAccountsPending(t *testing.T, open Open) {
	ctx, s := t.Context(), open(t)
	pending := func(n int) storage.Account {
		a := simpleAccount(n)
		a.State = storage.AccountPending
		return a
	}
	people(t, s, 5) // who are approved count for nothing
	done, refused := tally(t, together(t, open, 50, func(s storage.Store, n int) error {
		return s.CreateAccount(context.Background(), pending(100+n), 3, because(fmt.Sprint("sign up ", n)))
	}), storage.ErrFull)
	if done != 3 || refused != 47 {
		t.Errorf("%d signed up, %d were refused; want 3 of 50", done, refused)
	}
	list, _, err := s.ListAccounts(ctx, storage.AccountQuery{State: storage.AccountPending}, epoch)
	ok(t, err)
	equal(t, "pending", len(list), 3)
	equal(t, "audit rows", len(auditOf(t, s)), 5+3)
	again := list[0].Account
	again.Password, again.Revision = simpleAccount(1).Password, 0
	ok(t, s.CreateAccount(ctx, again, 3, because("again"))) // it is there, and not one more
	wantErr(t, "an address that is taken, where there is room", s.CreateAccount(ctx, pending(1), 4, because("taken")), storage.ErrExists)
	wantErr(t, "an address that is taken, where there is none", s.CreateAccount(ctx, pending(1), 3, because("taken")), storage.ErrFull)
	change(t, s, list[0].ID, "approve", approve)
	ok(t, s.CreateAccount(ctx, pending(99), 3, because("one more")))
	wantErr(t, "none may be pending", s.CreateAccount(ctx, pending(98), 0, because("none")), storage.ErrFull)
	ok(t, s.CreateAccount(ctx, simpleAccount(97), 0, because("made by an operator")))
}

func testAccountList(t *testing.T, open Open) {
	ctx, s := t.Context(), open(t)
	people(t, s, 12)
	ok(t, s.CreateAccount(ctx, fullAccount(), 0, because("full")))
	change(t, s, "acct-003", "suspend", suspend)
	at := epoch.Add(time.Hour)
	for n := range 4 {
		k := accountKey("acct-002", n)
		if n == 1 {
			k.ExpiresAt = at
		}
		ok(t, s.CreateAccountKey(ctx, k, 10, because(k.ID)))
	}
	_, err := s.RevokeKey(ctx, accountKey("acct-002", 0).ID, at, because("revoke"))
	ok(t, err)
	list := func(q storage.AccountQuery, now time.Time) (ids []string, keys int) {
		t.Helper()
		for _, l := range everything(t, 5, func(p storage.Page) ([]storage.AccountListing, string, error) {
			q.Page = p
			return s.ListAccounts(ctx, q, now)
		}) {
			if l.Password != "" {
				t.Errorf("%s is listed with its password", l.ID)
			}
			ids = append(ids, l.ID)
			keys += l.Keys
		}
		return ids, keys
	}
	ids, keys := list(storage.AccountQuery{}, at)
	equal(t, "all by address", ids, []string{
		"acct-full", "acct-001", "acct-002", "acct-003", "acct-004", "acct-005", "acct-006", "acct-007", "acct-008", "acct-009", "acct-010", "acct-011", "acct-012",
	})
	equal(t, "keys", keys, 2)
	_, keys = list(storage.AccountQuery{}, at.Add(-1))
	equal(t, "keys before one expired", keys, 3)
	ids, _ = list(storage.AccountQuery{State: storage.AccountSuspended}, at)
	equal(t, "suspended", ids, []string{"acct-full", "acct-003"})
	change(t, s, "acct-002", "suspend 2", suspend)
	_, keys = list(storage.AccountQuery{}, at)
	equal(t, "keys of a suspended account", keys, 0)
	all, _, err := s.ListAccounts(ctx, storage.AccountQuery{Page: storage.Page{Limit: 1}}, at)
	ok(t, err)
	want := fullAccount()
	want.Password, want.CreatedAt, want.Revision = "", want.CreatedAt.Truncate(time.Microsecond), 1
	equal(t, "in a list", all[0].Account, want)
}

func testAccountKeys(t *testing.T, open Open) {
	ctx, s := t.Context(), open(t)
	people(t, s, 2)
	ok(t, s.CreateAccount(ctx, fullAccount(), 0, because("full"))) // is suspended
	k := accountKey("acct-001", 1)
	k.Lineage = "" // the account's
	ok(t, s.CreateAccountKey(ctx, k, 2, because("make")))
	k.Lineage = "acct-001"
	ok(t, s.CreateAccountKey(ctx, k, 2, because("make")))
	ok(t, s.CreateAccountKey(ctx, k, 1, because("again"))) // it is there, and not one more
	want := k
	want.Revision = 1
	reads := func(what string, want storage.Key) {
		t.Helper()
		for name, read := range map[string]func() (storage.Key, error){
			"by ID":   func() (storage.Key, error) { return s.Key(ctx, k.ID) },
			"by hash": func() (storage.Key, error) { return s.KeyByHash(ctx, k.Hash) },
			"in a list": func() (storage.Key, error) {
				list, _, err := s.ListKeys(ctx, storage.KeyQuery{Account: "acct-001"})
				if err != nil || len(list) != 1 {
					return storage.Key{}, fmt.Errorf("%d keys, %w", len(list), err)
				}
				return list[0], nil
			},
		} {
			got, err := read()
			ok(t, err)
			equal(t, what+", "+name, got, want)
		}
	}
	reads("made", want)
	taken := k
	taken.Name = "another"
	wantErr(t, "the ID of another", s.CreateAccountKey(ctx, taken, 9, because("a")), storage.ErrExists)
	wantErr(t, "of nobody", s.CreateAccountKey(ctx, accountKey("none", 2), 9, because("a")), storage.ErrNotFound)
	wantErr(t, "of one who is suspended", s.CreateAccountKey(ctx, accountKey("acct-full", 2), 9, because("a")), storage.ErrNotFound)
	wantErr(t, "of no account", s.CreateAccountKey(ctx, simpleKey(1), 9, because("a")), storage.ErrInvalid)
	wantErr(t, "of nobody, by an operator", s.CreateKey(ctx, accountKey("none", 2), because("a")), storage.ErrInvalid)
	apart := accountKey("acct-001", 2)
	apart.Lineage = apart.ID
	wantErr(t, "counted apart", s.CreateAccountKey(ctx, apart, 9, because("a")), storage.ErrInvalid)
	wantErr(t, "one more than may be", s.CreateAccountKey(ctx, accountKey("acct-001", 2), 1, because("a")), storage.ErrFull)

	// Suspended with its account, in every answer, and good again with it.
	ok(t, s.CreateKey(ctx, simpleKey(1), because("an operator's")))
	change(t, s, "acct-001", "suspend", suspend)
	want.Suspended = true
	reads("suspended", want)
	usable := func() (ids []string) {
		t.Helper()
		list, _, err := s.ListKeys(ctx, storage.KeyQuery{Usable: epoch})
		ok(t, err)
		for _, k := range list {
			ids = append(ids, k.ID)
		}
		return ids
	}
	equal(t, "usable without it", usable(), []string{"key-001"})
	renamed := want
	renamed.Name, renamed.Account, renamed.Lineage, renamed.Suspended = "renamed", "acct-002", "acct-002", false
	ok(t, s.UpdateKey(ctx, renamed, because("rename")))
	want.Name, want.Revision = "renamed", 2
	reads("renamed", want)
	change(t, s, "acct-001", "let in", approve)
	want.Suspended = false
	reads("let in again", want)
	equal(t, "usable again", usable(), []string{"key-001", k.ID})

	// Another's is as if it were not there, and stays.
	at := epoch.Add(time.Hour)
	rows := len(auditOf(t, s))
	for name, of := range map[string][2]string{
		"another's": {"acct-002", k.ID}, "an operator's": {"acct-001", "key-001"}, "an operator's, of nobody": {"", "key-001"}, "none": {"acct-001", "none"},
	} {
		_, err := s.RevokeAccountKey(ctx, of[0], of[1], at, because("revoke"))
		wantErr(t, name, err, storage.ErrNotFound)
	}
	reads("after refusals", want)
	equal(t, "audit rows after refusals", len(auditOf(t, s)), rows)
	got, err := s.RevokeAccountKey(ctx, "acct-001", k.ID, at, because("revoke"))
	ok(t, err)
	want.RevokedAt, want.Revision = at, 3
	equal(t, "revoked", got, want)
	got, err = s.RevokeAccountKey(ctx, "acct-001", k.ID, at.Add(time.Hour), because("again"))
	ok(t, err)
	equal(t, "revoked again", got, want)
	equal(t, "audit rows", len(auditOf(t, s)), rows+1)
	ok(t, s.CreateAccountKey(ctx, accountKey("acct-001", 2), 1, because("in its place")))
	ended := accountKey("acct-001", 3)
	ended.CreatedAt, ended.ExpiresAt = epoch, epoch.Add(time.Second)
	ok(t, s.CreateAccountKey(ctx, ended, 2, because("a short one")))
	ok(t, s.CreateAccountKey(ctx, accountKey("acct-001", 4), 2, because("after it"))) // which has expired by then
	sound(t, s)
}

func testAccountKeysConcurrent(t *testing.T, open Open) {
	s := open(t)
	people(t, s, 2)
	done, refused := tally(t, together(t, open, 50, func(s storage.Store, n int) error {
		return s.CreateAccountKey(context.Background(), accountKey("acct-001", n), 3, because(fmt.Sprint("key ", n)))
	}), storage.ErrFull)
	if done != 3 || refused != 47 {
		t.Errorf("%d keys were made, %d refused; want 3 of 50", done, refused)
	}
	list, _, err := s.ListKeys(t.Context(), storage.KeyQuery{Account: "acct-001", Usable: epoch})
	ok(t, err)
	equal(t, "keys", len(list), 3)
	// The same one many times is one.
	done, _ = tally(t, together(t, open, 20, func(s storage.Store, _ int) error {
		return s.CreateAccountKey(context.Background(), accountKey("acct-002", 1), 1, because("the same"))
	}), nil)
	equal(t, "the same one made", done, 20)
	equal(t, "audit rows", len(auditOf(t, s)), 2+3+1)
}

// Keys of an account share what is counted of it: by its ID, which is no key's.
func testAccountLineage(t *testing.T, open Open) {
	ctx, s := t.Context(), open(t)
	people(t, s, 2)
	first, second, others := accountKey("acct-001", 1), accountKey("acct-001", 2), accountKey("acct-002", 3)
	for _, k := range []storage.Key{first, second, others} {
		ok(t, s.CreateAccountKey(ctx, k, 9, because(k.ID)))
	}
	// One that follows another stays its account's.
	old, err := s.Key(ctx, first.ID)
	ok(t, err)
	next := old
	next.ID, next.Hash, next.Replaces, next.Revision = "next", storage.KeyHash{77}, old.ID, 0
	ok(t, s.CreateKey(ctx, next, because("rotate")))
	got, err := s.Key(ctx, "next")
	ok(t, err)
	equal(t, "lineage and account of the next", []string{got.Lineage, got.Account}, []string{"acct-001", "acct-001"})

	budget := dayOf("acct-001")
	g, err := s.GrantBudget(ctx, ask("g1", budget, 100, 60, 10))
	ok(t, err)
	equal(t, "granted", g.Nanos, int64(60))
	_, err = s.GrantBudget(ctx, ask("g2", budget, 100, 60, 50))
	wantErr(t, "less is left of the account's", err, storage.ErrBudgetSpent)
	var batch []storage.Usage
	for n, k := range []string{first.ID, second.ID, "next", others.ID, "acct-001-not", "k"} {
		u := simpleUsage(n)
		u.KeyID, u.Owner = k, "p001@example.org"
		if n < 3 {
			u.Charged = &budget
		}
		batch = append(batch, u)
	}
	n, err := s.InsertUsage(ctx, batch)
	ok(t, err)
	equal(t, "rows", n, len(batch))
	st, err := s.Budget(ctx, budget)
	ok(t, err)
	equal(t, "the account's budget", st, storage.BudgetState{GrantedNanos: 60, SpentNanos: 3000})

	var ids []string
	for _, u := range usageOf(t, s, storage.UsageQuery{Lineage: "acct-001"}) {
		ids = append(ids, u.KeyID)
	}
	equal(t, "rows of the account", ids, []string{first.ID, second.ID, "next"})
	for _, grain := range []storage.Grain{storage.GrainHour, storage.GrainDay} {
		var requests, cost int64
		sums := sumsOf(t, s, storage.RollupQuery{Grain: grain, Lineage: "acct-001"})
		for _, r := range sums {
			requests += r.Requests
			cost += r.CostNanos
		}
		equal(t, "sums of the account", []int64{int64(len(sums)), requests, cost}, []int64{3, 3, 3000})
	}
	equal(t, "of an account without usage", len(sumsOf(t, s, storage.RollupQuery{Grain: storage.GrainDay, Lineage: "acct-003"})), 0)
	// What was used stays the account's when the key has ended.
	_, err = s.RevokeAccountKey(ctx, "acct-001", second.ID, epoch, because("revoke"))
	ok(t, err)
	equal(t, "after a key has ended", len(sumsOf(t, s, storage.RollupQuery{Grain: storage.GrainDay, Lineage: "acct-001"})), 3)
	ok(t, s.ReturnBudget(ctx, "g1", 10, epoch))
	sound(t, s)
}
