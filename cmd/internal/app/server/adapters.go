package server

import (
	"context"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/fx"

	"github.com/llmgw/llmgw/cmd/internal/app"
	config "github.com/llmgw/llmgw/cmd/internal/config/server"
	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/engines/plugin"
	"github.com/llmgw/llmgw/fleet/feed"
	"github.com/llmgw/llmgw/placement/reconcile"
)

// adapters are those that the server asks about engines.
type adapters struct {
	*app.Asked
	host *plugin.Host // nil: none is a program of its own
}

func newAdapters(cfg config.Config, log *slog.Logger, reg prometheus.Registerer) (*adapters, error) {
	a := new(adapters)
	if cfg.Plugins.Dir != "" && cfg.ControlPlane() {
		var err error
		if a.host, err = plugin.New(cfg.Plugins, plugin.Deps{Logger: log, Registerer: reg}); err != nil {
			return nil, err
		}
	}
	a.Asked = app.NewAsked(app.Adapters(), a.host)
	return a, nil
}

// run runs the programs that are asked, until ctx is done.
func (a *adapters) run(ctx context.Context) error {
	if a.host == nil {
		<-ctx.Done()
		return nil
	}
	return a.host.Run(ctx)
}

// shape is what a replica of a profile needs, as its engine's adapter says. That of an
// engine whose adapter only nodes have is taken from the profile's own numbers.
func (a *adapters) shape(p engines.Profile) (engines.Shape, error) {
	shape, known, err := a.Shape(p)
	if !known {
		return reconcile.EvenShape(p)
	}
	return shape, err
}

// facts is what an engine's adapter says of it; nil where there is none here.
func (a *adapters) facts(name engines.Name) *feed.Facts {
	d, known := a.Describe(name)
	if !known {
		return nil
	}
	return &feed.Facts{Capabilities: d.Capabilities, Metrics: d.Metrics, ChecksSecret: d.Secret.Supported}
}

// adaptersModule builds the adapters and runs those that are programs.
func adaptersModule() fx.Option {
	return fx.Module("adapters", fx.Provide(newAdapters),
		actor(func(a *adapters) Actor { return Actor{Name: "adapters", Stage: StageStorage, Run: a.run} }))
}
