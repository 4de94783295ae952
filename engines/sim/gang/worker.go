package gang

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"
	"time"
)

// Dial connects to the leader.
type Dial func(ctx context.Context) (net.Conn, error)

// Join dials until the leader is there, joins as m and waits until all others
// have. It returns an error wrapping [ErrRefused] with the leader's reason,
// [ErrLost] if the leader goes, or [ErrMissing] when the time is over or ctx is
// done.
func Join(ctx context.Context, m Member, dial Dial, opts Options) (*Session, error) {
	err := m.Validate()
	if err == nil && m.Rank == 0 {
		err = errors.New("gang: rank 0 leads; it does not join")
	}
	if err != nil {
		return nil, err
	}
	if opts.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, opts.Timeout, fmt.Errorf("waited for %v", opts.Timeout))
		defer cancel()
	}
	c, err := reach(ctx, dial, opts)
	if err != nil {
		return nil, err
	}
	w := newWire(c)
	stop := context.AfterFunc(ctx, func() { _ = c.Close() })
	defer stop()
	if err := gather(w, m, opts); err != nil {
		_ = c.Close()
		if !errors.Is(err, ErrRefused) && ctx.Err() != nil {
			return nil, fmt.Errorf("%w: the leader waits for others: %w", ErrMissing, context.Cause(ctx))
		}
		return nil, err
	}
	s := newSession()
	s.closing = func() { _ = c.Close() }
	s.announce = func(context.Context) error {
		if err := w.send(message{Kind: kindLoaded}); err != nil {
			return lost("the leader", err)
		}
		return nil
	}
	s.wg.Go(func() { s.end(lost("the leader", listen(w))) })
	return s, nil
}

// reach dials until somebody answers.
func reach(ctx context.Context, dial Dial, opts Options) (net.Conn, error) {
	const first, longest = 100 * time.Millisecond, 2 * time.Second
	for pause := first; ; pause = min(2*pause, longest) {
		c, err := dial(ctx)
		if err == nil {
			return c, nil
		}
		if pause == first {
			opts.logger().Info("Waiting for the leader", "err", err)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			if errors.Is(err, syscall.ECONNREFUSED) {
				err = errors.New("nobody listens there")
			}
			return nil, fmt.Errorf("%w: the leader was not reached (%w): %w", ErrMissing, err, context.Cause(ctx))
		}
	}
}

// gather says hello and waits until all are there.
func gather(w *wire, m Member, opts Options) error {
	if err := w.send(message{Kind: kindHello, Member: &m}); err != nil {
		return lost("the leader", err)
	}
	for {
		answer, err := w.receive()
		if err != nil {
			return lost("the leader", err)
		}
		switch answer.Kind {
		case kindRefused:
			return fmt.Errorf("%w: %s", ErrRefused, answer.Why)
		case kindJoined:
			opts.logger().Info("Joined; waiting for the other ranks", "rank", m.Rank, "ranks", m.Ranks)
		case kindGathered:
			opts.logger().Info("All ranks have joined", "ranks", m.Ranks)
			return nil
		}
	}
}

// listen returns why the connection ended. The leader says nothing any more.
func listen(w *wire) error {
	for {
		if _, err := w.receive(); err != nil {
			return err
		}
	}
}
