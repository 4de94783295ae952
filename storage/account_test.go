package storage_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/llmgw/llmgw/storage"
)

var began = time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC) //nolint:gochecknoglobals // a constant

func drawThrottle(t *rapid.T) storage.Throttle {
	first := time.Duration(rapid.Int64Range(int64(time.Microsecond), int64(time.Minute)).Draw(t, "first"))
	most := first + time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "more"))
	return storage.Throttle{
		Free: rapid.IntRange(1, 8).Draw(t, "free"), First: first, Most: most,
		Forget: most + time.Duration(rapid.Int64Range(0, int64(24*time.Hour)).Draw(t, "forget")),
	}
}

// Whatever the clock does, nobody waits longer than Most: who comes back after it is
// let through.
func TestThrottleWaits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		throttle := drawThrottle(t)
		if err := throttle.Validate(); err != nil {
			t.Fatal(err)
		}
		var a storage.Attempts
		now := began
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.Int64Range(-int64(2*time.Hour), int64(2*time.Hour)).Draw(t, "later")))
			next, wait := throttle.Take(a, now)
			switch {
			case wait < 0 || wait > throttle.Most:
				t.Fatalf("wait %v of at most %v", wait, throttle.Most)
			case wait > 0 && next.Count != a.Count:
				t.Fatalf("%d became %d, though it came too early", a.Count, next.Count)
			case next.Last.After(now):
				t.Fatalf("the last came at %v, after %v", next.Last, now)
			case wait == 0 && !next.Last.Equal(now):
				t.Fatal("one that was let through is not the last")
			}
			a = next
			if wait > 0 {
				if _, again := throttle.Take(a, now.Add(wait-1)); again == 0 {
					t.Fatal("it did not have to wait that long")
				}
				if _, again := throttle.Take(a, now.Add(wait)); again != 0 {
					t.Fatalf("after %v another %v", wait, again)
				}
			}
		}
	})
}

// In any span of time no more are let through than the free ones and those that their
// waits leave time for, with a clock that goes forward.
func TestThrottleBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		throttle := drawThrottle(t)
		throttle.Forget = 24 * time.Hour
		var a storage.Attempts
		now, through := began, 0
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.Int64Range(0, int64(throttle.First)).Draw(t, "later")))
			var wait time.Duration
			if a, wait = throttle.Take(a, now); wait == 0 {
				through++
			}
		}
		most, at := throttle.Free, began
		for wait := throttle.First; ; wait = min(2*wait, throttle.Most) {
			if at = at.Add(wait); at.After(now) {
				break
			}
			most++
		}
		if through > most {
			t.Fatalf("%d were let through in %v; want at most %d", through, now.Sub(began), most)
		}
	})
}

func TestThrottle(t *testing.T) {
	throttle := storage.Throttle{Free: 3, First: time.Second, Most: 5 * time.Second, Forget: time.Hour}
	var a storage.Attempts
	take := func(after, want time.Duration) {
		t.Helper()
		var wait time.Duration
		if a, wait = throttle.Take(a, began.Add(after)); wait != want {
			t.Errorf("after %v: wait %v; want %v", after, wait, want)
		}
	}
	for range 3 {
		take(0, 0)
	}
	take(0, time.Second)
	take(time.Second, 0)
	take(time.Second, 2*time.Second)
	take(3*time.Second, 0)
	take(3*time.Second, 4*time.Second)
	take(7*time.Second, 0)
	take(7*time.Second, 5*time.Second) // not 8
	take(12*time.Second, 0)
	take(2*time.Second, 5*time.Second) // of a clock that went back
	take(7*time.Second, 0)             // and no longer
	take(7*time.Second+time.Hour, 0)   // forgotten
	take(7*time.Second+time.Hour, 0)
	if a.Count != 2 {
		t.Errorf("%d are remembered; want 2", a.Count)
	}
}

func TestValidateAccounts(t *testing.T) {
	account := storage.Account{ID: "a", Address: "a@b", Password: "$", State: storage.AccountApproved, CreatedAt: began}
	session := storage.Session{ID: "s", Hash: storage.TokenHash{1}, Form: storage.TokenHash{1}, Account: "a", CreatedAt: began, SeenAt: began, ExpiresAt: began}
	keyLink := storage.Link{ID: "l", Hash: storage.TokenHash{1}, Kind: storage.LinkKey, Spec: []byte("{}"), CreatedAt: began, ExpiresAt: began}
	resetLink := keyLink
	resetLink.Kind, resetLink.Spec, resetLink.Account = storage.LinkReset, nil, "a"
	for name, err := range map[string]error{
		"account": account.Validate(), "session": session.Validate(), "key link": keyLink.Validate(), "reset link": resetLink.Validate(),
		"password": storage.ValidatePassword("x"), "stale": storage.StaleAccounts{Most: 1}.Validate(),
	} {
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	accounts := func(edit func(*storage.Account)) error { a := account; edit(&a); return a.Validate() }
	sessions := func(edit func(*storage.Session)) error { s := session; edit(&s); return s.Validate() }
	links := func(edit func(*storage.Link)) error { l := keyLink; edit(&l); return l.Validate() }
	long := strings.Repeat("x", 300)
	secret := long + "secret"
	for name, tt := range map[string]struct {
		err  error
		want string
	}{
		"ID":             {accounts(func(a *storage.Account) { a.ID = "" }), "ID"},
		"address":        {accounts(func(a *storage.Account) { a.Address = "ab" }), "3 to 254"},
		"long address":   {accounts(func(a *storage.Account) { a.Address = long }), "Address"},
		"password":       {accounts(func(a *storage.Account) { a.Password = secret }), "Password"},
		"state":          {accounts(func(a *storage.Account) { a.State = 4 }), "State"},
		"models":         {accounts(func(a *storage.Account) { a.Allowance.Models = []string{} }), "Allowance.Models"},
		"limit":          {accounts(func(a *storage.Account) { a.Allowance.Limits.Concurrency = new(int64(0)) }), "Allowance.Limits.Concurrency"},
		"budget":         {accounts(func(a *storage.Account) { a.Allowance.Budget = &storage.Budget{Nanos: 1} }), "Allowance.Budget.Period"},
		"keys":           {accounts(func(a *storage.Account) { a.Allowance.Keys = 10_001 }), "Allowance.Keys"},
		"no time":        {accounts(func(a *storage.Account) { a.CreatedAt = time.Time{} }), "CreatedAt"},
		"hash":           {sessions(func(s *storage.Session) { s.Hash = storage.TokenHash{} }), "Hash"},
		"form":           {sessions(func(s *storage.Session) { s.Form = storage.TokenHash{} }), "Form"},
		"agent":          {sessions(func(s *storage.Session) { s.Agent = long }), "Agent"},
		"whose":          {sessions(func(s *storage.Session) { s.Account = "" }), "Account"},
		"kind":           {links(func(l *storage.Link) { l.Kind = 0 }), "Kind"},
		"spec":           {links(func(l *storage.Link) { l.Spec = []byte("{") }), "Spec"},
		"no spec":        {links(func(l *storage.Link) { l.Spec = nil }), "Spec"},
		"long spec":      {links(func(l *storage.Link) { l.Spec = []byte(`"` + strings.Repeat("x", 64<<10) + `"`) }), "Spec"},
		"of an account":  {links(func(l *storage.Link) { l.Account = "a" }), "Account"},
		"reset of none":  {links(func(l *storage.Link) { l.Kind, l.Spec = storage.LinkReset, nil }), "Account"},
		"reset and spec": {links(func(l *storage.Link) { l.Kind, l.Account = storage.LinkReset, "a" }), "Spec"},
		"a key unused":   {links(func(l *storage.Link) { l.Key = "k" }), "UsedAt"},
		"free":           {storage.Throttle{First: 1e9, Most: 1e9, Forget: 1e9}.Validate(), "Free"},
		"most":           {storage.Throttle{Free: 1, First: 1e9, Most: 1e8, Forget: 1e9}.Validate(), "Most"},
		"forget":         {storage.Throttle{Free: 1, First: 1e9, Most: 1e9, Forget: 1e8}.Validate(), "Forget"},
		"stale":          {storage.StaleAccounts{}.Validate(), "Most"},
		"key apart":      {(&storage.Key{ID: "k", Hash: storage.KeyHash{1}, CreatedAt: began, Account: "a", Lineage: "k"}).Validate(), "Lineage"},
	} {
		switch {
		case !errors.Is(tt.err, storage.ErrInvalid) || !strings.Contains(tt.err.Error(), tt.want):
			t.Errorf("%s: %v; want ErrInvalid with %q", name, tt.err, tt.want)
		case strings.Contains(tt.err.Error(), "secret"):
			t.Errorf("%s: the error shows the password", name)
		}
	}
}

func TestSessionTidy(t *testing.T) {
	s := storage.Session{Agent: "a\x00\u202eb", From: strings.Repeat("x", 300)}
	s.Tidy()
	if s.Agent != "a��b" || len(s.From) != 256 {
		t.Errorf("became %q and %d bytes", s.Agent, len(s.From))
	}
}
