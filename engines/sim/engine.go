package sim

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/llmgw/llmgw/engines/kvevents"
)

// ErrClosed is the cause when an answer ends because the engine was closed.
var ErrClosed = errors.New("sim: engine closed")

// Deps are the engine's collaborators.
type Deps struct {
	Logger *slog.Logger // nil discards
}

// Engine is the HTTP shell around a [Core]: an [http.Handler] that behaves
// like vLLM's server. All methods may be called concurrently.
//
// One goroutine drives the core, and only while there is work: the request
// that finds the engine idle starts it, and it ends when the engine is idle
// again or [Engine.Close] is called. It uses package time, so that an engine
// runs in a testing/synctest bubble under virtual time.
type Engine struct {
	cfg     Config
	log     *slog.Logger
	routes  *http.ServeMux
	created time.Time // set by the first request; in model cards
	once    sync.Once
	done    chan struct{} // closed by Close
	wake    chan struct{} // capacity 1: the driver looks again
	driver  sync.WaitGroup
	serial  atomic.Uint64 // of ids

	faults atomic.Pointer[faultState]
	events *kvevents.Publisher // nil: nobody is told of the cache
	stored responseStore

	mu      sync.Mutex
	core    *Core    // guarded by mu
	metrics *metrics // guarded by mu
	driving bool     // guarded by mu: the driver runs
	closed  bool     // guarded by mu
	sleep   sleepState
	crash   crash
}

// faultState is one setting of faults with its place in the script.
type faultState struct {
	Faults
	answered atomic.Int64
}

// New validates cfg and returns an idle engine. It starts no goroutine.
func New(cfg Config, deps Deps) (*Engine, error) {
	core, err := NewCore(cfg)
	if err != nil {
		return nil, fmt.Errorf("sim: %w", err)
	}
	if deps.Logger == nil {
		deps.Logger = slog.New(slog.DiscardHandler)
	}
	e := &Engine{
		cfg:     cfg,
		log:     deps.Logger,
		done:    make(chan struct{}),
		wake:    make(chan struct{}, 1),
		crash:   crash{now: make(chan struct{})},
		core:    core,
		metrics: newMetrics(cfg),
	}
	if cfg.KVEvents.Enabled {
		if e.events, err = kvevents.NewPublisher(cfg.KVEvents.publisher(), deps.Logger); err != nil {
			return nil, fmt.Errorf("sim: %w", err)
		}
	}
	e.faults.Store(&faultState{Faults: cfg.Faults})
	e.routes = e.newRoutes()
	return e, nil
}

// Config returns the configuration the engine was made with.
func (e *Engine) Config() Config { return e.cfg }

// Stats returns the core's gauges and counters.
func (e *Engine) Stats() Stats {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.core.Stats()
}

// ClearPrefixCache forgets all cached prefixes, as a restart would.
func (e *Engine) ClearPrefixCache() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.core.ClearPrefixCache()
	if !e.driving { // else the driver's next step tells of it
		batch, _ := e.core.Step(time.Now())
		e.deliver(&batch)
	}
}

// SetFaults replaces the faults, from the next request on; Wedge, Silent and
// CrashAfter act at once. An invalid f changes nothing.
func (e *Engine) SetFaults(f Faults) error {
	if err := f.validate(); err != nil {
		return err
	}
	e.faults.Store(&faultState{Faults: f})
	e.crash.after(f.CrashAfter)
	e.poke()
	return nil
}

// Faults returns the faults in force.
func (e *Engine) Faults() Faults { return e.faults.Load().Faults }

// Close ends every answer and the driving goroutine, and waits for the
// latter. Later requests are cut off. It is idempotent.
func (e *Engine) Close() error {
	e.mu.Lock()
	if !e.closed {
		e.closed = true
		close(e.done)
		if e.sleep.timer != nil {
			e.sleep.timer.Stop()
		}
	}
	e.mu.Unlock()
	e.crash.after(0)
	e.driver.Wait()
	return nil
}

func (e *Engine) poke() {
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// submit queues g's sequences and sees that somebody drives the core.
func (e *Engine) submit(g *generation) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return ErrClosed
	}
	now := time.Now()
	for _, c := range g.choices {
		c.seq = e.core.Submit(now, c.request)
	}
	if !e.driving {
		e.driving = true
		e.driver.Go(e.drive)
	}
	return nil
}

// abort ends what is left of g and frees its blocks at once.
func (e *Engine) abort(g *generation) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, c := range g.choices {
		if c.seq != nil && e.core.Abort(c.seq) {
			e.metrics.aborted()
		}
	}
}

// drive steps the core until it is idle.
func (e *Engine) drive() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		next, more := e.advance()
		if !more {
			return
		}
		if next.IsZero() { // wedged, or asleep
			select {
			case <-e.wake:
			case <-e.done:
			}
			continue
		}
		wait := time.Until(next)
		if wait <= 0 {
			continue
		}
		timer.Reset(wait)
		select {
		case <-timer.C:
		case <-e.wake:
		case <-e.done:
		}
	}
}

// advance runs the iterations that are due; more is false when the driver has
// to end, next is zero while the engine is wedged or sleeps.
func (e *Engine) advance() (next time.Time, more bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		e.driving = false
		return next, false
	}
	if e.faults.Load().Wedge || e.sleep.level > 0 {
		return next, true
	}
	now := time.Now()
	batch, next := e.core.Step(now)
	e.deliver(&batch)
	if next.IsZero() {
		e.driving = false
		return next, false
	}
	return next, true
}

// deliver counts a batch and tells the answers about their tokens. The caller
// holds mu.
func (e *Engine) deliver(b *Batch) {
	if len(b.CacheEvents) > 0 {
		e.events.Publish(time.Now(), 0, b.CacheEvents)
	}
	if b.End.IsZero() {
		return
	}
	e.metrics.iteration(b)
	for _, s := range b.Advanced {
		e.metrics.token(s)
		c := s.Owner.(*choice)
		c.produced.Store(int64(s.generated))
		if c.gen.streaming {
			c.gen.notify()
		}
	}
	for _, s := range b.Finished {
		c := s.Owner.(*choice)
		e.metrics.finished(s, c)
		c.gen.unfinished.Add(-1)
		c.gen.notify()
	}
}

// generation is one request's sequences and the handler that waits for them.
type generation struct {
	engine     *Engine
	choices    []*choice
	perPrompt  int // choices of each prompt, which stand together
	streaming  bool
	unfinished atomic.Int64
	wake       chan struct{} // capacity 1
}

func (g *generation) notify() {
	select {
	case g.wake <- struct{}{}:
	default:
	}
}

// wait blocks until there may be news. Its error is the context's cause or
// ErrClosed.
func (g *generation) wait(ctx context.Context) error {
	select {
	case <-g.wake:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-g.engine.done:
		return ErrClosed
	}
}
