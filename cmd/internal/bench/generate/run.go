package generate

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/llmgw/llmgw/engines/sim/workload"
)

// Deps are the generator's collaborators.
type Deps struct {
	// Trace is what to send. Required; it is not changed.
	Trace *workload.Trace
	// Transport carries the requests. Nil: HTTP/1.1 with a connection for each
	// request that may be under way, no compression, and the proxy of the
	// environment.
	Transport http.RoundTripper
}

// Generator sends one load.
type Generator struct {
	cfg    Config
	trace  *workload.Trace
	seen   []int  // of each request, the prompt tokens that one before it has
	base   string // URL up to /v1
	header http.Header
	client *http.Client
	own    *http.Transport // nil: the caller's
	bodies *bodies         // set by Run
	kept   *budget         // of all answers under way

	state atomic.Pointer[running]
	began atomic.Bool
}

// running is what Progress looks at.
type running struct {
	rec   *recorder
	start time.Time
}

// ErrRunTwice is the error of a second [Generator.Run].
var ErrRunTwice = errors.New("a generator runs once")

// New validates cfg and the trace. It sends nothing.
func New(cfg Config, deps Deps) (*Generator, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if deps.Trace == nil {
		return nil, errors.New("trace: none; want what is to be sent")
	}
	if err := deps.Trace.Validate(); err != nil {
		return nil, fmt.Errorf("trace: %w", err)
	}
	g := &Generator{cfg: cfg, trace: deps.Trace, seen: deps.Trace.SeenTokens(), header: cfg.Header.Clone(), kept: newBudget(maxKeptBytes)}
	g.base, _ = baseURL(cfg.URL) // Validate has looked at it
	if g.header == nil {
		g.header = http.Header{}
	}
	g.header.Set("Content-Type", "application/json")
	if g.header.Get("User-Agent") == "" {
		g.header.Set("User-Agent", "llmgw-bench")
	}
	if cfg.APIKey != "" {
		g.header.Set("Authorization", "Bearer "+cfg.APIKey)
	}
	rt := deps.Transport
	if rt == nil {
		g.own = newTransport(max(cfg.Concurrency, cfg.MaxOutstanding))
		rt = g.own
	}
	g.client = newClient(rt)
	return g, nil
}

// Run sends the load and reports what came of it. When ctx is done it stops at
// once and reports what it saw until then, with Interrupted set. It is an error
// if no model was named and the target does not tell one (then nothing was
// sent), and a second call.
//
// Run owns the goroutines that it starts: they have ended when it returns.
func (g *Generator) Run(ctx context.Context) (*Report, error) {
	if g.began.Swap(true) {
		return nil, ErrRunTwice
	}
	if g.own != nil {
		defer g.own.CloseIdleConnections()
	}
	model := g.cfg.Model
	if model == "" {
		var err error
		if model, err = g.discover(ctx); err != nil {
			return nil, err
		}
	}
	g.bodies = newBodies(g.cfg, model, workload.NewPrompter(g.trace).Seeded(g.cfg.Seed))
	open := g.cfg.Concurrency == 0
	rep := &Report{
		Target: g.base, API: g.cfg.API, Model: model, Stream: g.cfg.Stream,
		Workload: newWorkload(g.trace, open), Seed: g.cfg.Seed, Loop: "open", WarmupS: g.cfg.Warmup.Seconds(),
		Requests: Requests{Planned: int64(len(g.trace.Requests))},
	}
	start := time.Now()
	rep.StartedAt = start.UTC().Round(time.Millisecond)
	r := &run{g: g, start: start, rec: newRecorder(open, g.cfg.SLO, start.Add(g.cfg.Warmup))}
	g.state.Store(&running{r.rec, start})
	if open {
		r.open(ctx)
	} else {
		rep.Loop, rep.Concurrency = "closed", &g.cfg.Concurrency
		r.closed(ctx)
	}
	rep.Interrupted = ctx.Err() != nil
	r.rec.fill(rep, time.Now())
	if g.byTime() {
		g.forgetUnsent(rep)
	}
	return rep, nil
}

// forgetUnsent takes what there was no time for out of the report: it was not
// planned.
func (g *Generator) forgetUnsent(rep *Report) {
	rep.Requests.Planned -= rep.Requests.Unsent
	rep.Requests.Unsent = 0
	if sent, err := g.trace.First(int(rep.Requests.Planned)); err == nil {
		rep.Workload = newWorkload(sent, false)
	} else { // none was sent
		rep.Workload.Requests = 0
	}
}

// byTime is whether a closed loop sends as many requests as there is time for.
func (g *Generator) byTime() bool { return g.cfg.Concurrency > 0 && g.cfg.Duration > 0 }

// Progress is where the run stands; all but Planned is 0 before it sends. It
// may be called at any time, concurrently.
func (g *Generator) Progress() Progress {
	p := Progress{}
	planned := int64(len(g.trace.Requests))
	if s := g.state.Load(); s != nil {
		p = s.rec.progress()
		p.Elapsed = time.Since(s.start)
		p.Share = float64(p.Sent-p.InFlight) / float64(planned)
	}
	if g.byTime() {
		p.Share = min(max(p.Share, float64(p.Elapsed)/float64(g.cfg.Duration)), 1)
	} else {
		p.Planned = planned
	}
	return p
}

// run is one run under way.
type run struct {
	g     *Generator
	start time.Time
	rec   *recorder
}

// open sends each request when it is due, whether or not earlier ones are
// answered, as long as there is a place among the outstanding ones.
func (r *run) open(ctx context.Context) {
	places := make(chan struct{}, r.g.cfg.MaxOutstanding)
	exchanges := sync.Pool{New: func() any { return r.g.newExchange() }}
	var wg sync.WaitGroup
	defer wg.Wait()
	var over <-chan time.Time
	if d := r.g.cfg.Duration; d > 0 {
		end := time.NewTimer(d)
		defer end.Stop()
		over = end.C
	}
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for i := range r.g.trace.Requests {
		at := r.g.trace.Requests[i].At
		if r.g.cfg.Duration > 0 && at >= r.g.cfg.Duration {
			return
		}
		due := r.start.Add(at)
		if wait := time.Until(due); wait > 0 {
			timer.Reset(wait)
			select {
			case <-timer.C:
			case <-ctx.Done():
				return
			}
		}
		if !r.place(ctx, places, over) {
			return
		}
		r.rec.begin()
		wg.Go(func() {
			x := exchanges.Get().(*exchange)
			r.one(ctx, x, i, due)
			exchanges.Put(x)
			<-places
		})
	}
}

// place takes a place among the outstanding requests; false means that the run
// is over first. A free place is taken even then: its request was due before.
func (r *run) place(ctx context.Context, places chan<- struct{}, over <-chan time.Time) bool {
	select {
	case places <- struct{}{}:
		return true
	default:
	}
	select {
	case places <- struct{}{}:
		return true
	case <-over:
	case <-ctx.Done():
	}
	return false
}

// closed lets each caller send its next request when the last is answered.
func (r *run) closed(ctx context.Context) {
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(r.g.cfg.Concurrency, len(r.g.trace.Requests)) {
		wg.Go(func() {
			x := r.g.newExchange()
			for ctx.Err() == nil && (r.g.cfg.Duration == 0 || time.Since(r.start) < r.g.cfg.Duration) {
				i := int(next.Add(1)) - 1
				if i >= len(r.g.trace.Requests) {
					return
				}
				r.rec.begin()
				if failed := r.one(ctx, x, i, time.Time{}); failed {
					pause(ctx) // a target that refuses must not make this a busy loop
				}
			}
		})
	}
	wg.Wait()
}

// one sends a request and records what came of it.
func (r *run) one(ctx context.Context, x *exchange, i int, due time.Time) (failed bool) {
	s := x.do(ctx, i, r.leaveAfter(i))
	r.rec.add(s, due, ctx.Err() != nil)
	return s.failure != nil
}

// leaveAfter draws whether, and after how many contents, to leave a stream. The
// draw depends on seed and request alone, not on who is first.
func (r *run) leaveAfter(i int) int {
	if r.g.cfg.CancelRatio == 0 {
		return 0
	}
	rng := rand.New(rand.NewPCG(r.g.cfg.Seed, uint64(i)))
	if rng.Float64() >= r.g.cfg.CancelRatio {
		return 0
	}
	return 1 + rng.IntN(r.g.bodies.tokens(&r.g.trace.Requests[i]))
}

// pause waits 10 ms, or until ctx is done.
func pause(ctx context.Context) {
	timer := time.NewTimer(10 * time.Millisecond)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
