package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/llmgw/llmgw/auth"
	"github.com/llmgw/llmgw/auth/usage"
	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/engines/llamacpp"
	"github.com/llmgw/llmgw/engines/lmdeploy"
	"github.com/llmgw/llmgw/engines/sglang"
	"github.com/llmgw/llmgw/engines/tei"
	"github.com/llmgw/llmgw/engines/tgi"
	"github.com/llmgw/llmgw/engines/trtllm"
	"github.com/llmgw/llmgw/engines/vllm"
	"github.com/llmgw/llmgw/placement/catalog"
	"github.com/llmgw/llmgw/router"
	"github.com/llmgw/llmgw/router/endpoint"
	"github.com/llmgw/llmgw/router/gateway/flight"
	"github.com/llmgw/llmgw/router/proxy"
	"github.com/llmgw/llmgw/router/schedule"
	"github.com/llmgw/llmgw/router/scrape"
	"github.com/llmgw/llmgw/storage/record"
)

// ErrNoEndpoint: no endpoint would take a request now.
var ErrNoEndpoint = errors.New("gateway: no endpoint takes requests")

// Deps are the gateway's collaborators. The hooks are those of package router;
// nil ones let everything pass, but for Admitter.
type Deps struct {
	// The hooks. An Admitter takes the place of the admission that Config
	// describes. The first three refuse a request with an error that is, or
	// wraps, an *openai.Error, such as openai.Unauthorized or
	// openai.RateLimited. Any other error is answered 503 overloaded, and logged.
	Caller   router.Caller
	Charger  router.Charger
	Admitter router.Admitter
	Recorder router.Recorder // may be a router.DecisionRecorder, too

	// Authenticator says who callers are, by their keys, in place of a Caller. What
	// passes [Gateway.Protect] was asked there; without that the gateway asks by
	// itself. The caller runs it. Nil: callers are not known by keys.
	Authenticator *auth.Authenticator
	// Limiter enforces the limits of the keys that Authenticator knows, in place of
	// a Charger. The caller runs it, and ends it after the last request. Nil:
	// nobody has limits.
	Limiter Limiter
	// Usage gets one row for each request of a known caller; of every request, where
	// callers are not known by keys. The caller runs it, and ends it after the last
	// request. Nil: nothing is accounted.
	Usage *usage.Recorder
	// RouterID names this process in usage rows.
	RouterID string
	// AssumedOutputTokens is how long an answer is assumed to be, for limits of
	// tokens a minute, where the request does not bound it. 0 is 1000.
	AssumedOutputTokens int64

	// Follows: the models are those that a control plane tells ([Gateway.Follow] with
	// its models, or [Gateway.SetModels]), and no reload replaces them.
	Follows bool

	// Profiles are routing profiles added to the built-in ones; one of the same
	// name replaces it.
	Profiles []schedule.Profile
	// Dial opens every connection to an engine, those for its metrics included;
	// nil means TCP. See proxy.TargetConfig for what it is good for.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// Contracts are what is known of engines' metrics, in the order in which an
	// unknown engine is recognised. Nil means [Contracts].
	Contracts []engines.MetricContract

	// Log is a flight recorder's log that the caller runs, in place of the one that
	// Config.Recorder describes. One gateway at a time may write to it; records of
	// other types than package flight's may stand in it, too.
	Log *record.Log
	// Writer is the program and its version, for who reads the log that
	// Config.Recorder describes.
	Writer string

	Logger     *slog.Logger          // nil discards
	Registerer prometheus.Registerer // nil leaves metrics unregistered
}

// Contracts returns the metric contracts of the engines that export any.
func Contracts() []engines.MetricContract {
	return []engines.MetricContract{
		vllm.Metrics(), sglang.Metrics(), llamacpp.Metrics(), trtllm.Metrics(), tgi.Metrics(), tei.Metrics(), lmdeploy.Metrics(),
	}
}

// Gateway is the data plane. It is an http.Handler; its methods may be called
// concurrently.
type Gateway struct {
	log       *slog.Logger
	models    models
	endpoints *endpoint.Set
	proxy     *proxy.Proxy
	scraper   *scrape.Scraper
	scheduler *schedule.Scheduler
	router    *router.Router
	contracts []engines.MetricContract
	recorder  *flight.Recorder // nil: there is neither ring nor log
	flightLog *record.Log      // the recorder's, if it is the gateway's own to run
	prefixes  *prefixes        // nil: switched off
	events    *scrape.Events   // nil with prefixes
	admitter  *admitter        // nil: admission is off, or an embedder's own
	governor  *governor        // nil: there are neither keys, limits nor accounting
	wakes     *wakes
	trust     *trust
	dial      func(ctx context.Context, network, addr string) (net.Conn, error) // nil is TCP
	profiles  []string                                                          // names that models may use
	follows   bool                                                              // Reload leaves the models as they are

	mu       sync.Mutex      // one change at a time
	declared []endpoint.Spec // guarded by mu; the endpoints as Reload was told of them
	listed   []catalog.Model // guarded by mu; the models as told last
	replicas []Replica       // guarded by mu; as told last
	// known are the endpoints that are replicas, those included that are gone and
	// have requests; guarded by mu.
	known map[*endpoint.Endpoint]followed
}

// New validates cfg, reads the keys and authorities that it names, and returns a
// Gateway. It starts nothing and dials nothing; call Run.
func New(cfg Config, deps Deps) (*Gateway, error) {
	g := &Gateway{
		log: deps.Logger, trust: newTrust(), dial: deps.Dial, profiles: schedule.ProfileNames(), follows: deps.Follows, known: map[*endpoint.Endpoint]followed{},
	}
	for _, p := range deps.Profiles {
		g.profiles = append(g.profiles, p.Name)
	}
	if err := cfg.validate(g.profiles); err != nil {
		return nil, fmt.Errorf("gateway: %w", err)
	}
	if g.log == nil {
		g.log = slog.New(slog.DiscardHandler)
	}
	var err error
	if g.proxy, err = proxy.New(cfg.Router.Relay, proxy.Deps{Registerer: deps.Registerer}); err != nil {
		return nil, err
	}
	g.endpoints, err = endpoint.NewSet(cfg.Router.Breaker, endpoint.Deps{
		Attach: g.attach, Logger: g.log, Registerer: deps.Registerer,
	})
	if err != nil {
		return nil, err
	}
	scheduling := schedule.Deps{Profiles: deps.Profiles, Registerer: deps.Registerer}
	var prompts router.Prompts
	if g.prefixes, err = newPrefixes(cfg.Prefix, cfg.Router.Scrape.Interval, g.tokenClient, g.log, deps.Registerer); err != nil {
		return nil, err
	}
	if g.prefixes != nil {
		scheduling.Prefixes, prompts = g.prefixes, g.prefixes
		g.events, err = scrape.NewEvents(scrape.EventsDeps{
			Set: g.endpoints, Open: g.prefixes.exact.open, Dial: g.dial, Logger: g.log, Registerer: deps.Registerer,
		})
		if err != nil {
			return nil, err
		}
	}
	if g.scheduler, err = schedule.New(cfg.scoring(), scheduling); err != nil {
		return nil, err
	}
	if err := g.newRecorder(cfg, deps); err != nil {
		return nil, err
	}
	if g.contracts = deps.Contracts; g.contracts == nil {
		g.contracts = Contracts()
	}
	g.scraper, err = scrape.New(cfg.Router.Scrape, scrape.Deps{
		Set: g.endpoints, Contracts: g.contracts, Client: g.scrapeClient, Logger: g.log, Registerer: deps.Registerer,
	})
	if err != nil {
		return nil, err
	}
	if deps.Admitter == nil {
		if g.admitter, err = g.newAdmitter(cfg, deps); err != nil {
			return nil, err
		}
		if g.admitter != nil {
			deps.Admitter = g.admitter
		}
	}
	if g.governor, err = newGovernor(&deps, g.log, &g.models); err != nil {
		return nil, err
	}
	g.governor.hooks(&deps)
	if g.wakes, err = newWakes(cfg.OnDemand, g.endpoints, deps.Registerer); err != nil {
		return nil, fmt.Errorf("gateway: metrics: %w", err)
	}
	core := cfg.Router.core()
	core.BandHeader = cfg.Admission.BandHeader
	var sessions func(string) uint64
	if g.recorder != nil && g.recorder.Logs() {
		sessions = g.recorder.SessionHash
	}
	g.router, err = router.New(core, router.Deps{
		Proxy: g.proxy, Endpoints: g.endpoints, Scheduler: g.scheduler, Models: &g.models, Prompts: prompts,
		Caller: deps.Caller, Charger: deps.Charger, Waker: g.wakes, Admitter: deps.Admitter,
		Recorder: g.recording(explaining{g.log, g.governor.recording(deps.Recorder)}, deps.Recorder), SessionHash: sessions,
		ContinuousUsage: continuousUsage(),
		Logger:          g.log, Registerer: deps.Registerer,
	})
	if err != nil {
		return nil, err
	}
	return g, g.Reload(cfg)
}

// Reload replaces the models and the endpoints by those of cfg; requests under
// way end on what they began with. An endpoint that stays as it was keeps its
// connections, counters and breaker. On error nothing has changed. The other
// parts of cfg are looked at by New only. Of a gateway that follows, the models stay.
func (g *Gateway) Reload(cfg Config) error {
	if err := cfg.validate(g.profiles); err != nil {
		return fmt.Errorf("gateway: %w", err)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	specs, err := cfg.specs()
	if err != nil {
		return fmt.Errorf("gateway: %w", err)
	}
	if err := g.trust.load(specs); err != nil {
		return fmt.Errorf("gateway: %w", err)
	}
	if g.follows {
		return g.replace(g.listed, specs, g.replicas)
	}
	if err := g.replace(cfg.Models, specs, g.replicas); err != nil {
		return err
	}
	for _, w := range cfg.Warnings() {
		g.log.Warn("configuration", "warning", w)
	}
	return nil
}

// SetModels replaces the models alone; the endpoints stay, and requests under way
// end on what they began with. On error nothing has changed. models is not changed
// or kept.
func (g *Gateway) SetModels(models []catalog.Model) error {
	if err := (Config{Models: models}).validateModels(g.profiles); err != nil {
		return fmt.Errorf("gateway: %w", err)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.replace(models, g.declared, g.replicas)
}

// CheckModel returns what is wrong with a model for this gateway that is right by
// itself. Each fault begins with the path of a key of the entry.
func (g *Gateway) CheckModel(m *catalog.Model) error {
	return checkProfile("routing_profile", m.RoutingProfile, g.profiles)
}

// replace makes models and endpoints those that requests are resolved by. The
// caller has mu.
func (g *Gateway) replace(models []catalog.Model, declared []endpoint.Spec, replicas []Replica) error {
	specs := slices.Concat(declared, replicaSpecs(models, replicas))
	cat, err := newCatalog(models, specs)
	if err != nil {
		return fmt.Errorf("gateway: %w", err)
	}
	next := newView(cat, g.models.versions.Add(1))
	// A model must not be resolved before somebody can serve it, nor after.
	if old := g.models.at.Load(); old == nil {
		g.models.at.Store(next)
	}
	before := g.endpoints.Snapshot()
	if err := g.endpoints.Replace(specs); err != nil {
		return fmt.Errorf("gateway: %w", err)
	}
	g.prefixes.sync(g.endpoints.Snapshot().All())
	g.models.at.Store(next)
	g.wakes.setCatalog(cat)
	g.note(replicas)
	g.declared, g.listed, g.replicas = declared, slices.Clone(models), replicas
	if g.endpoints.Snapshot() != before {
		g.tell(specs[:len(declared)])
	}
	return nil
}

// Run scrapes the engines, follows what they tell of their caches, drops connections
// that nobody uses, ends waits for admission that last too long and writes the
// recorder's log, until ctx is done; then it returns nil. Before
// it requests are served on what this router knows by itself; once it has ended,
// admission refuses them, so end it after the last one.
func (g *Gateway) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	loops := []func(context.Context) error{g.scraper.Run, g.proxy.Run}
	if g.admitter != nil {
		loops = append(loops, g.admitter.ctl.Run)
	}
	if g.prefixes != nil {
		loops = append(loops, g.prefixes.watch, g.prefixes.exact.run, g.events.Run)
	}
	if g.flightLog != nil { // to the last of what the others decide
		logged, end := context.WithCancel(context.WithoutCancel(ctx))
		var writing sync.WaitGroup
		writing.Go(func() { g.keepLog(logged) })
		defer writing.Wait()
		defer end()
	}
	var wg sync.WaitGroup
	errs := make([]error, len(loops))
	for i, run := range loops {
		wg.Go(func() {
			defer cancel()
			errs[i] = run(ctx)
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// ServeHTTP serves a client's request.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) { g.router.ServeHTTP(w, r) }

// Ready says why a request that came now would have nowhere to go; nil means
// that there is an endpoint that would take it, or a model that sleeps until
// somebody asks, or is on its way for who did.
func (g *Gateway) Ready() error {
	now := time.Now()
	for _, e := range g.endpoints.Snapshot().All() {
		if e.Admissible(now) {
			return nil
		}
	}
	if g.wakes.wakeable() {
		return nil
	}
	return ErrNoEndpoint
}

// attach makes the connection pool of an endpoint's new instance.
func (g *Gateway) attach(e *endpoint.Endpoint) any {
	spec := e.Spec()
	t, err := g.proxy.NewTarget(proxy.TargetConfig{
		URL: spec.URL, Secret: spec.Secret.Reveal(), TLS: g.trust.config(spec.CAFile), Dial: g.dial,
		Identify: identify(*spec, g.log),
	})
	if err != nil {
		// Specs are validated before they get here, so this is a fault of ours.
		g.log.Error("endpoint cannot be reached", "endpoint", e.ID(), "err", err)
		return nil
	}
	return t
}

// scrapeClient reaches an endpoint's metrics page under the same trust.
func (g *Gateway) scrapeClient(e *endpoint.Endpoint) scrape.Doer { return g.client(e) }

// tokenClient reaches what an endpoint has to tokenize with, and closes what it
// keeps open.
func (g *Gateway) tokenClient(e *endpoint.Endpoint) (scrape.Doer, func()) {
	c := g.client(e)
	return c, c.CloseIdleConnections
}

func (g *Gateway) client(e *endpoint.Endpoint) *http.Client {
	tr := &http.Transport{
		DialContext: g.dial, TLSClientConfig: g.trust.config(e.Spec().CAFile), MaxIdleConnsPerHost: 1, IdleConnTimeout: 4 * time.Second,
		MaxResponseHeaderBytes: 64 << 10,
	}
	return &http.Client{
		Transport:     tr,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}
