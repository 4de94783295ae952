package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Deps are the relay's collaborators.
type Deps struct {
	Registerer prometheus.Registerer // nil leaves metrics unregistered
}

// Proxy relays exchanges. Its methods may be called concurrently.
type Proxy struct {
	cfg     Config
	metrics *metrics
	uploads sync.Pool // of *[uploadPiece]byte

	mu      sync.Mutex
	targets map[*Target]struct{} // guarded by mu
}

// New validates cfg and returns a Proxy. It dials nothing and starts no
// goroutine; without [Proxy.Run] unused connections are dropped only when the
// next exchange meets them.
func New(cfg Config, deps Deps) (*Proxy, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("proxy: %w", err)
	}
	m, err := newMetrics(deps.Registerer)
	if err != nil {
		return nil, fmt.Errorf("proxy: register metrics: %w", err)
	}
	return &Proxy{cfg: cfg, metrics: m, targets: map[*Target]struct{}{}}, nil
}

// Run closes connections that stayed unused for Config.PoolIdle, until ctx is
// done; then it closes all unused ones and returns nil.
func (p *Proxy) Run(ctx context.Context) error {
	every := time.NewTicker(max(p.cfg.PoolIdle/2, 500*time.Millisecond))
	defer every.Stop()
	for {
		select {
		case <-ctx.Done():
			p.sweep(time.Time{})
			return nil
		case now := <-every.C:
			p.sweep(now.Add(-p.cfg.PoolIdle))
		}
	}
}

// sweep closes the connections that are unused since before; all of them when
// before is zero.
func (p *Proxy) sweep(before time.Time) {
	p.mu.Lock()
	targets := make([]*Target, 0, len(p.targets))
	for t := range p.targets {
		targets = append(targets, t)
	}
	p.mu.Unlock()
	for _, t := range targets {
		t.sweep(before)
	}
}

// ClientWrite is Config.ClientWrite, for answers that are not relayed.
func (p *Proxy) ClientWrite() time.Duration { return p.cfg.ClientWrite }

// Request is what goes to an engine.
type Request struct {
	Method string
	// Path is the escaped path with its query, from the first slash on. The
	// target's base path is put before it.
	Path string
	// Header is the client's header; what must not reach an engine is left out
	// (see [Forwarded]). It is read, not kept.
	Header http.Header
	// Body is the request's body in pieces and Length their sum. The pieces are
	// read until the answer has ended, never written.
	Body   [][]byte
	Length int
	// Open, if it is not nil, gives the body in place of Body, for one that is
	// not in memory. Each call returns a reader of the same Length bytes; a
	// request that is sent again on another connection reads one of its own.
	// With net/http's transport a reader may still be used after the exchange.
	Open func() io.Reader
	// ID goes out as X-Request-Id if it is not empty.
	ID string
	// Lasting says that a streamed answer is expected: the exchange is told of
	// its context's end from its start, and not only once it has lasted a while.
	Lasting bool
	// Deadline is when the whole request ends, Timeouts.Total after its arrival.
	// Zero means Timeouts.Total from the call of Send.
	Deadline time.Time
}

// Send writes req to t and reads the head of the answer. The caller must call
// Relay, ReadAll or Close of the Response it gets. An unused connection that
// turns out dead before any byte of an answer is replaced once by a fresh one.
// Errors are of type *Error. ctx bounds the whole exchange, its body included.
func (p *Proxy) Send(ctx context.Context, t *Target, req *Request) (*Response, error) {
	now := time.Now()
	total := req.Deadline
	if total.IsZero() {
		total = now.Add(p.cfg.Timeouts.Total)
	}
	if t.transport != nil {
		return p.sendTransport(ctx, t, req, total)
	}
	if c := t.take(now); c != nil {
		r, err := p.exchange(ctx, c, req, total, true)
		if err == nil {
			return r, nil
		}
		e, ok := errors.AsType[*Error](err)
		if !ok || e.Kind != KindLost {
			return nil, err
		}
		p.metrics.replays.Inc()
	}
	c, err := p.dial(ctx, t, total)
	if err != nil {
		return nil, err
	}
	return p.exchange(ctx, c, req, total, false)
}
