package server

import (
	"context"
	"crypto/tls"
	"errors"
	"log"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/llmgw/llmgw/auth"
	config "github.com/llmgw/llmgw/cmd/internal/config/server"
)

// healthTime is how long a client may take to read the answer of /health and /ready on
// HTTP/2, where one that opens no window would hold it for ever.
const healthTime = 10 * time.Second

// afterCut is how long handlers may take to return once their connections are
// cut.
const afterCut = 5 * time.Second

// client serves the data plane to clients.
type client struct {
	server  *http.Server
	drain   time.Duration
	log     *slog.Logger
	running atomic.Int64 // requests in the data plane
}

func newClient(cfg config.Config, plane http.Handler, pages *pages, h *health, tlsConfig *tls.Config, logger *slog.Logger) (*client, error) {
	exempt, err := auth.NewExempt(append([]string{"/health", "/ready"}, pages.exempt...)...)
	if err != nil {
		return nil, err
	}
	c := &client{drain: cfg.Shutdown.Drain, log: logger}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	c.server = &http.Server{
		Handler:           protected(plane, c.handler(plane, pages.mounts, h), exempt),
		ReadHeaderTimeout: cfg.HTTP.ReadHeaderTimeout,
		// OPTIONS * goes to the data plane, which knows what to do with a body.
		DisableGeneralOptionsHandler: true,
		IdleTimeout:                  cfg.HTTP.IdleTimeout,
		MaxHeaderBytes:               cfg.HTTP.MaxHeaderBytes,
		Protocols:                    protocols,
		HTTP2:                        &http.HTTP2Config{MaxConcurrentStreams: cfg.HTTP.MaxConcurrentStreams},
		TLSConfig:                    tlsConfig,
		ErrorLog:                     errorLog(logger),
	}
	return c, nil
}

// protected asks for a key before everything but what is exempt, if the data plane
// knows keys: around all of it, so that what is added later needs a key, too.
func protected(plane, all http.Handler, exempt auth.Exempt) http.Handler {
	p, ok := plane.(interface {
		Protect(next http.Handler, exempt auth.Exempt) http.Handler
	})
	if !ok {
		return all
	}
	return p.Protect(all, exempt)
}

// handler puts health and what is mounted before the data plane and counts what runs.
func (c *client) handler(plane http.Handler, mounted []mount, h *health) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/health" || r.URL.Path == "/ready" {
			if r.ContentLength != 0 && r.ProtoMajor == 1 {
				// A body has no place here, and net/http would wait for its end.
				w.Header().Set("Connection", "close")
				_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(time.Second))
			}
			if r.ProtoMajor != 1 {
				_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(healthTime))
			}
			h.serve(w, r)
			return
		}
		if h.stopping.Load() && r.ProtoMajor == 1 {
			// The connection leaves with this answer, so that no request
			// comes on it when it is closed at the end of the grace.
			w.Header().Set("Connection", "close")
		}
		c.running.Add(1)
		defer c.running.Add(-1)
		for _, m := range mounted {
			if m.at.Open(r) {
				m.handler.ServeHTTP(w, r)
				return
			}
		}
		plane.ServeHTTP(w, r)
	})
}

// serve answers /health and /ready on the client listener.
func (h *health) serve(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		w.Header().Set("Allow", "GET, HEAD")
		writePlain(w, http.StatusMethodNotAllowed, "use GET\n")
	case r.URL.Path == "/health":
		h.liveness(w, r)
	default:
		h.readiness(w, r)
	}
}

// actor serves clients once it is worth while; until then connections wait.
func (c *client) actor(l *listeners, worthWhile <-chan struct{}) Actor {
	return Actor{
		Name: "client listener", Stage: StageDrain,
		Run: func(ctx context.Context) error {
			select {
			case <-worthWhile:
			case <-ctx.Done():
			}
			if c.server.TLSConfig != nil {
				return served(c.server.ServeTLS(l.client, "", ""))
			}
			return served(c.server.Serve(l.client))
		},
		Stop: c.stop,
	}
}

// stop takes no new connection, waits for what runs, and cuts what is left
// after the drain time.
func (c *client) stop() {
	c.log.Info("draining", "requests", c.running.Load(), "drain", c.drain)
	ctx, cancel := context.WithTimeout(context.Background(), c.drain)
	defer cancel()
	if err := c.server.Shutdown(ctx); err != nil {
		c.log.Warn("requests were cut because they outlasted shutdown.drain", "requests", c.running.Load(), "drain", c.drain)
		_ = c.server.Close() // closes what Shutdown left open
	}
	for deadline := time.Now().Add(afterCut); c.running.Load() > 0; <-time.After(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			c.log.Error("requests did not end after their connections were cut", "requests", c.running.Load())
			return
		}
	}
}

// served makes a server's orderly end no error.
func served(err error) error {
	if errors.Is(err, http.ErrServerClosed) || errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// errorLog takes what net/http says about connections: noise that any scanner
// can cause, so debug, but a panic in a handler is a bug of ours.
func errorLog(logger *slog.Logger) *log.Logger { return log.New(httpLog{logger}, "", 0) }

type httpLog struct{ log *slog.Logger }

// Write logs one message.
func (h httpLog) Write(p []byte) (int, error) {
	text := strings.TrimSpace(string(p))
	if strings.Contains(text, "panic serving") {
		h.log.Error("a request handler panicked", "err", text)
	} else {
		h.log.Debug("http server", "err", text)
	}
	return len(p), nil
}
