package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	config "github.com/llmgw/llmgw/cmd/internal/config/server"
)

// listeners are the sockets of the process: opened together before anything is
// served, so that an address that is taken ends the start.
type listeners struct {
	cfg     config.Config
	metrics *metrics

	client, admin       net.Listener
	metricsOnly, agents net.Listener // nil if not configured
}

func (l *listeners) open(ctx context.Context) error {
	var errs []error
	listen := func(key, address string) net.Listener {
		ln, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", key, err))
			return nil
		}
		return ln
	}
	client := listen("listen", l.cfg.Listen)
	l.admin = listen("admin_listen", l.cfg.AdminListen)
	if l.cfg.MetricsListen != "" {
		l.metricsOnly = listen("metrics_listen", l.cfg.MetricsListen)
	}
	if at := l.cfg.AgentAddress(); at != "" {
		l.agents = listen("agent_listen", at)
	}
	if client != nil {
		l.client = &limitedListener{Listener: client, limit: int64(l.cfg.HTTP.MaxConnections), metrics: l.metrics, patience: l.cfg.Gateway.Router.Relay.ClientWrite}
	}
	if len(errs) > 0 {
		return errors.Join(append(errs, l.close(ctx))...)
	}
	return nil
}

func (l *listeners) addresses() Addresses {
	a := Addresses{Client: l.client.Addr().String(), Admin: l.admin.Addr().String(), TLS: l.cfg.TLS != (config.TLS{})}
	if l.metricsOnly != nil {
		a.Metrics = l.metricsOnly.Addr().String()
	}
	if l.agents != nil {
		a.Agents = l.agents.Addr().String()
	}
	return a
}

// close closes what is open; that a server closed its listener before is no
// error.
func (l *listeners) close(context.Context) error {
	var errs []error
	for _, ln := range []net.Listener{l.client, l.admin, l.metricsOnly, l.agents} {
		if ln == nil {
			continue
		}
		if err := ln.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// limitedListener closes connections beyond its limit as soon as they come. To
// leave them in the kernel's queue instead would make clients wait for an
// answer that nobody is about to give.
type limitedListener struct {
	net.Listener
	limit    int64 // 0: none
	patience time.Duration
	metrics  *metrics
	open     atomic.Int64
}

// Accept returns the next connection within the limit.
func (l *limitedListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if n := l.open.Add(1); l.limit > 0 && n > l.limit {
			l.open.Add(-1)
			l.metrics.connectionsRefused.Inc()
			_ = conn.Close() // refused; nobody waits for the result
			continue
		}
		l.metrics.connections.Inc()
		if tcp, ok := conn.(*net.TCPConn); ok {
			return &limitedConn{TCPConn: tcp, release: sync.OnceFunc(l.release), patience: l.patience}, nil
		}
		return conn, nil
	}
}

func (l *limitedListener) release() {
	l.open.Add(-1)
	l.metrics.connections.Dec()
}

// limitedConn is a client's connection. It sets read deadlines when they are
// needed: net/http sets six between two requests, of which the kernel's side of
// things ever sees two. And it lets no write wait for longer than patience: a
// client that sends requests and reads no answers would hold whatever serves it.
type limitedConn struct {
	*net.TCPConn
	release  func()
	patience time.Duration
	writable time.Time // the write deadline that the connection has; by the writer only

	mu      sync.Mutex
	want    time.Time // guarded by mu; the read deadline that was asked for
	set     time.Time // guarded by mu; the one that the connection has
	reading bool      // guarded by mu; a Read is under way
}

// Read applies the deadline that was asked for last, and reads.
func (c *limitedConn) Read(b []byte) (int, error) {
	c.mu.Lock()
	err := c.apply()
	c.reading = err == nil
	c.mu.Unlock()
	if err != nil {
		return 0, err
	}
	n, err := c.TCPConn.Read(b)
	c.mu.Lock()
	c.reading = false
	c.mu.Unlock()
	return n, err
}

// Write bounds the wait for the client. A deadline that leaves seven eighths
// of the patience is kept.
func (c *limitedConn) Write(b []byte) (int, error) {
	if now := time.Now(); c.writable.Sub(now) < c.patience/8*7 {
		c.writable = now.Add(c.patience)
		if err := c.TCPConn.SetWriteDeadline(c.writable); err != nil {
			return 0, err
		}
	}
	return c.TCPConn.Write(b)
}

// SetWriteDeadline is taken no notice of: every write has a deadline already.
func (c *limitedConn) SetWriteDeadline(time.Time) error { return nil }

// SetReadDeadline holds for a Read under way and for those to come.
func (c *limitedConn) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.want = t
	if c.reading {
		return c.apply()
	}
	return nil
}

// SetDeadline sets the read deadline.
func (c *limitedConn) SetDeadline(t time.Time) error {
	return c.SetReadDeadline(t)
}

// apply needs mu.
func (c *limitedConn) apply() error {
	if c.want.Equal(c.set) {
		return nil
	}
	c.set = c.want
	return c.TCPConn.SetReadDeadline(c.want)
}

// Close gives the connection's place back.
func (c *limitedConn) Close() error {
	c.release()
	return c.TCPConn.Close()
}
