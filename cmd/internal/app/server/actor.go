package server

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"syscall"

	"github.com/oklog/run"
)

// Stage orders the ends of actors: a lower stage is stopped, and if it takes
// time has ended, before the next is told.
type Stage int

// The stages, in the order in which they end.
const (
	StageSignals Stage = iota + 1
	StageReadiness
	StageDrain
	StageGateway
	StageOperators
)

// Actor is something that lasts as long as the process.
type Actor struct {
	Name  string
	Stage Stage
	// Run blocks until ctx is done or it fails. The first to return ends all.
	Run func(ctx context.Context) error
	// Stop, if not nil, is called before ctx is cancelled and may block: later
	// stages keep running meanwhile.
	Stop func()
}

// runActors runs the actors until the first returns, stops them by stage, waits
// for all, and returns the first one's error; the end of ctx and a signal are
// none. fx hands actors over in random order, hence the sorting; run.Group
// interrupts one after the other in the order added.
func runActors(ctx context.Context, log *slog.Logger, actors []Actor) error {
	actors = slices.Clone(actors)
	slices.SortStableFunc(actors, func(a, b Actor) int { return int(a.Stage - b.Stage) })
	var g run.Group
	execute, interrupt := run.SignalHandler(ctx, syscall.SIGINT, syscall.SIGTERM)
	g.Add(execute, interrupt)
	for _, a := range actors {
		// Not a child of ctx: its end is one of the reasons to stop, and
		// then what drains must outlive it.
		actorCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
		g.Add(func() error {
			err := a.Run(actorCtx)
			if err != nil && actorCtx.Err() == nil {
				log.Error("a part of the server failed", "actor", a.Name, "err", err)
			}
			return err
		}, func(error) {
			if a.Stop != nil {
				a.Stop()
			}
			log.Debug("stopping", "actor", a.Name)
			cancel()
		})
	}
	err := g.Run()
	if errors.Is(err, run.ErrSignal) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) && ctx.Err() != nil {
		return nil
	}
	return err
}
