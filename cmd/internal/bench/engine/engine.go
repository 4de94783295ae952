// Package engine is a fake inference engine for measuring what stands in front
// of it. It speaks just enough HTTP/1.1 straight on TCP to cost far less than a
// proxy, behaves as each request asks ([wire.Params]) and refuses prompts that
// were altered on the way. It models no batching, cache or queue.
package engine

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Stats are an engine's counters since its start; the first three are gauges.
type Stats struct {
	Connections   int64 // open
	Running       int64 // answers under way
	Answered      int64 // whole answers sent
	Aborted       int64 // answers whose connection failed before their end
	PromptAltered int64 // requests refused since their prompt had been altered
	Refused       int64 // other requests that were no request of the bench
}

// Options are an engine's settings; the zero value is right for measuring.
type Options struct {
	// Idle is how long a connection may rest between two requests before the
	// engine closes it, as vLLM does after 5 s; 0 keeps it for ever.
	Idle time.Duration
}

// Engine is one fake engine. Start serves on a listener; the methods may be
// called from any goroutine.
type Engine struct {
	listener net.Listener
	opts     Options
	answers  answers
	wg       sync.WaitGroup

	mu    sync.Mutex
	conns map[net.Conn]struct{} // guarded by mu; nil once the engine is closed

	running, answered, aborted, altered, refused, promptTokens, outputTokens atomic.Int64
}

// Start serves on l, which it owns from then on, until Close.
func Start(l net.Listener, opts Options) *Engine {
	e := &Engine{listener: l, opts: opts, conns: map[net.Conn]struct{}{}}
	e.wg.Go(e.accept)
	return e
}

// Listen starts n engines on loopback ports that the system chooses.
func Listen(ctx context.Context, n int, opts Options) ([]*Engine, error) {
	var out []*Engine
	for range n {
		var lc net.ListenConfig
		l, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			for _, e := range out {
				e.Close()
			}
			return nil, err
		}
		out = append(out, Start(l, opts))
	}
	return out, nil
}

// Addr is the address that the engine listens on.
func (e *Engine) Addr() string { return e.listener.Addr().String() }

// Stats returns the counters.
func (e *Engine) Stats() Stats {
	e.mu.Lock()
	open := int64(len(e.conns))
	e.mu.Unlock()
	return Stats{
		Connections: open, Running: e.running.Load(), Answered: e.answered.Load(), Aborted: e.aborted.Load(),
		PromptAltered: e.altered.Load(), Refused: e.refused.Load(),
	}
}

// Close stops listening, ends every connection and returns when all goroutines
// of e have ended; one that waits out a gap between tokens ends after it.
func (e *Engine) Close() {
	e.listener.Close()
	e.mu.Lock()
	conns := e.conns
	e.conns = nil
	e.mu.Unlock()
	for c := range conns {
		c.Close()
	}
	e.wg.Wait()
}

func (e *Engine) accept() {
	for {
		c, err := e.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // out of file descriptors, a caller gone already
			continue
		}
		e.mu.Lock()
		closed := e.conns == nil
		if !closed {
			e.conns[c] = struct{}{}
		}
		e.mu.Unlock()
		if closed {
			c.Close()
			return
		}
		e.wg.Go(func() {
			e.serve(c)
			c.Close()
			e.mu.Lock()
			delete(e.conns, c)
			e.mu.Unlock()
		})
	}
}
