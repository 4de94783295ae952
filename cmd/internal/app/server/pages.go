package server

import (
	"context"
	"log/slog"
	"net/http"

	"go.uber.org/fx"

	"github.com/llmgw/llmgw/auth"
	"github.com/llmgw/llmgw/auth/portal"
	"github.com/llmgw/llmgw/auth/webui"
	config "github.com/llmgw/llmgw/cmd/internal/config/server"
	"github.com/llmgw/llmgw/fleet/api"
	"github.com/llmgw/llmgw/fleet/console"
)

// pages are what people see in a browser on the client listener. They need no key,
// since they have guards of their own.
type pages struct {
	mounts  []mount
	console *console.Console // nil: nobody can look at it here
	exempt  []string         // what needs no key for them, as auth.NewExempt reads it
}

// mount is what is served besides the data plane, and where: for requests whose path is
// written just so, and for no others. No mux cleans paths on this listener, since the
// data plane is told of what it serves as it came.
type mount struct {
	at      auth.Exempt
	handler http.Handler
}

// pageParts are what pages are made of.
type pageParts struct {
	fx.In
	Config   config.Config
	People   *people
	Govern   *governance
	Plane    dataPlane
	Services api.Deps
	Traffic  console.Traffic `optional:"true"` // a data plane without a gateway tells none
	Log      *slog.Logger
}

// newPages builds the landing page and, where people can sign in, all that they can
// open then.
func newPages(parts pageParts) (*pages, error) {
	cfg, plane := parts.Config, parts.Plane
	look := webui.Deps{Assets: portal.Assets(), Logger: parts.Log}
	deps := portal.Deps{SignUp: cfg.Accounts.SignUp}
	offered := portal.NavConfig{}
	if cfg.HasPages() {
		accounts := parts.People.accounts
		look.Sessions = portal.Sessions(accounts)
		deps.Accounts, deps.Budgets, deps.Plane, deps.Models = accounts, parts.Govern.store, plane, usable(plane)
		offered = portal.NavConfig{SignIn: true, SignUp: cfg.Accounts.SignUp, Chat: true, Console: true}
	}
	look.Nav = portal.Nav(offered)
	site, err := webui.New(cfg.Portal.Pages, look)
	if err != nil {
		return nil, err
	}
	deps.Site = site
	p, err := portal.New(cfg.Landing, deps)
	if err != nil {
		return nil, err
	}
	out := new(pages)
	routes := p.Routes()
	if cfg.HasPages() {
		shown := consoleDeps(parts.Services, parts.Traffic, parts.Log)
		shown.Site, shown.Users = site, parts.Services.Users
		shown.Extras.Elsewhere = &console.Elsewhere{Admin: cfg.AdminListen, Metrics: cfg.MetricsListen}
		if out.console, err = console.New(cfg.Console, shown); err != nil {
			return nil, err
		}
		routes = append(routes, out.console.Routes(webui.Admin)...)
	}
	out.exempt = site.Exempt(routes)
	if cfg.HasPages() {
		// That there is nothing below these is said by a page, too; below the console's
		// to those who cannot open it in the same words.
		out.exempt = append(out.exempt, "GET /profile/", "HEAD /profile/", "GET "+console.Root, "HEAD "+console.Root)
	}
	at, err := auth.NewExempt(out.exempt...)
	if err != nil {
		return nil, err
	}
	out.mounts = []mount{{at, site.Handler(routes)}}
	return out, nil
}

// run keeps the console's rates, until ctx is done.
func (p *pages) run(ctx context.Context) error {
	if p.console == nil {
		<-ctx.Done()
		return nil
	}
	return p.console.Run(ctx)
}

// usable says which models an identity may use, by their names; nil where that is not
// known.
func usable(plane dataPlane) func(*auth.Identity) []string {
	p, ok := plane.(interface{ KeyModels() auth.Models })
	if !ok {
		return nil
	}
	return func(id *auth.Identity) (list []string) {
		models := p.KeyModels()
		for _, name := range models.Names() {
			if canonical, ok := models.Resolve(name); ok && canonical == name && id.MayUse(models, name) {
				list = append(list, name)
			}
		}
		return list
	}
}

// pagesModule builds the pages, and runs what they show.
func pagesModule() fx.Option {
	return fx.Module("pages", fx.Provide(newPages),
		actor(func(p *pages) Actor { return Actor{Name: "pages", Stage: StageGateway, Run: p.run} }))
}
