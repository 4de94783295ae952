package router

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/router/endpoint"
	"github.com/llmgw/llmgw/router/openai"
	"github.com/llmgw/llmgw/router/proxy"
	"github.com/llmgw/llmgw/router/schedule"
)

// Deps are the router's collaborators.
type Deps struct {
	// Proxy relays. Required.
	Proxy *proxy.Proxy
	// Endpoints are what can be sent to. Required. Each instance's attachment
	// must be the *proxy.Target of Proxy that reaches it.
	Endpoints *endpoint.Set
	// Scheduler chooses among them. Required.
	Scheduler *schedule.Scheduler
	// Models is the catalog. Required.
	Models Models
	// Prompts reads prompts for the index that Scheduler asks for prefixes; nil: no
	// prompt is looked up.
	Prompts Prompts

	// The hooks. The first four refuse a request with an error that is, or
	// wraps, an [*openai.Error], such as openai.Unauthorized or
	// openai.RateLimited: the client gets that. Any other error of theirs is
	// answered 503 overloaded, and logged.
	Caller   Caller   // nil: everybody is nobody in particular and may use everything
	Charger  Charger  // nil: nothing costs anything
	Waker    Waker    // nil: no request waits for a model; it may be a StateTeller, too
	Admitter Admitter // nil: every request may run at once
	Recorder Recorder // nil: nothing is recorded; it may be a DecisionRecorder, too
	// ContinuousUsage are the engines that say with each piece of a stream what it
	// came to so far, if they are asked to. They are, for requests that are charged,
	// so that it is known when the client leaves; see Config.InjectContinuousUsage.
	ContinuousUsage map[engines.Name]bool
	// SessionHash is what decisions find a session by in place of its own hash;
	// see schedule.Request. Nil: its own.
	SessionHash func(session string) uint64

	Logger     *slog.Logger          // nil discards
	Registerer prometheus.Registerer // nil leaves metrics unregistered
}

// Router is the request path. It is an http.Handler.
type Router struct {
	cfg     Config
	deps    Deps
	log     *slog.Logger
	metrics *metrics
	memory  bodyMemory
	spools  spools
	pins    pins
	budget  *retryBudget
	notices notices
	calls   sync.Pool
	created time.Time

	decisions DecisionRecorder // Deps.Recorder; nil: it is none
}

// New validates cfg, looks whether its directory is there, and returns a Router.
// It starts nothing.
func New(cfg Config, deps Deps) (*Router, error) {
	errs := []error{cfg.Validate()}
	for name, missing := range map[string]bool{
		"Proxy": deps.Proxy == nil, "Endpoints": deps.Endpoints == nil,
		"Scheduler": deps.Scheduler == nil, "Models": deps.Models == nil,
	} {
		if missing {
			errs = append(errs, fmt.Errorf("missing Deps.%s", name))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("router: %w", err)
	}
	cfg.SessionHeader = http.CanonicalHeaderKey(cfg.SessionHeader)
	cfg.BandHeader = http.CanonicalHeaderKey(cfg.BandHeader)
	rt := &Router{
		cfg: cfg, deps: deps, log: deps.Logger, created: time.Now(),
		budget: newRetryBudget(cfg.RetryBudgetRatio, cfg.RetryBudgetMin),
	}
	if rt.log == nil {
		rt.log = slog.New(slog.DiscardHandler)
	}
	rt.notices.log = rt.log
	rt.memory.limit = cfg.BodyMemoryBytes
	if rt.memory.limit == 0 {
		rt.memory.limit = defaultBodyMemory()
	}
	// The longest body must fit, with the decoder it may need. One of unknown
	// length is known to fit when there is room for one byte more, and that is
	// not there.
	rt.memory.limit = max(rt.memory.limit, cfg.MaxBodyBytes+1+maxWindow)
	rt.spools = spools{dir: cfg.SpoolDir, limit: cfg.SpoolBytes, mem: &rt.memory}
	rt.pins.limit, rt.pins.ttl = cfg.ResponsePins, cfg.ResponsePinTTL
	if err := cfg.CheckSpoolDir(); err != nil {
		return nil, fmt.Errorf("router: %w", err)
	}
	var err error
	if rt.metrics, err = newMetrics(deps.Registerer, rt); err != nil {
		return nil, fmt.Errorf("router: register metrics: %w", err)
	}
	rt.calls.New = func() any { return new(call) }
	rt.decisions, _ = deps.Recorder.(DecisionRecorder)
	return rt, nil
}

// ServeHTTP serves one request.
func (rt *Router) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	start := time.Now()
	rt.metrics.inFlight.Inc()
	c := rt.calls.Get().(*call)
	c.begin(rt, w, r, start)
	whole := false
	defer func() {
		rt.metrics.inFlight.Dec()
		if !whole {
			rt.metrics.panics.Inc()
			return // a panic: the call's state is not to be trusted
		}
		broken, shared := c.broken, c.shared
		c.end()
		if !shared {
			rt.calls.Put(c)
		}
		if broken {
			panic(http.ErrAbortHandler)
		}
	}()
	c.serve()
	whole = true
}

// serve runs the call. However it ends, by a panic too, what was taken is given
// back once, and then it is accounted for.
func (c *call) serve() {
	defer c.account()
	defer c.giveBack()
	if err := c.run(); err != nil {
		c.refuse(err)
	}
}

// giveBack ends what the hooks began. One that panics spares the other.
func (c *call) giveBack() {
	o := &c.out
	defer func() {
		if c.charge != nil {
			c.charge.Settle(o)
		}
	}()
	if o.Result == ResultUnset { // a panic
		o.Result, o.Code = ResultFault, openai.CodeInternal
		c.shared = true
	}
	c.dropBody()
	if c.spool != nil {
		c.spool.close(c.shared)
	}
	o.End = time.Now()
	if c.lease != nil {
		c.release(o.End)
	}
}

// account says what became of the request.
func (c *call) account() {
	rt, o := c.rt, &c.out
	mm := c.metrics
	if mm == nil {
		mm = rt.metrics.nobody
	}
	mm.ended(o)
	if o.Served != "" && o.Served != o.Model {
		rt.metrics.fallbacks.WithLabelValues(o.Model, o.Served).Inc()
	}
	if rt.deps.Recorder != nil {
		rt.deps.Recorder.Record(o)
	}
	if rt.log.Enabled(c.ctx(), slog.LevelDebug) {
		rt.log.LogAttrs(c.ctx(), slog.LevelDebug, "request",
			slog.String("id", o.ID), slog.String("path", o.Path), slog.String("model", o.Model),
			slog.String("endpoint", o.Endpoint), slog.Int("status", o.Status), slog.String("result", o.Result.String()),
			slog.Int("attempts", o.Attempts), slog.Duration("took", o.End.Sub(o.Start)))
	}
}

// run takes the request as far as it goes. An error is one of ours, to be
// written; nil means that the client has its answer, or is gone.
func (c *call) run() *openai.Error {
	rt, r := c.rt, c.req
	if rt.deps.Caller != nil {
		id, err := rt.deps.Caller.Identify(r)
		if err != nil {
			return c.hookError("identify", err)
		}
		c.identity = id
	}
	switch c.route.kind {
	case routeModels, routeModel:
		return c.serveModels()
	case routeStored:
		return c.serveStored()
	case routeNone:
		return notFound(r)
	}
	if r.Method != http.MethodPost {
		if c.route.label == otherLabel {
			return notFound(r)
		}
		return openai.MethodNotAllowed(r.Method, http.MethodPost)
	}
	form, refusal := c.reads()
	switch {
	case refusal != nil:
		return refusal
	case form:
		return c.serveForm()
	}
	if err := c.body.read(c.w, r, &rt.cfg); err != nil {
		return err
	}
	c.whole = true
	data := *c.body.buf
	if err := openai.PeekBody(data, &c.peek); err != nil {
		return openai.PeekFailed(err)
	}
	return c.infer(data)
}

// infer serves a request whose body has been understood.
func (c *call) infer(data []byte) *openai.Error {
	rt, o := c.rt, &c.out
	catalog := rt.deps.Models.Catalog()
	m, ok := catalog.Resolve(c.peek.Model)
	if !ok || !c.identity.allows(m.Name) {
		return openai.UnknownModel(c.peek.Model)
	}
	if c.route.dialect == openai.DialectResponses {
		var err *openai.Error
		if m, err = c.refers(catalog, m); err != nil {
			return err
		}
	}
	c.metrics = rt.metrics.model(m.Name)
	o.Model, o.Stream, o.PromptBytes = m.Name, c.peek.Stream, c.route.promptBytes(&c.peek)
	o.Session = c.session()
	rt.budget.request(o.Start)

	size := int64(len(data))
	if c.spool != nil {
		size = c.spool.size
	}
	pairs := int64(0)
	if c.route.pairs {
		pairs, size = c.peek.Pairs(), c.peek.MostPairBytes(size)
	}
	if err := c.pay(Estimate{
		Model: m.Name, PromptBytes: o.PromptBytes, BodyBytes: size, Pairs: pairs, Refers: c.peek.HasPrevious || c.peek.HasConversation,
		Several:   c.route.work == WorkRead || c.route.label == otherLabel,
		MaxTokens: c.peek.MaxTokens, Bounded: c.peek.Bounded(c.route.path), Answers: max(1, c.peek.Choices*c.peek.Prompts),
	}); err != nil {
		return err
	}
	asleep := c.wakes(m)
	switch {
	case asleep != nil && (c.out.Result == ResultCanceled || len(m.Fallbacks) == 0):
		return c.noEndpoint(asleep)
	case asleep == nil:
		if err := c.admit(m); err != nil {
			return err
		}
	}
	return c.dispatch(catalog, m, data, asleep)
}

// pay has the request charged, on an estimate.
func (c *call) pay(e Estimate) *openai.Error {
	if c.rt.deps.Charger == nil {
		return nil
	}
	e.Identity, e.Work, e.Anthropic = &c.identity, c.route.work, c.route.shape == shapeAnthropic
	charge, err := c.rt.deps.Charger.Charge(c.ctx(), e)
	if err != nil {
		return c.hookError("charge", err)
	}
	c.charge, c.out.Charge = charge, charge
	c.headers, _ = charge.(Headers)
	return nil
}

// session is the affinity key.
func (c *call) session() string {
	if v := c.req.Header[c.rt.cfg.SessionHeader]; len(v) > 0 && validSession(v[0]) != "" {
		return v[0]
	}
	return c.peek.User
}

// validSession is what a header says of the session, unless it is too long to be
// one.
func validSession(v string) string {
	if len(v) > 1024 {
		return ""
	}
	return v
}

// hookError is what a client gets when a hook refused.
func (c *call) hookError(hook string, err error) *openai.Error {
	if h := Headers(nil); errors.As(err, &h) {
		c.headers = h
	}
	if e, ok := errors.AsType[*openai.Error](err); ok {
		return e
	}
	if c.ctx().Err() == nil {
		c.rt.log.Error("hook failed", "hook", hook, "request", c.id, "err", err)
	} else {
		c.out.Result = ResultCanceled
	}
	return openai.Overloaded(time.Second)
}
