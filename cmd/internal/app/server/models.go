package server

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/fx"

	config "github.com/llmgw/llmgw/cmd/internal/config/server"
	"github.com/llmgw/llmgw/cmd/internal/storedsn"
	"github.com/llmgw/llmgw/fleet/controlplane"
	"github.com/llmgw/llmgw/fleet/controlplane/models"
	"github.com/llmgw/llmgw/placement/catalog"
)

// resolver is a data plane whose models can be replaced.
type resolver interface {
	SetModels(models []catalog.Model) error
	CheckModel(m *catalog.Model) error
}

// modelsModule builds the catalog, which the store's actor runs.
func modelsModule() fx.Option {
	return fx.Module("models", fx.Provide(newModels, func() *fitter { return new(fitter) }))
}

// fitter asks the control plane, which is made after the catalog that it follows,
// whether it could run a model.
type fitter struct {
	plane atomic.Pointer[controlplane.Plane]
}

func (f *fitter) fits(ctx context.Context, m *catalog.Model) ([]string, error) {
	p := f.plane.Load()
	if p == nil {
		return nil, nil
	}
	return p.Fits(ctx, m)
}

func newModels(cfg config.Config, k *keeper, p dataPlane, f *fitter, a *adapters, log *slog.Logger, reg prometheus.Registerer) (*models.Models, error) {
	deps := models.Deps{ControlPlane: cfg.ControlPlane(), Logger: log, Registerer: reg, Check: a.CheckRun, Fits: f.fits}
	if k != nil && !cfg.Router { // a router's come from its control plane alone
		deps.Store = k.store
	}
	if r, ok := p.(resolver); ok {
		deps.Apply = r.SetModels
		deps.Check = func(m *catalog.Model) error { return errors.Join(r.CheckModel(m), a.CheckRun(m)) }
	}
	if cfg.Runs() && !cfg.ControlPlane() {
		log.Warn("models with a profile are not run: agent_listen is written as \"\", so this server is no control plane")
	}
	for i := range cfg.Gateway.Models {
		if err := a.CheckRun(&cfg.Gateway.Models[i]); err != nil {
			log.Warn("a model of the configuration cannot be run as its profile says", "model", cfg.Gateway.Models[i].Name,
				"why", strings.ReplaceAll(err.Error(), "\n", "; "))
		}
	}
	return models.New(cfg.Gateway.Models, deps)
}

// reconfigure puts what was read again into force, with the models of the store
// beside those that were read.
func reconfigure(m *models.Models, p dataPlane) func(config.Config) error {
	return func(cfg config.Config) error {
		return m.Reconfigure(cfg.Gateway.Models, func(all []catalog.Model) error {
			cfg.Gateway.Models = all
			return p.Reload(cfg)
		})
	}
}

// storedProfiles reports whether a model in the store has a profile, where that
// decides whether the server is a control plane. It makes no store.
func storedProfiles(ctx context.Context, cfg config.Config, log *slog.Logger) bool {
	if cfg.Router || cfg.Agents || cfg.ControlPlane() || !cfg.Keeps() {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, firstOpen)
	defer cancel()
	list, err := readModels(ctx, cfg.Store.DSN)
	if err != nil {
		log.Warn("whether a model in the store has a profile is not known; if one has, this server is no control plane until it is started anew, or agent_listen is written", "err", err)
	}
	for _, stored := range list {
		if stored.Profile != nil {
			return true
		}
	}
	return false
}

// readModels returns the models of a store as far as this program understands them;
// none of a store that is not there.
func readModels(ctx context.Context, dsn storedsn.DSN) (list []catalog.Model, err error) {
	store, err := storedsn.Open(dsn, nil, nil)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	if have, _, err := store.Schema(ctx); have == 0 || err != nil {
		return nil, err
	}
	if err := store.Open(ctx); err != nil {
		return nil, err
	}
	stored, err := store.ListModels(ctx)
	for _, m := range stored {
		if d, err := catalog.Parse("", []byte(m.Definition)); err == nil {
			list = append(list, d.Models...)
		}
	}
	return list, err
}
