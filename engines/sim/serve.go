package sim

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"
)

// Server returns an HTTP server for the engine with uvicorn's habits: idle
// connections are closed after Config.KeepAlive. Faults of connections
// (Silent, CloseIdle) are its work too. The caller serves and closes it.
func (e *Engine) Server() *http.Server {
	return &http.Server{
		Handler:           e,
		ReadHeaderTimeout: 30 * time.Second,
		IdleTimeout:       e.cfg.KeepAlive,
		ConnState: func(c net.Conn, s http.ConnState) {
			if s == http.StateIdle && e.faults.Load().CloseIdle {
				_ = c.Close()
			}
		},
	}
}

// Listener wraps ln so that the Silent fault works on its connections.
func (e *Engine) Listener(ln net.Listener) net.Listener { return &listener{ln, e} }

// Serve answers on ln until ctx is done, then aborts what runs, as vLLM does
// on SIGTERM, at once or after Config.ShutdownTimeout, closes the engine and ln,
// and returns nil. It returns an error if ln fails before, and [ErrCrashed] if
// that is asked for. If Config.KVEvents has an endpoint, it is served, too.
func (e *Engine) Serve(ctx context.Context, ln net.Listener) error {
	closeEvents, err := e.openKVEvents(ctx)
	if err != nil {
		_ = e.Close()
		_ = ln.Close()
		return fmt.Errorf("sim: %w", err)
	}
	defer closeEvents()
	e.crash.after(e.Faults().CrashAfter)
	srv := e.Server()
	failed := make(chan error, 1)
	go func() { failed <- srv.Serve(e.Listener(ln)) }()
	select {
	case <-ctx.Done():
		e.finishAnswers(ctx, srv)
	case <-e.crash.now:
		err = ErrCrashed
	case err = <-failed:
		failed <- http.ErrServerClosed
	}
	_ = e.Close()
	_ = srv.Close()
	<-failed
	if err != nil && !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("sim: serve: %w", err)
	}
	return nil
}

// finishAnswers takes no more connections and waits for the answers under way.
func (e *Engine) finishAnswers(ctx context.Context, srv *http.Server) {
	if e.cfg.ShutdownTimeout == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), e.cfg.ShutdownTimeout)
	defer cancel()
	select {
	case <-shutdown(ctx, srv):
	case <-e.crash.now:
	}
}

// shutdown closes what it returns when no answer is under way or ctx is done.
func shutdown(ctx context.Context, srv *http.Server) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = srv.Shutdown(ctx) // what is left is aborted
	}()
	return done
}

type listener struct {
	net.Listener
	engine *Engine
}

func (l *listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &conn{c, l.engine}, nil
}

// conn swallows what it reads while the engine is silent.
type conn struct {
	net.Conn
	engine *Engine
}

func (c *conn) Read(p []byte) (int, error) {
	for {
		n, err := c.Conn.Read(p)
		if err != nil || !c.engine.faults.Load().Silent {
			return n, err
		}
	}
}

// SetLinger lets an answer reset the connection.
func (c *conn) SetLinger(sec int) error {
	if l, ok := c.Conn.(interface{ SetLinger(int) error }); ok {
		return l.SetLinger(sec)
	}
	return errors.ErrUnsupported
}
