package gateway

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/llmgw/llmgw/auth"
	"github.com/llmgw/llmgw/auth/limit"
	"github.com/llmgw/llmgw/auth/usage"
	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/router"
)

// Limiter charges requests to the limits of their keys. A *limit.Limiter does, and
// so does the one of auth/limit/shared.
type Limiter interface {
	// Acquire charges a request to all limits of its subject or to none, with the
	// errors of [limit.Limiter.Acquire]. It blocks for as long as it takes to ask
	// what may be spent of a budget, and no longer than ctx lasts.
	Acquire(ctx context.Context, now time.Time, s *limit.Subject, r limit.Request) (*limit.Reservation, error)
}

// defaultAssumedOutputTokens is Deps.AssumedOutputTokens where it is 0.
const defaultAssumedOutputTokens = 1000

// governor is what identities, limits and accounting are to the router: three of
// its hooks, which know of each other. It reads keys and prices in memory only.
type governor struct {
	log     *slog.Logger
	models  *models
	auth    *auth.Authenticator // nil: callers are not known, or known to an embedder's hook
	limiter Limiter             // nil: nobody has limits
	usage   *usage.Recorder     // nil: nothing is accounted
	router  string
	assumed int64
	zones   limit.Zones

	callers callers
}

// newGovernor returns nil where deps ask for nothing of it.
func newGovernor(deps *Deps, log *slog.Logger, m *models) (*governor, error) {
	var errs []error
	if deps.Caller != nil && deps.Authenticator != nil {
		errs = append(errs, errors.New("gateway: Deps.Caller and Deps.Authenticator both say who callers are; want one"))
	}
	if deps.Charger != nil && deps.Limiter != nil {
		errs = append(errs, errors.New("gateway: Deps.Charger and Deps.Limiter both charge; want one"))
	}
	if deps.Limiter != nil && deps.Authenticator == nil {
		errs = append(errs, errors.New("gateway: Deps.Limiter needs Deps.Authenticator; limits are those of keys"))
	}
	if deps.AssumedOutputTokens < 0 {
		errs = append(errs, errors.New("gateway: Deps.AssumedOutputTokens is negative; want 0 for its default, or more"))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if deps.Authenticator == nil && deps.Limiter == nil && deps.Usage == nil {
		return nil, nil //nolint:nilnil // nothing to govern is no error
	}
	v := &governor{
		log: log, models: m, auth: deps.Authenticator, limiter: deps.Limiter, usage: deps.Usage,
		router: deps.RouterID, assumed: deps.AssumedOutputTokens,
	}
	if v.assumed == 0 {
		v.assumed = defaultAssumedOutputTokens
	}
	return v, nil
}

// hooks puts the governor where deps leave room for it.
func (v *governor) hooks(deps *Deps) {
	if v == nil {
		return
	}
	if v.auth != nil {
		deps.Caller = v
	}
	if deps.Charger == nil {
		deps.Charger = v
	}
}

// recording tells the governor of outcomes, then the next.
func (v *governor) recording(next router.Recorder) router.Recorder {
	if v == nil || v.usage == nil {
		return next
	}
	return accounting{v, next}
}

type accounting struct {
	*governor
	next router.Recorder // nil: nobody
}

// Record implements [router.Recorder].
func (a accounting) Record(o *router.Outcome) {
	a.account(o)
	if a.next != nil {
		a.next.Record(o)
	}
}

// continuousUsage are the engines that say with each piece of a stream what it came
// to, if they are asked.
func continuousUsage() map[engines.Name]bool {
	return map[engines.Name]bool{
		engines.VLLM:   capabilities(engines.VLLM).ContinuousUsage,
		engines.SGLang: capabilities(engines.SGLang).ContinuousUsage,
	}
}

// callers remembers what was made of identities. An identity is another one after
// its key was changed, so nothing in it is ever wrong; when it has grown it is
// emptied, and made anew as keys are used.
type callers struct {
	known sync.Map // *auth.Identity to *caller
	n     atomic.Int64
}

// maxCallers bounds callers: more than keys are held in memory by default.
const maxCallers = 32 << 10

func (c *callers) get(id *auth.Identity, make func(*auth.Identity) *caller) *caller {
	if who, ok := c.known.Load(id); ok {
		return who.(*caller) //nolint:forcetypeassert // nothing else is in it
	}
	who, loaded := c.known.LoadOrStore(id, make(id))
	if !loaded && c.n.Add(1) > maxCallers {
		c.n.Store(0)
		c.known.Clear()
	}
	return who.(*caller) //nolint:forcetypeassert // nothing else is in it
}
