package auth

import (
	"context"
	"errors"
	"maps"
	"time"

	"github.com/llmgw/llmgw/storage"
)

// ErrKept says that a revocation could not be written, and will be once the store
// is back, by the process in which it was made if that lives until then.
var ErrKept = errors.New("auth: the revocation is kept until the store is back")

const (
	// maxKept bounds the revocations that wait for the store.
	maxKept = 1024
	// keptRetry is how long the store is left alone between two tries.
	keptRetry = time.Second
	// keptLast bounds the last try, when the process ends.
	keptLast = 2 * time.Second
)

// keptRevocation is one that the store does not have yet, or is not known to have.
type keptRevocation struct {
	at time.Time
	by By
}

// Run writes the revocations that the store could not be told of, until ctx is
// done, then tries once more and returns nil. Without it none is kept. Call it once.
func (s *Issuer) Run(ctx context.Context) error {
	s.mu.Lock()
	s.running = true
	s.mu.Unlock()
	for {
		select {
		case <-ctx.Done():
			s.mu.Lock()
			s.running = false
			s.mu.Unlock()
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), keptLast)
			defer cancel()
			if left := s.writeKept(last); left > 0 {
				s.deps.Logger.Error("revocations were not written to the store and are lost; revoke the keys again", "revocations", left)
			}
			return nil
		case <-s.wake:
		}
		for s.writeKept(ctx) > 0 && ctx.Err() == nil {
			select {
			case <-ctx.Done():
			case <-time.After(keptRetry):
			}
		}
	}
}

// keep has a revocation written later; false if nobody would, or too many wait.
func (s *Issuer) keep(id string, r keptRevocation) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, there := s.kept[id]; there {
		return true // the first says when it ended
	}
	if !s.running || len(s.kept) >= maxKept {
		return false
	}
	s.kept[id] = r
	select {
	case s.wake <- struct{}{}:
	default: // it is awake
	}
	return true
}

// writeKept tries to write what is kept, and returns how many are left. The store
// is not asked further once it does not answer.
func (s *Issuer) writeKept(ctx context.Context) (left int) {
	s.mu.Lock()
	kept := maps.Clone(s.kept)
	s.mu.Unlock()
	for id, r := range kept {
		_, err := s.revoke(ctx, id, r.at, r.by)
		switch {
		case errors.Is(err, storage.ErrUnavailable) || err != nil && ctx.Err() != nil:
			s.mu.Lock()
			defer s.mu.Unlock()
			return len(s.kept)
		case errors.Is(err, storage.ErrNotFound):
			s.deps.Logger.Warn("a key that was revoked while the store was away is not there", "key", id, "actor", r.by.Actor)
		case err != nil:
			s.deps.Logger.Error("a revocation cannot be written; revoke the key again", "key", id, "err", err)
		default:
			s.deps.Logger.Info("a revocation that waited for the store is written", "key", id)
		}
		s.forgetKept(id)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.kept)
}

func (s *Issuer) forgetKept(id string) {
	s.mu.Lock()
	delete(s.kept, id)
	s.mu.Unlock()
}
