// Package sim is the role `llmgw sim`: one simulated engine behind a listener.
package sim

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"syscall"

	"github.com/llmgw/llmgw/engines/sim"
)

// Options are what Run needs to know.
type Options struct {
	Listen string // host:port; port 0 takes a free one
	Config sim.Config
	Logger *slog.Logger      // required
	Ready  func(addr string) // if not nil, called once with the address that is served
}

// Run serves the engine until ctx is done, which is no error.
func Run(ctx context.Context, opts Options) error {
	engine, err := sim.New(opts.Config, sim.Deps{Logger: opts.Logger})
	if err != nil {
		return fmt.Errorf("sim: %w", err)
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", opts.Listen)
	if err != nil {
		_ = engine.Close() // has served nothing
		if errors.Is(err, syscall.EADDRINUSE) {
			err = fmt.Errorf("%w; choose another port with --listen, 0 takes a free one", err)
		}
		return fmt.Errorf("sim: %w", err)
	}
	if opts.Ready != nil {
		opts.Ready(l.Addr().String())
	}
	return engine.Serve(ctx, l)
}
