package server

import (
	"log/slog"
	"net/http"

	"go.uber.org/fx"

	"github.com/llmgw/llmgw/auth"
	"github.com/llmgw/llmgw/auth/portal"
	"github.com/llmgw/llmgw/auth/webui"
	config "github.com/llmgw/llmgw/cmd/internal/config/server"
)

// pages are what people see in a browser on the client listener. They need no key,
// since they have guards of their own.
type pages struct {
	mounts []mount
	exempt []string // what needs no key for them, as auth.NewExempt reads it
}

// mount is what is served besides the data plane, and where: for requests whose path is
// written just so, and for no others. No mux cleans paths on this listener, since the
// data plane is told of what it serves as it came.
type mount struct {
	at      auth.Exempt
	handler http.Handler
}

// newPages builds the landing page and, where people can sign in, all that they can
// open then.
func newPages(cfg config.Config, who *people, g *governance, plane dataPlane, log *slog.Logger) (*pages, error) {
	look := webui.Deps{Assets: portal.Assets(), Logger: log}
	deps := portal.Deps{SignUp: cfg.Accounts.SignUp}
	offered := portal.NavConfig{}
	if cfg.HasPages() {
		look.Sessions = portal.Sessions(who.accounts)
		deps.Accounts, deps.Budgets, deps.Plane, deps.Models = who.accounts, g.store, plane, usable(plane)
		offered = portal.NavConfig{SignIn: true, SignUp: cfg.Accounts.SignUp, Chat: true}
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
	routes := p.Routes()
	exempt := site.Exempt(routes)
	if cfg.HasPages() {
		// That there is nothing below these is said by a page, too.
		exempt = append(exempt, "GET /profile/", "HEAD /profile/")
	}
	at, err := auth.NewExempt(exempt...)
	if err != nil {
		return nil, err
	}
	return &pages{[]mount{{at, site.Handler(routes)}}, exempt}, nil
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

// pagesModule builds the pages.
func pagesModule() fx.Option { return fx.Module("pages", fx.Provide(newPages)) }
