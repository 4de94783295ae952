package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/dig"
	"go.uber.org/fx"

	config "github.com/llmgw/llmgw/cmd/internal/config/server"
	"github.com/llmgw/llmgw/fleet/controlplane/models"
)

// Options are what Run needs to know.
type Options struct {
	Config config.Config
	// Reload reads the configuration again on SIGHUP; nil leaves SIGHUP its
	// usual effect, which is to end the process.
	Reload func() (config.Config, error)
	Logger *slog.Logger   // required
	Level  *slog.LevelVar // the logger's level, changed by a reload; nil if it cannot be
	// Serving, if not nil, is called once, when every listener is served.
	Serving func(Addresses)
}

// Addresses are where the listeners really are, after a port 0 was replaced.
type Addresses struct {
	Client  string // host:port
	Admin   string // host:port
	Metrics string // host:port; "" without such a listener
	Agents  string // host:port; "" without such a listener
	TLS     bool   // whether Client speaks TLS
}

// dataPlane is what the server serves.
type dataPlane interface {
	http.Handler
	Run(ctx context.Context) error
	Ready() error // why a request that comes now has nowhere to go
	Reload(cfg config.Config) error
}

// startTimeout bounds opening and closing listeners.
const startTimeout = 15 * time.Second

// Run serves until ctx is done or the process is told to end by SIGTERM or
// SIGINT, both of which are no error. Configuration faults are found before it
// is called; an address that is taken or a part that fails is an error.
func Run(ctx context.Context, opts Options) error {
	tuneMemory(opts.Logger)
	if w := opts.Config.OpenWarning(); w != "" {
		opts.Logger.Warn("the server is open to everybody", "warning", w)
	}
	opts.Config.StoredProfiles = storedProfiles(ctx, opts.Config, opts.Logger)
	if w := opts.Config.ClearWarning(); w != "" {
		opts.Logger.Warn("agents speak in clear", "warning", w)
	}
	if w := opts.Config.UnfollowedWarning(); w != "" {
		opts.Logger.Warn("control planes are not followed", "warning", w)
	}
	return runWith(ctx, opts, gatewayModule())
}

func runWith(ctx context.Context, opts Options, plane fx.Option) error {
	var actors struct {
		fx.In
		Actors []Actor `group:"actors"`
	}
	// From here on, not from when an actor runs: whoever is told that the server
	// is ready may send a signal at once.
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	defer signal.Stop(signals)
	app := fx.New(options(opts, plane), fx.Populate(&actors))
	if err := app.Err(); err != nil {
		return rootCause(err)
	}
	startCtx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := app.Start(startCtx); err != nil {
		return fmt.Errorf("server: %w", err)
	}
	err := runActors(ctx, opts.Logger, signals, opts.Config.Shutdown, actors.Actors)
	stopCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), startTimeout)
	defer cancel()
	return errors.Join(err, app.Stop(stopCtx))
}

// rootCause drops what dig says about its own workings: a constructor's error
// is for the operator, who knows none of them.
func rootCause(err error) error { return fmt.Errorf("server: %w", dig.RootCause(err)) }

// options is the object graph of the role.
func options(opts Options, plane fx.Option) fx.Option {
	if opts.Level == nil {
		opts.Level = new(slog.LevelVar)
	}
	return fx.Options(
		// How the graph is wired interests nobody who looks for a fault of the
		// fleet; errors come back from Start and Stop and are told once.
		fx.NopLogger,
		fx.StartTimeout(startTimeout),
		fx.StopTimeout(startTimeout),
		fx.Supply(opts.Config, opts.Logger, opts.Level),
		plane,
		metricsModule(),
		storeModule(),
		adaptersModule(),
		modelsModule(),
		governModule(),
		peopleModule(),
		pagesModule(),
		controlModule(),
		routerModule(opts.Config),
		listenersModule(),
		clientModule(opts.Serving),
		apiModule(),
		consoleModule(),
		operatorsModule(),
		reloadModule(opts.Reload),
	)
}

// actor puts an Actor into the group that Run runs.
func actor(constructor any) fx.Option {
	return fx.Provide(fx.Annotate(constructor, fx.ResultTags(`group:"actors"`)))
}

func metricsModule() fx.Option {
	return fx.Module("metrics", fx.Provide(
		newRegistry,
		func(reg *registry) prometheus.Registerer { return reg },
		newMetrics,
		func() *exposer { return new(exposer) },
	))
}

func listenersModule() fx.Option {
	return fx.Module("listeners", fx.Provide(
		func(lc fx.Lifecycle, cfg config.Config, m *metrics) *listeners {
			l := &listeners{cfg: cfg, metrics: m}
			lc.Append(fx.Hook{OnStart: l.open, OnStop: l.close})
			return l
		},
	))
}

func clientModule(serving func(Addresses)) fx.Option {
	return fx.Module("client",
		fx.Provide(
			func(p dataPlane) *health { return &health{ready: p.Ready} },
			func(cfg config.Config, log *slog.Logger, reg prometheus.Registerer) (certificate, error) {
				return newCertificate(cfg.TLS, log, reg)
			},
			func(cfg config.Config, p dataPlane, pages *pages, h *health, cert certificate, log *slog.Logger) (*client, error) {
				tlsConfig, err := cert.tlsConfig()
				if err != nil {
					return nil, err
				}
				return newClient(cfg, p, pages, h, tlsConfig, log)
			},
		),
		actor(func(c *client, l *listeners, k *keeper) Actor { return c.actor(l, k.opened()) }),
		actor(func(h *health, l *listeners, cfg config.Config, log *slog.Logger) Actor {
			return h.actor(cfg.Shutdown.Grace, func() {
				at := l.addresses()
				log.Info("serving", "pid", os.Getpid(), "listen", at.Client, "admin_listen", at.Admin, "metrics_listen", at.Metrics, "agent_listen", at.Agents, "tls", at.TLS)
				if serving != nil {
					serving(at)
				}
			})
		}),
		actor(func(c certificate) Actor {
			return Actor{Name: "certificate", Stage: StageOperators, Run: c.run}
		}),
	)
}

func operatorsModule() fx.Option {
	return fx.Module("operators",
		actor(func(l *listeners, p dataPlane, e *exposer, h *health, m management, pages adminPages, reg *registry, log *slog.Logger) Actor {
			e.expose(reg)
			var decisions http.Handler
			if d, ok := p.(interface{ DecisionsHandler() http.Handler }); ok {
				decisions = d.DecisionsHandler()
			}
			return operators("admin listener", func() net.Listener { return l.admin }, newAdminMux(e, h, decisions, m, pages), log)
		}),
		actor(func(l *listeners, e *exposer, h *health, log *slog.Logger) Actor {
			return operators("metrics listener", func() net.Listener { return l.metricsOnly }, newMetricsMux(e, h), log)
		}),
	)
}

func reloadModule(read func() (config.Config, error)) fx.Option {
	if read == nil {
		return fx.Options()
	}
	return fx.Module("reload", actor(
		func(lc fx.Lifecycle, cfg config.Config, p dataPlane, catalog *models.Models, cert certificate, level *slog.LevelVar, log *slog.Logger, m *metrics) Actor {
			r := &reloader{
				read: read, apply: reconfigure(catalog, p), level: level, cert: cert, log: log, metrics: m, running: cfg, control: cfg.ControlPlane(),
				hangup: make(chan os.Signal, 1),
			}
			lc.Append(fx.StartStopHook(
				func() { signal.Notify(r.hangup, syscall.SIGHUP) },
				func() { signal.Stop(r.hangup) },
			))
			return Actor{Name: "reload", Stage: StageSignals, Run: r.run}
		}))
}
