package account

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/llmgw/llmgw/auth"
	"github.com/llmgw/llmgw/auth/account/password"
	"github.com/llmgw/llmgw/storage"
)

func TestSignUp(t *testing.T) {
	b := newBench(t, nil)
	if err := b.SignUp(t.Context(), " Ada@Example.org", right, auth.By{RequestID: "req_1"}); err != nil {
		t.Fatal(err)
	}
	a, err := b.db.AccountByAddress(t.Context(), ada)
	if err != nil || a.State != storage.AccountPending || a.Admin || !strings.HasPrefix(a.ID, "acc_") || !a.ApprovedAt.IsZero() ||
		!strings.HasPrefix(a.Password, "$argon2id$") || a.Allowance.Keys != 0 {
		t.Errorf("%+v, %v", a, err)
	}
	// Whoever signs up again changes nothing and learns nothing.
	b.store.taken()
	if err := b.SignUp(t.Context(), ada, "another long password", auth.By{}); err != nil {
		t.Error(err)
	}
	if ops := b.store.taken(); !slices.Equal(ops, []string{"CreateAccount"}) {
		t.Errorf("it asked the store for %v", ops)
	}
	if is, err := b.db.AccountByAddress(t.Context(), ada); err != nil || is.Password != a.Password || is.ID != a.ID {
		t.Errorf("it became %+v, %v", is, err)
	}
	actions, text := b.audits(t)
	if !slices.Equal(actions, []string{"account.signup"}) || !strings.Contains(text, `"state":"pending"`) || !strings.Contains(text, "account:"+a.ID) {
		t.Errorf("%v\n%s", actions, text)
	}
	for name, test := range map[string]struct{ address, typed, field string }{
		"address":        {"ada", right, "address"},
		"short password": {ada, "Xy7$!kQ2&", "password"},
		"long password":  {ada, strings.Repeat("x", 1025), "password"},
	} {
		err := b.SignUp(t.Context(), test.address, test.typed, auth.By{})
		bad, ok := errors.AsType[*InvalidError](err)
		if !ok || bad.Field != test.field || strings.Contains(err.Error(), test.typed) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if ops := b.store.taken(); len(ops) != 0 {
		t.Errorf("what is invalid asked the store for %v", ops)
	}
}

func TestSignUpIsBounded(t *testing.T) {
	b := newBench(t, func(c *Config, _ *Deps) { c.MaxPending = 2 })
	for i, want := range []error{nil, nil, ErrFull} {
		if err := b.SignUp(t.Context(), fmt.Sprintf("a%d@b", i), right, auth.By{}); !errors.Is(err, want) {
			t.Errorf("number %d: %v", i, err)
		}
	}
	// An address that has an account is told the same as one that has none.
	if err := b.SignUp(t.Context(), "a0@b", right, auth.By{}); !errors.Is(err, ErrFull) {
		t.Errorf("an address that is there: %v", err)
	}
	if _, err := b.Approve(t.Context(), "a0@b", Grant{}, op); err != nil {
		t.Fatal(err)
	}
	if err := b.SignUp(t.Context(), "a2@b", right, auth.By{}); err != nil {
		t.Errorf("after one was approved: %v", err)
	}
	closed := newBench(t, func(c *Config, _ *Deps) { c.SignUp = false })
	if err := closed.SignUp(t.Context(), ada, right, auth.By{}); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
	if err := func() error {
		b.store.fail("CreateAccount", errDown)
		return b.SignUp(t.Context(), "z@b", right, auth.By{})
	}(); !errors.Is(err, storage.ErrUnavailable) {
		t.Error(err)
	}
}

// A sign-up takes as long for an address that is there, whatever the store takes for
// which.
func TestSignUpSettles(t *testing.T) {
	b := newBench(t, func(_ *Config, d *Deps) { d.settle = 300 * time.Millisecond })
	for range 2 {
		began := time.Now()
		if err := b.SignUp(t.Context(), ada, right, auth.By{}); err != nil {
			t.Fatal(err)
		}
		if d := time.Since(began); d < 300*time.Millisecond {
			t.Errorf("it took %v", d)
		}
	}
}

func TestSignIn(t *testing.T) {
	b := newBench(t, nil)
	in := SignIn{Address: "ADA@example.org", Password: right, Agent: "browser\n\x00" + strings.Repeat("é", 200), From: "192.0.2.1"}
	try := func(in SignIn, want error) Opened {
		t.Helper()
		opened, err := b.SignIn(t.Context(), in)
		if !errors.Is(err, want) || (err == nil) != (opened.Token != "") {
			t.Fatalf("%v, want %v", err, want)
		}
		return opened
	}
	bad := in
	bad.Password = wrong
	try(in, ErrRefused)
	if err := b.SignUp(t.Context(), ada, right, auth.By{}); err != nil {
		t.Fatal(err)
	}
	// In what state an account is only who has the password is told.
	try(bad, ErrRefused)
	try(in, ErrPending)
	if _, err := b.Approve(t.Context(), ada, Grant{}, op); err != nil {
		t.Fatal(err)
	}
	try(bad, ErrRefused)
	first, second := try(in, nil), try(in, nil)
	if first.Token == second.Token || len(first.Token) != 43 {
		t.Error("two sessions have one token")
	}
	v, err := b.Visitor(t.Context(), first.Token)
	if err != nil || v.Account.Address != ada || v.Account.Password != "" || v.Session.From != "192.0.2.1" || len(v.Session.Agent) > 256 ||
		strings.ContainsAny(v.Session.Agent, "\n\x00") || !first.ExpiresAt.Equal(b.clock.Now().Add(8*time.Hour)) {
		t.Errorf("%+v, %+v, %v", v.Account, v.Session, err)
	}
	if _, err := b.Suspend(t.Context(), ada, op); err != nil {
		t.Fatal(err)
	}
	try(bad, ErrRefused)
	try(in, ErrSuspended)
	for _, in := range []SignIn{{}, {Address: ada}, {Address: ada, Password: "short"}, {Address: "x", Password: right}, {Address: ada, Password: strings.Repeat("x", 10<<20)}} {
		b.store.taken()
		try(in, ErrRefused)
		if ops := b.store.taken(); len(ops) != 0 {
			t.Errorf("what cannot be asked the store for %v", ops)
		}
	}
	if n := strings.Count(b.log.String(), "nobody can have"); n != 1 {
		t.Errorf("five of them are %d lines in the log", n)
	}
	text := b.metricsText(t)
	for _, want := range []string{`sign_ins_total{outcome="opened"} 2`, `sign_ins_total{outcome="invalid"} 5`, `sign_ins_total{outcome="pending"} 1`, `sign_ins_total{outcome="suspended"} 1`, "sessions_opened_total 2"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
}

// The same is asked of the store for an account that there is not and for a wrong
// password.
func TestRefusedAlike(t *testing.T) {
	b := newBench(t, nil)
	b.approved(t, ada, Grant{})
	var ops [2][]string
	var errs [2]error
	for i, address := range []string{ada, "nobody@example.org"} {
		b.store.taken()
		_, errs[i] = b.SignIn(t.Context(), SignIn{Address: address, Password: wrong})
		ops[i] = b.store.taken()
	}
	if !slices.Equal(ops[0], ops[1]) || !slices.Equal(ops[0], []string{"TakeAttempt", "AccountByAddress"}) {
		t.Errorf("%v and %v", ops[0], ops[1])
	}
	if errs[0] != errs[1] || errs[0] != ErrRefused { //nolint:errorlint // they are to be the very same
		t.Errorf("%v and %v", errs[0], errs[1])
	}
}

// Guessing is slowed down by address: from wherever it comes, and for no other one.
func TestThrottle(t *testing.T) {
	b := newBench(t, nil)
	b.approved(t, ada, Grant{})
	b.approved(t, "bob@example.org", Grant{})
	try := func(address, typed, from string, want error) time.Duration {
		t.Helper()
		_, err := b.SignIn(t.Context(), SignIn{Address: address, Password: typed, From: from})
		if !errors.Is(err, want) {
			t.Fatalf("%v, want %v", err, want)
		}
		if slow, ok := errors.AsType[*ThrottledError](err); ok {
			return slow.RetryAfter
		}
		return 0
	}
	for i := range 5 {
		try(ada, wrong, fmt.Sprint("192.0.2.", i), ErrRefused)
	}
	// The right password is not looked at, or guessing would go on.
	b.store.taken()
	if wait := try(ada, right, "198.51.100.1", ErrThrottled); wait != time.Second {
		t.Errorf("wait %v", wait)
	}
	if ops := b.store.taken(); !slices.Equal(ops, []string{"TakeAttempt"}) {
		t.Errorf("it asked the store for %v", ops)
	}
	try("bob@example.org", right, "192.0.2.1", nil)
	try("nobody@example.org", right, "192.0.2.1", ErrRefused)
	// Each further one doubles the wait, up to 15 minutes, for years of guessing.
	for _, want := range []time.Duration{1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 900, 900} {
		want *= time.Second
		if wait := try(ada, wrong, "", ErrThrottled); wait != want {
			t.Fatalf("wait %v, want %v", wait, want)
		}
		b.clock.Advance(want)
		try(ada, wrong, "", ErrRefused)
	}
	b.clock.Advance(15 * time.Minute)
	try(ada, right, "", nil)
	for range 5 { // who has the password begins anew
		try(ada, wrong, "", ErrRefused)
	}
	try(ada, right, "", ErrThrottled)
	b.clock.Advance(24 * time.Hour)
	try(ada, right, "", nil)
}

// Whoever signed up, and was not approved, does not have attempts forgotten: addresses
// that share a bucket with somebody else's are found in a second.
func TestThrottleNeighbour(t *testing.T) {
	b := newBench(t, nil)
	b.approved(t, ada, Grant{})
	const mallory = "m851739@example.org" // the first of m0@, m1@ … that is of her bucket
	if bucketOf(mallory) != bucketOf(ada) {
		t.Fatal("they do not share a bucket; look for an address that does")
	}
	if err := b.SignUp(t.Context(), mallory, right, auth.By{}); err != nil {
		t.Fatal(err)
	}
	try := func(address, typed string) error {
		_, err := b.SignIn(t.Context(), SignIn{Address: address, Password: typed})
		return err
	}
	guesses := func() (n int) {
		for i := range 12 {
			address, typed := ada, wrong
			if i%3 == 2 {
				address, typed = mallory, right
			}
			if errors.Is(try(address, typed), ErrRefused) {
				n++
			}
		}
		return n
	}
	if n := guesses(); n > 5 {
		t.Errorf("%d guesses without a wait beside an account that is pending", n)
	}
	if _, err := b.Approve(t.Context(), mallory, Grant{}, op); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Suspend(t.Context(), mallory, op); err != nil {
		t.Fatal(err)
	}
	b.clock.Advance(24 * time.Hour)
	if n := guesses(); n > 5 {
		t.Errorf("%d guesses without a wait beside an account that is suspended", n)
	}
}

// Guesses that come at once are counted before any is looked at.
func TestThrottleParallel(t *testing.T) {
	b := newBench(t, nil)
	b.approved(t, ada, Grant{})
	var wg sync.WaitGroup
	var mu sync.Mutex
	outcomes := map[error]int{}
	for range 40 {
		wg.Go(func() {
			_, err := b.SignIn(t.Context(), SignIn{Address: ada, Password: wrong})
			mu.Lock()
			defer mu.Unlock()
			switch {
			case errors.Is(err, ErrRefused):
				outcomes[ErrRefused]++
			case errors.Is(err, ErrThrottled):
				outcomes[ErrThrottled]++
			default:
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if outcomes[ErrRefused] != 5 || outcomes[ErrThrottled] != 35 {
		t.Errorf("%v", outcomes)
	}
}

// Who finds the line full is turned away before anything is done or counted.
func TestBusy(t *testing.T) {
	b := newBench(t, func(c *Config, _ *Deps) { c.MaxHashes, c.MaxWaiting = 1, 1 })
	b.approved(t, ada, Grant{})
	v := b.visitor(t, ada)
	link, err := b.Reset(t.Context(), ada, op)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		slot, err := b.hasher.Enter()
		if err != nil {
			t.Fatal(err)
		}
		defer slot.Leave()
	}
	b.store.taken()
	for range 20 {
		if _, err := b.SignIn(t.Context(), SignIn{Address: ada, Password: right}); !errors.Is(err, ErrBusy) {
			t.Fatal(err)
		}
	}
	if err := b.SignUp(t.Context(), "bob@example.org", right, auth.By{}); !errors.Is(err, ErrBusy) {
		t.Error(err)
	}
	if _, err := b.ChangePassword(t.Context(), v, right, wrong); !errors.Is(err, ErrBusy) {
		t.Error(err)
	}
	if ops := b.store.taken(); len(ops) != 0 {
		t.Errorf("the store was asked for %v", ops)
	}
	if err := b.OpenResetLink(t.Context(), link.Token, wrong, auth.By{}); !errors.Is(err, ErrBusy) {
		t.Error(err)
	}
	if n := strings.Count(b.log.String(), "turned away"); n != 1 {
		t.Errorf("20 of them are %d lines in the log", n)
	}
	if text := b.metricsText(t); !strings.Contains(text, `sign_ins_total{outcome="busy"} 20`) || !strings.Contains(text, `hashes{state="waiting"} 2`) {
		t.Error(text)
	}
}

// Who leaves waits no longer.
func TestSignInLeft(t *testing.T) {
	b := newBench(t, nil)
	b.approved(t, ada, Grant{})
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("gone")
	b.store.set(func(op string) error {
		if op == "AccountByAddress" {
			cancel(gone)
		}
		return nil
	})
	if _, err := b.SignIn(ctx, SignIn{Address: ada, Password: right}); !errors.Is(err, gone) && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if b.hasher.Running() != 0 || b.hasher.Waiting() != 0 {
		t.Error("it is still there")
	}
}

// A hash that costs less than new ones is made anew when its password is there.
func TestRehash(t *testing.T) {
	b := newBench(t, nil)
	a := b.approved(t, ada, Grant{})
	before, _ := b.db.Account(t.Context(), a.ID)
	dear := password.Params{MemoryKiB: 128, Passes: 1, Lanes: 1}
	deps := b.deps
	deps.cost, deps.Registerer = dear, nil
	s, err := New(b.cfg, deps)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.SignIn(t.Context(), SignIn{Address: ada, Password: wrong}); !errors.Is(err, ErrRefused) {
		t.Error(err)
	}
	if is, _ := b.db.Account(t.Context(), a.ID); is.Password != before.Password {
		t.Error("it was hashed anew by a wrong password")
	}
	b.store.fail("RehashAccount", errDown)
	if _, err := s.SignIn(t.Context(), SignIn{Address: ada, Password: right}); err != nil {
		t.Errorf("a sign-in failed because the hash could not be made anew: %v", err)
	}
	b.store.set(nil)
	opened, err := s.SignIn(t.Context(), SignIn{Address: ada, Password: right})
	if err != nil {
		t.Fatal(err)
	}
	is, _ := b.db.Account(t.Context(), a.ID)
	if !strings.Contains(is.Password, "m=128,") {
		t.Errorf("the hash is %s", is.Password)
	}
	if _, err := s.Visitor(t.Context(), opened.Token); err != nil {
		t.Errorf("the session ended with the old hash: %v", err)
	}
	b.store.taken()
	if _, err := s.SignIn(t.Context(), SignIn{Address: ada, Password: right}); err != nil || slices.Contains(b.store.taken(), "RehashAccount") {
		t.Errorf("it was hashed again, %v", err)
	}
	if _, err := b.SignIn(t.Context(), SignIn{Address: ada, Password: right}); err != nil || slices.Contains(b.store.taken(), "RehashAccount") {
		t.Errorf("a dear hash became a cheap one, %v", err)
	}
}

// Two who sign in at once with a hash that costs less than it should both come in,
// whoever made it anew.
func TestRehashParallel(t *testing.T) {
	b := newBench(t, nil)
	a := b.approved(t, ada, Grant{})
	deps := b.deps
	deps.cost, deps.Registerer = password.Params{MemoryKiB: 128, Passes: 1, Lanes: 1}, nil
	s, err := New(b.cfg, deps)
	if err != nil {
		t.Fatal(err)
	}
	b.store.once("RehashAccount", func() error { // another is quicker
		_, err := s.SignIn(t.Context(), SignIn{Address: ada, Password: right})
		return err
	})
	if _, err := s.SignIn(t.Context(), SignIn{Address: ada, Password: right}); err != nil {
		t.Error(err)
	}
	now := b.clock.Now()
	if list, err := b.db.ListSessions(t.Context(), a.ID, now, now.Add(-time.Hour)); err != nil || len(list) != 2 {
		t.Errorf("%d sessions, %v", len(list), err)
	}
}

// A hash that would take gigabytes is computed by nobody, and is told to the operator.
func TestAbsurdHash(t *testing.T) {
	b := newBench(t, nil)
	a := b.approved(t, ada, Grant{})
	a, err := b.db.Account(t.Context(), a.ID)
	if err != nil {
		t.Fatal(err)
	}
	for _, hash := range []string{"$argon2id$v=19$m=4194304,t=1,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc", "secret"} {
		if err := b.db.RehashAccount(t.Context(), a.ID, a.Password, hash); err != nil {
			t.Fatal(err)
		}
		a.Password = hash
		if _, err := b.SignIn(t.Context(), SignIn{Address: ada, Password: right}); err != ErrRefused { //nolint:errorlint // as any other
			t.Error(err)
		}
	}
	if text := b.log.String(); strings.Count(text, "is not to be computed") != 2 || strings.Contains(text, "c29tZXNhbHQ") || !strings.Contains(text, a.ID) {
		t.Error(text)
	}
}

// Where the store is away nobody is let in, nothing is hashed, and it is said so.
func TestSignInWithoutStore(t *testing.T) {
	b := newBench(t, nil)
	b.approved(t, ada, Grant{})
	for _, op := range []string{"TakeAttempt", "AccountByAddress", "ForgiveAttempts", "CreateSession", "Account"} {
		b.store.fail(op, errDown)
		if opened, err := b.SignIn(t.Context(), SignIn{Address: ada, Password: right}); !errors.Is(err, storage.ErrUnavailable) || opened.Token != "" {
			t.Errorf("%s: %v", op, err)
		}
	}
	b.store.set(nil)
	sessions, err := b.db.ListSessions(t.Context(), "", time.Time{}, time.Time{})
	if err != nil || len(sessions) != 0 {
		t.Error("a session that nobody was given is there")
	}
}

// A password that is changed while somebody signs in with the old one leaves him out,
// and so does a suspension.
func TestSignInRaces(t *testing.T) {
	b := newBench(t, nil)
	a := b.approved(t, ada, Grant{})
	for name, test := range map[string]struct {
		at   string
		do   func(*bench) error
		want error
	}{
		"another password": {"CreateSession", func(b *bench) error {
			is, err := b.db.Account(t.Context(), a.ID)
			if err != nil {
				return err
			}
			return b.db.RehashAccount(t.Context(), a.ID, is.Password, is.Password+"x")
		}, ErrRefused},
		"suspended": {"CreateSession", func(b *bench) error { _, err := b.Suspend(t.Context(), ada, op); return err }, ErrSuspended},
	} {
		b.store.once(test.at, func() error { return test.do(b) })
		if _, err := b.SignIn(t.Context(), SignIn{Address: ada, Password: right}); !errors.Is(err, test.want) {
			t.Errorf("%s: %v", name, err)
		}
		b.store.set(nil)
		now := b.clock.Now()
		if list, err := b.db.ListSessions(t.Context(), a.ID, now, now.Add(-time.Hour)); err != nil || len(list) != 0 {
			t.Errorf("%s: %d sessions, %v", name, len(list), err)
		}
		b = newBench(t, nil)
		a = b.approved(t, ada, Grant{})
	}
}
