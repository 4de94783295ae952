package auth_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/llmgw/llmgw/auth"
	"github.com/llmgw/llmgw/storage"
)

// op is a step of a history.
type op struct {
	What string
	Key  int
	D    time.Duration
}

// account is what is true of one key.
type account struct {
	text    string
	known   bool      // this process has served it, and was not told to forget it
	revoked time.Time // in the store
	told    bool      // this process was told that it is revoked
	expires time.Time
}

// TestHistories plays random histories of stores that answer, are slow, refuse or
// stall, of keys that are revoked here and elsewhere, expire, are changed, and of
// time that passes, and holds every answer against what is true.
func TestHistories(t *testing.T) {
	const keys = 4
	step := rapid.Custom(func(t *rapid.T) op {
		return op{
			What: rapid.SampledFrom([]string{
				"ask", "ask", "ask", "ask", "ask in the background", "ask a stranger", "pass", "pass", "pass",
				"revoke here", "revoke elsewhere", "forget", "shorten", "up", "up", "down", "stall", "slow",
			}).Draw(t, "what"),
			Key: rapid.IntRange(0, keys-1).Draw(t, "key"),
			D: time.Duration(rapid.OneOf(rapid.IntRange(0, 400), rapid.IntRange(400, 5_000), rapid.IntRange(5_000, 90_000)).
				Draw(t, "ms")) * time.Millisecond,
		}
	})
	history := rapid.SliceOfN(step, 5, 60)
	rapid.Check(t, func(rt *rapid.T) {
		ops := history.Draw(rt, "history")
		var fault string
		synctest.Test(t, func(t *testing.T) { fault = play(t, ops, keys) })
		if fault != "" {
			rt.Fatal(fault)
		}
	})
}

// play plays a history and says what was wrong about it.
func play(t *testing.T, ops []op, keys int) (fault string) {
	const ttl = 30 * time.Second
	store := newStore()
	store.latency = time.Millisecond
	accounts := make([]*account, keys)
	for i := range accounts {
		accounts[i] = &account{text: store.add(t, storage.Key{ID: fmt.Sprint("key_", i)})}
	}
	other := stranger(t)
	a := newAuth(t, store, nil)
	stop := start(t, a)
	defer stop()
	healthy := time.Now() // since when the store has answered quickly
	ill := false

	check := func(i int) string {
		acc := accounts[i]
		began := time.Now()
		wasTold, wasKnown := acc.told, acc.known
		revokedAt, expires := acc.revoked, acc.expires
		id, err := a.Authenticate(request(acc.text))
		now := time.Now()
		status := 200
		if e, ok := errors.AsType[*auth.RefusedError](err); ok {
			status = e.Status()
		} else if err != nil || id == nil || id.KeyID() != fmt.Sprint("key_", i) {
			return fmt.Sprintf("key %d: %v, %v", i, id, err)
		}
		say := func(what string) string {
			return fmt.Sprintf("at %v key %d got %d: %s (%+v, ill %v, healthy since %v)", now, i, status, what, *acc, ill, healthy)
		}
		revoked := !revokedAt.IsZero() || acc.told
		expired := !expires.IsZero() && !began.Before(expires)
		ended := !expires.IsZero() && !now.Before(expires)
		// The store is taken to be there 4 s after it is: a look-up under way may
		// have to time out, and it is left alone for a while.
		there := !ill && began.Sub(healthy) > 4*time.Second
		switch {
		case status == 200 && wasTold:
			return say("it was revoked here")
		case status == 200 && expired:
			return say("it has expired")
		case status == 200 && !revokedAt.IsZero() && there && began.Sub(revokedAt) >= ttl && began.Sub(healthy) >= ttl:
			return say("it was revoked long ago")
		case status == 401 && !revoked && !ended:
			return say("it is valid")
		case status == 503 && wasKnown && !revoked && !ended:
			return say("it is known")
		case status == 503 && there:
			return say("the store is there")
		case status != 200 && there && !revoked && !ended:
			return say("it is valid and the store is there")
		case wasKnown && !revoked && now.Sub(began) > 250*time.Millisecond:
			return say(fmt.Sprint("it waited ", now.Sub(began)))
		case now.Sub(began) > 2*time.Second:
			return say(fmt.Sprint("it waited ", now.Sub(began)))
		}
		acc.known = status == 200 || acc.known && status != 401
		return ""
	}

	for _, o := range ops {
		acc, id := accounts[o.Key], fmt.Sprint("key_", o.Key)
		switch o.What {
		case "ask":
			fault = check(o.Key)
		case "ask in the background":
			go func() { _, _ = a.Authenticate(request(acc.text)) }()
		case "ask a stranger":
			if _, err := a.Authenticate(request(other)); err == nil || !ill && time.Since(healthy) > 4*time.Second && !errors.Is(err, auth.ErrUnknown) {
				fault = fmt.Sprintf("a stranger got %v", err)
			}
		case "pass":
			time.Sleep(o.D)
		case "revoke here", "revoke elsewhere":
			if acc.revoked.IsZero() {
				acc.revoked = time.Now()
				store.change(id, func(k *storage.Key) { k.RevokedAt = time.Now() })
			}
			if o.What == "revoke here" {
				a.Revoke(id)
				acc.told, acc.known = true, false
			}
		case "forget":
			a.Forget(id)
			acc.known = false
		case "shorten":
			if end := time.Now().Add(o.D); acc.expires.IsZero() {
				acc.expires = end
				store.change(id, func(k *storage.Key) { k.ExpiresAt = end })
				a.Forget(id)
				acc.known = false
			}
		case "up":
			if ill {
				ill, healthy = false, time.Now()
			}
			store.set(func(s *memStore) { s.fail, s.stall, s.latency = nil, false, time.Millisecond })
		case "down":
			ill = true
			store.set(func(s *memStore) { s.fail = errDown })
		case "stall":
			ill = true
			store.set(func(s *memStore) { s.stall = true })
		case "slow":
			ill = true
			store.set(func(s *memStore) { s.latency = o.D / 2 })
		}
		if fault != "" {
			return fault
		}
	}
	time.Sleep(5 * time.Second) // what asks in the background comes to its end
	return ""
}
