package hardware

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// errStuck is wrapped by the error for a section of which an earlier reading
// has not ended.
var errStuck = errors.New("an earlier reading has not ended")

// section is a part of a machine that is read on its own, since a reading may
// hang in the kernel, where nothing ends it. A reading that takes too long is
// left to itself; until it ends no other begins, and the last answer is told
// with its age.
//
// The goroutine of a reading ends with the reading. So there is at most one of
// a section, and none after the readings have ended.
type section[T any] struct {
	timeout time.Duration

	mu      sync.Mutex
	running bool      // guarded by mu
	last    T         // guarded by mu; the last answer without an error
	at      time.Time // guarded by mu; when it began; zero: never
}

// told is what is known of a section.
type told[T any] struct {
	value T
	// known is false where nothing was ever read.
	known bool
	// age is 0 for an answer of this reading.
	age time.Duration
	// err says why the answer is not of this reading.
	err error
}

// read calls f, at most for the section's time. f may return what it has with a
// nil error when its ctx ends, for which it has a tenth of that time.
func (s *section[T]) read(ctx context.Context, f func(context.Context) (T, error)) told[T] {
	return s.begin(ctx, f)()
}

// begin starts a reading and returns a function that waits for it.
func (s *section[T]) begin(ctx context.Context, f func(context.Context) (T, error)) func() told[T] {
	began := time.Now()
	s.mu.Lock()
	if s.running {
		defer s.mu.Unlock()
		return func() told[T] { return s.earlier(errStuck) }
	}
	s.running = true
	s.mu.Unlock()

	late := fmt.Errorf("no answer within %v: %w", s.timeout, context.DeadlineExceeded)
	outer, cancelOuter := context.WithTimeoutCause(ctx, s.timeout, late)
	inner, cancelInner := context.WithTimeoutCause(outer, s.timeout-s.timeout/10, late)
	done := make(chan told[T], 1)
	go func() {
		defer cancelInner()
		v, err := f(inner)
		s.mu.Lock()
		s.running = false
		if err == nil {
			s.last, s.at = v, began
		}
		s.mu.Unlock()
		done <- told[T]{value: v, known: true, err: err}
	}()
	return func() told[T] {
		defer cancelOuter()
		select {
		case t := <-done:
			if t.err == nil {
				return t
			}
			return s.earlier(t.err)
		case <-outer.Done():
			return s.earlier(context.Cause(outer))
		}
	}
}

// earlier returns the last answer with its age, and why there is no newer one.
func (s *section[T]) earlier(err error) told[T] {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.at.IsZero() {
		return told[T]{err: err}
	}
	return told[T]{value: s.last, known: true, age: max(time.Since(s.at), 1), err: err}
}
