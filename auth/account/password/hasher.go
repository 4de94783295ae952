// Package password hashes passwords with argon2id, a bounded number at once.
//
// A hash is slow and large on purpose, 19 MiB by default, and anybody may have one
// computed who sends a form. So [Hasher] computes few at once, lets few wait, and
// refuses the rest before anything was done for them:
//
//	slot, err := hasher.Enter() // ErrBusy: too many are there
//	defer slot.Leave()
//	right, stale, err := slot.Verify(ctx, kept, typed)
//
// Keys, which nobody can guess, are hashed by package auth in another way.
package password

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync"
	"sync/atomic"

	"golang.org/x/crypto/argon2"
)

// ErrBusy says that as many wait for a hash as may.
var ErrBusy = errors.New("password: too many hashes are asked for at once")

const (
	saltBytes = 16
	sumBytes  = 32
)

// Config is how many hashes there are and what one costs.
type Config struct {
	// AtOnce is how many are computed at once. 0 is a quarter of GOMAXPROCS, and at
	// least one.
	AtOnce int
	// Waiting is how many may wait beside those. 0 refuses instead.
	Waiting int
	// Params is what a new hash costs.
	Params Params
}

// Hasher hashes and verifies. Its methods may be called concurrently.
type Hasher struct {
	cfg     Config
	random  io.Reader
	running chan struct{} // one for each hash that is computed
	there   atomic.Int64  // slots that were entered and not left
	nobody  hash          // of a password that nobody has
}

// New returns a Hasher. random is [crypto/rand.Reader] if nil.
func New(cfg Config, random io.Reader) (*Hasher, error) {
	if err := cfg.Params.Validate(); err != nil {
		return nil, fmt.Errorf("password: %w", err)
	}
	if cfg.AtOnce < 0 || cfg.Waiting < 0 {
		return nil, fmt.Errorf("password: %d at once and %d waiting; want none below 0", cfg.AtOnce, cfg.Waiting)
	}
	if cfg.AtOnce == 0 {
		cfg.AtOnce = max(1, runtime.GOMAXPROCS(0)/4)
	}
	if random == nil {
		random = rand.Reader
	}
	h := &Hasher{cfg: cfg, random: random, running: make(chan struct{}, cfg.AtOnce)}
	// No password has a sum of random bytes, so it need not be computed.
	var err error
	h.nobody, err = h.salted()
	if err != nil {
		return nil, err
	}
	h.nobody.sum = make([]byte, sumBytes)
	if _, err := io.ReadFull(random, h.nobody.sum); err != nil {
		return nil, fmt.Errorf("password: read randomness: %w", err)
	}
	return h, nil
}

// Running returns how many hashes are being computed.
func (h *Hasher) Running() int { return len(h.running) }

// Waiting returns how many have entered and have no hash computed right now.
func (h *Hasher) Waiting() int { return max(0, int(h.there.Load())-len(h.running)) }

// Slot is leave to have hashes computed, one after the other.
type Slot struct {
	h    *Hasher
	left sync.Once
}

// Enter returns a slot, at once, or ErrBusy if there are as many as may run and
// wait. Give it back with Leave.
func (h *Hasher) Enter() (*Slot, error) {
	if h.there.Add(1) > int64(h.cfg.AtOnce+h.cfg.Waiting) {
		h.there.Add(-1)
		return nil, ErrBusy
	}
	return &Slot{h: h}, nil
}

// Leave gives the slot back. It may be called again.
func (s *Slot) Leave() { s.left.Do(func() { s.h.there.Add(-1) }) }

// Hash returns the hash of a password to keep. It waits for its turn until ctx is
// done.
func (s *Slot) Hash(ctx context.Context, password string) (string, error) {
	out, err := s.h.salted()
	if err != nil {
		return "", err
	}
	if out.sum, err = s.compute(ctx, out, password, sumBytes); err != nil {
		return "", err
	}
	return out.String(), nil
}

// Verify reports whether a password is that of a hash that was kept. stale says
// that it is and that the hash costs less than a new one: make one. An error wraps
// ErrHash where nothing was computed, because the hash cannot be read or would cost
// too much; any other is the end of ctx.
func (s *Slot) Verify(ctx context.Context, kept, password string) (right, stale bool, err error) {
	h, err := parse(kept)
	if err != nil {
		return false, false, err
	}
	sum, err := s.compute(ctx, h, password, len(h.sum))
	if err != nil {
		return false, false, err
	}
	right = subtle.ConstantTimeCompare(sum, h.sum) == 1
	return right, right && h.less(s.h.cfg.Params), nil
}

// VerifyNobody does what Verify does with a wrong password, for an account that
// there is not.
func (s *Slot) VerifyNobody(ctx context.Context, password string) error {
	sum, err := s.compute(ctx, s.h.nobody, password, sumBytes)
	if err == nil {
		subtle.ConstantTimeCompare(sum, s.h.nobody.sum)
	}
	return err
}

// compute is where memory and time go.
func (s *Slot) compute(ctx context.Context, with hash, password string, size int) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("password: %w", context.Cause(ctx))
	}
	select {
	case s.h.running <- struct{}{}:
	case <-ctx.Done():
		return nil, fmt.Errorf("password: wait for a hash: %w", context.Cause(ctx))
	}
	defer func() { <-s.h.running }()
	return argon2.IDKey([]byte(password), with.salt, with.Passes, with.MemoryKiB, with.Lanes, uint32(size)), nil
}

// salted returns a hash without its sum.
func (h *Hasher) salted() (hash, error) {
	out := hash{Params: h.cfg.Params, salt: make([]byte, saltBytes)}
	if _, err := io.ReadFull(h.random, out.salt); err != nil {
		return hash{}, fmt.Errorf("password: read randomness: %w", err)
	}
	return out, nil
}
