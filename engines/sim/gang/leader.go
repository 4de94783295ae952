package gang

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"sync"
	"time"
)

// Lead lets the other ranks of m's gang join on ln until all are there. It
// returns an error wrapping [ErrMissing], which names those that are not, when
// the time is over or ctx is done. One that does not belong is refused and told
// why; one that leaves before all are there can come again. Lead owns ln; the
// session keeps it, to refuse who comes late.
func Lead(ctx context.Context, m Member, ln net.Listener, opts Options) (*Session, error) {
	err := m.Validate()
	if err == nil && m.Rank != 0 {
		err = fmt.Errorf("gang: rank %d does not lead; want 0", m.Rank)
	}
	if err != nil {
		_ = ln.Close()
		return nil, err
	}
	l := &leader{
		Session: newSession(), opts: opts, ln: ln,
		roster: newRoster(m), conns: make(map[net.Conn]struct{}),
		gathered: make(chan struct{}), loaded: make(chan struct{}),
	}
	l.announce, l.closing = l.allLoaded, l.closeAll
	opts.logger().Info("Waiting for the other ranks", "at", ln.Addr().String(), "missing", list(l.roster.missing()))
	l.wg.Go(l.accept)

	if opts.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, opts.Timeout, fmt.Errorf("waited for %v", opts.Timeout))
		defer cancel()
	}
	select {
	case <-l.gathered:
		opts.logger().Info("All ranks have joined", "ranks", m.Ranks)
		return l.Session, nil
	case <-l.done: // the listener failed
		l.Close()
		return nil, l.Err()
	case <-ctx.Done():
		l.Close()
		l.mu.Lock()
		defer l.mu.Unlock()
		return nil, fmt.Errorf("%w: %s of %d have not joined: %w", ErrMissing, list(l.missing), m.Ranks, context.Cause(ctx))
	}
}

// leader is rank 0's side. One goroutine accepts, and each connection has one
// that reads and, once it has joined, one that tells it when all are there.
type leader struct {
	*Session
	opts     Options
	ln       net.Listener
	gathered chan struct{} // closed when all are there
	loaded   chan struct{} // closed when all have loaded

	mu      sync.Mutex
	roster  *roster               // guarded by mu
	conns   map[net.Conn]struct{} // guarded by mu; nil once closed
	missing []int                 // guarded by mu: who was, when it was closed
}

func (l *leader) accept() {
	for {
		c, err := l.ln.Accept()
		if err != nil {
			l.end(fmt.Errorf("gang: the rendezvous is closed: %w", err))
			return
		}
		l.mu.Lock()
		if l.conns == nil {
			l.mu.Unlock()
			_ = c.Close()
			return
		}
		l.conns[c] = struct{}{}
		l.wg.Go(func() { l.serve(c) }) // under mu, so that it is added before Close waits
		l.mu.Unlock()
	}
}

// serve speaks with one that connected until it is gone.
func (l *leader) serve(c net.Conn) {
	log := l.opts.logger().With("from", c.RemoteAddr().String())
	defer func() {
		_ = c.Close()
		l.mu.Lock()
		delete(l.conns, c)
		l.mu.Unlock()
	}()
	w := newWire(c)
	_ = c.SetReadDeadline(time.Now().Add(patience))
	hello, err := w.receive()
	if err == nil && (hello.Kind != kindHello || hello.Member == nil) {
		err = fmt.Errorf("gang: %q is no hello", hello.Kind)
	}
	if err != nil {
		log.Warn("A stranger at the rendezvous", "err", err)
		_ = w.send(message{Kind: kindRefused, Why: "say hello first"})
		return
	}
	_ = c.SetReadDeadline(time.Time{})
	rank := hello.Member.Rank
	if err := l.join(*hello.Member, c.RemoteAddr().String()); err != nil {
		log.Warn("A rank is refused", "rank", rank, "err", err)
		_ = w.send(message{Kind: kindRefused, Why: err.Error()})
		return
	}
	l.left(rank, l.follow(w, rank))
}

// join takes a member in. Who was the last to come lets all go on.
func (l *leader) join(m Member, from string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.roster.join(m, from); err != nil {
		return err
	}
	l.opts.logger().Info("A rank has joined", "rank", m.Rank, "from", from, "missing", list(l.roster.missing()))
	if l.roster.gathered {
		close(l.gathered)
	}
	return nil
}

// left notes that a rank's connection ended with err.
func (l *leader) left(rank int, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.conns == nil: // by closeAll
	case l.roster.leave(rank):
		l.end(lost(fmt.Sprintf("rank %d", rank), err))
	default:
		l.opts.logger().Warn("A rank has left before all were there", "rank", rank, "err", err, "missing", list(l.roster.missing()))
	}
}

// follow tells a rank that it has joined, and that all have, and hears from it
// until its connection ends.
func (l *leader) follow(w *wire, rank int) error {
	if err := w.send(message{Kind: kindJoined}); err != nil {
		return err
	}
	gone := make(chan struct{})
	defer close(gone)
	l.wg.Go(func() {
		select {
		case <-l.gathered:
			if w.send(message{Kind: kindGathered}) != nil {
				_ = w.Close() // which the reader sees
			}
		case <-gone:
		}
	})
	for {
		m, err := w.receive()
		if err != nil {
			return err
		}
		if m.Kind == kindLoaded {
			l.load(rank)
		}
	}
}

func (l *leader) load(rank int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.roster.loaded[rank] && l.roster.load(rank) {
		close(l.loaded)
	}
}

func (l *leader) allLoaded(ctx context.Context) error {
	l.load(0)
	select {
	case <-l.loaded:
		return nil
	case <-l.done:
		return cmp.Or(l.Err(), net.ErrClosed)
	case <-ctx.Done():
		l.mu.Lock()
		defer l.mu.Unlock()
		return fmt.Errorf("gang: ranks %s have not loaded: %w", list(l.roster.loading()), context.Cause(ctx))
	}
}

// closeAll ends the listener and every connection.
func (l *leader) closeAll() {
	_ = l.ln.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conns == nil {
		return
	}
	l.missing = l.roster.missing()
	for c := range l.conns {
		_ = c.Close()
	}
	l.conns = nil
}
