package storagetest

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/llmgw/llmgw/storage"
)

func throttle() storage.Throttle {
	return storage.Throttle{Free: 5, First: time.Second, Most: 15 * time.Minute, Forget: 24 * time.Hour}
}

func testAttempts(t *testing.T, open Open) {
	ctx, s, other := t.Context(), open(t), open(t)
	take := func(s storage.Store, bucket uint32, now time.Time) time.Duration {
		t.Helper()
		wait, err := s.TakeAttempt(ctx, bucket, now, throttle())
		ok(t, err)
		return wait
	}
	const most = ^uint32(0)
	for range 5 {
		equal(t, "a free one", take(s, most, epoch), time.Duration(0))
	}
	equal(t, "one too many", take(other, most, epoch), time.Second)
	equal(t, "asking again counts nothing", take(s, most, epoch), time.Second)
	equal(t, "of another bucket", take(s, 0, epoch), time.Duration(0))
	equal(t, "after the wait", take(s, most, epoch.Add(time.Second)), time.Duration(0))
	equal(t, "the next wait is double", take(s, most, epoch.Add(time.Second)), 2*time.Second)
	ok(t, other.ForgiveAttempts(ctx, most))
	ok(t, s.ForgiveAttempts(ctx, most))
	equal(t, "forgiven", take(s, most, epoch.Add(time.Second)), time.Duration(0))

	// Many at once.
	var through atomic.Int64
	tally(t, together(t, open, 50, func(s storage.Store, _ int) error {
		wait, err := s.TakeAttempt(context.Background(), 1, epoch, throttle())
		if err == nil && wait == 0 {
			through.Add(1)
		}
		return err
	}), nil)
	equal(t, "let through of 50 at once", through.Load(), int64(5))
	for _, bad := range []storage.Throttle{{}, {Free: 1, First: 2, Most: 1, Forget: 3}} {
		_, err := s.TakeAttempt(ctx, 2, epoch, bad)
		wantErr(t, "no throttle", err, storage.ErrInvalid)
	}

	// It does what its throttle does, whatever the clock.
	run := uint32(100)
	check(t, 10, func(t *rapid.T) {
		run++
		var kept storage.Attempts
		now := epoch
		for range rapid.IntRange(1, 12).Draw(t, "attempts") {
			now = now.Add(time.Duration(rapid.Int64Range(-100, 200).Draw(t, "ms")) * 20 * time.Millisecond)
			var want time.Duration
			kept, want = throttle().Take(kept, now)
			if wait, err := s.TakeAttempt(t.Context(), run, now, throttle()); err != nil || wait != want {
				t.Fatalf("wait %v, %v; want %v", wait, err, want)
			}
		}
	})
}

func testAccountsPrune(t *testing.T, open Open) {
	ctx, s := t.Context(), open(t)
	at := func(n int) time.Time { return epoch.Add(time.Duration(n) * time.Hour) }
	people(t, s, 1)
	ok(t, s.CreateAccountKey(ctx, accountKey("acct-001", 1), 9, because("key")))
	for n := range 6 {
		a := simpleAccount(10 + n)
		a.State, a.CreatedAt = storage.AccountPending, at(n)
		ok(t, s.CreateAccount(ctx, a, 10, because(a.ID)))
		session := simpleSession("acct-001", n)
		session.SeenAt, session.ExpiresAt = at(n), at(n+10)
		ok(t, s.CreateSession(ctx, session, 20))
		l := keyLink(n)
		if n == 5 {
			l = resetLink("acct-015", n) // goes with its account, which is pending
		}
		l.ExpiresAt = at(n)
		ok(t, s.CreateLink(ctx, l, because(l.ID)))
		_, err := s.TakeAttempt(ctx, uint32(n), at(n), throttle()) //nolint:gosec // small
		ok(t, err)
	}
	ok(t, s.RedeemKeyLink(ctx, keyLink(1).Hash, epoch, simpleKey(7), because("open")))
	back := simpleAccount(99) // has a key: it is not forgotten
	ok(t, s.CreateAccount(ctx, back, 0, because(back.ID)))
	ok(t, s.CreateAccountKey(ctx, accountKey(back.ID, 1), 9, because("key of it")))
	change(t, s, back.ID, "pending again", func(a *storage.Account) { a.State = storage.AccountPending })
	rows := len(auditOf(t, s))
	left := func() []int {
		t.Helper()
		pending, _, err := s.ListAccounts(ctx, storage.AccountQuery{State: storage.AccountPending}, epoch)
		ok(t, err)
		sessions, err := s.ListSessions(ctx, "acct-001", epoch, time.Time{})
		ok(t, err)
		links := 0
		for n := range 6 {
			if _, err := s.Link(ctx, keyLink(n).Hash); err == nil {
				links++
			}
		}
		return []int{len(pending) - 1, len(sessions), links}
	}
	prune := func(what string, old storage.StaleAccounts, deleted int, more bool, want ...int) {
		t.Helper()
		n, m, err := s.PruneAccounts(ctx, old)
		ok(t, err)
		equal(t, what, []any{n, m}, []any{deleted, more})
		equal(t, "left after "+what, left(), want)
	}
	prune("nothing", storage.StaleAccounts{Most: 10}, 0, false, 6, 6, 6)
	prune("all there is to be forgotten before", storage.StaleAccounts{Most: 10, Pending: at(0), Sessions: at(10), Idle: at(0), Links: at(0), Attempts: at(0)}, 0, false, 6, 6, 6)
	prune("links", storage.StaleAccounts{Most: 10, Links: at(2)}, 2, false, 6, 6, 4)
	prune("sessions that expired", storage.StaleAccounts{Most: 10, Sessions: at(11)}, 1, false, 6, 5, 4)
	prune("sessions that were not used", storage.StaleAccounts{Most: 10, Idle: at(3)}, 2, false, 6, 3, 4)
	prune("a part of the pending", storage.StaleAccounts{Most: 2, Pending: at(5)}, 2, true, 4, 3, 4)
	prune("more of them", storage.StaleAccounts{Most: 2, Pending: at(5)}, 2, true, 2, 3, 4)
	prune("the last of them", storage.StaleAccounts{Most: 2, Pending: at(5)}, 1, false, 1, 3, 4)
	prune("attempts", storage.StaleAccounts{Most: 10, Attempts: at(3)}, 3, false, 1, 3, 4)
	prune("everything", storage.StaleAccounts{Most: 1000, Pending: at(99), Sessions: at(99), Idle: at(99), Links: at(99), Attempts: at(99)}, 1+3+3+3, false, 0, 0, 0)
	for _, bad := range []storage.StaleAccounts{{}, {Most: -1}} {
		_, _, err := s.PruneAccounts(ctx, bad)
		wantErr(t, "none at most", err, storage.ErrInvalid)
	}
	a, err := s.Account(ctx, "acct-001")
	ok(t, err)
	equal(t, "who was approved", a.State, storage.AccountApproved)
	list, _, err := s.ListKeys(ctx, storage.KeyQuery{Usable: epoch})
	ok(t, err)
	equal(t, "keys", len(list), 2) // one is suspended with its account
	equal(t, "audit rows", len(auditOf(t, s)), rows)
	sound(t, s)

	// Who is approved while the pending are forgotten stays, or was forgotten before.
	for n := range 20 {
		a := simpleAccount(200 + n)
		a.State = storage.AccountPending
		ok(t, s.CreateAccount(ctx, a, 100, because(a.ID)))
	}
	approved, gone := tally(t, together(t, open, 40, func(s storage.Store, n int) error {
		if n%2 == 0 {
			_, _, err := s.PruneAccounts(context.Background(), storage.StaleAccounts{Most: 1, Pending: at(99)})
			return err
		}
		a := simpleAccount(200 + n/2)
		a.Revision = 1
		return s.UpdateAccount(context.Background(), a, because(fmt.Sprint("approve ", n)))
	}), storage.ErrNotFound)
	there, _, err := s.ListAccounts(ctx, storage.AccountQuery{State: storage.AccountApproved}, epoch)
	ok(t, err)
	if len(there)-1 != approved-20 || approved+gone != 40 {
		t.Errorf("%d were approved and %d are there", approved-20, len(there)-1)
	}
}
