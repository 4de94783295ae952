package server

import (
	"context"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/fx"

	"github.com/llmgw/llmgw/auth"
	"github.com/llmgw/llmgw/auth/account"
	config "github.com/llmgw/llmgw/cmd/internal/config/server"
)

// people is who makes keys and who knows those who sign in on the pages. It is nil in
// a server that asks nobody for a key.
type people struct {
	issuer   *auth.Issuer
	accounts *account.Service
}

func newPeople(cfg config.Config, g *governance, data dataPlane, p *controlPlane, log *slog.Logger, reg prometheus.Registerer) (*people, error) {
	if g == nil {
		return nil, nil //nolint:nilnil // that nobody is asked for a key is no error
	}
	deps := auth.IssuerDeps{Keys: g.store, Told: g.auth, Logger: log}
	if p != nil {
		deps.Told = toldRouters{g.auth, p.plane.Feed()}
	}
	if m, ok := data.(interface{ KeyModels() auth.Models }); ok {
		deps.Models = m.KeyModels
	}
	if a := cfg.Gateway.Admission.Core; a.Enabled {
		for _, b := range a.Bands {
			deps.Bands = append(deps.Bands, b.Name)
		}
	}
	issuer, err := auth.NewIssuer(deps)
	if err != nil {
		return nil, err
	}
	accounts, err := account.New(cfg.Accounts, account.Deps{Store: g.store, Issuer: issuer, Told: deps.Told, Logger: log, Registerer: reg})
	if err != nil {
		return nil, err
	}
	return &people{issuer, accounts}, nil
}

// runs are what needs the store.
func (p *people) runs() []func(context.Context) error {
	if p == nil {
		return nil
	}
	return []func(context.Context) error{p.issuer.Run, p.accounts.Run}
}

// peopleModule builds who makes keys and who knows people.
func peopleModule() fx.Option { return fx.Module("people", fx.Provide(newPeople)) }
