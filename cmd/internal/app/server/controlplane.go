package server

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/fx"
	"google.golang.org/protobuf/types/known/timestamppb"

	config "github.com/llmgw/llmgw/cmd/internal/config/server"
	"github.com/llmgw/llmgw/fleet/api"
	"github.com/llmgw/llmgw/fleet/apipb"
	"github.com/llmgw/llmgw/fleet/control"
	"github.com/llmgw/llmgw/fleet/controlplane"
	"github.com/llmgw/llmgw/fleet/controlplane/models"
	"github.com/llmgw/llmgw/fleet/feed"
	"github.com/llmgw/llmgw/fleet/pki"
	"github.com/llmgw/llmgw/placement/reconcile"
	"github.com/llmgw/llmgw/placement/scale"
)

// controlPlane is what a server has that agents dial. It is nil in one that they
// do not.
type controlPlane struct {
	plane     *controlplane.Plane
	wanted    *wanted
	follows   func(context.Context) error // this process's own router; nil: it does not
	listeners *listeners
	cert      *pki.Reloader // nil: agents speak in clear
	routers   feed.Access   // how routers of other processes prove themselves
	log       *slog.Logger
}

func newControlPlane(cfg config.Config, k *keeper, l *listeners, m *models.Models, f *fitter, a *adapters, data dataPlane, log *slog.Logger, reg prometheus.Registerer) (*controlPlane, error) {
	if !cfg.ControlPlane() {
		return nil, nil //nolint:nilnil // that there is none is no error
	}
	p := &controlPlane{listeners: l, wanted: newWanted(m), log: log}
	deps := controlplane.Deps{
		Store: k.store, Holder: holder(), Catalog: p.wanted, Shape: a.shape, Facts: a.facts, Logger: log, Registerer: reg,
	}
	if r, can := data.(interface {
		Scaled(model string, r *scale.Record)
	}); can {
		deps.Scaled = func(s reconcile.Scaled) { r.Scaled(s.Model, &s.Record) }
	}
	if cfg.AgentTLS != (config.AgentTLS{}) {
		identity, err := p.prove(cfg.AgentTLS, reg)
		if err != nil {
			return nil, fmt.Errorf("agent_tls: %w", err)
		}
		// The certificate names the cluster; agents look at it.
		if cfg.Control.Cluster == "" {
			cfg.Control.Cluster = identity.Cluster
		}
		if identity.Cluster != cfg.Control.Cluster {
			return nil, fmt.Errorf("control.cluster: %q, but the certificate in agent_tls.cert_file is of cluster %q", cfg.Control.Cluster, identity.Cluster)
		}
		deps.Verify = func(conn *tls.ConnectionState, node string) error {
			_, err := pki.CheckNode(*conn, node)
			return err
		}
		p.routers.Verify = func(conn *tls.ConnectionState, router string) error {
			_, err := pki.CheckRouter(*conn, router)
			return err
		}
	} else {
		token, err := config.ReadToken(cfg.Routers.TokenFile)
		if err != nil {
			return nil, fmt.Errorf("routers.token_file: %w", err)
		}
		p.routers.Token = func() string { return token }
	}
	var err error
	if p.plane, err = controlplane.New(cfg.Control, deps); err != nil {
		return nil, err
	}
	f.plane.Store(p.plane)
	if r, can := data.(followed); can {
		p.follows, err = follow(p.plane.Feed(), r, log, reg)
	}
	return p, err
}

// prove reads the certificate by which agents know this server, and returns whom
// it names.
func (p *controlPlane) prove(files config.AgentTLS, reg prometheus.Registerer) (pki.Info, error) {
	cfg := pki.DefaultConfig()
	cfg.CertFile, cfg.KeyFile, cfg.CAFile = files.CertFile, files.KeyFile, files.CAFile
	var err error
	p.cert, err = pki.NewReloader(cfg, pki.Deps{Use: "agent_listener", Logger: p.log, Registerer: reg})
	if err != nil {
		return pki.Info{}, err
	}
	if _, err := p.cert.Load(); err != nil {
		return pki.Info{}, err
	}
	info, _ := p.cert.Info()
	if info.Role != pki.RoleServer.String() {
		return info, fmt.Errorf("cert_file: %s is the certificate of a %s; agents want that of a server, which llmgw ctl cert server makes", files.CertFile, info.Role)
	}
	return info, nil
}

// placement is what is placed, as the management API has it. models may be nil.
func (p *controlPlane) placement(models api.Models) api.Placement {
	return p.plane.Placement(controlplane.About{Models: models, Certificates: func() []*apipb.CertificateExpiry {
		if p.cert == nil {
			return nil
		}
		info, known := p.cert.Info()
		if !known {
			return nil
		}
		return []*apipb.CertificateExpiry{{Use: "agent_listener", Name: info.Name, NotAfter: timestamppb.New(info.NotAfter)}}
	}})
}

// holder says where this control plane runs.
func holder() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return fmt.Sprintf("%s pid %d", host, os.Getpid())
}

// runs are what needs the store.
func (p *controlPlane) runs() []func(context.Context) error {
	if p == nil {
		return nil
	}
	runs := []func(context.Context) error{p.serve, p.wanted.run}
	if p.follows != nil {
		runs = append(runs, p.follows)
	}
	if p.cert != nil {
		runs = append(runs, p.cert.Run)
	}
	if pace := newPacer(); pace != nil {
		runs = append(runs, pace.run)
	}
	return runs
}

// serve runs the plane and its listener until ctx is done.
func (p *controlPlane) serve(ctx context.Context) error {
	mux := http.NewServeMux()
	mux.Handle(p.plane.Handler())
	mux.Handle(p.plane.Feed().Handler(p.routers))
	s := &http.Server{Handler: mux, ErrorLog: agentErrors(p.log)} //nolint:gosec // control.Configure sets its deadlines
	control.Configure(s)
	listener, err := p.listener()
	if err != nil {
		return err
	}
	failed := make(chan error, 1)
	go func() { failed <- served(s.Serve(listener)) }()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		select {
		case err := <-failed:
			failed <- err
			cancel(err)
		case <-ctx.Done():
		}
	}()
	err = p.plane.Run(ctx) // it ends all streams, with a word
	<-stopped
	_ = s.Close() // the listener is closed either way
	if err == nil {
		err = <-failed
	}
	return err
}

// listener is the agents', with the certificate where there is one. Whose
// certificate an agent shows is looked at when it says its name, so that it can be
// told what is wrong.
func (p *controlPlane) listener() (net.Listener, error) {
	if p.cert == nil {
		return p.listeners.agents, nil
	}
	cfg, err := p.cert.Server(pki.ServerOptions{Clients: pki.ClientsRequired, NextProtos: []string{"h2"}})
	if err != nil {
		return nil, err
	}
	return control.NewListener(p.listeners.agents, cfg), nil
}

// controlModule builds what agents dial.
func controlModule() fx.Option { return fx.Module("control", fx.Provide(newControlPlane)) }
