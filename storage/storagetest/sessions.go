package storagetest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/llmgw/llmgw/storage"
)

func simpleSession(account string, n int) storage.Session {
	at := epoch.Add(time.Duration(n) * time.Second)
	return storage.Session{
		ID: fmt.Sprintf("sess-%03d", n), Hash: tokenOf(fmt.Sprint("session ", n)), Form: tokenOf(fmt.Sprint("form ", n)), Account: account,
		Agent: "Mözilla \"5\"", From: "192.0.2.1", CreatedAt: at, SeenAt: at, ExpiresAt: at.Add(8 * time.Hour),
	}
}

func testSessions(t *testing.T, open Open) {
	ctx, s, other := t.Context(), open(t), open(t)
	people(t, s, 3)
	change(t, s, "acct-003", "suspend", suspend)
	n := simpleSession("acct-001", 1)
	n.SeenAt = n.SeenAt.Add(1234567)
	ok(t, s.CreateSession(ctx, n, 5))
	ok(t, s.CreateSession(ctx, n, 5)) // once more, as after an answer that was lost
	want := n
	want.SeenAt = n.SeenAt.Truncate(time.Microsecond)
	find := func(now, idle time.Time) (storage.Session, storage.Account, error) {
		return other.Session(ctx, n.Hash, now, idle)
	}
	got, a, err := find(epoch, epoch)
	ok(t, err)
	equal(t, "session", got, want)
	account, err := s.Account(ctx, "acct-001")
	ok(t, err)
	equal(t, "whose it is", a, account)
	equal(t, "when it signed in", account.SignedInAt, n.CreatedAt)
	equal(t, "that is no change", account.Revision, int64(1))

	for name, taken := range map[string]storage.Session{
		"another hash": func() storage.Session { o := n; o.Hash = tokenOf("x"); return o }(), "another ID": func() storage.Session { o := n; o.ID = "x"; return o }(),
		"another account": func() storage.Session { o := n; o.Account = "acct-002"; return o }(),
	} {
		wantErr(t, name, s.CreateSession(ctx, taken, 5), storage.ErrExists)
	}
	for _, nobody := range []string{"none", "acct-003"} {
		wantErr(t, "of "+nobody, s.CreateSession(ctx, simpleSession(nobody, 9), 5), storage.ErrNotFound)
	}
	wantErr(t, "none may be", s.CreateSession(ctx, simpleSession("acct-001", 9), 0), storage.ErrInvalid)

	// When it ends.
	for _, tt := range []struct {
		name      string
		now, idle time.Time
		want      error
	}{
		{"just before it expires", n.ExpiresAt.Add(-time.Microsecond), epoch, nil},
		{"as it expires", n.ExpiresAt, epoch, storage.ErrNotFound},
		{"used just since", epoch, want.SeenAt, nil},
		{"not used since", epoch, want.SeenAt.Add(1), storage.ErrNotFound},
	} {
		if _, _, err := find(tt.now, tt.idle); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v; want %v", tt.name, err, tt.want)
		}
		list, err := s.ListSessions(ctx, "acct-001", tt.now, tt.idle)
		ok(t, err)
		equal(t, "listed "+tt.name, len(list) == 1, tt.want == nil)
	}
	if _, _, err := s.Session(ctx, n.Form, epoch, epoch); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("by the form's token: %v", err)
	}

	at := epoch.Add(time.Hour)
	ok(t, s.TouchSession(ctx, n.ID, at))
	ok(t, s.TouchSession(ctx, n.ID, epoch)) // who is late takes nothing back
	ok(t, s.TouchSession(ctx, "none", at))
	got, _, err = find(at, at)
	ok(t, err)
	equal(t, "used", got.SeenAt, at)

	// Another's is as if it were not there.
	for _, of := range [][2]string{{"acct-002", n.ID}, {"", n.ID}, {"acct-001", "none"}, {"acct-001", "\x00"}} {
		wantErr(t, fmt.Sprint("ending ", of), s.EndSession(ctx, of[0], of[1]), storage.ErrNotFound)
	}
	_, _, err = find(at, epoch)
	ok(t, err)
	ok(t, s.EndSession(ctx, "acct-001", n.ID))
	wantErr(t, "ending it again", s.EndSession(ctx, "acct-001", n.ID), storage.ErrNotFound)
	_, _, err = find(at, epoch)
	wantErr(t, "one that was ended", err, storage.ErrNotFound)
	equal(t, "audit rows", len(auditOf(t, s)), 3+1)
	sound(t, s)
}

func testSessionsMost(t *testing.T, open Open) {
	ctx, s := t.Context(), open(t)
	people(t, s, 2)
	ids := func(account string) (out []string) {
		t.Helper()
		list, err := s.ListSessions(ctx, account, epoch, epoch)
		ok(t, err)
		for _, n := range list {
			out = append(out, n.ID)
		}
		return out
	}
	ok(t, s.CreateSession(ctx, simpleSession("acct-002", 90), 5))
	for n := 1; n <= 5; n++ {
		ok(t, s.CreateSession(ctx, simpleSession("acct-001", n), 3))
	}
	equal(t, "the newest first", ids("acct-001"), []string{"sess-005", "sess-004", "sess-003"})
	ok(t, s.CreateSession(ctx, simpleSession("acct-001", 1), 3)) // of a clock that went back
	equal(t, "the new one stays", ids("acct-001"), []string{"sess-005", "sess-004", "sess-001"})
	ok(t, s.CreateSession(ctx, simpleSession("acct-001", 6), 1))
	equal(t, "one alone", ids("acct-001"), []string{"sess-006"})
	for n := 7; n <= 9; n++ {
		ok(t, s.CreateSession(ctx, simpleSession("acct-001", n), 9))
	}
	n, err := s.EndSessions(ctx, "acct-001", "sess-008")
	ok(t, err)
	equal(t, "ended", n, 3)
	equal(t, "all but one", ids("acct-001"), []string{"sess-008"})
	n, err = s.EndSessions(ctx, "acct-001", "")
	ok(t, err)
	equal(t, "ended all", n, 1)
	n, err = s.EndSessions(ctx, "none", "")
	ok(t, err)
	equal(t, "ended nobody's", n, 0)
	equal(t, "of another", ids("acct-002"), []string{"sess-090"})
}

// Many sign in while the account is suspended: those who do before end with it, and
// those who do after are refused.
func testSessionsConcurrent(t *testing.T, open Open) {
	ctx, s := t.Context(), open(t)
	people(t, s, 1)
	done, refused := tally(t, together(t, open, 40, func(s storage.Store, n int) error {
		if n != 20 {
			return s.CreateSession(context.Background(), simpleSession("acct-001", n), 100)
		}
		a, err := s.Account(context.Background(), "acct-001")
		if err != nil {
			return err
		}
		suspend(&a)
		return s.UpdateAccount(context.Background(), a, because("suspend"))
	}), storage.ErrNotFound)
	if done+refused != 40 {
		t.Fatal("others failed")
	}
	change(t, s, "acct-001", "let in", approve)
	list, err := s.ListSessions(ctx, "acct-001", epoch, epoch)
	ok(t, err)
	equal(t, "sessions that outlive their end", len(list), 0)

	tally(t, together(t, open, 40, func(s storage.Store, n int) error {
		return s.CreateSession(context.Background(), simpleSession("acct-001", n), 3)
	}), nil)
	list, err = s.ListSessions(ctx, "acct-001", epoch, epoch)
	ok(t, err)
	equal(t, "sessions of many who signed in at once", len(list), 3)
	sound(t, s)
}
