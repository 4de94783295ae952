package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// TargetConfig names one engine instance.
type TargetConfig struct {
	// URL is the engine's address: http://, https:// or h2c://, host, port and
	// an optional base path. Query, fragment and user info are errors.
	URL string
	// Secret is sent as "Authorization: Bearer …"; empty sends none.
	Secret string
	// TLS is used for https; nil means the system's roots. It is cloned.
	TLS *tls.Config
	// Dial opens the connections to the engine, as net.Dialer.DialContext does,
	// within Timeouts.Dial; nil means TCP. What it returns need be no socket, so
	// an engine can be reached through a tunnel or, in a test, through memory and
	// under virtual time. The price is that of https: with a Dial http:// goes
	// through net/http's Transport, too.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// Identify asks the engine who it is on each new connection; nil asks
	// nothing. With https:// and h2c:// it is an error: what ends such a
	// connection is often a proxy, which says nothing of the engine behind it.
	Identify *Identify
}

// Target is one engine instance with its unused connections. Two instances
// never share one. Its methods may be called concurrently.
type Target struct {
	proxy *Proxy
	host  string // of the Host header
	addr  string // host:port to dial
	base  string // base path without a slash at its end
	auth  string // the Authorization line, with its line end

	identify  *Identify       // nil: the engine is not asked who it is
	transport *http.Transport // nil for http:// over TCP
	scheme    string

	lastByte atomic.Int64 // Unix nanoseconds, 0 never; up to lastByteGrain old

	mu     sync.Mutex
	idle   []*conn // guarded by mu; the most recently used last
	closed bool    // guarded by mu
}

// lastByteGrain is how old what [Target.LastByte] tells may be: streams by the
// hundred do not write to one word with each token.
const lastByteGrain = 250 * time.Millisecond

// works notes that the engine has answered something at now.
func (t *Target) works(now time.Time) {
	if at := now.UnixNano(); at-t.lastByte.Load() > int64(lastByteGrain) {
		t.lastByte.Store(at)
	}
}

// LastByte returns when the engine has last answered with something that was passed
// on, comments of a stream apart, to a quarter of a second; false: it never has.
// It may be called at any time.
func (t *Target) LastByte() (time.Time, bool) {
	at := t.lastByte.Load()
	return time.Unix(0, at), at != 0
}

// NewTarget prepares an engine instance. It dials nothing.
func (p *Proxy) NewTarget(cfg TargetConfig) (*Target, error) {
	u, err := url.Parse(cfg.URL)
	if err != nil {
		return nil, fmt.Errorf("proxy: target: %w", err)
	}
	switch {
	case u.Scheme != "http" && u.Scheme != "https" && u.Scheme != "h2c":
		return nil, fmt.Errorf("proxy: target %q: scheme must be http, https or h2c", u.Redacted())
	case u.Hostname() == "":
		return nil, fmt.Errorf("proxy: target %q: no host", u.Redacted())
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return nil, fmt.Errorf("proxy: target %q: user info, query and fragment have no place here", u.Redacted())
	case strings.ContainsAny(cfg.Secret, "\r\n\x00"):
		return nil, errors.New("proxy: target: the secret holds a line break")
	case cfg.Identify != nil && u.Scheme != "http":
		return nil, fmt.Errorf("proxy: target %q: an engine is asked who it is over http only", u.Redacted())
	}
	port := u.Port()
	if port == "" {
		port = "80"
		if u.Scheme == "https" {
			port = "443"
		}
	}
	t := &Target{
		proxy: p, host: u.Host, addr: net.JoinHostPort(u.Hostname(), port),
		base: strings.TrimRight(u.EscapedPath(), "/"), scheme: u.Scheme, identify: cfg.Identify,
	}
	if cfg.Secret != "" {
		t.auth = "Authorization: Bearer " + cfg.Secret + "\r\n"
	}
	if u.Scheme != "http" || cfg.Dial != nil {
		t.transport = newTransport(p.cfg, t, cfg)
	}
	p.mu.Lock()
	p.targets[t] = struct{}{}
	p.mu.Unlock()
	return t, nil
}

// Addr is the engine's host and port.
func (t *Target) Addr() string { return t.addr }

// Lingers reports whether what was sent may still be read after an exchange has
// ended, as net/http's Transport does with a body that an engine answers early.
func (t *Target) Lingers() bool { return t.transport != nil }

// Close closes the unused connections and keeps none from now on. Exchanges
// under way end undisturbed.
func (t *Target) Close() error {
	t.proxy.mu.Lock()
	delete(t.proxy.targets, t)
	t.proxy.mu.Unlock()
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	t.sweep(time.Time{})
	return nil
}

// take returns the most recently used connection that is not too old to be
// reused, or nil. Whether it is alive is looked at just before it is written to.
func (t *Target) take(now time.Time) *conn {
	for {
		t.mu.Lock()
		n := len(t.idle)
		if n == 0 {
			t.mu.Unlock()
			return nil
		}
		c := t.idle[n-1]
		t.idle[n-1] = nil
		t.idle = t.idle[:n-1]
		t.mu.Unlock()
		if now.Sub(c.idleSince) < t.proxy.cfg.PoolIdle {
			return c
		}
		t.proxy.metrics.stale.Inc()
		c.close()
	}
}

// put keeps c for the next exchange, or closes it.
func (t *Target) put(c *conn, now time.Time) {
	c.idleSince = now
	t.mu.Lock()
	if t.closed || len(t.idle) >= t.proxy.cfg.PoolSize || t.proxy.cfg.PoolIdle == 0 {
		t.mu.Unlock()
		c.close()
		return
	}
	t.idle = append(t.idle, c)
	t.mu.Unlock()
}

// sweep closes the connections that are unused since before; all when before is
// zero.
func (t *Target) sweep(before time.Time) {
	t.mu.Lock()
	n := len(t.idle)
	if !before.IsZero() {
		for n = 0; n < len(t.idle) && t.idle[n].idleSince.Before(before); n++ {
		}
	}
	old := append([]*conn(nil), t.idle[:n]...)
	m := copy(t.idle, t.idle[n:])
	clear(t.idle[m:])
	t.idle = t.idle[:m]
	t.mu.Unlock()
	for _, c := range old {
		c.close()
	}
	if before.IsZero() && t.transport != nil {
		t.transport.CloseIdleConnections()
	}
}

// dial opens a connection to t within Timeouts.Dial.
func (p *Proxy) dial(ctx context.Context, t *Target, total time.Time) (*conn, error) {
	limit := time.Now().Add(p.cfg.Timeouts.Dial)
	kind := KindDial
	if total.Before(limit) {
		limit, kind = total, KindTotalTimeout
	}
	d := net.Dialer{Deadline: limit, KeepAlive: 30 * time.Second}
	within := min(p.cfg.Timeouts.ResponseHeader, time.Until(total))
	nc, err := t.introduced(ctx, within, func() (net.Conn, error) { return d.DialContext(ctx, "tcp", t.addr) })
	if e, ok := errors.AsType[*Error](err); ok {
		p.metrics.failure(e.Kind)
		return nil, e
	}
	if err != nil {
		switch {
		case ctx.Err() != nil:
			kind, err = KindCanceled, context.Cause(ctx)
		case kind == KindTotalTimeout && !isTimeout(err):
			kind = KindDial
		}
		if kind != KindCanceled {
			p.metrics.dials.WithLabelValues("failed").Inc()
		}
		p.metrics.failure(kind)
		return nil, &Error{kind, t.addr, err}
	}
	c, err := newConn(t, nc)
	if err != nil {
		_ = nc.Close()
		p.metrics.failure(KindDial)
		return nil, &Error{KindDial, t.addr, err}
	}
	p.metrics.dialOK.Inc()
	return c, nil
}
