package server

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/fx"

	"github.com/llmgw/llmgw/auth"
	"github.com/llmgw/llmgw/auth/limit/shared"
	"github.com/llmgw/llmgw/auth/usage"
	config "github.com/llmgw/llmgw/cmd/internal/config/server"
	"github.com/llmgw/llmgw/cmd/internal/storedsn"
	"github.com/llmgw/llmgw/fleet/api"
	"github.com/llmgw/llmgw/router/gateway"
	"github.com/llmgw/llmgw/router/gateway/gatewayapi"
	"github.com/llmgw/llmgw/storage"
)

// governance is what a server that asks for keys has beside its data plane. It is
// nil in one that does not.
type governance struct {
	where   storedsn.DSN
	store   storedsn.Store
	auth    *auth.Authenticator
	limiter *shared.Limiter
	usage   *usage.Recorder
	keys    *gatewayapi.Keys // nil: nobody can change any here
	router  string
	log     *slog.Logger
	tried   chan struct{} // closed once the store was opened or could not be
}

// firstOpen is how long requests wait at the start for the store to be opened. After
// that they are served without it, for as long as it takes.
const firstOpen = 3 * time.Second

func newGovernance(cfg config.Config, log *slog.Logger, reg prometheus.Registerer) (*governance, error) {
	if !cfg.Auth.Enabled {
		return nil, nil //nolint:nilnil // that nobody is asked for a key is no error
	}
	g := &governance{where: cfg.Store.DSN, router: routerID(), log: log, tried: make(chan struct{})}
	var err error
	if g.store, err = storedsn.Open(cfg.Store.DSN, log, reg); err != nil {
		return nil, err
	}
	if g.auth, err = auth.New(cfg.Auth, auth.Deps{Keys: g.store, Logger: log, Registerer: reg}); err != nil {
		return nil, err
	}
	g.limiter, err = shared.New(cfg.Limits.Limiter(), shared.Deps{
		RouterID: g.router, Source: shared.Slices(g.store, g.router), Routers: g.store, Logger: log, Registerer: reg,
	})
	if err != nil {
		return nil, err
	}
	if g.usage, err = usage.New(cfg.Usage, usage.Deps{Log: g.store, Logger: log, Registerer: reg}); err != nil {
		return nil, err
	}
	return g, nil
}

// routerID names this process; no other one has it, nor has had it.
func routerID() string {
	host, err := os.Hostname()
	if err != nil || len(host) > 64 {
		host = "router"
	}
	return host + "-" + rand.Text()
}

// into puts what there is into the data plane.
func (g *governance) into(deps *gateway.Deps, cfg config.Config) {
	if g == nil {
		return
	}
	deps.Authenticator, deps.Limiter, deps.Usage = g.auth, g.limiter, g.usage
	deps.RouterID, deps.AssumedOutputTokens = g.router, cfg.Limits.AssumedOutputTokens
}

// opened is closed when there is no reason to wait for the store.
func (g *governance) opened() <-chan struct{} {
	if g == nil {
		now := make(chan struct{})
		close(now)
		return now
	}
	return g.tried
}

// run keeps the store, and what needs it: that ends first. A store that cannot be
// opened is tried again until it can. admin is where the admin listener is.
func (g *governance) run(ctx context.Context, admin string) error {
	if g == nil {
		<-ctx.Done()
		return nil
	}
	first, cancel := context.WithTimeout(ctx, firstOpen)
	_ = g.store.Open(first) // the store's Run says why not, and tries again
	cancel()
	close(g.tried)

	kept, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	var store, users sync.WaitGroup
	runs := []func(context.Context) error{g.auth.Run, g.limiter.Run, g.usage.Run}
	if g.keys != nil {
		runs = append(runs, g.keys.Run)
	}
	errs := make([]error, 1+len(runs))
	store.Go(func() { errs[0] = g.store.Run(kept) })
	for i, run := range runs {
		users.Go(func() { errs[1+i] = run(ctx) })
	}
	users.Go(func() { g.sayIfNoKey(ctx, admin) })
	users.Wait()
	end()
	store.Wait()
	return errors.Join(errs...)
}

// sayIfNoKey says how to make a key where there is none that is good for anything:
// nobody can use the server then, and whoever started it may not know why.
func (g *governance) sayIfNoKey(ctx context.Context, admin string) {
	for {
		keys, _, err := g.store.ListKeys(ctx, storage.KeyQuery{Usable: time.Now(), Page: storage.Page{Limit: 1}})
		if err == nil && len(keys) == 0 {
			g.log.Warn("no key is good for anything yet, so every request is refused; make one with the command",
				"command", "llmgw keys create --name first --admin http://"+admin, "store", g.where.Where())
		}
		if err == nil {
			return
		}
		select { // the store is not open yet, and its Run says why
		case <-ctx.Done():
			return
		case <-time.After(time.Second):
		}
	}
}

func (g *governance) close(context.Context) error {
	if g == nil {
		return nil
	}
	return g.store.Close()
}

// governModule builds what keys need, and runs it until the last request has ended.
func governModule() fx.Option {
	return fx.Module("govern",
		fx.Provide(func(lc fx.Lifecycle, cfg config.Config, log *slog.Logger, reg prometheus.Registerer) (*governance, error) {
			g, err := newGovernance(cfg, log, reg)
			if err == nil {
				lc.Append(fx.Hook{OnStop: g.close})
			}
			return g, err
		}),
		actor(func(g *governance, l *listeners) Actor {
			return Actor{Name: "store", Stage: StageStorage, Run: func(ctx context.Context) error { return g.run(ctx, l.addresses().Admin) }}
		}),
	)
}

// services are the management API's of keys, limits and usage; none without keys.
func (g *governance) services(deps *api.Deps, cfg config.Config, models func() auth.Models) error {
	if g == nil {
		return nil
	}
	var bands []string
	if a := cfg.Gateway.Admission.Core; a.Enabled {
		for _, b := range a.Bands {
			bands = append(bands, b.Name)
		}
	}
	keys, err := gatewayapi.NewKeys(gatewayapi.KeysDeps{
		Store: g.store, Bands: bands, Models: models, Told: g.auth, Where: g.where.Where(), Logger: g.log,
	})
	if err != nil {
		return err
	}
	limits, err := gatewayapi.NewLimits(gatewayapi.LimitsDeps{Keys: g.store, State: g.limiter.State, Known: g.auth.Known})
	if err != nil {
		return err
	}
	g.keys = keys
	deps.Keys, deps.Limits, deps.Usage = keys, limits, gatewayapi.Usage{Store: g.store}
	return nil
}
