package server

import (
	"log/slog"
	"net/http"

	"go.uber.org/fx"

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
		Log    *slog.Logger
	}
	return fx.Module("api", fx.Provide(func(p parts) management {
		return management{handler: api.NewHandler(api.Deps{Routes: p.Routes, Logger: p.Log}), paths: api.Paths()}
	}))
}
