package feed

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/fleet/apipb"
	"github.com/llmgw/llmgw/placement/catalog"
)

// routerKey tells the runs of routers apart. Two may bear one name, as where a
// certificate is shared, or where one has just been restarted.
type routerKey struct{ name, run string }

// router is a router whose lease lives.
type router struct {
	key      routerKey
	session  *session // nil: it has no stream
	remote   string
	software string
	since    time.Time
	heard    time.Duration // when it reported last, by the publisher's clock
	reported bool          // it has, since it came
	applied  Version
	flights  []flight          // by slot
	demands  map[string]demand // by model
}

// flight is what a router has at an instance.
type flight struct {
	said     bool
	inFlight int
	requests engines.Opt[uint64]
}

func (r *router) at(slot int) flight {
	if slot >= len(r.flights) {
		return flight{}
	}
	return r.flights[slot]
}

// take takes a router's report.
func (p *Publisher) take(s *session, req *apipb.ReportUseRequest) error {
	if n := len(req.GetUses()); n > 2*MaxEntries {
		return refuse(reasonInvalid, fmt.Errorf("feed: a report of %d instances; want at most %d", n, 2*MaxEntries))
	}
	if n := len(req.GetDemands()); n > catalog.MaxModels {
		return refuse(reasonInvalid, fmt.Errorf("feed: a report of the demand for %d models; want at most %d", n, catalog.MaxModels))
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case s.cause != nil:
		return s.cause
	case req.GetNumber() <= s.number:
		return nil // it comes late
	}
	s.number = req.GetNumber()
	r, now := s.router, p.now()
	applied := Version{Cluster: req.GetApplied().GetCluster(), Term: req.GetApplied().GetTerm(), Seq: req.GetApplied().GetSeq()}
	matters := !r.reported || applied != r.applied
	r.heard, r.reported, r.applied = p.clock.at(now), true, applied
	before := r.flights
	r.flights = make([]flight, p.slots.next)
	busy := false
	for _, w := range req.GetUses() {
		u := reportFromWire(w)
		i := p.find(u.Instance)
		if i == nil {
			p.metrics.ignored.Inc()
			continue
		}
		for len(r.flights) <= i.slot {
			r.flights = append(r.flights, flight{})
		}
		f := flight{said: true, inFlight: u.InFlight, requests: u.Requests}
		if !i.published {
			matters = matters || i.slot >= len(before) || before[i.slot].inFlight != f.inFlight
		}
		r.flights[i.slot] = f
		busy = busy || u.InFlight > 0
		if age, known := youngest(u.LastByte, u.CountersMoved).Get(); known {
			i.worked, i.seen = max(i.worked, now-age), true
		}
	}
	if p.takeDemands(r, req.GetDemands()) {
		matters = true
	}
	if req.GetResync() {
		s.owe()
		p.metrics.resyncs.Inc()
	}
	if req.GetGoodbye() && !busy {
		delete(p.routers, r.key)
		s.stop(refuse(reasonSession, errSession))
		matters = true
	}
	p.metrics.reports.Inc()
	p.revision++
	if matters {
		p.tell()
	}
	return nil
}

// report takes the report of whoever has its session; proves says whether that is
// the router.
func (p *Publisher) report(req *apipb.ReportUseRequest, remote string, proves func(router string) error) error {
	p.mu.Lock()
	s := p.sessions[req.GetSession()]
	p.mu.Unlock()
	if s == nil {
		return p.refused("", remote, refuse(reasonSession, errSession))
	}
	if err := proves(s.router.key.name); err != nil {
		return p.refused(s.router.key.name, remote, err)
	}
	return bare(p.take(s, req))
}

// tick judges silence, and forgets what is long over.
func (p *Publisher) tick() {
	p.mu.Lock()
	defer p.mu.Unlock()
	stalled := p.clock.step(p.now())
	now := p.clock.lived
	if stalled {
		return // what arrived meanwhile is taken first
	}
	for key, r := range p.routers {
		if now-r.heard <= Lease {
			continue
		}
		p.log.Warn("router is silent, and counts as gone", "router", key.name, "run", key.run, "remote", r.remote, "silence", (now - r.heard).Round(time.Second))
		delete(p.routers, key)
		if r.session != nil {
			r.session.stop(refuse(reasonSession, fmt.Errorf("feed: no report came for %v; open another stream", Lease)))
			r.session = nil
		}
		p.changed()
	}
	// What is fresh, or settled, may have become another thing by time alone.
	p.revision++
	if since := now - p.begun; since >= Lease && since < Lease+2*p.clock.tick {
		p.tell()
	}
	p.forget()
	p.forgetAsked()
	if p.statusDue {
		p.ring()
	}
	for _, r := range p.table.revoked {
		if time.Since(r.At) > p.cfg.KeepRevoked {
			p.ring()
			break
		}
	}
}

// RouterInfo is a router that follows, or did until lately, for people.
type RouterInfo struct {
	Name, Run, Remote, Software string
	// Since is when it came.
	Since time.Time
	// Connected: it has a stream.
	Connected bool
	// Heard is for how long it has not reported.
	Heard time.Duration
	// Applied is the version that it goes by. The zero Version: it has not said.
	Applied Version
	// Queued are the versions that wait for it to read.
	Queued int
}

// Routers returns the routers whose lease lives, by name and run.
func (p *Publisher) Routers() []RouterInfo {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.clock.at(p.now())
	out := make([]RouterInfo, 0, len(p.routers))
	for key, r := range p.routers {
		info := RouterInfo{
			Name: key.name, Run: key.run, Remote: r.remote, Software: r.software, Since: r.since,
			Connected: r.session != nil, Heard: now - r.heard, Applied: r.applied,
		}
		if r.session != nil {
			info.Queued = len(r.session.queue)
		}
		out = append(out, info)
	}
	slices.SortFunc(out, func(a, b RouterInfo) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Run, b.Run)) })
	return out
}
