package server

import (
	"errors"
	"log/slog"
	"net/http"

	"go.uber.org/fx"

	"github.com/llmgw/llmgw/auth/webui"
	config "github.com/llmgw/llmgw/cmd/internal/config/server"
	"github.com/llmgw/llmgw/fleet/api"
	"github.com/llmgw/llmgw/fleet/console"
)

// consoleDeps are what the operators' pages show, of what there is.
func consoleDeps(s api.Deps, traffic console.Traffic, log *slog.Logger) console.Deps {
	return console.Deps{
		Nodes: s.Nodes, Placement: s.Placement, Models: s.Models, Usage: s.Usage, Keys: s.Keys, Traffic: traffic, Logger: log,
		Fault: func(err error) console.Fault {
			return console.Fault{Text: api.Text(err), NotFound: errors.Is(err, api.ErrNotFound)}
		},
	}
}

// adminPages are the console as it is on the admin listener, where whoever comes has a
// shell on this machine, so that nobody signs in and nothing says who may look.
type adminPages struct {
	console *console.Console
	handler http.Handler
}

func newAdminPages(cfg config.Config, s api.Deps, traffic console.Traffic, log *slog.Logger) (adminPages, error) {
	site, err := webui.New(webui.DefaultConfig(), webui.Deps{Logger: log})
	if err != nil {
		return adminPages{}, err
	}
	deps := consoleDeps(s, traffic, log)
	deps.Site, deps.Root = site, console.LocalRoot
	c, err := console.New(cfg.Console, deps)
	if err != nil {
		return adminPages{}, err
	}
	return adminPages{c, c.Handler(webui.Open)}, nil
}

// mount puts the pages on the admin listener's mux, and leads there from its root.
func (p adminPages) mount(mux *http.ServeMux) {
	if p.handler == nil {
		return
	}
	mux.Handle(console.LocalRoot, p.handler)
	mux.Handle("/assets/", p.handler)
	mux.Handle("GET /{$}", http.RedirectHandler(console.LocalRoot, http.StatusSeeOther))
}

// consoleModule builds the console of the admin listener, and runs it.
func consoleModule() fx.Option {
	type parts struct {
		fx.In
		Config   config.Config
		Services api.Deps
		Traffic  console.Traffic `optional:"true"` // a data plane without a gateway tells none
		Log      *slog.Logger
	}
	return fx.Module("console",
		fx.Provide(func(p parts) (adminPages, error) { return newAdminPages(p.Config, p.Services, p.Traffic, p.Log) }),
		actor(func(p adminPages) Actor { return Actor{Name: "console", Stage: StageGateway, Run: p.console.Run} }),
	)
}
