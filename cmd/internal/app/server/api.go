package server

import (
	"log/slog"
	"net/http"

	"go.uber.org/fx"

	"github.com/llmgw/llmgw/auth"
	config "github.com/llmgw/llmgw/cmd/internal/config/server"
	"github.com/llmgw/llmgw/fleet/api"
)

// management is the management API and where it stands on the admin listener.
type management struct {
	handler http.Handler
	paths   []string
}

// apiModule builds the management API over what the graph has.
func apiModule() fx.Option {
	type parts struct {
		fx.In
		Routes api.Routes `optional:"true"` // a data plane without a router has none
		Plane  dataPlane
		Govern *governance
		Config config.Config
		Log    *slog.Logger
	}
	return fx.Module("api", fx.Provide(func(p parts) (management, error) {
		deps := api.Deps{Routes: p.Routes, Logger: p.Log}
		var models func() auth.Models
		if m, ok := p.Plane.(interface{ KeyModels() auth.Models }); ok {
			models = m.KeyModels
		}
		if err := p.Govern.services(&deps, p.Config, models); err != nil {
			return management{}, err
		}
		return management{handler: api.NewHandler(deps), paths: api.Paths()}, nil
	}))
}
