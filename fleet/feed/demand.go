package feed

import (
	"cmp"
	"maps"
	"slices"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/fleet/apipb"
	"github.com/llmgw/llmgw/placement/catalog"
)

// Demand is what is asked of one model: at one router, or at all of them.
type Demand struct {
	// Model is the canonical name.
	Model string
	// Waiting are the requests that wait for the model to have an endpoint.
	Waiting int
	// Queued are those that wait for its endpoints to have room.
	Queued int
	// Asked is for how long no request for it has come. Not known: nobody has seen one.
	Asked engines.Opt[time.Duration]
	// Saturation is how full its endpoints are, as admission sees it: 1 is full, more
	// is possible. Not known: nobody has said.
	Saturation engines.Opt[float64]
}

// DemandReporter is what a [Reporter] may be besides: it says what models are asked
// for, too.
type DemandReporter interface {
	// Demand returns the models of which anything is known, each once. It must not
	// block, and is asked with each report.
	Demand() []Demand
}

// Hurry says that requests have begun to wait for a model that had none waiting. The
// control plane hears of it at once, or a tenth of a second after the last time.
func (f *Follower) Hurry() {
	select {
	case f.hurry <- struct{}{}:
	default:
	}
}

// demand is what a router says of a model.
type demand struct {
	waiting, queued int
	saturation      engines.Opt[float64]
}

// takeDemands takes what a router's report says of demand, and returns whether
// requests have begun to wait for something. p.mu is held.
func (p *Publisher) takeDemands(r *router, all []*apipb.FeedDemand) (begun bool) {
	before := r.demands
	r.demands = make(map[string]demand, len(all))
	for _, w := range all {
		d := demandFromWire(w)
		if !validModel(d.Model) {
			p.metrics.ignoredDemands.Inc()
			continue
		}
		r.demands[d.Model] = demand{waiting: d.Waiting, queued: d.Queued, saturation: d.Saturation}
		begun = begun || d.Waiting > 0 && before[d.Model].waiting == 0
		age, ever := d.Asked.Get()
		if !ever {
			continue
		}
		at := p.now() - age
		switch was, known := p.asked[d.Model]; {
		case known:
			p.asked[d.Model] = max(was, at)
		case len(p.asked) < catalog.MaxModels:
			p.asked[d.Model] = at
		}
	}
	return begun
}

// forgetAsked drops what is known of models that the catalog does not have. p.mu is
// held.
func (p *Publisher) forgetAsked() {
	if p.seq == 0 {
		return // which models there are was not said yet
	}
	maps.DeleteFunc(p.asked, func(model string, _ time.Duration) bool {
		_, known := p.table.models[model]
		return !known
	})
}

// Demand returns what routers know of the demand for models, by name, and the
// revision of that. Since is the revision that the caller has, here or of
// [Publisher.Use]: nil, if nothing was heard after it. 0 has none.
//
// What waits is summed over the routers that have a stream and said so lately: where
// a router has gone its requests have, too. Saturation is the mean of what those say.
// When a model was last asked for is remembered from routers that are gone.
func (p *Publisher) Demand(since uint64) (demands []Demand, revision uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.revision == since && since != 0 {
		return nil, since
	}
	now := p.clock.at(p.now())
	type sum struct {
		Demand
		saturation float64
		said       int
	}
	sums := make(map[string]*sum, len(p.asked))
	of := func(model string) *sum {
		s := sums[model]
		if s == nil {
			s = &sum{Demand: Demand{Model: model}}
			sums[model] = s
		}
		return s
	}
	for model, at := range p.asked {
		of(model).Asked = engines.Known(max(p.now()-at, 0))
	}
	for _, r := range p.routers {
		if r.session == nil || !r.reported || now-r.heard > fresh {
			continue
		}
		for model, d := range r.demands {
			s := of(model)
			s.Waiting += d.waiting
			s.Queued += d.queued
			if v, known := d.saturation.Get(); known {
				s.saturation += v
				s.said++
			}
		}
	}
	demands = make([]Demand, 0, len(sums))
	for _, s := range sums {
		if s.said > 0 {
			s.Saturation = engines.Known(s.saturation / float64(s.said))
		}
		demands = append(demands, s.Demand)
	}
	slices.SortFunc(demands, func(a, b Demand) int { return cmp.Compare(a.Model, b.Model) })
	p.revision = max(p.revision, 1)
	return demands, p.revision
}

// validModel reports whether a name can be one of the catalog.
func validModel(name string) bool {
	return name != "" && len(name) <= catalog.MaxNameBytes && utf8.ValidString(name)
}

func (d *Demand) wire() *apipb.FeedDemand {
	w := &apipb.FeedDemand{Model: d.Model, Waiting: count(d.Waiting), Queued: count(d.Queued)}
	if age, known := d.Asked.Get(); known {
		w.Asked = durationpb.New(max(age, 0))
	}
	if v, known := d.Saturation.Get(); known && validSaturation(v) {
		w.Saturation = &v
	}
	return w
}

func demandFromWire(w *apipb.FeedDemand) Demand {
	d := Demand{Model: w.GetModel(), Waiting: int(w.GetWaiting()), Queued: int(w.GetQueued()), Asked: age(w.GetAsked())}
	if w.Saturation != nil && validSaturation(w.GetSaturation()) {
		d.Saturation = engines.Known(w.GetSaturation())
	}
	return d
}

func validSaturation(v float64) bool { return v >= 0 && v <= 1e9 }

// count is n as the wire has it.
func count(n int) uint32 { return uint32(min(max(n, 0), 1<<31-1)) } //nolint:gosec // it is bounded here
