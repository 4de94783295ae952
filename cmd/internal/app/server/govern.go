package server

import (
	"context"
	"crypto/rand"
	"log/slog"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/fx"

	"github.com/llmgw/llmgw/auth"
	"github.com/llmgw/llmgw/auth/limit/shared"
	"github.com/llmgw/llmgw/auth/usage"
	config "github.com/llmgw/llmgw/cmd/internal/config/server"
	"github.com/llmgw/llmgw/fleet/api"
	"github.com/llmgw/llmgw/router/gateway"
	"github.com/llmgw/llmgw/router/gateway/gatewayapi"
	"github.com/llmgw/llmgw/storage"
)

// governance is what a server that asks for keys has beside its data plane. It is
// nil in one that does not.
type governance struct {
	*keeper
	auth    *auth.Authenticator
	limiter *shared.Limiter
	usage   *usage.Recorder
	router  string
	log     *slog.Logger
}

func newGovernance(cfg config.Config, k *keeper, log *slog.Logger, reg prometheus.Registerer) (*governance, error) {
	if !cfg.Auth.Enabled {
		return nil, nil //nolint:nilnil // that nobody is asked for a key is no error
	}
	g := &governance{keeper: k, router: routerID(), log: log}
	var err error
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

// runs are what needs the store. admin is where the admin listener is.
func (g *governance) runs(admin string) []func(context.Context) error {
	if g == nil {
		return nil
	}
	runs := []func(context.Context) error{g.auth.Run, g.limiter.Run, g.usage.Run, func(ctx context.Context) error { g.sayIfNoKey(ctx, admin); return nil }}
	return runs
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

// governModule builds what keys need.
func governModule() fx.Option { return fx.Module("govern", fx.Provide(newGovernance)) }

// services are the management API's of keys, users, limits and usage; none without
// keys.
func (g *governance) services(deps *api.Deps, cfg config.Config, people *people, l *listeners) error {
	if g == nil {
		return nil
	}
	var pages *gatewayapi.Pages
	if cfg.HasPages() {
		pages = &gatewayapi.Pages{URL: func() (string, bool) { return cfg.Pages(l.addresses().Client) }}
	}
	keys, err := gatewayapi.NewKeys(gatewayapi.KeysDeps{
		Store: g.store, Issuer: people.issuer, Tells: true, Accounts: people.accounts, Pages: pages, Where: g.where.Where(),
	})
	if err != nil {
		return err
	}
	users, err := gatewayapi.NewUsers(gatewayapi.UsersDeps{Accounts: people.accounts, Store: g.store, Pages: pages})
	if err != nil {
		return err
	}
	limits, err := gatewayapi.NewLimits(gatewayapi.LimitsDeps{Keys: g.store, State: g.limiter.State, Known: g.auth.Known})
	if err != nil {
		return err
	}
	deps.Keys, deps.Users, deps.Limits, deps.Usage = keys, users, limits, gatewayapi.Usage{Store: g.store}
	return nil
}
