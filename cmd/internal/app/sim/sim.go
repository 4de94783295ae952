// Package sim is the role `llmgw sim`: one rank of one simulated engine, behind
// a listener if it leads.
package sim

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"syscall"
	"time"

	"github.com/llmgw/llmgw/engines/sim"
	"github.com/llmgw/llmgw/engines/sim/gang"
)

// Options are what Run needs to know.
type Options struct {
	Listen  string // host:port; port 0 takes a free one
	Config  sim.Config
	Gang    Gang
	Signals <-chan os.Signal // each ends the engine in good order, unless a fault ignores it
	Logger  *slog.Logger     // required
	// Ready, if not nil, is called once with the address that is served; by a
	// rank that serves nothing, with none, when the gang is there and loaded.
	Ready func(addr string)
}

// Gang is how the ranks of an engine find each other.
type Gang struct {
	gang.Member        // fewer than two ranks: the engine is one process
	Rendezvous  string // host:port that rank 0 binds and the others dial
	Timeout     time.Duration
}

// Run is the life of the rank until ctx is done or a signal comes, which are no
// errors.
func Run(ctx context.Context, opts Options) error {
	engine, err := sim.New(opts.Config, sim.Deps{Logger: opts.Logger})
	if err != nil {
		return fmt.Errorf("sim: %w", err)
	}
	ctx, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		obey(ctx, engine, opts, stop)
	}()
	err = live(ctx, engine, opts)
	_ = engine.Close() // wherever it ended
	if ctx.Err() != nil {
		err = nil // whatever it was doing when it was told to end
	}
	stop()
	<-ended
	return err
}

// obey stops the engine at the first signal that it does not ignore.
func obey(ctx context.Context, engine *sim.Engine, opts Options, stop context.CancelFunc) {
	for {
		select {
		case s := <-opts.Signals:
			if engine.Faults().IgnoreTerm {
				opts.Logger.Warn("[shutdown] ignored, as faults.ignore_term asks", "signal", s.String())
				continue
			}
			opts.Logger.Info("[shutdown] told to end", "signal", s.String())
			stop()
			return
		case <-ctx.Done():
			return
		}
	}
}

// live gathers the gang, loads and serves, in the order of a real engine.
func live(ctx context.Context, engine *sim.Engine, opts Options) error {
	leads := opts.Gang.Rank == 0
	if leads {
		if err := available(ctx, opts.Listen); err != nil {
			return err
		}
	}
	session, err := gather(ctx, opts)
	if err != nil {
		return err
	}
	if session != nil {
		defer session.Close()
		var leave context.CancelCauseFunc
		ctx, leave = context.WithCancelCause(ctx)
		defer leave(nil)
		go func() {
			select {
			case <-session.Done():
				leave(session.Err())
			case <-ctx.Done():
			}
		}()
	}
	if err = engine.Load(ctx); err == nil && session != nil {
		err = session.Loaded(ctx)
	}
	switch {
	case err != nil:
	case leads:
		err = serve(ctx, engine, opts)
	default:
		if opts.Ready != nil {
			opts.Ready("")
		}
		err = engine.Idle(ctx)
	}
	if session != nil && err == nil {
		err = session.Err()
	}
	return err
}

// gather returns when every rank is there. An engine of one has no session.
func gather(ctx context.Context, opts Options) (*gang.Session, error) {
	g := opts.Gang
	if g.Ranks <= 1 {
		return nil, nil
	}
	how := gang.Options{Timeout: g.Timeout, Logger: opts.Logger}
	if g.Rank == 0 {
		ln, err := listen(ctx, g.Rendezvous, "--rendezvous")
		if err != nil {
			return nil, err
		}
		return gang.Lead(ctx, g.Member, ln, how)
	}
	return gang.Join(ctx, g.Member, func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", g.Rendezvous)
	}, how)
}

func serve(ctx context.Context, engine *sim.Engine, opts Options) error {
	l, err := listen(ctx, opts.Listen, "--listen")
	if err != nil {
		return err
	}
	if opts.Ready != nil {
		opts.Ready(l.Addr().String())
	}
	return engine.Serve(ctx, l)
}

// available fails early where the address is taken: vLLM binds its port before
// it loads, and listens on it afterwards.
func available(ctx context.Context, address string) error {
	l, err := listen(ctx, address, "--listen")
	if err != nil {
		return err
	}
	return l.Close()
}

func listen(ctx context.Context, address, flag string) (net.Listener, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err == nil {
		return l, nil
	}
	if errors.Is(err, syscall.EADDRINUSE) {
		err = fmt.Errorf("%w; choose another port with %s", err, flag)
		if flag == "--listen" {
			err = fmt.Errorf("%w, 0 takes a free one", err)
		}
	}
	return nil, fmt.Errorf("sim: %w", err)
}
