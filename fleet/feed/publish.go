package feed

import (
	"bytes"
	"cmp"
	"maps"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/llmgw/llmgw/fleet/apipb"
)

// table is what is published. What it has of entries is as it goes to routers, and
// is shared by all frames.
type table struct {
	entries  map[string]*published // by replica
	models   map[string][]byte
	revoked  map[string]Revocation
	statuses map[string]ModelStatus
	pass     uint64 // of the last diff
}

type published struct {
	entry Entry
	wire  *apipb.FeedEntry
	facts *apipb.FeedFacts // nil: none
	pass  uint64           // of the diff that found it still wanted
}

func newTable() table {
	return table{entries: map[string]*published{}, models: map[string][]byte{}, revoked: map[string]Revocation{}, statuses: map[string]ModelStatus{}}
}

// publish sends every router what has changed, and reports whether anything has.
func (p *Publisher) publish() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.leads || p.entries == nil || p.models == nil {
		return false
	}
	delta := &apipb.FeedDelta{Base: p.seq}
	p.diffModels(delta)
	p.diffRevoked(delta)
	p.diffEntries(delta)
	p.diffStatuses(delta)
	if emptyDelta(delta) && p.seq > 0 {
		return false
	}
	p.seq++
	p.snapshot = nil
	frame := p.frame()
	frame.Frame = &apipb.WatchFeedResponse_Delta{Delta: delta}
	for _, s := range p.sessions {
		s.push(frame)
	}
	p.metrics.versions.Inc()
	p.changed()
	return true
}

// frame is an empty one of the newest version. p.mu is held.
func (p *Publisher) frame() *apipb.WatchFeedResponse {
	return &apipb.WatchFeedResponse{Version: p.version().wire()}
}

func emptyDelta(d *apipb.FeedDelta) bool {
	return len(d.GetEntries())+len(d.GetRemovedReplicas())+len(d.GetModels())+len(d.GetRemovedModels())+
		len(d.GetRevoked())+len(d.GetRemovedRevocations())+len(d.GetStatuses())+len(d.GetRemovedStatuses()) == 0
}

func (p *Publisher) diffModels(d *apipb.FeedDelta) {
	wanted := make(map[string]bool, len(*p.models))
	for _, m := range *p.models {
		wanted[m.name] = true
		if !bytes.Equal(p.table.models[m.name], m.text) {
			p.table.models[m.name] = m.text
			d.Models = append(d.Models, &apipb.FeedModel{Name: m.name, Definition: m.text})
		}
	}
	for name := range p.table.models {
		if !wanted[name] {
			delete(p.table.models, name)
			d.RemovedModels = append(d.RemovedModels, name)
		}
	}
}

func (p *Publisher) diffRevoked(d *apipb.FeedDelta) {
	for id, r := range p.revoked {
		if time.Since(r.At) > p.cfg.KeepRevoked {
			delete(p.revoked, id)
		}
	}
	if beyond := len(p.revoked) - MaxRevoked; beyond > 0 {
		// Of a change that is not told routers hear from the store, of a revocation
		// that waits for it not.
		first := slices.SortedFunc(maps.Values(p.revoked), func(a, b Revocation) int {
			switch {
			case a.Changed && !b.Changed:
				return -1
			case b.Changed && !a.Changed:
				return 1
			}
			return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.KeyID, b.KeyID))
		})
		for _, r := range first[:beyond] {
			delete(p.revoked, r.KeyID)
		}
	}
	for id, r := range p.revoked {
		if was, known := p.table.revoked[id]; !known || !was.At.Equal(r.At) || was.Changed != r.Changed {
			p.table.revoked[id] = r
			d.Revoked = append(d.Revoked, r.wire())
		}
	}
	for id := range p.table.revoked {
		if _, stays := p.revoked[id]; !stays {
			delete(p.table.revoked, id)
			d.RemovedRevocations = append(d.RemovedRevocations, id)
		}
	}
}

// diffEntries finds what has changed of entries. One whose model is not in the
// catalog is not wanted.
func (p *Publisher) diffEntries(d *apipb.FeedDelta) {
	p.table.pass++
	var pool factsPool
	for i := range *p.entries {
		e := &(*p.entries)[i]
		if _, known := p.table.models[e.Model]; !known {
			continue
		}
		was := p.table.entries[e.Replica]
		if was != nil && was.entry.equal(e) {
			was.pass = p.table.pass
			continue
		}
		is := &published{entry: *e, pass: p.table.pass}
		id := pool.id(e.Facts)
		is.wire = entryToWire(e, id)
		if id != "" {
			is.facts = pool.byID[id]
		}
		if was != nil && was.entry.Instance != e.Instance {
			p.leaves(was.entry.Instance)
		}
		p.table.entries[e.Replica] = is
		p.enters(e.Instance)
		d.Entries = append(d.Entries, is.wire)
	}
	d.Facts = pool.wire()
	for replica, was := range p.table.entries {
		if was.pass != p.table.pass {
			delete(p.table.entries, replica)
			p.leaves(was.entry.Instance)
			d.RemovedReplicas = append(d.RemovedReplicas, replica)
		}
	}
}

// whole returns the frame with everything. p.mu is held.
func (p *Publisher) whole() *apipb.WatchFeedResponse {
	if p.snapshot == nil {
		p.snapshot = p.lasting()
	}
	frame := p.frame()
	s := &apipb.FeedSnapshot{
		Entries: p.snapshot.GetEntries(), Models: p.snapshot.GetModels(), Revoked: p.snapshot.GetRevoked(), Facts: p.snapshot.GetFacts(),
	}
	now := time.Now()
	for _, status := range p.table.statuses { // of their moment
		s.Statuses = append(s.Statuses, status.wire(now))
	}
	frame.Frame = &apipb.WatchFeedResponse_Snapshot{Snapshot: s}
	return frame
}

// lasting is what does not change with time alone. p.mu is held.
func (p *Publisher) lasting() *apipb.FeedSnapshot {
	s := &apipb.FeedSnapshot{}
	facts := map[string]bool{}
	for _, e := range p.table.entries {
		s.Entries = append(s.Entries, e.wire)
		if e.facts != nil && !facts[e.facts.GetId()] {
			facts[e.facts.GetId()] = true
			s.Facts = append(s.Facts, e.facts)
		}
	}
	for name, text := range p.table.models {
		s.Models = append(s.Models, &apipb.FeedModel{Name: name, Definition: text})
	}
	for _, r := range p.table.revoked {
		s.Revoked = append(s.Revoked, r.wire())
	}
	return s
}

func (p *Publisher) welcome(s *session) *apipb.WatchFeedResponse {
	return &apipb.WatchFeedResponse{
		Version: Version{Cluster: p.cluster, Term: p.term}.wire(),
		Frame: &apipb.WatchFeedResponse_Welcome{Welcome: &apipb.FeedWelcome{
			Protocol: protocol, Session: s.id, Ping: durationpb.New(Ping), Report: durationpb.New(p.cfg.Report),
		}},
	}
}
