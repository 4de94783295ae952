package discover

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Deps are an agent's collaborators.
type Deps struct {
	// Sources list candidates; at least one is required.
	Sources []Source
	// Registrar takes registrations, e.g. a [Client]; required.
	Registrar Registrar
	// Bridges are networks of this machine alone, as of [Bridges].
	Bridges []netip.Prefix
	// Transport asks candidates, instead of one that dials nothing forbidden; nil
	// means that one.
	Transport http.RoundTripper
	// Random spreads retries; nil means a source of the agent's own.
	Random     *rand.Rand
	Logger     *slog.Logger          // nil discards
	Registerer prometheus.Registerer // nil leaves metrics unregistered
}

// Agent keeps a control plane told of the engines that can be found.
type Agent struct {
	cfg       Config
	scanner   *Scanner
	registrar Registrar
	log       *slog.Logger
	slots     chan struct{} // one for each registration under way

	mu     sync.Mutex
	random *rand.Rand // guarded by mu
}

// New validates cfg and returns an Agent. It starts nothing; call Run.
func New(cfg Config, deps Deps) (*Agent, error) {
	if deps.Registrar == nil {
		return nil, errors.New("discover: no registrar")
	}
	scanner, err := NewScanner(cfg, ScannerDeps{
		Sources: deps.Sources, Bridges: deps.Bridges, Transport: deps.Transport, Logger: deps.Logger, Registerer: deps.Registerer,
	})
	if err != nil {
		return nil, err
	}
	if deps.Random == nil {
		deps.Random = rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
	}
	return &Agent{
		cfg: cfg, scanner: scanner, registrar: deps.Registrar, log: scanner.deps.Logger,
		slots: make(chan struct{}, cfg.RegisterAtOnce), random: deps.Random,
	}, nil
}

// Run looks for engines and keeps their leases until ctx is done, then returns
// nil. Nothing else ends it: what cannot be listed, found or registered is tried
// again. Call it once.
//
// It scans on one clock, and each engine's lease is renewed on another by a
// goroutine of its own, which ends when a scan does not find the engine any more.
func (a *Agent) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	keepers := make(map[string]*keeper)
	first := true
	// A ticker keeps one tick of those that a long scan lets pass.
	ticker := time.NewTicker(a.cfg.Discover)
	defer ticker.Stop()
	for {
		found, err := a.scanner.Scan(ctx)
		if err != nil {
			return nil // ctx is done
		}
		if first && len(found) == 0 {
			a.log.InfoContext(ctx, "no engine answers yet; looking again", "discover", a.cfg.Discover)
		}
		first = false
		a.follow(ctx, &wg, keepers, found)
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// keeper renews the lease of one engine.
type keeper struct {
	found atomic.Pointer[Found]
	stop  context.CancelFunc
}

// follow starts a keeper for what is new, tells others of what has changed, and
// stops those of what is gone.
func (a *Agent) follow(ctx context.Context, wg *sync.WaitGroup, keepers map[string]*keeper, found []Found) {
	there := make(map[string]bool, len(found))
	for _, f := range found {
		there[f.BaseURL] = true
	}
	for base, k := range keepers {
		if !there[base] {
			k.stop()
			delete(keepers, base)
			f := k.found.Load()
			a.log.InfoContext(ctx, "engine gone; its lease is not renewed", "provider", f.Name, "api_base", base)
		}
	}
	for _, f := range found {
		k, ok := keepers[f.BaseURL]
		if !ok {
			a.log.InfoContext(ctx, "engine found", "provider", f.Name, "api_base", f.BaseURL, "model", f.Model, "models", f.Models, "origin", f.Origin)
			k = &keeper{}
			k.found.Store(&f)
			var kctx context.Context
			kctx, k.stop = context.WithCancel(ctx)
			keepers[f.BaseURL] = k
			wg.Go(func() { a.keep(kctx, k) })
			continue
		}
		if before := k.found.Swap(&f); before.Name != f.Name || before.Model != f.Model {
			a.log.InfoContext(ctx, "engine changed", "provider", f.Name, "before", before.Name, "api_base", f.BaseURL, "model", f.Model)
		}
	}
}

// keep registers k's engine at once and then each Interval, until ctx is done.
func (a *Agent) keep(ctx context.Context, k *keeper) {
	var failures int
	var warned string
	for {
		begun := time.Now()
		f := k.found.Load()
		answer, err := a.register(ctx, f)
		if ctx.Err() != nil {
			return
		}
		wait := a.cfg.Interval - time.Since(begun)
		if err != nil {
			failures++
			wait = a.backoff(failures, err)
			a.log.WarnContext(ctx, "registration failed", "provider", f.Name, "api_base", f.BaseURL, "retry_in", wait, "err", err)
		} else {
			failures = 0
			a.log.InfoContext(ctx, "registered", "provider", answer.Name, "api_base", f.BaseURL, "model", f.Model, "kind", answer.Kind, "leased", answer.Leased, "degraded", answer.Degraded)
			if answer.Warning != "" && answer.Warning != warned {
				a.log.WarnContext(ctx, "the control plane warns", "provider", answer.Name, "asked", f.Name, "api_base", f.BaseURL, "warning", answer.Warning)
			}
			warned = answer.Warning
		}
		timer := time.NewTimer(max(wait, 0))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
	}
}

func (a *Agent) register(ctx context.Context, f *Found) (Registered, error) {
	select {
	case a.slots <- struct{}{}:
	case <-ctx.Done():
		return Registered{}, context.Cause(ctx)
	}
	defer func() { <-a.slots }()
	ctx, cancel := context.WithTimeout(ctx, a.cfg.RegisterTimeout)
	defer cancel()
	answer, err := a.registrar.Register(ctx, Registration{
		APIBase: f.BaseURL + "/v1", Node: f.Node, Name: f.Name, Engine: a.cfg.Engine, TTLSeconds: int(a.cfg.TTL / time.Second),
	})
	a.scanner.metrics.registrations.WithLabelValues(registrationLabel(err)).Inc()
	return answer, err
}

func registrationLabel(err error) string {
	switch {
	case err == nil:
		return "ok"
	case errors.Is(err, ErrUnauthorized):
		return "unauthorized"
	case errors.Is(err, ErrRefused):
		return "refused"
	}
	return "unavailable"
}

// The times of retries.
const (
	firstRetry = time.Second
	// mostRetry is how long a token that is not known rests at the most, and how
	// long a control plane may have itself left alone.
	mostRetry = 5 * time.Minute
)

// backoff returns how long to wait after so many failures in a row: doubled each
// time and of that a half to the whole, so that agents that failed together do
// not come back together. Up to Interval, since a control plane that is back
// should know its engines within that; a token that is not known can wait longer,
// and what is refused need not be tried before its time.
func (a *Agent) backoff(failures int, err error) time.Duration {
	most := max(a.cfg.Interval, firstRetry)
	wait := firstRetry << min(failures-1, 10)
	switch {
	case errors.Is(err, ErrRefused):
		wait = most
	case errors.Is(err, ErrUnauthorized):
		most = max(most, mostRetry)
	}
	wait = min(wait, most)
	a.mu.Lock()
	wait = wait/2 + time.Duration(a.random.Int64N(int64(wait/2)+1))
	a.mu.Unlock()
	if refused, ok := errors.AsType[*RegisterError](err); ok {
		wait = max(wait, min(refused.RetryAfter, mostRetry))
	}
	return wait
}
