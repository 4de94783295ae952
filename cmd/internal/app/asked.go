package app

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/engines/plugin"
	"github.com/llmgw/llmgw/placement/catalog"
)

// Bounds of what a hung adapter can cost who asks it, which may be the loop that
// places.
const (
	askTime  = 3 * time.Second // of one question, the start of the program included
	askAgain = 5 * time.Second // after one that was not answered
)

// Asked are the adapters that a server asks what a profile needs and what its engine
// can do. It starts no engine. Its methods may be called concurrently.
type Asked struct {
	builtin []engines.Adapter
	host    *plugin.Host // of those that are programs of their own; nil: there are none

	mu   sync.Mutex
	away map[engines.Name]away // guarded by mu
}

// away is an adapter that did not answer.
type away struct {
	since time.Time
	err   error
}

// NewAsked returns the adapters that are built in, and those of a host that the
// caller runs, which may be nil. Where both have one, that which is built in counts.
func NewAsked(builtin []engines.Adapter, host *plugin.Host) *Asked {
	return &Asked{builtin: builtin, host: host, away: make(map[engines.Name]away)}
}

// errStranger: there is no adapter of that name here.
var errStranger = errors.New("no adapter of the engine is here")

// ask asks an adapter something, in bounded time. The error is errStranger where there
// is none, and wraps [engines.ErrUnavailable] where it may answer later.
func ask[T any](a *Asked, name engines.Name, question func(context.Context, engines.Adapter) (T, error)) (T, error) {
	var none T
	ctx, cancel := context.WithTimeout(context.Background(), askTime)
	defer cancel()
	if adapter, _, err := Adapter(ctx, a.builtin, name); err == nil {
		return question(ctx, adapter)
	}
	if a.host == nil {
		return none, errStranger
	}
	a.mu.Lock()
	before, was := a.away[name]
	a.mu.Unlock()
	if was && time.Since(before.since) < askAgain {
		return none, before.err
	}
	adapter, err := a.host.Adapter(name)
	if errors.Is(err, plugin.ErrUnknown) {
		return none, errStranger
	}
	var answer T
	if err == nil {
		answer, err = question(ctx, adapter)
	}
	if ctx.Err() != nil {
		err = fmt.Errorf("%w: no answer within %v: %w", engines.ErrUnavailable, askTime, err)
	}
	var profile *engines.ProfileError
	a.mu.Lock()
	defer a.mu.Unlock()
	if err == nil || errors.As(err, &profile) {
		delete(a.away, name)
		return answer, err
	}
	if !errors.Is(err, engines.ErrUnavailable) { // somebody may put another program there
		err = fmt.Errorf("%w: %w", engines.ErrUnavailable, err)
	}
	a.away[name] = away{time.Now(), err}
	return none, err
}

// Shape returns what a replica of a profile needs, as its engine's adapter says;
// false: no adapter of it is here. The error is a [*engines.ProfileError], or wraps
// [engines.ErrUnavailable].
func (a *Asked) Shape(p engines.Profile) (shape engines.Shape, known bool, err error) {
	shape, err = ask(a, p.Engine, func(ctx context.Context, adapter engines.Adapter) (engines.Shape, error) {
		return adapter.Validate(ctx, p)
	})
	if errors.Is(err, errStranger) {
		return engines.Shape{}, false, nil
	}
	return shape, true, err
}

// Describe returns what an adapter says of its engine; false: it is not here, or does
// not answer.
func (a *Asked) Describe(name engines.Name) (engines.Description, bool) {
	d, err := ask(a, name, func(ctx context.Context, adapter engines.Adapter) (engines.Description, error) {
		return adapter.Describe(ctx)
	})
	return d, err == nil
}

// CheckRun asks the adapter of a model's engine whether it could run the model, and
// returns what is wrong, joined, each beginning with the path of a key of the entry.
// A model of an engine that no adapter here is of only the nodes can judge, and one
// whose adapter does not answer nobody does now.
func (a *Asked) CheckRun(m *catalog.Model) error {
	p, runs := m.RunProfile()
	if !runs {
		return nil
	}
	_, known, err := a.Shape(p)
	if !known || err == nil || errors.Is(err, engines.ErrUnavailable) {
		return nil
	}
	if faults, ok := errors.AsType[*engines.ProfileError](err); ok {
		return catalog.RunFaults(faults.Faults)
	}
	return errors.New("profile.engine: " + err.Error())
}

// CheckRun is [Asked.CheckRun] of the adapters that are built in.
func CheckRun(m *catalog.Model) error { return NewAsked(Adapters(), nil).CheckRun(m) }
