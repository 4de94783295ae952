package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/fx"

	"github.com/llmgw/llmgw/auth"
	"github.com/llmgw/llmgw/cmd/internal/app"
	config "github.com/llmgw/llmgw/cmd/internal/config/server"
	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/fleet/feed"
	"github.com/llmgw/llmgw/fleet/pki"
)

// routerModule follows the control planes of other processes, in a server that is
// a router.
func routerModule(cfg config.Config) fx.Option {
	if !cfg.Router {
		return fx.Options()
	}
	return fx.Module("router", actor(
		func(lc fx.Lifecycle, cfg config.Config, data dataPlane, g *governance, log *slog.Logger, reg prometheus.Registerer) (Actor, error) {
			r, err := newRemoteRouter(cfg.Follow, data, log, reg)
			if err != nil {
				return Actor{}, fmt.Errorf("follow: %w", err)
			}
			if g != nil {
				r.keys = g.auth
			}
			lc.Append(fx.StartHook(r.load))
			return Actor{Name: "router", Stage: StageGateway, Run: r.run}, nil
		}))
}

// remoteRouter has the data plane of this process follow control planes of others.
type remoteRouter struct {
	follower *feed.Follower
	data     followed
	cert     *pki.Reloader       // nil: a token is shown
	keys     *auth.Authenticator // nil: nobody is asked for one
}

func newRemoteRouter(cfg config.Follow, data dataPlane, log *slog.Logger, reg prometheus.Registerer) (*remoteRouter, error) {
	r := new(remoteRouter)
	var can bool
	if r.data, can = data.(followed); !can {
		return nil, errors.New("what is served here follows nobody")
	}
	to := feed.Remote{}
	c := feed.DefaultConfig()
	c.Router, c.File, c.Reconnect = cfg.Name, cfg.File, cfg.Reconnect
	if cfg.TLS != (config.RouterTLS{}) {
		identity, err := r.prove(cfg.TLS, log, reg)
		if err != nil {
			return nil, fmt.Errorf("tls: %w", err)
		}
		if c.Router == "" {
			c.Router = identity.Name
		}
		if c.Router != identity.Name {
			return nil, fmt.Errorf("name: %q, but the certificate in tls.cert_file is of %q", c.Router, identity.Name)
		}
		c.Cluster = identity.Cluster
		to.DialTLS = feed.DialFunc(r.cert.DialTLS(nil, "h2", "http/1.1"))
	}
	token, err := config.ReadToken(cfg.TokenFile)
	if err != nil {
		return nil, fmt.Errorf("token_file: %w", err)
	}
	to.Token = func() string { return token }
	if c.Router == "" {
		c.Router = machineName()
	}
	deps := feed.Deps{Reporter: r.data, Software: "llmgw " + app.ReadVersion().Version, Logger: log, Registerer: reg}
	for _, to.Address = range cfg.Servers {
		source, err := feed.NewRemote(to)
		if err != nil {
			return nil, err
		}
		deps.Sources = append(deps.Sources, source)
	}
	r.follower, err = feed.New(c, deps)
	return r, err
}

// prove reads the certificate by which control planes know this router, and returns
// whom it names.
func (r *remoteRouter) prove(files config.RouterTLS, log *slog.Logger, reg prometheus.Registerer) (pki.Info, error) {
	cfg := pki.DefaultConfig()
	cfg.CertFile, cfg.KeyFile, cfg.CAFile = files.CertFile, files.KeyFile, files.CAFile
	var err error
	if r.cert, err = pki.NewReloader(cfg, pki.Deps{Use: "feed", Logger: log, Registerer: reg}); err != nil {
		return pki.Info{}, err
	}
	if _, err := r.cert.Load(); err != nil {
		return pki.Info{}, err
	}
	info, _ := r.cert.Info()
	if info.Role != pki.RoleRouter.String() {
		return info, fmt.Errorf("cert_file: %s is the certificate of a %s; control planes want that of a router, which llmgw ctl cert router makes", files.CertFile, info.Role)
	}
	return info, nil
}

// machineName is the name of a router that nobody gave one.
func machineName() string {
	host, err := os.Hostname()
	if err != nil || engines.ValidID(host) != nil {
		return "router"
	}
	return host
}

// load brings the copy on the disk into force, so that what comes as soon as this
// server listens finds the engines that were known before.
func (r *remoteRouter) load(ctx context.Context) error {
	r.follower.Load()
	once, cancel := context.WithCancel(ctx)
	cancel()
	if r.keys != nil {
		r.revoke(once)
	}
	return r.data.Follow(once, r.follower, true)
}

func (r *remoteRouter) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	var err error
	if r.cert != nil {
		wg.Go(func() { err = r.cert.Run(ctx) })
	}
	if r.keys != nil {
		wg.Go(func() { r.revoke(ctx) })
	}
	followed := followFeed(ctx, r.follower, r.data, true)
	cancel()
	wg.Wait()
	return errors.Join(err, followed)
}

// revoke ends the keys that count no more and forgets those that were changed, until
// ctx is done. The store would say so later, when they are next looked up.
func (r *remoteRouter) revoke(ctx context.Context) {
	var done map[string]feed.Revocation // those of the state before, by the key's ID
	for {
		state, changed := r.follower.State()
		now := make(map[string]feed.Revocation, len(state.Revoked))
		for _, it := range state.Revoked {
			now[it.KeyID] = it
			switch was, told := done[it.KeyID]; {
			case told && was.Changed == it.Changed && was.At.Equal(it.At):
			case it.Changed:
				r.keys.Forget(it.KeyID)
			default:
				r.keys.Revoke(it.KeyID)
			}
		}
		done = now
		select {
		case <-ctx.Done():
			return
		case <-changed:
		}
	}
}
