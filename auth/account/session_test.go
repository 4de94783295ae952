package account

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
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

func TestFormToken(t *testing.T) {
	mac := hmac.New(sha256.New, []byte("token"))
	mac.Write([]byte("llmgw form"))
	if got := FormToken("token"); got != base64.RawURLEncoding.EncodeToString(mac.Sum(nil)) || len(got) != 43 {
		t.Error(got)
	}
	b := newBench(t, nil)
	b.approved(t, ada, Grant{})
	one, two := b.visitor(t, ada), b.visitor(t, ada)
	if !one.Checks(one.FormToken) || one.Checks(two.FormToken) || one.Checks("") || one.Checks(one.FormToken+"x") || one.FormToken == two.FormToken {
		t.Error("a form of another session passes, or one of its own does not")
	}
	var nobody *Visitor
	if nobody.Checks("") || (&Visitor{}).Checks("") || (&Visitor{FormToken: FormToken("")}).Checks(FormToken("")) {
		t.Error("nobody's form passes")
	}
}

func TestNoSession(t *testing.T) {
	b := newBench(t, nil)
	for _, token := range []string{"", "x", strings.Repeat("a", 42), strings.Repeat("a", 44), strings.Repeat("!", 43), strings.Repeat("a", 42) + "\n",
		strings.Repeat("x", 1<<20)} {
		b.store.taken()
		if _, err := b.Visitor(t.Context(), token); !errors.Is(err, ErrNoSession) || len(b.store.taken()) != 0 {
			t.Errorf("%.50q: %v", token, err)
		}
	}
	stranger, err := b.newToken()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Visitor(t.Context(), stranger); !errors.Is(err, ErrNoSession) {
		t.Error(err)
	}
	b.store.fail("Session", errDown)
	if _, err := b.Visitor(t.Context(), stranger); !errors.Is(err, storage.ErrUnavailable) || errors.Is(err, ErrNoSession) {
		t.Errorf("a store that is away ended a session: %v", err)
	}
}

// A session ends when it is idle, or old, whatever comes first.
func TestSessionLives(t *testing.T) {
	b := newBench(t, nil)
	b.approved(t, ada, Grant{})
	open := func() string {
		t.Helper()
		opened, err := b.SignIn(t.Context(), SignIn{Address: ada, Password: right})
		if err != nil {
			t.Fatal(err)
		}
		return opened.Token
	}
	token := open()
	for spent := time.Duration(0); spent < 8*time.Hour; spent += 20 * time.Minute {
		if _, err := b.Visitor(t.Context(), token); err != nil {
			t.Fatalf("after %v: %v", spent, err)
		}
		b.clock.Advance(20 * time.Minute)
	}
	if _, err := b.Visitor(t.Context(), token); !errors.Is(err, ErrNoSession) {
		t.Errorf("after 8 hours of use: %v", err)
	}
	token = open()
	b.clock.Advance(30*time.Minute + time.Second)
	if _, err := b.Visitor(t.Context(), token); !errors.Is(err, ErrNoSession) {
		t.Errorf("after 30 idle minutes: %v", err)
	}
}

// That a session is used is written once a minute at most, however many requests come,
// and a store that cannot write it ends nothing.
func TestTouch(t *testing.T) {
	b := newBench(t, nil)
	b.approved(t, ada, Grant{})
	opened, err := b.SignIn(t.Context(), SignIn{Address: ada, Password: right})
	if err != nil {
		t.Fatal(err)
	}
	touched := func() (n int) {
		for _, op := range b.store.taken() {
			if op == "TouchSession" {
				n++
			}
		}
		return n
	}
	touched()
	for range 5 {
		if _, err := b.Visitor(t.Context(), opened.Token); err != nil {
			t.Fatal(err)
		}
	}
	if n := touched(); n != 0 {
		t.Errorf("%d writes in its first minute", n)
	}
	b.clock.Advance(time.Minute)
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if _, err := b.Visitor(t.Context(), opened.Token); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := touched(); n != 1 {
		t.Errorf("20 requests at once are %d writes", n)
	}
	b.clock.Advance(time.Minute)
	b.store.fail("TouchSession", errDown)
	if _, err := b.Visitor(t.Context(), opened.Token); err != nil {
		t.Error(err)
	}
}

func TestTouchedIsBounded(t *testing.T) {
	var s touched
	now := time.Now()
	for i := range 3 * maxTouched {
		if !s.take(fmt.Sprint(i), now) || s.take(fmt.Sprint(i), now) || len(s.at) > maxTouched {
			t.Fatalf("at %d: %d are remembered", i, len(s.at))
		}
	}
}

func TestSessions(t *testing.T) {
	b := newBench(t, func(c *Config, _ *Deps) { c.MaxSessions = 3 })
	b.approved(t, ada, Grant{})
	b.approved(t, "bob@example.org", Grant{})
	bob := b.visitor(t, "bob@example.org")
	var all []*Visitor
	for range 4 {
		b.clock.Advance(time.Second)
		all = append(all, b.visitor(t, ada))
	}
	me := all[3]
	list, err := b.Sessions(t.Context(), me)
	if err != nil || len(list) != 3 || list[0].ID != me.Session.ID || list[2].ID != all[1].Session.ID {
		t.Fatalf("%+v, %v", list, err)
	}
	// Somebody else's session is as one that there is not.
	for _, id := range []string{bob.Session.ID, "ses_none", ""} {
		if err := b.EndSession(t.Context(), me, id); !errors.Is(err, ErrNoSession) {
			t.Errorf("%q: %v", id, err)
		}
	}
	if list, err := b.Sessions(t.Context(), bob); err != nil || len(list) != 1 {
		t.Errorf("%+v, %v", list, err)
	}
	if err := b.EndSession(t.Context(), me, all[2].Session.ID); err != nil {
		t.Error(err)
	}
	if n, err := b.EndOthers(t.Context(), me); err != nil || n != 1 {
		t.Errorf("%d, %v", n, err)
	}
	if list, err = b.Sessions(t.Context(), me); err != nil || len(list) != 1 || list[0].ID != me.Session.ID {
		t.Errorf("%+v, %v", list, err)
	}
	for range 2 {
		if err := b.SignOut(t.Context(), me); err != nil {
			t.Error(err)
		}
	}
	if list, err = b.Sessions(t.Context(), me); err != nil || len(list) != 0 {
		t.Errorf("%+v, %v", list, err)
	}
	// What a lost answer left ended is no error.
	b.store.once("EndSession", func() error {
		if err := b.db.EndSession(t.Context(), bob.Account.ID, bob.Session.ID); err != nil {
			t.Error(err)
		}
		return errDown
	})
	if err := b.EndSession(t.Context(), bob, bob.Session.ID); err != nil {
		t.Error(err)
	}
}

// Signing out and suspending end sessions at once, in every process.
func TestEndedAtOnce(t *testing.T) {
	b := newBench(t, nil)
	b.approved(t, ada, Grant{})
	deps := b.deps
	deps.Registerer = nil
	other, err := New(b.cfg, deps)
	if err != nil {
		t.Fatal(err)
	}
	for name, end := range map[string]func(*Visitor) error{
		"signed out": func(v *Visitor) error { return b.SignOut(t.Context(), v) },
		"suspended":  func(*Visitor) error { _, err := b.Suspend(t.Context(), ada, op); return err },
	} {
		if _, err := b.Approve(t.Context(), ada, Grant{}, op); err != nil {
			t.Fatal(err)
		}
		opened, err := b.SignIn(t.Context(), SignIn{Address: ada, Password: right})
		if err != nil {
			t.Fatal(err)
		}
		v, err := other.Visitor(t.Context(), opened.Token)
		if err != nil {
			t.Fatal(err)
		}
		if err := end(v); err != nil {
			t.Fatal(err)
		}
		for _, s := range []*Service{b.Service, other} {
			if _, err := s.Visitor(t.Context(), opened.Token); !errors.Is(err, ErrNoSession) {
				t.Errorf("%s: %v", name, err)
			}
		}
		// Letting the account in again lets in no session.
		if _, err := b.Approve(t.Context(), ada, Grant{}, op); err != nil {
			t.Fatal(err)
		}
		if _, err := b.Visitor(t.Context(), opened.Token); !errors.Is(err, ErrNoSession) {
			t.Errorf("%s, and approved again: %v", name, err)
		}
	}
}

func TestChangePassword(t *testing.T) {
	b := newBench(t, nil)
	b.approved(t, ada, Grant{})
	me, elsewhere := b.visitor(t, ada), b.visitor(t, ada)
	const next = "another long password"
	if _, err := b.ChangePassword(t.Context(), me, wrong, next); !errors.Is(err, ErrRefused) {
		t.Error(err)
	}
	if _, err := b.ChangePassword(t.Context(), me, "short", next); !errors.Is(err, ErrRefused) {
		t.Error(err)
	}
	if _, err := b.ChangePassword(t.Context(), me, right, "short"); !errors.Is(err, ErrInvalid) {
		t.Error(err)
	}
	me.RequestID = "req_7"
	opened, err := b.ChangePassword(t.Context(), me, right, next)
	if err != nil {
		t.Fatal(err)
	}
	v, err := b.Visitor(t.Context(), opened.Token)
	if err != nil || v.Session.ID == me.Session.ID || v.Session.Agent != "browser" || v.Session.From != "192.0.2.1" {
		t.Fatalf("%+v, %v", v, err)
	}
	if list, err := b.Sessions(t.Context(), v); err != nil || len(list) != 1 || list[0].ID != v.Session.ID {
		t.Errorf("%+v, %v; that of %s should have ended", list, err, elsewhere.Session.ID)
	}
	if _, err := b.SignIn(t.Context(), SignIn{Address: ada, Password: right}); !errors.Is(err, ErrRefused) {
		t.Error(err)
	}
	if _, err := b.SignIn(t.Context(), SignIn{Address: ada, Password: next}); err != nil {
		t.Error(err)
	}
	actions, text := b.audits(t)
	if !slices.Contains(actions, "account.password") || !strings.Contains(text, "req_7") || strings.Contains(text, "argon2id") {
		t.Errorf("%v\n%s", actions, text)
	}
	// A stolen session is no way to guess the password.
	for range 5 {
		if _, err := b.ChangePassword(t.Context(), v, wrong, right); !errors.Is(err, ErrRefused) {
			t.Error(err)
		}
	}
	if _, err := b.ChangePassword(t.Context(), v, next, right); !errors.Is(err, ErrThrottled) {
		t.Error(err)
	}
	// Where the session fails the password is another all the same, and that is said.
	b.clock.Advance(time.Hour)
	v = func() *Visitor {
		opened, err := b.SignIn(t.Context(), SignIn{Address: ada, Password: next})
		if err != nil {
			t.Fatal(err)
		}
		v, err := b.Visitor(t.Context(), opened.Token)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}()
	b.store.fail("CreateSession", errDown)
	if opened, err := b.ChangePassword(t.Context(), v, next, right); err != nil || opened.Token != "" {
		t.Error(err)
	}
	b.store.set(nil)
	if _, err := b.SignIn(t.Context(), SignIn{Address: ada, Password: right}); err != nil {
		t.Error(err)
	}
}

// A change of a password meets changes by others: of the allowance it goes on, of the
// password it does not.
func TestChangePasswordRaces(t *testing.T) {
	b := newBench(t, nil)
	a := b.approved(t, ada, Grant{})
	v := b.visitor(t, ada)
	b.store.once("UpdateAccount", func() error {
		is, err := b.db.Account(t.Context(), a.ID)
		if err == nil {
			is.Allowance.Keys = 3
			err = b.db.UpdateAccount(t.Context(), is, storage.Audit{ID: "audit_x", At: b.now(), Actor: "x", Action: "x", Target: a.ID})
		}
		return err
	})
	opened, err := b.ChangePassword(t.Context(), v, right, wrong)
	if err != nil {
		t.Fatal(err)
	}
	if v, err = b.Visitor(t.Context(), opened.Token); err != nil || v.Account.Allowance.Keys != 3 {
		t.Fatalf("%v, %v", v, err)
	}
	b.store.once("UpdateAccount", func() error {
		is, err := b.db.Account(t.Context(), a.ID)
		if err == nil {
			err = b.db.RehashAccount(t.Context(), a.ID, is.Password, is.Password+"x")
		}
		return err
	})
	if _, err := b.ChangePassword(t.Context(), v, wrong, right); !errors.Is(err, ErrRefused) {
		t.Error(err)
	}
}

// What a value with a secret prints, logs or encodes as has no secret.
func TestRedacted(t *testing.T) {
	b := newBench(t, nil)
	b.approved(t, ada, Grant{})
	opened, err := b.SignIn(t.Context(), SignIn{Address: ada, Password: right})
	if err != nil {
		t.Fatal(err)
	}
	v, err := b.Visitor(t.Context(), opened.Token)
	if err != nil {
		t.Fatal(err)
	}
	link, err := b.KeyLink(t.Context(), auth.Spec{}, 0, op)
	if err != nil {
		t.Fatal(err)
	}
	for _, value := range []any{opened, &opened, SignIn{Password: right}, &SignIn{Password: right}, link, &link, v, *v, []any{v, link}} {
		b.deps.Logger.Info("value", "value", value)
		text := fmt.Sprintf("%v %+v %#v %s %q", value, value, value, value, value)
		for _, secret := range []string{opened.Token, right, link.Token, v.FormToken} {
			if strings.Contains(text, secret) || strings.Contains(b.log.String(), secret) {
				t.Errorf("%T shows a secret: %s", value, text)
			}
		}
	}
	if !slices.Contains(strings.Fields(fmt.Sprint(v)), v.Account.ID) {
		t.Errorf("%v", v)
	}
}
