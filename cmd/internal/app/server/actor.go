package server

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/signal"
	"slices"

	"github.com/oklog/run"

	config "github.com/llmgw/llmgw/cmd/internal/config/server"
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
	StageStorage
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

// runActors runs the actors until the first returns or a signal comes, stops
// them by stage, waits for all, and returns the first one's error; the end of
// ctx and a signal are none. patience is only told. fx hands actors over in
// random order, hence the sorting; run.Group interrupts one after the other in
// the order added.
func runActors(ctx context.Context, log *slog.Logger, signals chan os.Signal, patience config.Shutdown, actors []Actor) error {
	actors = slices.Clone(actors)
	slices.SortStableFunc(actors, func(a, b Actor) int { return int(a.Stage - b.Stage) })
	var g run.Group
	ended, end := context.WithCancel(ctx)
	g.Add(func() error {
		select {
		case s := <-signals:
			// The next one has its usual effect: it kills.
			signal.Stop(signals)
			log.Info("shutting down; a second signal ends the process at once",
				"signal", s.String(), "grace", patience.Grace.String(), "drain", patience.Drain.String())
			return run.ErrSignal
		case <-ended.Done():
			return context.Cause(ended)
		}
	}, func(error) { end() })
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
	if errors.Is(err, run.ErrSignal) || (ctx.Err() != nil && errors.Is(err, context.Cause(ctx))) {
		return nil
	}
	return err
}
