package auth_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/llmgw/llmgw/auth"
	"github.com/llmgw/llmgw/storage"
)

var errDown = fmt.Errorf("dial: %w", storage.ErrUnavailable)

// try authenticates a key and checks the outcome.
func try(t testing.TB, a *auth.Authenticator, key string, want error) *auth.Identity {
	t.Helper()
	id, err := a.Authenticate(request(key))
	checkAnswer(t, id, err, want)
	return id
}

// timed is try with a bound on how long it takes.
func timed(t testing.TB, a *auth.Authenticator, key string, want error, most time.Duration) {
	t.Helper()
	began := time.Now()
	try(t, a, key, want)
	if d := time.Since(began); d > most {
		t.Errorf("it took %v, want at most %v", d, most)
	}
}

func TestNewRefuses(t *testing.T) {
	for name, change := range map[string]func(*auth.Config, *auth.Deps){
		"cache_ttl":        func(c *auth.Config, _ *auth.Deps) { c.CacheTTL = 0 },
		"lookup_timeout":   func(c *auth.Config, _ *auth.Deps) { c.LookupTimeout = time.Hour },
		"max_known_keys":   func(c *auth.Config, _ *auth.Deps) { c.MaxKnownKeys = 0 },
		"max_refused_keys": func(c *auth.Config, _ *auth.Deps) { c.MaxRefusedKeys = -1 },
		"enabled is false": func(c *auth.Config, _ *auth.Deps) { c.Enabled = false },
		"Deps.Keys":        func(_ *auth.Config, d *auth.Deps) { d.Keys = nil },
	} {
		cfg, deps := auth.DefaultConfig(), auth.Deps{Keys: newStore()}
		change(&cfg, &deps)
		if _, err := auth.New(cfg, deps); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := (auth.Config{}).Validate(); err == nil {
		t.Error("the zero configuration is valid")
	}
	reg := prometheus.NewRegistry()
	for want := range 2 { // the second of one registry is an error, not a panic
		_, err := auth.New(auth.DefaultConfig(), auth.Deps{Keys: newStore(), Registerer: reg})
		if (err != nil) != (want == 1) {
			t.Errorf("New number %d: %v", want, err)
		}
	}
}

// A key in use is looked up in the background, and its requests never wait.
func TestKnownKeysDoNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore()
		key := store.add(t, storage.Key{ID: "key_1", Name: "a"})
		store.latency = 200 * time.Millisecond
		a := newAuth(t, store, nil)
		start(t, a)
		timed(t, a, key, nil, 200*time.Millisecond)
		for range 1000 { // 1000 s, one request each
			time.Sleep(time.Second)
			timed(t, a, key, nil, 0)
		}
		if n := store.readCount(); n < 1000/30 || n > 1000/15+1 {
			t.Errorf("%d reads in 1000 s, want one for each 15 s at most", n)
		}
		store.change("key_1", func(k *storage.Key) { k.Name = "b" })
		time.Sleep(15 * time.Second)
		try(t, a, key, nil)
		synctest.Wait()
		time.Sleep(time.Second)
		if id := try(t, a, key, nil); id.Name() != "b" {
			t.Errorf("it is %s; a change was not noticed", id.Name())
		}
	})
}

// A thousand requests with a bad key are one read, at once or one after the
// other; a malformed one is none.
func TestRefusalsAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore()
		store.latency = time.Millisecond
		a := newAuth(t, store, nil)
		start(t, a)
		bad := stranger(t)
		var wg sync.WaitGroup
		for range 500 {
			wg.Go(func() { try(t, a, bad, auth.ErrUnknown) })
		}
		wg.Wait()
		for range 500 {
			try(t, a, bad, auth.ErrUnknown)
			try(t, a, bad[:54]+"~", auth.ErrMalformed)
		}
		if n := store.readCount(); n != 1 {
			t.Errorf("%d reads, want 1", n)
		}
		time.Sleep(30 * time.Second)
		try(t, a, bad, auth.ErrUnknown)
		if n := store.readCount(); n != 2 {
			t.Errorf("%d reads after cache_ttl, want 2", n)
		}
	})
}

// What a client sees is the same for keys that were never made, have expired or
// were revoked. The operator sees which.
func TestUnknownExpiredRevokedLookAlike(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore()
		now := time.Now()
		keys := map[auth.Reason]string{
			auth.ReasonUnknown:   stranger(t),
			auth.ReasonExpired:   store.add(t, storage.Key{ID: "key_e", ExpiresAt: now}),
			auth.ReasonRevoked:   store.add(t, storage.Key{ID: "key_r", RevokedAt: now}),
			auth.ReasonSuspended: store.add(t, storage.Key{ID: "key_s", Account: "acc_1", Suspended: true}),
		}
		a := newAuth(t, store, nil)
		start(t, a)
		var first *auth.RefusedError
		for range 2 { // from the store, and from memory
			for reason, key := range keys {
				_, err := a.Authenticate(request(key))
				e, ok := errors.AsType[*auth.RefusedError](err)
				if !ok || !errors.Is(err, auth.ErrUnknown) || e.Reason != reason {
					t.Fatalf("%v: %v", reason, err)
				}
				if first == nil {
					first = e
				}
				if e.Status() != 401 || e.Message() != first.Message() || e.Error() != first.Error() || e.RetryAfter() != 0 {
					t.Errorf("%v: %d %q %q", reason, e.Status(), e.Message(), e.Error())
				}
			}
		}
		if n := store.readCount(); n != 4 {
			t.Errorf("%d reads, want 4", n)
		}
	})
}

// A key whose account was suspended opens nothing once that is told, without its
// revision being another, and again once the account is approved.
func TestSuspended(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore()
		key := store.add(t, storage.Key{ID: "key_1", Account: "acc_1"})
		a := newAuth(t, store, nil)
		start(t, a)
		suspend := func(to bool) {
			store.set(func(s *memStore) {
				k := s.keys["key_1"]
				k.Suspended = to
				s.keys["key_1"] = k
			})
		}
		for range 3 {
			try(t, a, key, nil)
			suspend(true)
			a.Forget("key_1")
			try(t, a, key, auth.ErrUnknown)
			suspend(false)
			a.Forget("key_1")
		}
		try(t, a, key, nil)
		suspend(true) // by another process, which tells nobody
		time.Sleep(30 * time.Second)
		try(t, a, key, auth.ErrUnknown)
		suspend(false)
		time.Sleep(30 * time.Second)
		try(t, a, key, nil)
	})
}

// A revocation elsewhere counts within cache_ttl, for a key in use and for one
// that was idle.
func TestRevokedElsewhere(t *testing.T) {
	for _, pause := range []time.Duration{time.Second, 29 * time.Second, 45 * time.Second, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			store := newStore()
			key := store.add(t, storage.Key{ID: "key_1"})
			a := newAuth(t, store, nil)
			start(t, a)
			try(t, a, key, nil)
			store.change("key_1", func(k *storage.Key) { k.RevokedAt = time.Now() })
			for spent := time.Duration(0); spent < 30*time.Second; spent += pause {
				time.Sleep(pause)
				synctest.Wait()
				if spent+pause < 30*time.Second {
					_, _ = a.Authenticate(request(key)) // either is right as yet
				}
			}
			try(t, a, key, auth.ErrUnknown)
		})
	}
}

// Five minutes without the store: known keys are served, all but those that end
// by their own date or were revoked here; unknown ones are 503 and soon told so;
// what comes back is noticed.
func TestStoreAway(t *testing.T) {
	for name, fault := range map[string]func(*memStore, bool){
		"refuses": func(s *memStore, on bool) { s.fail = map[bool]error{true: errDown}[on] },
		"stalls":  func(s *memStore, on bool) { s.stall = on },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newStore()
				now := time.Now()
				keys := []string{
					store.add(t, storage.Key{ID: "key_1"}),
					store.add(t, storage.Key{ID: "key_2", ExpiresAt: now.Add(2 * time.Minute)}),
					store.add(t, storage.Key{ID: "key_3"}),
				}
				fresh := store.add(t, storage.Key{ID: "key_4"})
				idle := store.add(t, storage.Key{ID: "key_5"})
				bad := stranger(t)
				a := newAuth(t, store, nil)
				start(t, a)
				for _, k := range append(keys, idle) {
					try(t, a, k, nil)
				}
				try(t, a, bad, auth.ErrUnknown)
				store.set(func(s *memStore) { fault(s, true); s.reads = 0 })
				a.Revoke("key_3")
				for began := time.Now(); time.Since(began) < 5*time.Minute; time.Sleep(time.Second) {
					timed(t, a, keys[0], nil, 250*time.Millisecond)
					if time.Since(now) >= 2*time.Minute {
						timed(t, a, keys[1], auth.ErrUnknown, 250*time.Millisecond)
					}
					if time.Since(now) < 30*time.Second {
						try(t, a, keys[2], auth.ErrUnknown)
						try(t, a, bad, auth.ErrUnknown)
					} else {
						// Their 401 is too old to be repeated.
						timed(t, a, keys[2], auth.ErrUnavailable, 2*time.Second)
						timed(t, a, bad, auth.ErrUnavailable, 2*time.Second)
					}
					timed(t, a, fresh, auth.ErrUnavailable, 2*time.Second)
				}
				timed(t, a, idle, nil, 250*time.Millisecond)
				if n := store.readCount(); n > 400 {
					t.Errorf("%d reads of a store that is away", n)
				}
				store.set(func(s *memStore) { fault(s, false) })
				time.Sleep(4 * time.Second) // until the next look-up may try it
				_, _ = a.Authenticate(request(fresh))
				time.Sleep(time.Second)
				try(t, a, fresh, nil)
				try(t, a, keys[0], nil)
				try(t, a, bad, auth.ErrUnknown)
			})
		})
	}
}

// Before the store is there every key is unknown, and none is refused for good.
func TestStartWithoutStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore()
		key := store.add(t, storage.Key{ID: "key_1"})
		store.fail = errDown
		a := newAuth(t, store, nil)
		timed(t, a, key, auth.ErrUnavailable, 2*time.Second) // Run has not begun
		start(t, a)
		for range 10 {
			try(t, a, key, auth.ErrUnavailable)
			time.Sleep(time.Second)
		}
		store.set(func(s *memStore) { s.fail = nil })
		time.Sleep(time.Second)
		try(t, a, key, nil)
	})
}

// One record that cannot be read is no reason to leave the store alone.
func TestBrokenRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore()
		good := store.add(t, storage.Key{ID: "key_1"})
		broken := store.add(t, storage.Key{ID: ""}) // no record of ours has no ID
		a := newAuth(t, store, nil)
		start(t, a)
		for range 3 {
			try(t, a, broken, auth.ErrUnavailable)
		}
		try(t, a, good, nil)
		try(t, a, stranger(t), auth.ErrUnknown)

		// Nor does a known key's that cannot be read any more cost a read for each
		// request, or the key its life.
		store.change("key_1", func(k *storage.Key) { k.Hash = storage.KeyHash{} })
		time.Sleep(time.Minute)
		store.set(func(s *memStore) { s.reads = 0 })
		for range 100 {
			try(t, a, good, nil)
			time.Sleep(20 * time.Millisecond)
		}
		if n := store.readCount(); n > 3 {
			t.Errorf("%d reads in 2 s", n)
		}
	})
}

// A look-up that began before a revocation, or a change, does not bring the old
// key back.
func TestChangedWhileLookedUp(t *testing.T) {
	for _, known := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			store := newStore()
			revoked := store.add(t, storage.Key{ID: "key_r"})
			changed := store.add(t, storage.Key{ID: "key_c", Name: "old"})
			a := newAuth(t, store, nil)
			start(t, a)
			if known {
				try(t, a, revoked, nil)
				try(t, a, changed, nil)
				time.Sleep(time.Minute) // so that they have to be looked up again
			}
			store.set(func(s *memStore) { s.latency = 100 * time.Millisecond })
			var wg sync.WaitGroup
			wg.Go(func() { _, _ = a.Authenticate(request(revoked)) })
			wg.Go(func() {
				if id, err := a.Authenticate(request(changed)); err != nil || id.Name() != "new" {
					t.Errorf("who waited got %v, %v", id, err)
				}
			})
			time.Sleep(50 * time.Millisecond) // the store has been asked and has not answered
			store.change("key_r", func(k *storage.Key) { k.RevokedAt = time.Now() })
			store.change("key_c", func(k *storage.Key) { k.Name = "new" })
			a.Revoke("key_r")
			a.Forget("key_c")
			try(t, a, revoked, auth.ErrUnknown)
			if id := try(t, a, changed, nil); id.Name() != "new" {
				t.Errorf("it is %s", id.Name())
			}
			wg.Wait()
			for range 10 {
				time.Sleep(20 * time.Second)
				try(t, a, revoked, auth.ErrUnknown)
				if id := try(t, a, changed, nil); id.Name() != "new" {
					t.Errorf("later it is %s", id.Name())
				}
			}
		})
	}
}

// What was revoked here stays so, though the store says otherwise.
func TestRevocationHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore()
		key := store.add(t, storage.Key{ID: "key_1"})
		a := newAuth(t, store, nil)
		start(t, a)
		a.Revoke("key_1") // before anybody asked
		try(t, a, key, auth.ErrUnknown)
		a.Forget("key_1")
		time.Sleep(time.Hour)
		try(t, a, key, auth.ErrUnknown)
	})
}

// A key of which the end was put off opens again once it was forgotten.
func TestForgetRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore()
		key := store.add(t, storage.Key{ID: "key_1", ExpiresAt: time.Now()})
		a := newAuth(t, store, nil)
		start(t, a)
		try(t, a, key, auth.ErrUnknown)
		store.change("key_1", func(k *storage.Key) { k.ExpiresAt = time.Time{} })
		try(t, a, key, auth.ErrUnknown)
		a.Forget("key_1")
		try(t, a, key, nil)
	})
}

// A flood of keys that were made up with care costs bounded memory and bounded
// reads, and known keys notice nothing: neither their requests, nor that one is
// revoked.
func TestFloodOfUnknownKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore()
		key := store.add(t, storage.Key{ID: "key_1"})
		revoked := store.add(t, storage.Key{ID: "key_2"})
		reg := prometheus.NewRegistry()
		a := newAuth(t, store, func(c *auth.Config, d *auth.Deps) {
			c.MaxRefusedKeys, c.CacheTTL, d.Registerer = 20, 2*time.Second, reg
		})
		start(t, a)
		try(t, a, key, nil)
		try(t, a, revoked, nil)
		// 600 a second come, of which 20 can be looked up: after two seconds no more
		// may wait.
		store.set(func(s *memStore) { s.latency = 200 * time.Millisecond })
		var wg sync.WaitGroup
		for step := range 100 { // 5 s
			if step == 40 {
				store.change("key_2", func(k *storage.Key) { k.RevokedAt = time.Now() })
			}
			for range 30 {
				bad := stranger(t)
				wg.Go(func() { _, _ = a.Authenticate(request(bad)) })
			}
			time.Sleep(50 * time.Millisecond)
			timed(t, a, key, nil, 0)
			// Once its revocation is known it may be one of many that wait.
			wg.Go(func() { _, _ = a.Authenticate(request(revoked)) })
		}
		timed(t, a, key, nil, 0)
		if _, err := a.Authenticate(request(revoked)); err == nil {
			t.Error("a revoked key is served on because others flood the store")
		}
		wg.Wait()
		if n := store.readCount(); n > 8*5*8 {
			t.Errorf("%d reads in 7 s", n)
		}
		m := gather(t, reg)
		if m["llmgw_auth_held_keys{refused}"] != 20 || m["llmgw_auth_held_keys{known}"] != 1 {
			t.Errorf("held: %v", m)
		}
		if m["llmgw_auth_evictions_total{known}"] != 0 || m["llmgw_auth_evictions_total{refused}"] == 0 {
			t.Errorf("evicted: %v", m)
		}
	})
}

// More unknown keys at once than may wait are told to come again.
func TestLookupQueueIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore()
		store.latency = time.Second
		reg := prometheus.NewRegistry()
		a := newAuth(t, store, func(_ *auth.Config, d *auth.Deps) { d.Registerer = reg })
		start(t, a)
		var wg sync.WaitGroup
		for range 1500 {
			bad := stranger(t)
			wg.Go(func() { _, _ = a.Authenticate(request(bad)) })
		}
		wg.Wait()
		m := gather(t, reg)
		if full := m["llmgw_auth_lookup_queue_full_total{}"]; full < 400 || m["llmgw_auth_requests_total{busy}"] != full {
			t.Errorf("%v were too many: %v", full, m)
		}
	})
}

// Of more keys than are held those in use stay.
func TestKnownKeysAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore()
		reg := prometheus.NewRegistry()
		a := newAuth(t, store, func(c *auth.Config, d *auth.Deps) { c.MaxKnownKeys, d.Registerer = 8, reg })
		start(t, a)
		used := store.add(t, storage.Key{ID: "used"})
		try(t, a, used, nil)
		for i := range 100 {
			try(t, a, store.add(t, storage.Key{ID: fmt.Sprint("key_", i)}), nil)
			reads := store.readCount()
			try(t, a, used, nil)
			if store.readCount() != reads {
				t.Fatalf("a key in use was put out after %d others", i)
			}
		}
		if m := gather(t, reg); m["llmgw_auth_held_keys{known}"] != 8 || m["llmgw_auth_evictions_total{known}"] != 93 {
			t.Errorf("held: %v", m)
		}
	})
}

// A store that takes no notice of its deadline holds up no request for longer
// than lookup_timeout, and no known key for longer than a moment.
func TestDeafStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore()
		key := store.add(t, storage.Key{ID: "key_1"})
		a := newAuth(t, store, nil)
		start(t, a)
		try(t, a, key, nil)
		time.Sleep(time.Minute)
		deaf := make(chan struct{})
		store.set(func(s *memStore) { s.deaf = deaf })
		for range 100 {
			timed(t, a, key, nil, 250*time.Millisecond)
			timed(t, a, key, nil, 0) // one wait in a second is enough
			timed(t, a, stranger(t), auth.ErrUnavailable, 2*time.Second)
		}
		close(deaf)
	})
}

// Who leaves does not wait, and does not spoil the look-up for others.
func TestClientLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore()
		key := store.add(t, storage.Key{ID: "key_1"})
		store.latency = time.Second
		a := newAuth(t, store, nil)
		start(t, a)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(100*time.Millisecond, cancel)
		began := time.Now()
		var wg sync.WaitGroup
		wg.Go(func() { time.Sleep(50 * time.Millisecond); try(t, a, key, nil) })
		_, err := a.Authenticate(request(key).WithContext(ctx))
		if e, ok := errors.AsType[*auth.RefusedError](err); !ok || e.Reason != auth.ReasonCanceled || !errors.Is(err, context.Canceled) ||
			time.Since(began) != 100*time.Millisecond {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		wg.Wait()
		if n := store.readCount(); n != 1 {
			t.Errorf("%d reads, want 1", n)
		}
	})
}

// After Run known keys are served on, and nobody waits in vain.
func TestAfterRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore()
		key := store.add(t, storage.Key{ID: "key_1"})
		store.latency = time.Hour
		a := newAuth(t, store, nil)
		stop := start(t, a)
		var wg sync.WaitGroup
		wg.Go(func() { timed(t, a, stranger(t), auth.ErrUnavailable, time.Second) })
		time.Sleep(time.Second)
		stop()
		wg.Wait()
		timed(t, a, key, auth.ErrUnavailable, 0)

		store.set(func(s *memStore) { s.latency = 0 })
		b := newAuth(t, store, nil)
		stop = start(t, b)
		try(t, b, key, nil)
		stop()
		time.Sleep(time.Hour)
		timed(t, b, key, nil, 0)
	})
}

// Requests, revocations, changes and evictions at once: what was revoked before a
// request came does not open, and what was not does.
func TestConcurrent(t *testing.T) {
	const keys, callers, rounds = 16, 8, 150
	store := newStore()
	a := newAuth(t, store, func(c *auth.Config, _ *auth.Deps) {
		c.MaxKnownKeys, c.MaxRefusedKeys, c.LookupTimeout = keys/2, 4, time.Minute
	})
	start(t, a)
	texts := make([]string, keys)
	revoked := make([]atomic.Bool, keys)
	for i := range texts {
		texts[i] = store.add(t, storage.Key{ID: fmt.Sprint("key_", i)})
	}
	var wg sync.WaitGroup
	for c := range callers {
		wg.Go(func() {
			for n := range rounds {
				i := (n*7 + c) % keys
				was := revoked[i].Load()
				id, err := a.Authenticate(request(texts[i]))
				if err == nil && (was || id.KeyID() != fmt.Sprint("key_", i)) {
					t.Errorf("key %d opened as %s, revoked before: %v", i, id.KeyID(), was)
				}
				if err != nil && !(errors.Is(err, auth.ErrUnknown) && i%2 == 0) {
					t.Errorf("key %d: %v", i, err)
				}
				_ = id.MayUse(catalog().version(uint64(n)), "coder")
			}
		})
	}
	wg.Go(func() {
		for n := range rounds {
			a.Forget(fmt.Sprint("key_", n%keys))
		}
	})
	wg.Go(func() {
		for i := 0; i < keys; i += 2 {
			id := fmt.Sprint("key_", i)
			store.change(id, func(k *storage.Key) { k.RevokedAt = time.Now() })
			a.Revoke(id)
			revoked[i].Store(true)
			try(t, a, texts[i], auth.ErrUnknown)
		}
	})
	wg.Wait()
}

// A store that is exchanged for another one, in which a key has another ID, is
// followed, and the ID is what a revocation goes by.
func TestStoreIsExchanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore()
		key := store.add(t, storage.Key{ID: "key_1"})
		a := newAuth(t, store, nil)
		start(t, a)
		try(t, a, key, nil)
		store.set(func(s *memStore) {
			k := s.keys["key_1"]
			k.ID = "key_2"
			s.keys["key_2"], s.byHash[k.Hash] = k, "key_2"
		})
		time.Sleep(time.Minute)
		if id := try(t, a, key, nil); id.KeyID() != "key_2" {
			t.Errorf("it is %s", id.KeyID())
		}
		a.Revoke("key_2")
		try(t, a, key, auth.ErrUnknown)
	})
}

// By hash, as those ask who have a key in hand.
// What is held in memory can be asked for by its ID, also while the store is away.
func TestKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore()
		key := store.add(t, storage.Key{ID: "key_1", Name: "a"})
		a := newAuth(t, store, nil)
		start(t, a)
		if _, _, ok := a.Known("key_1"); ok {
			t.Error("nobody has used it yet")
		}
		began := time.Now()
		try(t, a, key, nil)
		store.set(func(s *memStore) { s.fail = errDown })
		time.Sleep(10 * time.Minute)
		reads := store.readCount()
		id, asked, ok := a.Known("key_1")
		if !ok || id.Name() != "a" || !asked.Equal(began) || store.readCount() != reads {
			t.Errorf("%v, asked at %v, %v; want as of %v", id, asked, ok, began)
		}
		a.Revoke("key_1")
		if _, _, ok := a.Known("key_1"); ok {
			t.Error("it was revoked here")
		}
	})
}

func TestResolve(t *testing.T) {
	store := newStore()
	key := store.add(t, storage.Key{ID: "key_1"})
	a := newAuth(t, store, patient)
	start(t, a)
	h, err := auth.ParseKey(key)
	if err != nil {
		t.Fatal(err)
	}
	id, err := a.Resolve(t.Context(), h)
	checkAnswer(t, id, err, nil)
	id, err = a.Resolve(t.Context(), storage.KeyHash{1})
	checkAnswer(t, id, err, auth.ErrUnknown)
}

// Wall clocks may jump: what is known is known, and only the dates of keys go by
// the wall.
func TestClockJumps(t *testing.T) {
	store := newStore()
	wall := time.Date(2026, 10, 25, 0, 0, 0, 0, time.UTC)
	key := store.add(t, storage.Key{ID: "key_1", ExpiresAt: wall.Add(time.Hour)})
	var mu sync.Mutex
	a := newAuth(t, store, func(c *auth.Config, d *auth.Deps) {
		c.LookupTimeout = time.Minute
		d.Now = func() time.Time { mu.Lock(); defer mu.Unlock(); return wall }
	})
	start(t, a)
	set := func(at time.Time) { mu.Lock(); defer mu.Unlock(); wall = at }
	began := wall
	try(t, a, key, nil)
	set(began.Add(-24 * time.Hour))
	try(t, a, key, nil)
	set(began.Add(2 * time.Hour))
	try(t, a, key, auth.ErrUnknown)
	set(began)
	try(t, a, stranger(t), auth.ErrUnknown)
}

func gather(t testing.TB, reg *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetValue())
			}
			out[f.GetName()+"{"+strings.Join(labels, ",")+"}"] = m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	return out
}
