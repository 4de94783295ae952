package storagetest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/llmgw/llmgw/storage"
)

func keyLink(n int) storage.Link {
	return storage.Link{
		ID: fmt.Sprintf("link-%03d", n), Hash: tokenOf(fmt.Sprint("link ", n)), Kind: storage.LinkKey, Spec: []byte(`{"owner":"<ada & bob>","n":[1,2]}`),
		CreatedAt: epoch, ExpiresAt: epoch.Add(time.Hour),
	}
}

func resetLink(account string, n int) storage.Link {
	l := keyLink(n)
	l.Kind, l.Spec, l.Account = storage.LinkReset, nil, account
	return l
}

func testLinks(t *testing.T, open Open) {
	ctx, s, other := t.Context(), open(t), open(t)
	people(t, s, 1)
	spaced := keyLink(1)
	spaced.Spec, spaced.CreatedAt = []byte(`{ "owner" : "<ada & bob>", "n":[1,2] }`), epoch.Add(1234)
	for _, l := range []storage.Link{spaced, resetLink("acct-001", 2)} {
		ok(t, s.CreateLink(ctx, l, because(l.ID)))
		ok(t, s.CreateLink(ctx, l, because(l.ID)))
		ok(t, s.CreateLink(ctx, l, because("again "+l.ID))) // nothing changed, nothing to audit
		want := l
		want.CreatedAt = l.CreatedAt.Truncate(time.Microsecond)
		if l.Spec != nil {
			want.Spec = keyLink(1).Spec
		}
		got, err := other.Link(ctx, l.Hash)
		ok(t, err)
		equal(t, "link", got, want)
	}
	equal(t, "audit rows", len(auditOf(t, s)), 1+2)
	_, err := s.Link(ctx, tokenOf("none"))
	wantErr(t, "no such hash", err, storage.ErrNotFound)
	for name, edit := range map[string]func(*storage.Link){
		"another hash": func(l *storage.Link) { l.Hash = tokenOf("x") }, "another ID": func(l *storage.Link) { l.ID = "x" },
		"another spec": func(l *storage.Link) { l.Spec = []byte(`{}`) }, "another end": func(l *storage.Link) { l.ExpiresAt = epoch },
	} {
		l := spaced
		edit(&l)
		wantErr(t, name, s.CreateLink(ctx, l, because("taken")), storage.ErrExists)
	}
	wantErr(t, "of nobody", s.CreateLink(ctx, resetLink("none", 3), because("none")), storage.ErrInvalid)

	at := epoch.Add(time.Minute)
	rows := len(auditOf(t, s))
	l, err := s.RevokeLink(ctx, "link-001", at, because("revoke"))
	ok(t, err)
	equal(t, "taken back", l.UsedAt, at)
	again, err := s.RevokeLink(ctx, "link-001", at.Add(time.Hour), because("revoke again"))
	ok(t, err)
	equal(t, "taken back again", again, l)
	_, err = s.RevokeLink(ctx, "none", at, because("none"))
	wantErr(t, "no such link", err, storage.ErrNotFound)
	kept, err := s.Link(ctx, keyLink(1).Hash)
	ok(t, err)
	equal(t, "kept", kept, l)
	wantErr(t, "opening it", s.RedeemKeyLink(ctx, l.Hash, at, simpleKey(1), because("open")), storage.ErrConflict)
	_, err = s.Key(ctx, simpleKey(1).ID)
	wantErr(t, "its key", err, storage.ErrNotFound)
	equal(t, "audit rows after that", len(auditOf(t, s)), rows+1)
	sound(t, s)
}

func testKeyLinks(t *testing.T, open Open) {
	ctx, s := t.Context(), open(t)
	people(t, s, 1)
	ok(t, s.CreateKey(ctx, simpleKey(1), because("there")))
	for n := range 3 {
		ok(t, s.CreateLink(ctx, keyLink(n), because(keyLink(n).ID)))
	}
	ok(t, s.CreateLink(ctx, resetLink("acct-001", 9), because("reset")))
	rows := len(auditOf(t, s))
	h, at := keyLink(0).Hash, epoch.Add(time.Minute)

	// What cannot be done leaves the link as it was.
	taken := simpleKey(2)
	taken.Hash = simpleKey(1).Hash
	used := because("there")
	used.Action = "another"
	bad := simpleKey(2)
	bad.Name = "\x00"
	for name, tt := range map[string]struct {
		h    storage.TokenHash
		at   time.Time
		k    storage.Key
		why  storage.Audit
		want error
	}{
		"a key that cannot be kept":        {h, at, bad, because("open"), storage.ErrInvalid},
		"a key whose hash is taken":        {h, at, taken, because("open"), storage.ErrExists},
		"a key that is there":              {h, at, simpleKey(1), because("open"), storage.ErrExists},
		"a key of nobody":                  {h, at, accountKey("none", 2), because("open"), storage.ErrInvalid},
		"an audit row of something else":   {h, at, simpleKey(2), used, storage.ErrExists},
		"no such link":                     {tokenOf("none"), at, simpleKey(2), because("open"), storage.ErrNotFound},
		"a link that sets a password":      {resetLink("", 9).Hash, at, simpleKey(2), because("open"), storage.ErrNotFound},
		"a link that has expired just now": {h, keyLink(0).ExpiresAt, simpleKey(2), because("open"), storage.ErrConflict},
		"no time":                          {h, time.Time{}, simpleKey(2), because("open"), storage.ErrInvalid},
	} {
		wantErr(t, name, s.RedeemKeyLink(ctx, tt.h, tt.at, tt.k, tt.why), tt.want)
		l, err := s.Link(ctx, h)
		ok(t, err)
		if !l.UsedAt.IsZero() || l.Key != "" {
			t.Errorf("%s: the link is used: %+v", name, l)
		}
	}
	_, err := s.Key(ctx, simpleKey(2).ID)
	wantErr(t, "the key after refusals", err, storage.ErrNotFound)
	equal(t, "audit rows after refusals", len(auditOf(t, s)), rows)

	ok(t, s.RedeemKeyLink(ctx, h, at, simpleKey(2), because("open")))
	l, err := s.Link(ctx, h)
	ok(t, err)
	want := keyLink(0)
	want.UsedAt, want.Key = at, simpleKey(2).ID
	equal(t, "opened", l, want)
	k, err := s.KeyByHash(ctx, simpleKey(2).Hash)
	ok(t, err)
	equal(t, "its key", []any{k.ID, k.Lineage, k.Account, k.Revision}, []any{simpleKey(2).ID, simpleKey(2).ID, "", int64(1)})
	wantErr(t, "opening it again", s.RedeemKeyLink(ctx, h, at, simpleKey(2), because("open")), storage.ErrConflict)
	again, err := s.RevokeLink(ctx, l.ID, at, because("late"))
	ok(t, err)
	equal(t, "taken back too late", again, l)
	equal(t, "audit rows", len(auditOf(t, s)), rows+1)

	// Many open one at once: one gets a key.
	done, refused := tally(t, together(t, open, 50, func(s storage.Store, n int) error {
		return s.RedeemKeyLink(context.Background(), keyLink(1).Hash, at, simpleKey(100+n), because(fmt.Sprint("open ", n)))
	}), storage.ErrConflict)
	if done != 1 || refused != 49 {
		t.Errorf("%d opened it, %d were refused; want one", done, refused)
	}
	list, _, err := s.ListKeys(ctx, storage.KeyQuery{})
	ok(t, err)
	equal(t, "keys", len(list), 3)
	equal(t, "audit rows", len(auditOf(t, s)), rows+2)

	// Opened and taken back at once it is one of both.
	rows = len(auditOf(t, s))
	tally(t, together(t, open, 20, func(s storage.Store, n int) error {
		if n%2 == 0 {
			_, err := s.RevokeLink(context.Background(), keyLink(2).ID, at, because("take back"))
			return err
		}
		return s.RedeemKeyLink(context.Background(), keyLink(2).Hash, at, simpleKey(200+n), because(fmt.Sprint("open both ", n)))
	}), storage.ErrConflict)
	l, err = s.Link(ctx, keyLink(2).Hash)
	ok(t, err)
	list, _, err = s.ListKeys(ctx, storage.KeyQuery{})
	ok(t, err)
	if made := len(list) - 3; made > 1 || (made == 1) != (l.Key != "") || l.UsedAt.IsZero() {
		t.Errorf("%d keys of %+v", made, l)
	}
	equal(t, "audit rows of one that was opened or taken back", len(auditOf(t, s)), rows+1)
	sound(t, s)
}

// A password that is set in another way ends the links that were sent before: whoever has
// one is not who set it.
func testStaleResetLinks(t *testing.T, open Open) {
	ctx, s := t.Context(), open(t)
	people(t, s, 2)
	for n, account := range []string{"acct-001", "acct-002"} {
		ok(t, s.CreateLink(ctx, resetLink(account, n), because(fmt.Sprint("reset ", n))))
	}
	at := epoch.Add(time.Minute)
	for n, edit := range []func(*storage.Account){
		func(a *storage.Account) { a.Admin = true },
		func(a *storage.Account) { a.Password = "another" },
		func(a *storage.Account) { a.State = storage.AccountSuspended },
	} {
		account := []string{"acct-001", "acct-001", "acct-002"}[n]
		a, err := s.Account(ctx, account)
		ok(t, err)
		edit(&a)
		why := because(fmt.Sprint("edit ", n))
		why.At = at
		ok(t, s.UpdateAccount(ctx, a, why))
		l, err := s.Link(ctx, resetLink(account, n/2).Hash)
		ok(t, err)
		equal(t, fmt.Sprint("link is over after edit ", n), !l.UsedAt.IsZero(), n == 1)
	}
	_, err := s.RedeemResetLink(ctx, resetLink("", 0).Hash, at.Add(time.Second), "mine", because("open"))
	wantErr(t, "a link from before", err, storage.ErrConflict)
}

func testResetLinks(t *testing.T, open Open) {
	ctx, s := t.Context(), open(t)
	people(t, s, 2)
	for n := range 3 {
		ok(t, s.CreateLink(ctx, resetLink("acct-001", n), because(fmt.Sprint("reset ", n))))
	}
	ok(t, s.CreateLink(ctx, resetLink("acct-001", 5), because("reset 5")))
	ok(t, s.CreateLink(ctx, resetLink("acct-002", 3), because("reset another")))
	ok(t, s.CreateLink(ctx, keyLink(4), because("key")))
	ok(t, s.CreateSession(ctx, simpleSession("acct-001", 1), 5))
	ok(t, s.CreateSession(ctx, simpleSession("acct-002", 2), 5))
	before, err := s.Account(ctx, "acct-001")
	ok(t, err)
	rows := len(auditOf(t, s))
	h, at := resetLink("", 0).Hash, epoch.Add(time.Minute)
	for name, tt := range map[string]struct {
		h        storage.TokenHash
		at       time.Time
		password string
		want     error
	}{
		"no such link":               {tokenOf("none"), at, "new", storage.ErrNotFound},
		"a link that makes a key":    {keyLink(4).Hash, at, "new", storage.ErrNotFound},
		"one that has expired":       {h, epoch.Add(time.Hour), "new", storage.ErrConflict},
		"no password":                {h, at, "", storage.ErrInvalid},
		"a password that is no text": {h, at, "a\x00", storage.ErrInvalid},
	} {
		_, err := s.RedeemResetLink(ctx, tt.h, tt.at, tt.password, because("open"))
		wantErr(t, name, err, tt.want)
	}
	a, err := s.Account(ctx, "acct-001")
	ok(t, err)
	equal(t, "after refusals", a, before)

	_, err = s.RevokeLink(ctx, resetLink("", 5).ID, epoch, because("take back"))
	ok(t, err)
	rows++

	// Of all that it was sent one opens, once.
	done, refused := tally(t, together(t, open, 50, func(s storage.Store, n int) error {
		_, err := s.RedeemResetLink(context.Background(), resetLink("", n%3).Hash, at, fmt.Sprint("new ", n), because(fmt.Sprint("open ", n)))
		return err
	}), storage.ErrConflict)
	if done != 1 || refused != 49 {
		t.Errorf("%d set a password, %d were refused; want one", done, refused)
	}
	equal(t, "audit rows", len(auditOf(t, s)), rows+1)
	a, err = s.Account(ctx, "acct-001")
	ok(t, err)
	if a.Password == before.Password {
		t.Error("the password is as it was")
	}
	want := before
	want.Password, want.Revision = a.Password, before.Revision+1
	equal(t, "account", a, want)
	for n := range 3 {
		l, err := s.Link(ctx, resetLink("", n).Hash)
		ok(t, err)
		equal(t, "when it was used", l.UsedAt, at)
	}
	l, err := s.Link(ctx, resetLink("", 5).Hash)
	ok(t, err)
	equal(t, "when another was taken back", l.UsedAt, epoch)
	l, err = s.Link(ctx, resetLink("", 3).Hash)
	ok(t, err)
	equal(t, "another's link", l.UsedAt.IsZero(), true)
	_, _, err = s.Session(ctx, simpleSession("", 1).Hash, epoch, epoch)
	wantErr(t, "its session", err, storage.ErrNotFound)
	_, _, err = s.Session(ctx, simpleSession("", 2).Hash, epoch, epoch)
	ok(t, err)
	wantErr(t, "a change of before", s.UpdateAccount(ctx, before, because("before")), storage.ErrConflict)

	// One who is suspended gets a password and stays suspended.
	change(t, s, "acct-002", "suspend", suspend)
	a, err = s.RedeemResetLink(ctx, resetLink("", 3).Hash, at, "newest", because("open another"))
	ok(t, err)
	kept, err := s.Account(ctx, "acct-002")
	ok(t, err)
	equal(t, "as it is then", a, kept)
	equal(t, "state and password", []any{a.State, a.Password}, []any{storage.AccountSuspended, "newest"})

	// Opened and taken back at once it is one of both.
	ok(t, s.CreateLink(ctx, resetLink("acct-002", 6), because("reset 6")))
	rows = len(auditOf(t, s))
	tally(t, together(t, open, 20, func(s storage.Store, n int) error {
		if n%2 == 0 {
			_, err := s.RevokeLink(context.Background(), resetLink("", 6).ID, at, because("take back 6"))
			return err
		}
		_, err := s.RedeemResetLink(context.Background(), resetLink("", 6).Hash, at, "last", because("open 6"))
		return err
	}), storage.ErrConflict)
	equal(t, "audit rows of one that was opened or taken back", len(auditOf(t, s)), rows+1)
	sound(t, s)
}
