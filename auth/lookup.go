package auth

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/llmgw/llmgw/storage"
)

const (
	// readers is how many reads of the store are under way at most for unknown
	// keys, and how many for known ones.
	readers = 4
	// maxAsking bounds the unknown keys that wait to be looked up.
	maxAsking = 1024
	// maxTold bounds the revocations, and what else was told to be forgotten, that
	// are remembered.
	maxTold = 16_384
	// maxReads bounds how often a key is read again because it was changed while
	// it was read.
	maxReads = 4
	// storeRetry is how long a store that did not answer is left alone. Then one
	// look-up tries it.
	storeRetry = time.Second
	// staleWait is how long a request with a known key waits for the store to
	// vouch for it again. In use a key is looked up in the background long
	// before; it takes one that was idle for longer than Config.CacheTTL.
	staleWait = 250 * time.Millisecond
)

var (
	errStopped  = errors.New("auth: not running")
	errChanging = errors.New("auth: the key was changed while it was read, again and again")
)

// flight is one look-up, shared by all who ask for the key.
type flight struct {
	hash  storage.KeyHash
	asked time.Duration // since the authenticator's beginning
	probe bool          // it asks a store that is taken to be away

	done chan struct{} // closed at the end
	id   *Identity     // set before done is closed; nil with err
	err  *RefusedError // likewise
}

// Run looks up keys until ctx is done, then returns nil: it owns all goroutines
// there are. Without it keys that are known are served on, and others are
// ErrUnavailable. Call it once.
func (a *Authenticator) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	for _, queue := range []chan *flight{a.asks, a.checks} {
		for range readers {
			wg.Go(func() {
				for {
					select {
					case <-ctx.Done():
						return
					case f := <-queue:
						a.read(ctx, f)
					}
				}
			})
		}
	}
	wg.Wait()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.stopped = true
	for _, f := range a.flights {
		a.end(f, nil, &RefusedError{Reason: ReasonUnavailable, Cause: errStopped})
	}
	return nil
}

// lookup waits for the store's word on a key that is not known. It returns
// neither an Identity nor an error if the key has become known in between.
func (a *Authenticator) lookup(ctx context.Context, h storage.KeyHash, since time.Duration) (*Identity, *RefusedError) {
	a.mu.Lock()
	if a.known.get(&h) != nil {
		a.mu.Unlock()
		return nil, nil
	}
	if r, ok := a.refused.get(h); ok && since-r.asked < a.cfg.CacheTTL {
		a.mu.Unlock()
		return nil, &RefusedError{Reason: r.reason, KeyID: r.keyID}
	}
	f, reason := a.flights[h], ReasonUnset
	if f == nil {
		f, reason = a.launch(a.asks, h, since)
	}
	a.mu.Unlock()
	if f == nil {
		return nil, &RefusedError{Reason: reason}
	}
	if err := wait(ctx, f, a.cfg.LookupTimeout); err != nil {
		return nil, err
	}
	return f.id, f.err
}

// check has a known key looked up, unless it is being or the store is away. It
// returns the look-up, or nil.
func (a *Authenticator) check(e *entry, since time.Duration) *flight {
	if f := e.flight.Load(); f != nil {
		return f
	}
	// What is asked often is answered without the lock.
	if since < time.Duration(e.retry.Load()) || since < time.Duration(a.away.Load()) {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if e.gone.Load() {
		return nil
	}
	f := a.flights[e.hash]
	if f == nil {
		if f, _ = a.launch(a.checks, e.hash, since); f != nil {
			e.flight.Store(f)
		}
	}
	return f
}

// recheck waits until the store has vouched again for a known key whose time is
// over. Where it does not, because it is away or slow, that is no error: the key
// is served on. It is up to the caller to see whether the key is still there.
func (a *Authenticator) recheck(ctx context.Context, e *entry, since time.Duration) *RefusedError {
	if since < time.Duration(e.noWait.Load()) {
		a.check(e, since)
		a.metrics.stale.Add(1)
		return nil
	}
	f := a.check(e, since)
	if f == nil {
		a.metrics.stale.Add(1)
		return nil
	}
	switch err := wait(ctx, f, staleWait); {
	case err != nil && err.Reason == ReasonCanceled:
		return err
	case err != nil:
		e.noWait.Store(int64(a.since() + storeRetry))
		a.metrics.stale.Add(1)
	case f.err != nil && f.err.Status() == http.StatusServiceUnavailable:
		a.metrics.stale.Add(1)
	}
	return nil
}

// wait waits for a look-up's end.
func wait(ctx context.Context, f *flight, most time.Duration) *RefusedError {
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-f.done:
		return nil
	case <-ctx.Done():
		return &RefusedError{Reason: ReasonCanceled, Cause: context.Cause(ctx)}
	case <-timer.C:
		return &RefusedError{Reason: ReasonUnavailable, Cause: context.DeadlineExceeded}
	}
}

// launch begins a look-up, or says why not. mu is held.
func (a *Authenticator) launch(queue chan *flight, h storage.KeyHash, since time.Duration) (*flight, Reason) {
	if a.stopped {
		return nil, ReasonUnavailable
	}
	if len(queue) == cap(queue) {
		a.metrics.queueFull.Add(1)
		return nil, ReasonBusy
	}
	probe := false
	if away := time.Duration(a.away.Load()); away != 0 {
		if since < away {
			return nil, ReasonUnavailable
		}
		// This one tries, and nobody else until it must have ended.
		probe = true
		a.away.Store(int64(since + a.cfg.LookupTimeout + storeRetry))
	}
	f := &flight{hash: h, asked: since, probe: probe, done: make(chan struct{})}
	a.flights[h] = f
	queue <- f // does not block: there was room, and only holders of mu fill it
	return f, ReasonUnset
}

// end tells all who wait what came of a look-up. mu is held.
func (a *Authenticator) end(f *flight, id *Identity, err *RefusedError) {
	delete(a.flights, f.hash)
	f.id, f.err = id, err
	if e := a.known.get(&f.hash); e != nil {
		if err != nil {
			e.retry.Store(int64(a.since() + storeRetry))
		}
		e.flight.Store(nil)
	}
	close(f.done)
}

// read asks the store for one key.
func (a *Authenticator) read(ctx context.Context, f *flight) {
	if !f.probe && (a.since()-f.asked > a.cfg.LookupTimeout || a.away.Load() != 0) {
		// Nobody waits any more, or the store has gone away meanwhile.
		a.mu.Lock()
		defer a.mu.Unlock()
		a.end(f, nil, &RefusedError{Reason: ReasonUnavailable})
		return
	}
	for n := 1; ; n++ {
		a.mu.Lock()
		epoch := a.epoch
		a.mu.Unlock()
		asked := a.since()
		// A store that takes no notice of its context holds up this reader and no
		// request.
		rctx, cancel := context.WithTimeout(ctx, a.cfg.LookupTimeout)
		key, err := a.keys.KeyByHash(rctx, f.hash)
		if err != nil && rctx.Err() != nil {
			err = fmt.Errorf("%w: %w", rctx.Err(), err)
		}
		cancel()
		if err == nil && (key.ID == "" || key.Hash != f.hash) {
			err = fmt.Errorf("auth: the store gave key %q for the hash of another", key.ID)
		}
		switch {
		case err == nil:
			if a.found(f, key, asked, epoch) {
				return
			}
			if n == maxReads {
				a.failed(f, errChanging)
				return
			}
		case errors.Is(err, storage.ErrNotFound):
			a.notFound(f, asked)
			return
		default:
			a.failed(f, err)
			return
		}
	}
}

// found ends a look-up with a key's record; false if the record may be of a time
// before the key was changed, and has to be read again.
func (a *Authenticator) found(f *flight, key storage.Key, asked time.Duration, epoch uint64) bool {
	id := NewIdentity(key)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.answered()
	a.metrics.found.Add(1)
	if changed, ok := a.forgotten.get(key.ID); ok && changed > epoch {
		return false
	}
	if _, told := a.revoked.get(key.ID); told || !key.RevokedAt.IsZero() {
		a.deny(f, refusal{reason: ReasonRevoked, keyID: key.ID, asked: asked})
		return true
	}
	// Whoever has such a key learns no more than of a revoked one; the operator does.
	if key.Suspended {
		a.deny(f, refusal{reason: ReasonSuspended, keyID: key.ID, asked: asked})
		return true
	}
	if !key.Usable(a.now()) {
		a.deny(f, refusal{reason: ReasonExpired, keyID: key.ID, asked: asked})
		return true
	}
	e := a.known.get(&f.hash)
	if e != nil && e.id.Load().KeyID() != key.ID {
		a.known.remove(e) // the store was replaced by another one
		e = nil
	}
	if e != nil {
		if old := e.id.Load(); old.Revision() == id.Revision() {
			id = old // it knows which models it may use
		}
		e.id.Store(id)
		e.checked.Store(int64(asked))
		e.retry.Store(0)
	} else {
		a.refused.remove(f.hash)
		if a.known.put(f.hash, id, asked) {
			a.metrics.evictedKnown.Add(1)
		}
	}
	a.end(f, id, nil)
	return true
}

// notFound ends a look-up of a key that there is not.
func (a *Authenticator) notFound(f *flight, asked time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.answered()
	a.metrics.notFound.Add(1)
	a.deny(f, refusal{reason: ReasonUnknown, asked: asked})
}

// deny ends a look-up of a key that opens nothing. mu is held.
func (a *Authenticator) deny(f *flight, r refusal) {
	if e := a.known.get(&f.hash); e != nil {
		a.known.remove(e)
	}
	a.refuseHash(f.hash, r)
	a.end(f, nil, &RefusedError{Reason: r.reason, KeyID: r.keyID})
}

// answered notes that the store is there. mu is held.
func (a *Authenticator) answered() {
	if a.away.Swap(0) != 0 {
		a.log.Info("the store of keys answers again")
	}
}

// failed ends a look-up that the store did not answer. Whatever it said is no
// word on the key, and is not kept.
func (a *Authenticator) failed(f *flight, err error) {
	a.metrics.failed.Add(1)
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case errors.Is(err, storage.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded):
		if a.away.Swap(int64(a.since()+storeRetry)) == 0 {
			a.log.Warn("the store of keys does not answer; known keys are served on, others get 503", "err", err)
		}
	case errors.Is(err, context.Canceled): // Run ends
	default:
		// That one record cannot be read says nothing of the others.
		if left, ok := a.notices.allow(ReasonUnset, a.since()); ok {
			a.log.Error("a key cannot be read from the store", "err", err, "since_last", left)
		}
	}
	a.end(f, nil, &RefusedError{Reason: ReasonUnavailable, Cause: err})
}
