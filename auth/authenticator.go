package auth

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/llmgw/llmgw/storage"
)

// KeySource is what an Authenticator asks for keys.
type KeySource interface {
	// KeyByHash returns the key with that hash, revoked and expired ones too. It
	// returns storage.ErrNotFound if there is none, which is an answer, and
	// storage.ErrUnavailable if it cannot say. It may block until ctx is done and
	// is called concurrently, eight times at most. The key's slices and maps are
	// the caller's own.
	KeyByHash(ctx context.Context, h storage.KeyHash) (storage.Key, error)
}

// Deps are the authenticator's collaborators.
type Deps struct {
	Keys       KeySource             // required
	Now        func() time.Time      // nil is time.Now
	Logger     *slog.Logger          // nil discards
	Registerer prometheus.Registerer // nil leaves metrics unregistered
}

// Authenticator turns keys into identities. Its methods may be called
// concurrently.
type Authenticator struct {
	cfg     Config
	keys    KeySource
	now     func() time.Time
	log     *slog.Logger
	base    time.Time // times are kept since then, so that wall clocks may jump
	metrics metrics
	notices notices

	known  *known
	asks   chan *flight // for requests whose key nobody knows
	checks chan *flight // of known keys; a flood of unknown ones does not hold them up
	// away is 0 while the store answers, else the time, since base, of the next
	// try. Written under mu.
	away atomic.Int64

	mu        sync.Mutex                        // comes before a shard's
	flights   map[storage.KeyHash]*flight       // guarded by mu
	refused   *recent[storage.KeyHash, refusal] // guarded by mu
	revoked   *recent[string, struct{}]         // IDs, as this process was told; guarded by mu
	forgotten *recent[string, uint64]           // IDs, with their epoch; guarded by mu
	epoch     uint64                            // counts what was forgotten; guarded by mu
	stopped   bool                              // guarded by mu
}

// New returns an Authenticator. It refuses a configuration that is not enabled:
// an Authenticator lets nobody pass without a key, so who wants that makes none.
// It starts no goroutine; call Run.
func New(cfg Config, deps Deps) (*Authenticator, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if !cfg.Enabled {
		return nil, errors.New("auth: enabled is false, and an authenticator that lets everybody pass is none")
	}
	if deps.Keys == nil {
		return nil, errors.New("auth: Deps.Keys is nil; want where keys are kept")
	}
	a := &Authenticator{
		cfg:       cfg,
		keys:      deps.Keys,
		now:       deps.Now,
		log:       deps.Logger,
		known:     newKnown(cfg.MaxKnownKeys),
		asks:      make(chan *flight, maxAsking),
		checks:    make(chan *flight, cfg.MaxKnownKeys),
		flights:   make(map[storage.KeyHash]*flight),
		refused:   newRecent[storage.KeyHash, refusal](cfg.MaxRefusedKeys),
		revoked:   newRecent[string, struct{}](maxTold),
		forgotten: newRecent[string, uint64](maxTold),
	}
	if a.now == nil {
		a.now = time.Now
	}
	if a.log == nil {
		a.log = slog.New(slog.DiscardHandler)
	}
	a.base = a.now()
	if deps.Registerer != nil {
		if err := deps.Registerer.Register(newCollector(a)); err != nil {
			return nil, fmt.Errorf("auth: register metrics: %w", err)
		}
	}
	return a, nil
}

// Authenticate returns who sent a request. It looks at the URL and the headers
// and never at the body. The error is a [*RefusedError], and then the Identity is
// nil. A key that is held in memory takes no lock for longer than a look into a
// map, waits for nothing and allocates nothing.
func (a *Authenticator) Authenticate(r *http.Request) (*Identity, error) {
	id, err := a.authenticate(r)
	if err != nil {
		return nil, err
	}
	return id, nil
}

func (a *Authenticator) authenticate(r *http.Request) (*Identity, *RefusedError) {
	if r.URL != nil && keyInURL(r.URL) {
		return nil, a.refuse(r, &RefusedError{Reason: ReasonInURL})
	}
	text, reason := credential(r.Header)
	if reason != ReasonUnset {
		return nil, a.refuse(r, &RefusedError{Reason: reason})
	}
	if !prefixed(text) {
		return nil, a.refuse(r, &RefusedError{Reason: ReasonMalformed})
	}
	hash := sum256(text)
	id, err := a.resolve(r.Context(), &hash, text)
	if err != nil {
		return nil, a.refuse(r, err)
	}
	a.metrics.passed.Add(1)
	return id, nil
}

// Resolve returns whose key has that hash, as [ParseKey] has it. The error is a
// [*RefusedError], and then the Identity is nil.
func (a *Authenticator) Resolve(ctx context.Context, h storage.KeyHash) (*Identity, error) {
	id, err := a.resolve(ctx, &h, "")
	if err != nil {
		return nil, err
	}
	return id, nil
}

// Revoke ends a key in this process at once. Call it after the store has it. It
// holds whatever the store says later, and whether or not it can be asked; the
// latest 16384 revocations are remembered by themselves.
func (a *Authenticator) Revoke(keyID string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.revoked.put(keyID, struct{}{})
	if e := a.known.byID[keyID]; e != nil {
		a.known.remove(e)
		a.refuseHash(e.hash, refusal{reason: ReasonRevoked, keyID: keyID, asked: a.since()})
	}
}

// Forget has a key looked up anew when it is next used, because it was changed.
// Call it after the store has the change. A look-up that is under way does not
// bring the old key back. While the store is away a forgotten key is not known.
func (a *Authenticator) Forget(keyID string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.epoch++
	a.forgotten.put(keyID, a.epoch)
	if e := a.known.byID[keyID]; e != nil {
		a.known.remove(e)
	}
	for h, it := range a.refused.items {
		if it.value.keyID == keyID {
			a.refused.remove(h)
		}
	}
}

// Known returns the key of that ID as it is held in memory, by which its requests
// are served while the store is away, and when the store last vouched for it. ok is
// false for one that is not held, which may yet be good. It asks nobody.
func (a *Authenticator) Known(keyID string) (id *Identity, asked time.Time, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	e := a.known.byID[keyID]
	if e == nil {
		return nil, time.Time{}, false
	}
	now := a.now()
	return e.id.Load(), now.Add(time.Duration(e.checked.Load()) - now.Sub(a.base)), true
}

// resolve is the way of every request. The form of text, whose hash h is, is
// looked at only where the key is not held, since what is held has it; an empty
// text has been looked at.
func (a *Authenticator) resolve(ctx context.Context, h *storage.KeyHash, text string) (*Identity, *RefusedError) {
	now := a.now()
	since := now.Sub(a.base)
	for {
		e := a.known.get(h)
		if e == nil {
			if text != "" && !wellFormed(text) {
				return nil, &RefusedError{Reason: ReasonMalformed}
			}
			id, err := a.lookup(ctx, *h, since)
			if err != nil || id != nil {
				return id, err
			}
			continue // it has become known in between
		}
		id := e.id.Load()
		if age := since - time.Duration(e.checked.Load()); age >= a.cfg.CacheTTL/2 {
			if age < a.cfg.CacheTTL {
				a.check(e, since)
			} else if err := a.recheck(ctx, e, since); err != nil {
				return nil, err
			}
			if e.gone.Load() {
				since = a.since()
				continue
			}
			id = e.id.Load()
		}
		if !e.used.Load() {
			e.used.Store(true)
		}
		if !id.Valid(now) {
			return nil, &RefusedError{Reason: ReasonExpired, KeyID: id.KeyID()}
		}
		return id, nil
	}
}

func (a *Authenticator) since() time.Duration { return a.now().Sub(a.base) }

// refuseHash remembers that a key opens nothing. mu is held.
func (a *Authenticator) refuseHash(h storage.KeyHash, r refusal) {
	if a.refused.put(h, r) {
		a.metrics.evictedRefused.Add(1)
	}
}

// refuse counts a refusal, logs it now and then, and returns it.
func (a *Authenticator) refuse(r *http.Request, err *RefusedError) *RefusedError {
	a.metrics.refused[err.Reason].Add(1)
	if left, ok := a.notices.allow(err.Reason, a.since()); ok {
		a.log.InfoContext(r.Context(), "refused a request", "reason", err.Reason.String(), "key", err.KeyID,
			"remote", r.RemoteAddr, "since_last", left)
	}
	return err
}
