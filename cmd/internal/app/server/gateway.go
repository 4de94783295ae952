package server

import (
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/fx"

	"github.com/llmgw/llmgw/cmd/internal/app"
	config "github.com/llmgw/llmgw/cmd/internal/config/server"
	"github.com/llmgw/llmgw/fleet/api"
	"github.com/llmgw/llmgw/fleet/console"
	"github.com/llmgw/llmgw/router/gateway"
	"github.com/llmgw/llmgw/router/gateway/gatewayapi"
)

// gatewayModule builds the data plane, which a joint puts together by itself.
func gatewayModule() fx.Option {
	return fx.Module("gateway",
		fx.Provide(
			func(cfg config.Config, k *governance, log *slog.Logger, reg prometheus.Registerer) (*gateway.Gateway, error) {
				deps := gateway.Deps{Logger: log, Registerer: reg, Writer: "llmgw " + app.ReadVersion().Version, Follows: cfg.Router}
				k.into(&deps, cfg)
				return gateway.New(cfg.Gateway, deps)
			},
			func(g *gateway.Gateway) dataPlane { return plane{g} },
			func(g *gateway.Gateway) api.Routes { return gatewayapi.Routes{Gateway: g} },
			func(g *gateway.Gateway) console.Traffic { return gatewayapi.Traffic{Gateway: g} },
		),
		actor(func(g *gateway.Gateway) Actor { return Actor{Name: "gateway", Stage: StageGateway, Run: g.Run} }),
	)
}

// plane is a gateway that reloads from the whole file.
type plane struct{ *gateway.Gateway }

// Reload takes the gateway's part.
func (p plane) Reload(cfg config.Config) error { return p.Gateway.Reload(cfg.Gateway) }
