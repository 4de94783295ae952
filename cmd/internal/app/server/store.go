package server

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/fx"

	config "github.com/llmgw/llmgw/cmd/internal/config/server"
	"github.com/llmgw/llmgw/cmd/internal/storedsn"
	"github.com/llmgw/llmgw/fleet/controlplane/models"
)

// keeper has the store of a server that keeps something. It is nil in one that
// does not.
type keeper struct {
	where storedsn.DSN
	store storedsn.Store
	tried chan struct{} // closed once the store was opened or could not be
}

// firstOpen is how long requests wait at the start for the store to be opened. After
// that they are served without it, for as long as it takes.
const firstOpen = 3 * time.Second

func newKeeper(cfg config.Config, log *slog.Logger, reg prometheus.Registerer) (*keeper, error) {
	if !cfg.Keeps() {
		return nil, nil //nolint:nilnil // that nothing is kept is no error
	}
	store, err := storedsn.Open(cfg.Store.DSN, log, reg)
	if err != nil {
		return nil, err
	}
	return &keeper{where: cfg.Store.DSN, store: store, tried: make(chan struct{})}, nil
}

// opened is closed when there is no reason to wait for the store.
func (k *keeper) opened() <-chan struct{} {
	if k == nil {
		now := make(chan struct{})
		close(now)
		return now
	}
	return k.tried
}

// run keeps the store, and what needs it: that ends first. A store that cannot be
// opened is tried again until it can. load reads what requests depend on.
func (k *keeper) run(ctx context.Context, load func(context.Context) error, users []func(context.Context) error) error {
	if k == nil {
		<-ctx.Done()
		return nil
	}
	first, cancel := context.WithTimeout(ctx, firstOpen)
	if k.store.Open(first) == nil { // else the store's Run says why not, and tries again
		_ = load(first) // which says by itself what is wrong, and is tried again too
	}
	cancel()
	close(k.tried)

	kept, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	var store, using sync.WaitGroup
	errs := make([]error, 1+len(users))
	store.Go(func() { errs[0] = k.store.Run(kept) })
	for i, run := range users {
		using.Go(func() { errs[1+i] = run(ctx) })
	}
	using.Wait()
	end()
	store.Wait()
	return errors.Join(errs...)
}

func (k *keeper) close(context.Context) error {
	if k == nil {
		return nil
	}
	return k.store.Close()
}

// storeModule builds the store, and runs it and what needs it until the last request
// has ended.
func storeModule() fx.Option {
	return fx.Module("store",
		fx.Provide(func(lc fx.Lifecycle, cfg config.Config, log *slog.Logger, reg prometheus.Registerer) (*keeper, error) {
			k, err := newKeeper(cfg, log, reg)
			if err == nil {
				lc.Append(fx.Hook{OnStop: k.close})
			}
			return k, err
		}),
		actor(func(k *keeper, g *governance, people *people, p *controlPlane, m *models.Models, l *listeners) Actor {
			return Actor{Name: "store", Stage: StageStorage, Run: func(ctx context.Context) error {
				return k.run(ctx, m.Load, slices.Concat(g.runs(l.addresses().Admin), people.runs(), p.runs(), []func(context.Context) error{m.Run}))
			}}
		}),
	)
}
