package account

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/llmgw/llmgw/auth"
)

// What an operator or a person does with an account or a key counts for the very next
// request with the key, in the process that is told, however often it came before.
func TestRequestsFollow(t *testing.T) {
	b := newBench(t, nil)
	cfg := auth.DefaultConfig()
	cfg.CacheTTL, cfg.LookupTimeout = time.Hour, time.Minute // nothing is looked up anew by itself, and a busy machine is no fault
	a, err := auth.New(cfg, auth.Deps{Keys: b.db, Now: b.clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- a.Run(ctx) }()
	defer func() { cancel(); <-done }()
	issuer, err := auth.NewIssuer(auth.IssuerDeps{Keys: b.db, Bands: []string{"gold", "bronze"}, Models: models, Told: a, Now: b.clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	deps := b.deps
	deps.Issuer, deps.Told, deps.Registerer = issuer, a, nil
	if b.Service, err = New(b.cfg, deps); err != nil {
		t.Fatal(err)
	}
	b.approved(t, ada, gold)
	issued, err := b.CreateKey(t.Context(), b.visitor(t, ada), KeySpec{})
	if err != nil {
		t.Fatal(err)
	}
	ask := func(want error) *auth.Identity {
		t.Helper()
		var who *auth.Identity
		for range 3 {
			if who, err = a.Resolve(t.Context(), issued.Secret.Hash()); !errors.Is(err, want) {
				t.Fatalf("%v, want %v", err, want)
			}
		}
		return who
	}
	for range 2 {
		if who := ask(nil); who.Band() != "gold" || who.Lineage() != issued.Key.Account {
			t.Errorf("%v", who)
		}
		if _, err := b.Suspend(t.Context(), ada, op); err != nil {
			t.Fatal(err)
		}
		ask(auth.ErrUnknown)
		if _, err := b.Approve(t.Context(), ada, Grant{Band: new("bronze")}, op); err != nil {
			t.Fatal(err)
		}
		if who := ask(nil); who.Band() != "bronze" {
			t.Errorf("the band is %s", who.Band())
		}
		if _, err := b.Approve(t.Context(), ada, gold, op); err != nil {
			t.Fatal(err)
		}
	}
	ask(nil)
	if _, err := b.RevokeKey(t.Context(), b.visitor(t, ada), issued.Key.ID); err != nil {
		t.Fatal(err)
	}
	ask(auth.ErrUnknown)
	if _, err := b.Approve(t.Context(), ada, Grant{}, op); err != nil {
		t.Fatal(err)
	}
	ask(auth.ErrUnknown) // for good
}
