package server

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"slices"
	"strings"

	server "github.com/llmgw/llmgw/cmd/internal/config/server"
	"github.com/llmgw/llmgw/placement/catalog/strictyaml"
)

// reloader reads the configuration again on SIGHUP.
type reloader struct {
	read    func() (server.Config, error)
	apply   func(server.Config) error
	level   *slog.LevelVar
	cert    certificate
	log     *slog.Logger
	metrics *metrics
	hangup  chan os.Signal
	running server.Config // what is in force; Run's goroutine only
	control bool          // the server is a control plane
}

func (r *reloader) run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-r.hangup:
			r.reload()
		}
	}
}

// reload applies what the file says, all of it that can change while requests
// run, or nothing.
func (r *reloader) reload() {
	if err := r.tryReload(); err != nil {
		r.metrics.reloads.WithLabelValues("refused").Inc()
		faults, ok := errors.AsType[strictyaml.Faults](err)
		if !ok {
			r.log.Error("the configuration was not reloaded; the old one stays in force", "err", err)
			return
		}
		r.log.Error("the configuration was not reloaded; the old one stays in force", "faults", len(faults))
		for _, f := range faults {
			r.log.Error("fault in the configuration", "err", f)
		}
		return
	}
	r.metrics.reloads.WithLabelValues("applied").Inc()
	r.metrics.lastReload.SetToCurrentTime()
}

func (r *reloader) tryReload() error {
	next, err := r.read()
	if err != nil {
		return err
	}
	if next.TLS == r.running.TLS {
		// Its own poll would find the new certificate too, only later.
		renewed, err := r.cert.load()
		if err != nil {
			return err
		}
		if renewed {
			r.log.Info("the certificate of the client listener was read anew")
		}
	}
	var rest []string
	var changed []string
	for _, key := range strictyaml.Changed(r.running, next) {
		if live(key) {
			changed = append(changed, key)
		} else {
			rest = append(rest, key)
		}
	}
	applied := r.running.WithLive(next)
	if err := r.apply(applied); err != nil {
		return err
	}
	r.level.Set(next.Log.SlogLevel())
	r.running = applied
	r.log.Info("configuration reloaded", "changed", changed)
	if next.ControlPlane() && !r.control {
		r.log.Warn("a model has a profile, and this server was started as no control plane; it is one after a restart")
	}
	if len(rest) > 0 {
		r.log.Warn("some changed keys take effect after a restart only", "keys", rest)
	}
	return nil
}

// live reports whether the key at path can change while the server runs.
func live(path string) bool {
	return slices.ContainsFunc(server.LiveKeys(), func(key string) bool {
		return path == key || strings.HasPrefix(path, key+".")
	})
}
