package server

import (
	"log/slog"
	"net/http"

	"go.uber.org/fx"

	config "github.com/llmgw/llmgw/cmd/internal/config/server"
	"github.com/llmgw/llmgw/fleet/api"
	"github.com/llmgw/llmgw/fleet/controlplane/models"
	"github.com/llmgw/llmgw/router/gateway/gatewayapi"
)

// management is the management API and where it stands on the admin listener.
type management struct {
	handler http.Handler
	paths   []string
}

// apiModule builds the services of the management API over what the graph has, and the
// API over them.
func apiModule() fx.Option {
	type parts struct {
		fx.In
		Routes  api.Routes `optional:"true"` // a data plane without a router has none
		Govern  *governance
		People  *people
		Control *controlPlane
		Listen  *listeners
		Models  *models.Models
		Store   *keeper
		Config  config.Config
		Log     *slog.Logger
	}
	services := func(p parts) (api.Deps, error) {
		deps := api.Deps{Routes: p.Routes, Logger: p.Log}
		if !p.Config.Router {
			deps.Models = p.Models
		}
		if err := p.Govern.services(&deps, p.Config, p.People, p.Listen); err != nil {
			return api.Deps{}, err
		}
		if p.Store != nil {
			deps.Audit = gatewayapi.Audit{Store: p.Store.store}
		}
		if p.Control != nil {
			deps.Nodes = p.Control.plane.Nodes()
			deps.Placement = p.Control.placement(deps.Models)
		}
		return deps, nil
	}
	return fx.Module("api", fx.Provide(services, func(deps api.Deps) management {
		return management{handler: api.NewHandler(deps), paths: api.Paths()}
	}))
}
