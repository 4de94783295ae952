// Package agent is the role `llmgw agent`: the node's side of a fleet, with its
// adapters, its hardware and its certificate.
package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"os/signal"
	"syscall"

	"github.com/oklog/run"

	"github.com/llmgw/llmgw/cmd/internal/app"
	config "github.com/llmgw/llmgw/cmd/internal/config/agent"
	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/engines/plugin"
	"github.com/llmgw/llmgw/fleet/agent"
	"github.com/llmgw/llmgw/fleet/hardware"
	"github.com/llmgw/llmgw/fleet/pki"
)

// Options are what Run needs to know.
type Options struct {
	Config   config.Config
	Adapters []engines.Adapter // those that the binary is built with
	Logger   *slog.Logger      // required
}

// actor is something that lasts as long as the process.
type actor struct {
	name string
	run  func(ctx context.Context) error
}

// Run is the agent's life until ctx is done or a signal comes, which are no
// errors. Engines run on.
func Run(ctx context.Context, opts Options) error {
	// From here on: whoever sees the process may send a signal at once.
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	defer signal.Stop(signals)
	tuneMemory()
	actors, err := build(ctx, opts)
	if err != nil {
		return err
	}
	return runAll(ctx, signals, opts.Logger, actors)
}

// build puts the parts together, in the order in which they end.
func build(ctx context.Context, opts Options) ([]actor, error) {
	cfg, log := opts.Config, opts.Logger
	programs, err := app.Programs(ctx, opts.Adapters)
	if err != nil {
		return nil, err
	}
	host, err := plugin.New(cfg.Plugins, plugin.Deps{Builtin: programs, Logger: log})
	if err != nil {
		return nil, err
	}
	owner := new(late)
	reader, err := hardware.New(cfg.Machine(), hardware.Deps{Known: owner.owns, Logger: log})
	if err != nil {
		return nil, err
	}
	deps := agent.Deps{
		Hardware: machine{reader, advertise(cfg)}, Adapters: host, Version: app.ReadVersion().Version, Logger: log,
	}
	others := []actor{{"adapters", host.Run}, {"faults", newFaultBook(reader, cfg.Agent.StateDir, log).run}}
	if cfg.Secured() {
		r, err := pki.NewReloader(cfg.TLS, pki.Deps{Logger: log})
		if err != nil {
			return nil, err
		}
		if _, err := r.Load(); err != nil {
			return nil, fmt.Errorf("tls: %w", err)
		}
		deps.DialTLS = r.DialTLS(nil, "h2")
		deps.Certificate = func() string { return certificate(r) }
		others = append(others, actor{"certificate", r.Run})
	}
	a, err := agent.New(cfg.Agent, deps)
	if err != nil {
		return nil, err
	}
	owner.set(a)
	return append([]actor{{"agent", a.Run}}, others...), nil
}

// certificate says what the node proves itself with.
func certificate(r *pki.Reloader) string {
	info, ok := r.Info()
	if !ok {
		return "none"
	}
	return fmt.Sprintf("%s %s of cluster %s, until %s", info.Role, info.Name, info.Cluster, info.NotAfter.Format("2006-01-02"))
}

// advertise says how the node's address is found, as far as its own configuration
// says it.
func advertise(cfg config.Config) hardware.AdvertiseConfig {
	out := hardware.AdvertiseConfig{Interface: cfg.MgmtInterface, Written: cfg.MgmtInterface != ""}
	if len(cfg.Agent.Servers) > 0 {
		if u, err := url.Parse(cfg.Agent.Servers[0]); err == nil {
			out.ControlPlane = u.Host
		}
	}
	return out
}

// machine is a reader as an agent wants it.
type machine struct {
	*hardware.Reader
	advertise hardware.AdvertiseConfig
}

// Advertise returns the node's address.
func (m machine) Advertise(ctx context.Context, preferred string) (agent.Advertised, error) {
	cfg := m.advertise
	cfg.Interface = cmp.Or(cfg.Interface, preferred)
	a, err := m.Reader.Advertise(ctx, cfg)
	if err != nil {
		return agent.Advertised{}, err
	}
	return agent.Advertised{Address: a.Address.String(), Interface: a.Interface, Instead: a.Missed}, nil
}

// runAll runs the actors until the first returns or a signal comes, ends them in
// their order, and waits for all.
func runAll(ctx context.Context, signals chan os.Signal, log *slog.Logger, actors []actor) error {
	var g run.Group
	ended, end := context.WithCancel(ctx)
	g.Add(func() error {
		select {
		case s := <-signals:
			signal.Stop(signals) // the next one has its usual effect: it kills
			log.Info("the agent ends; engines run on", "signal", s.String())
			return run.ErrSignal
		case <-ended.Done():
			return context.Cause(ended)
		}
	}, func(error) { end() })
	for _, a := range actors {
		actorCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
		g.Add(func() error {
			err := a.run(actorCtx)
			if err == nil && actorCtx.Err() == nil {
				<-actorCtx.Done() // it has nothing left to do
			}
			return err
		}, func(error) { cancel() })
	}
	err := g.Run()
	if errors.Is(err, run.ErrSignal) || (ctx.Err() != nil && errors.Is(err, context.Cause(ctx))) {
		return nil
	}
	return err
}
