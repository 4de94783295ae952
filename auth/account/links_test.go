package account

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/llmgw/llmgw/auth"
	"github.com/llmgw/llmgw/storage"
)

func TestKeyLink(t *testing.T) {
	b := newBench(t, nil)
	spec := auth.Spec{Name: "for bob", Owner: "bob", Models: []string{"b/*", "z/*"}, Band: "gold", Expires: "90d", Budget: "1/day", Tags: map[string]string{"a": "b"}}
	link, err := b.KeyLink(t.Context(), spec, 0, op)
	if err != nil || len(link.Token) != 43 || !link.ExpiresAt.Equal(b.clock.Now().Add(72*time.Hour)) || len(link.Warnings) == 0 {
		t.Fatalf("%v, %q, %v", link, link.Warnings, err)
	}
	keys, _, err := b.db.ListKeys(t.Context(), storage.KeyQuery{})
	if err != nil || len(keys) != 0 {
		t.Errorf("there is a key before the link was opened: %+v, %v", keys, err)
	}
	// Looking at it uses nothing up.
	for range 3 {
		if i, err := b.Link(t.Context(), link.Token); err != nil || i.Kind != storage.LinkKey || !i.ExpiresAt.Equal(link.ExpiresAt) {
			t.Errorf("%+v, %v", i, err)
		}
	}
	if err := b.OpenResetLink(t.Context(), link.Token, right, auth.By{}); !errors.Is(err, ErrNoLink) {
		t.Errorf("it sets a password: %v", err)
	}
	b.clock.Advance(24 * time.Hour)
	issued, err := b.OpenKeyLink(t.Context(), link.Token, auth.By{RequestID: "req_9"})
	if err != nil {
		t.Fatal(err)
	}
	k, err := b.db.KeyByHash(t.Context(), issued.Secret.Hash())
	if err != nil || k.Name != "for bob" || k.Owner != "bob" || k.Account != "" || k.Lineage != k.ID || !k.ExpiresAt.Equal(b.clock.Now().Add(90*24*time.Hour)) ||
		k.Tags["a"] != "b" || len(issued.Warnings) != 0 {
		t.Errorf("%+v, %v, %q", k, err, issued.Warnings)
	}
	for range 2 {
		if again, err := b.OpenKeyLink(t.Context(), link.Token, auth.By{}); !errors.Is(err, ErrLinkUsed) || again.Secret.Reveal() != "" {
			t.Errorf("a second time: %v", err)
		}
	}
	if _, err := b.Link(t.Context(), link.Token); !errors.Is(err, ErrLinkUsed) {
		t.Error(err)
	}
	actions, text := b.audits(t)
	if !slices.Equal(actions, []string{"key.create", "link.create"}) || !strings.Contains(text, "Actor:link:"+link.ID) || !strings.Contains(text, "req_9") ||
		strings.Contains(text, link.Token) || strings.Contains(text, issued.Secret.Reveal()) {
		t.Errorf("%v\n%s", actions, text)
	}
}

// Of many who open a link at once one gets a key.
func TestKeyLinkParallel(t *testing.T) {
	b := newBench(t, nil)
	link, err := b.KeyLink(t.Context(), auth.Spec{}, time.Hour, op)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	made := 0
	for range 20 {
		wg.Go(func() {
			_, err := b.OpenKeyLink(t.Context(), link.Token, auth.By{})
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				made++
			} else if !errors.Is(err, ErrLinkUsed) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	keys, _, err := b.db.ListKeys(t.Context(), storage.KeyQuery{})
	if made != 1 || len(keys) != 1 || err != nil {
		t.Errorf("%d were given a key of %d, %v", made, len(keys), err)
	}
}

func TestKeyLinkRefused(t *testing.T) {
	b := newBench(t, nil)
	for name, test := range map[string]struct {
		spec auth.Spec
		life time.Duration
		want string
	}{
		"models":    {auth.Spec{Models: []string{"nothing"}}, 0, "no model"},
		"band":      {auth.Spec{Band: "lead"}, 0, "band"},
		"too short": {auth.Spec{}, time.Minute, "want 10m"},
		"too long":  {auth.Spec{}, 1000 * time.Hour, "want 10m"},
	} {
		if _, err := b.KeyLink(t.Context(), test.spec, test.life, op); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	stranger, _ := b.newToken()
	for _, token := range []string{"", "x", stranger, strings.Repeat("x", 1<<20)} {
		_, err1 := b.Link(t.Context(), token)
		_, err2 := b.OpenKeyLink(t.Context(), token, auth.By{})
		err3 := b.OpenResetLink(t.Context(), token, right, auth.By{})
		if !errors.Is(err1, ErrNoLink) || !errors.Is(err2, ErrNoLink) || !errors.Is(err3, ErrNoLink) {
			t.Errorf("%.50q: %v, %v, %v", token, err1, err2, err3)
		}
	}
}

// A link that has ended, was taken back, or whose key cannot be any more makes none.
func TestKeyLinkEnds(t *testing.T) {
	b := newBench(t, nil)
	expired, err := b.KeyLink(t.Context(), auth.Spec{}, time.Hour, op)
	if err != nil {
		t.Fatal(err)
	}
	taken, err := b.KeyLink(t.Context(), auth.Spec{}, 0, op)
	if err != nil {
		t.Fatal(err)
	}
	late, err := b.KeyLink(t.Context(), auth.Spec{Expires: b.clock.Now().Add(30 * time.Minute).Format(time.RFC3339)}, 0, op)
	if err != nil || !slices.ContainsFunc(late.Warnings, func(w string) bool { return strings.Contains(w, "ends before the link") }) {
		t.Fatal(late.Warnings, err)
	}
	gone, err := b.KeyLink(t.Context(), auth.Spec{Models: []string{"soon-gone"}, AllowUnknownModels: true}, 0, op)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if l, err := b.RevokeLink(t.Context(), taken.ID, op); err != nil || l.UsedAt.IsZero() || l.Key != "" || l.Hash != (storage.TokenHash{}) {
			t.Errorf("%+v, %v", l, err)
		}
	}
	if _, err := b.RevokeLink(t.Context(), "link_none", op); !errors.Is(err, storage.ErrNotFound) {
		t.Error(err)
	}
	b.clock.Advance(time.Hour)
	for token, want := range map[string]error{expired.Token: ErrLinkUsed, taken.Token: ErrLinkUsed, late.Token: ErrInvalid, gone.Token: nil} {
		if _, err := b.OpenKeyLink(t.Context(), token, auth.By{}); !errors.Is(err, want) {
			t.Errorf("%v, want %v", err, want)
		}
	}
	if _, err := b.Link(t.Context(), late.Token); err != nil {
		t.Errorf("a link whose key cannot be was used up: %v", err)
	}
	l, err := b.RevokeLink(t.Context(), gone.ID, op)
	if err != nil || l.Key == "" {
		t.Errorf("a link that was opened does not tell its key: %+v, %v", l, err)
	}
}

// An answer of the store that is lost loses no key: it is looked up whether the link
// made it. Where that is not known nothing is shown.
func TestKeyLinkLostAnswer(t *testing.T) {
	b := newBench(t, nil)
	link, err := b.KeyLink(t.Context(), auth.Spec{}, 0, op)
	if err != nil {
		t.Fatal(err)
	}
	b.store.fail("RedeemKeyLink", errDown)
	if _, err := b.OpenKeyLink(t.Context(), link.Token, auth.By{}); !errors.Is(err, storage.ErrUnavailable) {
		t.Error(err)
	}
	b.store.fail("RedeemKeyLink done", errDown)
	issued, err := b.OpenKeyLink(t.Context(), link.Token, auth.By{})
	if err != nil {
		t.Fatal(err)
	}
	if k, err := b.db.KeyByHash(t.Context(), issued.Secret.Hash()); err != nil || k.ID != issued.Key.ID {
		t.Errorf("%+v, %v", k, err)
	}
	link, err = b.KeyLink(t.Context(), auth.Spec{}, 0, op)
	if err != nil {
		t.Fatal(err)
	}
	links := 0
	b.store.set(func(op string) error {
		if op == "Link" {
			links++
		}
		if op == "RedeemKeyLink done" || links > 1 {
			return errDown
		}
		return nil
	})
	if issued, err := b.OpenKeyLink(t.Context(), link.Token, auth.By{}); !errors.Is(err, storage.ErrUnavailable) || issued.Secret.Reveal() != "" {
		t.Error(err)
	}
}

func TestReset(t *testing.T) {
	b := newBench(t, nil)
	a := b.approved(t, ada, Grant{})
	v := b.visitor(t, ada)
	if _, err := b.Reset(t.Context(), "nobody@example.org", op); !errors.Is(err, storage.ErrNotFound) {
		t.Error(err)
	}
	first, err1 := b.Reset(t.Context(), ada, op)
	second, err2 := b.Reset(t.Context(), ada, op)
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	if i, err := b.Link(t.Context(), first.Token); err != nil || i.Kind != storage.LinkReset {
		t.Errorf("%+v, %v", i, err)
	}
	if _, err := b.OpenKeyLink(t.Context(), first.Token, auth.By{}); !errors.Is(err, ErrNoLink) {
		t.Errorf("it makes a key: %v", err)
	}
	if err := b.OpenResetLink(t.Context(), first.Token, "short", auth.By{}); !errors.Is(err, ErrInvalid) {
		t.Error(err)
	}
	// Nothing has changed yet.
	if list, err := b.Sessions(t.Context(), v); err != nil || len(list) != 1 {
		t.Errorf("%+v, %v", list, err)
	}
	for range 5 { // somebody guesses meanwhile
		if _, err := b.SignIn(t.Context(), SignIn{Address: ada, Password: wrong}); !errors.Is(err, ErrRefused) {
			t.Error(err)
		}
	}
	const next = "another long password"
	if err := b.OpenResetLink(t.Context(), first.Token, next, auth.By{}); err != nil {
		t.Fatal(err)
	}
	if list, err := b.Sessions(t.Context(), v); err != nil || len(list) != 0 {
		t.Errorf("sessions that were there go on, or one was opened: %+v, %v", list, err)
	}
	for _, token := range []string{first.Token, second.Token} {
		if err := b.OpenResetLink(t.Context(), token, right, auth.By{}); !errors.Is(err, ErrLinkUsed) {
			t.Error(err)
		}
	}
	if _, err := b.SignIn(t.Context(), SignIn{Address: ada, Password: next}); err != nil {
		t.Errorf("with the new password: %v", err)
	}
	actions, text := b.audits(t)
	if !slices.Contains(actions, "account.password") || !strings.Contains(text, "Target:"+a.ID) || strings.Contains(text, first.Token) || strings.Contains(text, next) {
		t.Errorf("%v\n%s", actions, text)
	}
}
