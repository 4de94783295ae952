// Package demo is the role `llmgw demo`: a server and three simulated engines
// in one process, for the first five minutes and for tests of clients. A fleet of
// simulated machines with agents of their own is behind the server of RunFleet.
package demo

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/llmgw/llmgw/auth"
	"github.com/llmgw/llmgw/cmd/internal/app/server"
	config "github.com/llmgw/llmgw/cmd/internal/config/server"
	"github.com/llmgw/llmgw/cmd/internal/storedsn"
	"github.com/llmgw/llmgw/engines/sim"
	"github.com/llmgw/llmgw/router/endpoint"
	"github.com/llmgw/llmgw/router/gateway"
)

// engines is how many engines are simulated.
const engines = 3

// Options are what Run needs to know.
type Options struct {
	Listen, AdminListen string       // host:port; port 0 takes a free one
	Logger              *slog.Logger // required
	// Auth asks for a key, and makes one. What is kept goes with the demo.
	Auth bool
	// Ready is called once, when a request would be served, with a key if Auth asks
	// for one. Required.
	Ready func(at server.Addresses, models []string, key string)
}

// Run serves until ctx is done or a signal comes, which are no errors.
func Run(ctx context.Context, opts Options) error {
	cfg := opts.over(config.DefaultConfig())
	if err := cfg.Validate(); err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	var key string
	if opts.Auth {
		dir, err := os.MkdirTemp("", "llmgw-demo-*")
		if err != nil {
			return fmt.Errorf("demo: %w", err)
		}
		defer os.RemoveAll(dir) // last of all
		if key, err = opts.keep(ctx, &cfg, dir); err != nil {
			return err
		}
	}
	serverCtx, stopServer := context.WithCancelCause(ctx)
	defer stopServer(nil)
	// Engines end after the server, whose last requests they answer.
	enginesCtx, stopEngines := context.WithCancel(context.WithoutCancel(ctx))
	defer stopEngines()
	var wg sync.WaitGroup // Run waits for the engines and for waitReady
	defer wg.Wait()
	defer stopEngines()

	engine := sim.DefaultConfig()
	for i := range engines {
		address, err := startEngine(enginesCtx, &wg, engine, opts.Logger, stopServer)
		if err != nil {
			return fmt.Errorf("demo: %w", err)
		}
		cfg.Gateway.Endpoints = append(cfg.Gateway.Endpoints, gateway.Endpoint{Spec: endpoint.Spec{
			ID: fmt.Sprintf("sim-%d", i+1), URL: "http://" + address, Models: []endpoint.Model{{Name: engine.Model}},
		}})
	}
	err := server.Run(serverCtx, server.Options{
		Config: cfg, Logger: opts.Logger,
		Serving: func(at server.Addresses) {
			wg.Go(func() {
				if waitReady(serverCtx, "http://"+at.Admin+"/ready") != nil {
					return
				}
				opts.Ready(at, []string{engine.Model}, key)
			})
		},
	})
	err = outcome(ctx, serverCtx, err)
	stopServer(nil)
	return err
}

// over returns cfg with what the options say.
func (opts Options) over(cfg config.Config) config.Config {
	cfg.Listen, cfg.AdminListen = opts.Listen, opts.AdminListen
	// Nobody balances load over a demo, so nobody needs to be told that it
	// ends before it does.
	cfg.Shutdown = config.Shutdown{Drain: 5 * time.Second}
	cfg.Auth.Enabled = opts.Auth
	return cfg
}

// keep puts the store of cfg into dir, and returns a key of it if one is asked for.
func (opts Options) keep(ctx context.Context, cfg *config.Config, dir string) (key string, err error) {
	cfg.Store.DSN = storedsn.DSN("sqlite:" + filepath.Join(dir, "llmgw.db"))
	if !opts.Auth {
		return "", nil
	}
	if key, err = makeKey(ctx, cfg.Store.DSN); err != nil {
		return "", fmt.Errorf("demo: no key was made: %w", err)
	}
	return key, nil
}

// outcome is what a server's end means: serverCtx may have been ended by a part of
// the demo that failed, and ctx by whoever runs it.
func outcome(ctx, serverCtx context.Context, err error) error {
	if cause := context.Cause(serverCtx); cause != nil && !errors.Is(cause, context.Canceled) && ctx.Err() == nil {
		err = errors.Join(cause, err)
	}
	if errors.Is(err, syscall.EADDRINUSE) {
		return taken{err}
	}
	return err
}

// taken is the server's error about ports that others have, in the demo's words:
// one line, since whoever runs a demo may not know that there is a server in it.
type taken struct{ error }

func (t taken) Error() string {
	said := strings.TrimPrefix(t.error.Error(), "server: ")
	return "demo: " + strings.ReplaceAll(said, "\n", "; ") + "; choose another port with --listen or --admin-listen, 0 takes a free one"
}

func (t taken) Unwrap() error { return t.error }

// startEngine serves an engine on a free port of loopback until ctx is done. If
// it fails before, so does the demo.
func startEngine(ctx context.Context, wg *sync.WaitGroup, cfg sim.Config, log *slog.Logger, failed context.CancelCauseFunc) (string, error) {
	engine, err := sim.New(cfg, sim.Deps{Logger: log})
	if err != nil {
		return "", err
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", errors.Join(err, engine.Close())
	}
	wg.Go(func() {
		if err := engine.Serve(ctx, l); err != nil {
			failed(fmt.Errorf("demo: an engine failed: %w", err))
		}
	})
	return l.Addr().String(), nil
}

// makeKey makes a store with a key that may do everything, and returns the key.
func makeKey(ctx context.Context, dsn storedsn.DSN) (text string, err error) {
	st, err := storedsn.Open(dsn, nil, nil)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	if err := st.Open(ctx); err != nil {
		return "", err
	}
	issuer, err := auth.NewIssuer(auth.IssuerDeps{Keys: st})
	if err != nil {
		return "", err
	}
	made, err := issuer.Create(ctx, auth.Spec{Name: "demo"}, auth.By{Actor: "demo"})
	if err != nil {
		return "", err
	}
	return made.Secret.Reveal(), nil
}

// waitReady asks until the answer is 200 or ctx is done.
func waitReady(ctx context.Context, url string) error {
	transport := new(http.Transport)
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: 5 * time.Second}
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		if resp, err := client.Do(req); err == nil {
			_ = resp.Body.Close() // read for its status only
			if resp.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(10 * time.Millisecond):
		}
	}
}
