package control

import (
	"maps"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/fleet/fleetpb"
)

// Wanted is weights that are looked for.
type Wanted struct {
	// Key names them in what is found. At most 8 KiB.
	Key string
	// Source is a path on the nodes, or the name by which engines know the model;
	// Revision which revision of a name, empty for the one used by default.
	Source, Revision string
}

// Bounds of what is looked for and found.
const (
	mostWanted  = 3 << 20   // bytes of all that is looked for: an agent takes messages of 4 MiB
	mostFacts   = 512 << 10 // bytes of what one model's weights say of themselves
	mostPath    = 8 << 10   // bytes of a path, and of a place of a shared filesystem
	mostDiffers = 16        // different facts of one key that are kept once for all nodes
)

// looked is what agents are asked for.
type looked struct {
	message *fleetpb.ConnectResponse
	list    []Wanted
	keys    map[string]bool
	// facts are those that were told of a key, each once: on a shared filesystem all
	// nodes tell the same.
	facts map[string][]*fleetpb.WeightsFacts
}

// LookFor replaces what agents look for, on nodes whose configuration says where.
// What they find comes to be in [Node.Weights]. It does not block. It returns how many
// of the list are left out because it is too long.
func (p *Plane) LookFor(list []Wanted) (left int) {
	next := &looked{keys: make(map[string]bool, len(list)), facts: map[string][]*fleetpb.WeightsFacts{}}
	look := &fleetpb.Look{}
	size := 0
	for _, w := range list {
		if size += len(w.Key) + len(w.Source) + len(w.Revision) + 32; size > mostWanted || len(w.Key) > mostPath {
			left++
			continue
		}
		next.list, next.keys[w.Key] = append(next.list, w), true
		look.Wanted = append(look.Wanted, &fleetpb.WeightsWanted{Key: w.Key, Source: w.Source, Revision: w.Revision})
	}
	next.message = &fleetpb.ConnectResponse{Message: &fleetpb.ConnectResponse_Look{Look: look}}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.looked != nil {
		if slices.Equal(p.looked.list, next.list) {
			return left
		}
		for key, facts := range p.looked.facts {
			if next.keys[key] {
				next.facts[key] = facts
			}
		}
	}
	p.looked = next
	for _, n := range p.fleet.order {
		p.keepWanted(n)
		if n.stream != nil && n.reg.looks {
			n.stream.lookFor(next.message)
		}
	}
	p.publish()
	return left
}

// keepWanted forgets what a node found and nobody looks for. p.mu is held.
func (p *Plane) keepWanted(n *node) {
	if n.weights == nil {
		return
	}
	unwanted := func(key string, _ *fleetpb.WeightsFound) bool { return !p.looked.keys[key] }
	kept := maps.Clone(n.weights.Found)
	maps.DeleteFunc(kept, unwanted)
	if len(kept) < len(n.weights.Found) {
		n.weights = &Weights{kept}
		p.fleet.changed(n, engines.ShardID{})
	}
}

// weights enters what a node found.
func (p *Plane) weights(st *stream, m *fleetpb.Weights, now time.Time) error {
	for _, f := range m.GetFound() {
		if len(f.GetPath()) > mostPath || len(f.GetShared()) > mostPath {
			return invalid("weights %.64q: a path of %d bytes and a share of %d; want at most %d", f.GetKey(), len(f.GetPath()), len(f.GetShared()), mostPath)
		}
		if n := proto.Size(f.GetFacts()); n > mostFacts {
			return invalid("weights %.64q: facts of %d bytes; want at most %d", f.GetKey(), n, mostFacts)
		}
		f.Reason = cut(f.GetReason())
	}
	p.enter(st, now, func(n *node) {
		if p.looked == nil || !n.reg.looks {
			return
		}
		var found map[string]*fleetpb.WeightsFound
		for _, f := range m.GetFound() {
			if !p.looked.keys[f.GetKey()] {
				continue // it was asked for, and is no more
			}
			if n.weights != nil && proto.Equal(n.weights.Found[f.GetKey()], f) {
				continue
			}
			if found == nil {
				found = make(map[string]*fleetpb.WeightsFound)
				if n.weights != nil {
					maps.Copy(found, n.weights.Found)
				}
			}
			f.Facts = p.looked.one(f.GetKey(), f.GetFacts())
			found[strings.Clone(f.GetKey())] = f
		}
		if found != nil {
			n.weights = &Weights{found}
			p.fleet.changed(n, engines.ShardID{})
		}
	})
	return nil
}

// one returns the same facts of a key as were told before, or these.
func (l *looked) one(key string, facts *fleetpb.WeightsFacts) *fleetpb.WeightsFacts {
	if facts == nil {
		return nil
	}
	known := l.facts[key]
	for _, k := range known {
		if proto.Equal(k, facts) {
			return k
		}
	}
	l.facts[key] = append(known[max(0, len(known)+1-mostDiffers):], facts)
	return facts
}

// lookFor has a list of what is looked for sent. One that waits is replaced.
func (st *stream) lookFor(m *fleetpb.ConnectResponse) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.look = m
	st.ring()
}
