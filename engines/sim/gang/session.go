package gang

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
)

// Session is one rank's part in a gang that has gathered. Its methods may be
// called concurrently.
type Session struct {
	// announce says that this rank has loaded and, in the leader, waits for the
	// others.
	announce func(ctx context.Context) error
	closing  func()

	once sync.Once
	done chan struct{}
	err  error // read only once done is closed
	wg   sync.WaitGroup
}

func newSession() *Session { return &Session{done: make(chan struct{})} }

// Loaded tells the gang that this rank has loaded. In the leader it returns
// when every rank has said so, ctx is done or a rank is lost; in another at
// once.
func (s *Session) Loaded(ctx context.Context) error { return s.announce(ctx) }

// Done is closed when a rank is lost, or by [Session.Close].
func (s *Session) Done() <-chan struct{} { return s.done }

// Err returns why the gang is no more, wrapping [ErrLost]; nil while it is
// whole, or when Close ended it.
func (s *Session) Err() error {
	select {
	case <-s.done:
		return s.err
	default:
		return nil
	}
}

// Close leaves the gang, which for the others is a lost rank, and returns when
// everything of the session has ended. It is idempotent.
func (s *Session) Close() {
	s.end(nil)
	s.closing()
	s.wg.Wait()
}

func (s *Session) end(err error) {
	s.once.Do(func() {
		s.err = err
		close(s.done)
	})
}

// lost is the error for a rank whose connection ended with cause.
func lost(who string, cause error) error {
	if errors.Is(cause, io.EOF) {
		return fmt.Errorf("%w: %s closed its connection", ErrLost, who)
	}
	return fmt.Errorf("%w: %s: %w", ErrLost, who, cause)
}
