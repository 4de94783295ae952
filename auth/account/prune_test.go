package account

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgw/llmgw/auth"
	"github.com/llmgw/llmgw/storage"
)

// What is over is forgotten, and what is not stays.
func TestPrune(t *testing.T) {
	b := newBench(t, nil)
	b.approved(t, ada, Grant{})
	if err := b.SignUp(t.Context(), "old@b", right, auth.By{}); err != nil {
		t.Fatal(err)
	}
	b.visitor(t, ada)
	if _, err := b.SignIn(t.Context(), SignIn{Address: "nobody@b", Password: wrong}); !errors.Is(err, ErrRefused) {
		t.Error(err)
	}
	link, err := b.KeyLink(t.Context(), auth.Spec{}, 0, op)
	if err != nil {
		t.Fatal(err)
	}
	b.clock.Advance(20 * 24 * time.Hour)
	if err := b.SignUp(t.Context(), "new@b", right, auth.By{}); err != nil {
		t.Fatal(err)
	}
	v := b.visitor(t, ada)
	b.prune(t.Context())
	if _, err := b.Link(t.Context(), link.Token); !errors.Is(err, ErrLinkUsed) {
		t.Errorf("a link that has ended is not known to have: %v", err)
	}
	b.clock.Advance(15 * 24 * time.Hour)
	b.prune(t.Context())
	list, _, err := b.List(t.Context(), storage.AccountQuery{})
	var left []string
	for _, l := range list {
		left = append(left, l.Address)
	}
	if err != nil || !slices.Equal(left, []string{ada, "new@b"}) {
		t.Errorf("%q, %v", left, err)
	}
	if list, err := b.Sessions(t.Context(), v); err != nil || len(list) != 0 {
		t.Errorf("%+v, %v", list, err)
	}
	if _, err := b.Link(t.Context(), link.Token); !errors.Is(err, ErrNoLink) {
		t.Error(err)
	}
	if err := b.SignUp(t.Context(), "old@b", right, auth.By{}); err != nil {
		t.Errorf("who was forgotten cannot sign up again: %v", err)
	}
}

// pruned is a store that only forgets.
type pruned struct {
	Store

	mu      sync.Mutex
	answers []prunedAnswer          // guarded by mu
	asked   []storage.StaleAccounts // guarded by mu
}

type prunedAnswer struct {
	more bool
	err  error
}

func (p *pruned) PruneAccounts(_ context.Context, s storage.StaleAccounts) (int, bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked = append(p.asked, s)
	if len(p.answers) == 0 {
		return 0, false, nil
	}
	a := p.answers[0]
	p.answers = p.answers[1:]
	return 1, a.more, a.err
}

// Run forgets until nothing is left, every ten minutes, goes on after a failure, and
// ends with its context.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &pruned{answers: []prunedAnswer{{more: true}, {more: true}, {}, {err: errDown}, {err: errors.New("damaged")}, {}}}
		issuer, err := auth.NewIssuer(auth.IssuerDeps{Keys: struct{ auth.KeyStore }{}})
		if err != nil {
			t.Fatal(err)
		}
		cfg := DefaultConfig()
		s, err := New(cfg, Deps{Store: p, Issuer: issuer})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- s.Run(ctx) }()
		for _, want := range []int{3, 4, 5, 6} {
			synctest.Wait()
			p.mu.Lock()
			if len(p.asked) != want {
				t.Errorf("asked %d times, want %d", len(p.asked), want)
			}
			p.mu.Unlock()
			time.Sleep(10 * time.Minute)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		first := p.asked[0]
		if now := first.Sessions; first.Most < 1 || !first.Idle.Equal(now.Add(-cfg.SessionIdle)) || !first.Pending.Equal(now.Add(-cfg.KeepPending)) ||
			!first.Links.Before(now) || !first.Attempts.Equal(now.Add(-cfg.Throttle.Forget)) {
			t.Errorf("%+v", first)
		}
	})
}
