package plugin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/llmgw/llmgw/engines"
)

// Deps are a host's collaborators.
type Deps struct {
	// Builtin are the adapters that are part of the host's own executable, which is
	// their program, with what makes it [Serve] one.
	Builtin    []Program
	Logger     *slog.Logger          // nil discards
	Registerer prometheus.Registerer // nil leaves metrics unregistered
}

// Host runs adapters. Its methods may be called by several goroutines.
type Host struct {
	cfg     Config
	builtin []Program
	log     *slog.Logger
	metrics *metrics

	mu      sync.Mutex
	slots   map[string]*slot // guarded by mu
	run     context.Context  //nolint:containedctx // Run's, for slots that come later; nil: not running; guarded by mu
	over    bool             // no slot is supervised from now on; guarded by mu
	running sync.WaitGroup   // a goroutine for each slot; Run waits
}

// New validates cfg and returns a Host. It starts nothing; call Run.
func New(cfg Config, deps Deps) (*Host, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("plugin: %w", err)
	}
	for i, p := range deps.Builtin {
		if !engines.Name(p.Name).Usable() || slices.ContainsFunc(deps.Builtin[:i], func(o Program) bool { return o.Name == p.Name }) {
			return nil, fmt.Errorf("plugin: the built-in adapter %q has no name of its own", p.Name)
		}
	}
	m, err := newMetrics(deps.Registerer)
	if err != nil {
		return nil, fmt.Errorf("plugin: %w", err)
	}
	log := deps.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	builtin := slices.Clone(deps.Builtin)
	for i := range builtin {
		builtin[i].Builtin = true
	}
	return &Host{cfg: cfg, builtin: builtin, log: log, metrics: m, slots: make(map[string]*slot)}, nil
}

// Run starts the adapters that are called, and looks after them, until ctx is done.
// Then it drains and ends them, and returns nil. Call it once.
func (h *Host) Run(ctx context.Context) error {
	h.mu.Lock()
	if h.run != nil {
		h.mu.Unlock()
		return errors.New("plugin: the host ran before")
	}
	h.run = ctx
	removeRemains(socketDir(h.cfg.SocketDir), h.log)
	for _, s := range h.slots {
		h.running.Go(func() { s.supervise(ctx) })
	}
	h.mu.Unlock()
	<-ctx.Done()
	h.mu.Lock()
	h.over = true // whoever added a slot before has counted it in
	h.mu.Unlock()
	h.running.Wait()
	return nil
}

// Adapter returns the adapter of an engine. Its program is started by the first
// call, which waits for it, and again by the first one after it was idle. One that
// is not there, or is not safe to start, is a [*ProgramError].
//
// An error of a call wraps [engines.ErrUnavailable] where the adapter is away, hung
// or died meanwhile, and then the cause, such as the [*ProgramError] of the start
// that failed. The call may be made again: the host starts the program anew.
func (h *Host) Adapter(name engines.Name) (engines.Adapter, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if s := h.slots[string(name)]; s != nil {
		return handle{s}, nil
	}
	if _, err := find(h.cfg, h.builtin, string(name)); err != nil {
		return nil, err
	}
	s := newSlot(h, string(name))
	h.slots[s.name] = s
	if h.run != nil && !h.over {
		h.running.Go(func() { s.supervise(h.run) })
	}
	return handle{s}, nil
}

// handle is the adapter that callers get.
type handle struct{ slot *slot }

// Describe implements [engines.Adapter].
func (h handle) Describe(ctx context.Context) (engines.Description, error) {
	return call(ctx, h.slot, "Describe", func(ctx context.Context, r *remote) (engines.Description, error) { return r.Describe(ctx) })
}

// Validate implements [engines.Adapter].
func (h handle) Validate(ctx context.Context, p engines.Profile) (engines.Shape, error) {
	return call(ctx, h.slot, "Validate", func(ctx context.Context, r *remote) (engines.Shape, error) { return r.Validate(ctx, p) })
}

// Launch implements [engines.Adapter].
func (h handle) Launch(ctx context.Context, s engines.Shard) (engines.Launch, error) {
	return call(ctx, h.slot, "Launch", func(ctx context.Context, r *remote) (engines.Launch, error) { return r.Launch(ctx, s) })
}

// Checks implements [engines.Adapter].
func (h handle) Checks(ctx context.Context) ([]engines.Check, error) {
	return call(ctx, h.slot, "Checks", func(ctx context.Context, r *remote) ([]engines.Check, error) { return r.Checks(ctx) })
}

// call makes one call of a running adapter, within its deadline.
func call[T any](ctx context.Context, s *slot, method string, do func(context.Context, *remote) (T, error)) (T, error) {
	begin := time.Now()
	v, err := attempt(ctx, s, do)
	s.host.metrics.call(s.name, method, outcomeOf(ctx, err), time.Since(begin))
	if err != nil {
		var none T
		return none, fmt.Errorf("engine adapter %q: %s: %w", s.name, method, err)
	}
	return v, nil
}

func attempt[T any](ctx context.Context, s *slot, do func(context.Context, *remote) (T, error)) (T, error) {
	var none T
	inst, err := s.instance(ctx)
	if err != nil {
		return none, err
	}
	slow := fmt.Errorf("%w: no answer within %v", engines.ErrUnavailable, s.host.cfg.CallTimeout)
	bounded, cancel := context.WithTimeoutCause(ctx, s.host.cfg.CallTimeout, slow)
	defer cancel()
	v, err := do(bounded, inst.remote)
	inst.calls.Done()
	switch {
	case ctx.Err() != nil || !errors.Is(err, engines.ErrUnavailable):
	case bounded.Err() != nil:
		s.suspect() // it may be hung: do not wait for the next ping
	default:
		select {
		case <-inst.process.exited:
			err = fmt.Errorf("%w: it ended during the call: %s", engines.ErrUnavailable, inst.process.outcome())
		case <-time.After(lingers / 5): // its end may be seen a moment after that of the connection
		}
	}
	return v, err
}
