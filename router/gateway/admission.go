package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"time"

	"github.com/llmgw/llmgw/admission"
	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/router"
	"github.com/llmgw/llmgw/router/endpoint"
)

// Admission is the section `admission`.
type Admission struct {
	Core admission.Config `yaml:",inline"`
	// BandHeader is the header by which a request asks for a band, where no key
	// says which is its own; engines do not get it. Default "x-llmgw-band";
	// empty: every request has the default band, unless its key has another.
	BandHeader string `yaml:"band_header"`
}

func defaultAdmission() Admission {
	return Admission{Core: admission.DefaultConfig(), BandHeader: "x-llmgw-band"}
}

// admission is the configuration with what it shares with scraping and scoring:
// both measure the same loads against the same targets.
func (c Config) admission() admission.Config {
	a := c.Admission.Core
	a.Saturation = admission.SaturationConfig{
		AssumedCapacity: admission.DefaultSaturationConfig().AssumedCapacity, TargetWaiting: c.Scoring.TargetWaiting, KVCeiling: c.Scoring.KVCeiling,
		StaleAfter: c.Router.StaleAfter,
	}
	return a
}

// validateAdmission reports the faults of the section; those of the values that
// it shares are reported where they stand.
func (c Config) validateAdmission() []error {
	a := c.admission()
	a.Saturation = admission.DefaultSaturationConfig()
	header := router.DefaultConfig()
	header.BandHeader = c.Admission.BandHeader
	errs := []error{a.Validate(), header.Validate()}
	if h := c.Admission.BandHeader; h != "" && strings.EqualFold(h, c.Router.Core.SessionHeader) {
		errs = append(errs, fmt.Errorf("band_header: %q is router.session_header, too; want two headers", h))
	}
	return under("admission.", errs...)
}

// admissionWarnings are settings that make no sense together.
func (c Config) admissionWarnings() []string {
	a := c.Admission.Core
	var out []string
	if !a.Enabled {
		for i, e := range c.Endpoints {
			if e.PriorityScheduling {
				out = append(out, fmt.Sprintf("endpoints[%d].priority_scheduling: admission.enabled is false, so no request has a band to set its priority from", i))
			}
		}
		return out
	}
	if total := c.Router.Relay.Timeouts.Total; a.QueueTTL >= total {
		out = append(out, fmt.Sprintf("admission.queue_ttl: %v is no less than router.timeouts.total (%v), which counts from a request's arrival: one that waits so long has no time left for its answer",
			a.QueueTTL, total))
	}
	if a.Interval > a.QueueTTL {
		out = append(out, fmt.Sprintf("admission.interval: %v is more than queue_ttl (%v), so requests wait longer than they should",
			a.Interval, a.QueueTTL))
	}
	for i, b := range a.Bands {
		for _, lower := range a.Bands {
			if lower.Priority < b.Priority && lower.SaturationCeiling > b.SaturationCeiling && b.SaturationCeiling <= 1 {
				out = append(out, fmt.Sprintf("admission.bands[%d].saturation_ceiling: %s waits above %v, and %s, whose priority is lower, above %v: the lower band keeps the higher one out",
					i, b.Name, b.SaturationCeiling, lower.Name, lower.SaturationCeiling))
				break
			}
		}
	}
	return out
}

// tell says what engines are taken to run at once for which nothing says it.
func (g *Gateway) tell(specs []endpoint.Spec) {
	const enough = 10
	var untold []string
	n := 0
	for _, s := range specs {
		if s.MaxRunning > 0 {
			continue
		}
		if n++; n <= enough {
			untold = append(untold, s.ID)
		}
	}
	if g.admitter == nil || n == 0 {
		return
	}
	kinds := []any{slog.Float64("others", admission.DefaultSaturationConfig().AssumedCapacity)}
	for _, c := range g.contracts {
		if c.UsuallyRuns > 0 {
			kinds = append(kinds, slog.Int(string(c.Engine), c.UsuallyRuns))
		}
	}
	g.log.Info("what engines run at once is assumed until it is seen; endpoints[].max_running says it",
		"endpoints", n, "first", untold, slog.Group("requests", kinds...))
}

// admitter is the router's view of an admission.Controller.
type admitter struct {
	ctl         *admission.Controller
	header      string // as the configuration spells it
	bands       []string
	priorities  map[string]int64 // by band
	defaultBand string
	usual       int64 // the priority of defaultBand
	// unseen is how long what a background response started may go on without
	// that a measurement has seen it.
	unseen time.Duration
}

// newAdmitter makes the controller of cfg; nil if it is switched off.
func (g *Gateway) newAdmitter(cfg Config, deps Deps) (*admitter, error) {
	core := cfg.admission()
	if !core.Enabled {
		return nil, nil //nolint:nilnil // no admission is no error
	}
	parts := admission.Deps{Load: loads{g.endpoints, usual(g.contracts)}, Registerer: deps.Registerer}
	if g.recorder != nil {
		parts.Recorder = g.recorder.Admission()
	}
	ctl, err := admission.New(core, parts)
	if err != nil {
		return nil, err
	}
	a := &admitter{ctl: ctl, header: cfg.Admission.BandHeader, defaultBand: core.DefaultBand, priorities: make(map[string]int64),
		unseen: 2*cfg.Router.Scrape.Interval + cfg.Router.Scrape.Timeout}
	for _, b := range core.Bands {
		a.bands = append(a.bands, b.Name)
		a.priorities[b.Name] = int64(b.Priority)
	}
	a.usual = a.priorities[a.defaultBand]
	return a, nil
}

// Admit implements [router.Admitter].
func (a *admitter) Admit(ctx context.Context, r router.Admission) (router.Lease, error) {
	req, asked := a.request(&r)
	lease, err := a.ctl.Admit(ctx, req)
	switch {
	case err == nil:
		id := r.Identity
		id.Band, id.Priority, id.HasPriority = a.defaultBand, a.usual, true
		if req.Band != "" {
			id.Band, id.Priority = req.Band, a.priorities[req.Band]
		}
		if r.Background {
			return lingering{lease, a.unseen}, nil
		}
		return lease, nil
	case asked && errors.Is(err, admission.ErrUnknownBand):
		return nil, a.unknownBand(req.Band)
	default:
		return nil, refusal(err)
	}
}

// request is r in admission's terms; asked: the band is what the client asks for.
func (a *admitter) request(r *router.Admission) (req admission.Request, asked bool) {
	id := r.Identity
	req = admission.Request{Pool: r.Model, Band: id.Band, Tenant: id.Tenant}
	asked = req.Band == "" && req.Tenant == "" // nobody in particular says by itself what it is
	if asked {
		req.Band = r.AskedBand
	}
	if req.Tenant == "" {
		req.Tenant = r.Session
	}
	if req.Tenant == "" {
		req.Tenant = host(r.RemoteAddr)
	}
	return req, asked
}

// lingering is the lease of a background response. Its answer ends before its work
// begins, of which nothing but the engine's own numbers tells when that ends; so it
// counts until they have been read for sure, and then as what others have on the
// engine does.
type lingering struct {
	lease  admission.Lease
	unseen time.Duration
}

// Release implements [router.Lease].
func (l lingering) Release() { time.AfterFunc(l.unseen, l.lease.Release) }

// host is an address without its port, so that a client's connections are one.
func host(addr string) string {
	if i := strings.IndexByte(addr, ':'); i > 0 && i == strings.LastIndexByte(addr, ':') && addr[0] != '[' {
		return addr[:i] // IPv4, or a name
	}
	if h, _, err := net.SplitHostPort(addr); err == nil {
		return h
	}
	return addr
}

// loads is the endpoint set as admission sees it: a pool is the endpoints of one
// model that take requests now. What is behind an open breaker has no room for
// anybody, and its load is no reason to wait.
//
// How many requests an engine runs at once is what the endpoint's max_running says,
// else what the engine's page says, else what its kind usually runs, as soon as the
// page has told the kind. An engine whose page cannot be read is given what an
// unknown one is: which of its options were changed nothing would ever show.
type loads struct {
	endpoints *endpoint.Set
	usual     map[engines.Name]float64
}

// usual is how many requests engines usually run at once, where that is known.
func usual(contracts []engines.MetricContract) map[engines.Name]float64 {
	out := make(map[engines.Name]float64, len(contracts))
	for _, c := range contracts {
		if c.UsuallyRuns > 0 {
			out[c.Engine] = float64(c.UsuallyRuns)
		}
	}
	return out
}

// assumed is how many requests an endpoint's engine usually runs at once; 0: not known.
func assumed(e *endpoint.Endpoint, usual map[engines.Name]float64, engine engines.Name) float64 {
	if n, ok := usual[engine]; ok {
		return n
	}
	if told := e.Spec().Told; told != nil && told.Metrics != nil {
		return float64(told.Metrics.UsuallyRuns)
	}
	return 0
}

// Load implements [admission.LoadSource].
func (l loads) Load(pool string, dst *admission.Load) {
	now := time.Now()
	for _, e := range l.endpoints.Snapshot().ForModel(pool) {
		if !e.Admissible(now) {
			continue
		}
		one := admission.EndpointLoad{
			ID: e.ID(), Instance: e.Instance(), Weight: e.Weight(), InFlight: admission.Read(float64(e.InFlight())),
		}
		told := e.Spec().MaxRunning
		if told > 0 {
			one.BatchCapacity = admission.Read(float64(told))
		}
		if m := e.Load(); m != nil {
			one.MeasuredAt, one.MeasuredInFlight = m.At, admission.Read(float64(m.InFlight))
			one.Running, one.Waiting, one.KVUsedRatio = reading(m.Running), reading(m.Waiting), reading(m.KVUsedRatio)
			if told == 0 {
				one.BatchCapacity = reading(m.MaxRunning)
				if n := assumed(e, l.usual, m.Engine); n > 0 {
					one.AssumedCapacity = admission.Read(n)
				}
			}
		}
		dst.Endpoints = append(dst.Endpoints, one)
	}
}

// reading is r in admission's terms. What is out of any range is unknown there.
func reading(r engines.Reading) admission.Reading {
	if v, ok := r.Get(); ok {
		return admission.Read(v)
	}
	return admission.Reading{}
}
