package feed

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/fleet/apipb"
	"github.com/llmgw/llmgw/placement/catalog"
)

// Entries, models, revocations and statuses as messages, and back. What comes from the wire
// is checked whole before any of it is used.

func entryToWire(e *Entry, facts string) *apipb.FeedEntry {
	return &apipb.FeedEntry{
		Model: e.Model, Replica: e.Replica, Generation: e.Generation, Start: e.Start,
		Address: e.Address, Secret: e.Secret.Reveal(), Engine: string(e.Engine), Served: e.Served,
		MaxRunning: uint32(e.MaxRunning), PriorityScheduling: e.PriorityScheduling, //nolint:gosec // Validate bounds it
		Facts: facts, Node: e.Node, Fabric: e.Fabric, Labels: e.Labels,
	}
}

func entryFromWire(w *apipb.FeedEntry, facts map[string]*Facts) (Entry, error) {
	e := Entry{
		Model:    w.GetModel(),
		Instance: Instance{Replica: w.GetReplica(), Generation: w.GetGeneration(), Start: w.GetStart()},
		Address:  w.GetAddress(), Secret: Secret(w.GetSecret()), Engine: engines.Name(w.GetEngine()), Served: w.GetServed(),
		MaxRunning: int(w.GetMaxRunning()), PriorityScheduling: w.GetPriorityScheduling(),
		Node: w.GetNode(), Fabric: w.GetFabric(), Labels: w.GetLabels(),
	}
	if id := w.GetFacts(); id != "" {
		var known bool
		if e.Facts, known = facts[id]; !known {
			return Entry{}, fmt.Errorf("replica %.80q: facts: %.80q is not among them", e.Replica, id)
		}
	}
	if err := e.Validate(); err != nil {
		return Entry{}, fmt.Errorf("replica %.80q: %w", e.Replica, err)
	}
	return e, nil
}

// content is what a snapshot has, or what a delta brings. Its lists are sorted, have
// each name once, and are never changed.
type content struct {
	entries  []Entry    // by replica
	models   []modelled // by name
	revoked  []Revocation
	statuses []ModelStatus // by model
}

// modelled is a model and its text. Without a model it could not be read.
type modelled struct {
	definition
	model *catalog.Model
	why   error
}

func entryKey(e *Entry) string        { return e.Replica }
func modelKey(m *modelled) string     { return m.name }
func revokedKey(r *Revocation) string { return r.KeyID }

// ordered sorts a list, and returns a key that it has twice.
func ordered[T any](list []T, key func(*T) string) (twice string, unique bool) {
	slices.SortFunc(list, func(a, b T) int { return cmp.Compare(key(&a), key(&b)) })
	for i := 1; i < len(list); i++ {
		if key(&list[i-1]) == key(&list[i]) {
			return key(&list[i]), false
		}
	}
	return "", true
}

// merged is a list without what is removed and with what is new, which replaces
// what has the same key. Where nothing changes it is the same list.
func merged[T any](list, news []T, removed []string, key func(*T) string) []T {
	if len(news)+len(removed) == 0 {
		return list
	}
	gone := make(map[string]bool, len(removed))
	for _, k := range removed {
		gone[k] = true
	}
	out := make([]T, 0, len(list)+len(news))
	for i, j := 0, 0; i < len(list) || j < len(news); {
		var next *T
		switch {
		case j == len(news) || i < len(list) && key(&list[i]) < key(&news[j]):
			next = &list[i]
			i++
		default:
			if i < len(list) && key(&list[i]) == key(&news[j]) {
				i++ // it is replaced
			}
			next = &news[j]
			j++
		}
		if !gone[key(next)] {
			out = append(out, *next)
		}
	}
	return out
}

// carrier is what snapshots and deltas have in common.
type carrier interface {
	GetEntries() []*apipb.FeedEntry
	GetModels() []*apipb.FeedModel
	GetRevoked() []*apipb.FeedRevocation
	GetFacts() []*apipb.FeedFacts
	GetStatuses() []*apipb.FeedModelStatus
}

// contentFromWire reads all that a frame carries, which has come now. The error wraps
// ErrFrame.
func contentFromWire(w carrier, now time.Time) (content, error) {
	var c content
	bad := func(err error) (content, error) { return content{}, fmt.Errorf("%w: %w", ErrFrame, err) }
	if n := len(w.GetEntries()); n > MaxEntries {
		return bad(fmt.Errorf("%d entries; want at most %d", n, MaxEntries))
	}
	if n := len(w.GetModels()); n > catalog.MaxModels {
		return bad(fmt.Errorf("%d models; want at most %d", n, catalog.MaxModels))
	}
	if n := len(w.GetRevoked()); n > MaxRevoked {
		return bad(fmt.Errorf("%d revocations; want at most %d", n, MaxRevoked))
	}
	if n := len(w.GetStatuses()); n > catalog.MaxModels {
		return bad(fmt.Errorf("%d statuses; want at most %d", n, catalog.MaxModels))
	}
	facts := make(map[string]*Facts, len(w.GetFacts()))
	for _, f := range w.GetFacts() {
		facts[f.GetId()] = factsFromWire(f)
	}
	for _, m := range w.GetEntries() {
		e, err := entryFromWire(m, facts)
		if err != nil {
			return bad(err)
		}
		c.entries = append(c.entries, e)
	}
	for _, m := range w.GetModels() {
		d := definition{m.GetName(), m.GetDefinition()}
		if d.name == "" || len(d.name) > catalog.MaxNameBytes || len(d.text) > MaxModelBytes {
			return bad(fmt.Errorf("model %.80q: its name or definition is empty or too long", d.name))
		}
		read := modelled{definition: d}
		if model, err := d.model(); err != nil {
			read.why = err
		} else {
			read.model = &model
		}
		c.models = append(c.models, read)
	}
	for _, r := range w.GetRevoked() {
		if r.GetKeyId() == "" || len(r.GetKeyId()) > MaxTextBytes || r.GetAt().CheckValid() != nil {
			return bad(errors.New("a revocation without a key or a time"))
		}
		c.revoked = append(c.revoked, Revocation{KeyID: r.GetKeyId(), At: r.GetAt().AsTime(), Changed: r.GetChanged()})
	}
	for _, s := range w.GetStatuses() {
		if !validModel(s.GetModel()) {
			return bad(errors.New("a status whose model's name is empty or too long"))
		}
		c.statuses = append(c.statuses, statusFromWire(s, now))
	}
	if twice, unique := ordered(c.statuses, statusKey); !unique {
		return bad(fmt.Errorf("model %q has two statuses", twice))
	}
	if twice, unique := ordered(c.entries, entryKey); !unique {
		return bad(fmt.Errorf("replica %q has two entries", twice))
	}
	if twice, unique := ordered(c.models, modelKey); !unique {
		return bad(fmt.Errorf("model %q has two definitions", twice))
	}
	if twice, unique := ordered(c.revoked, revokedKey); !unique {
		return bad(fmt.Errorf("key %q is revoked twice", twice))
	}
	return c, nil
}

func (r Revocation) wire() *apipb.FeedRevocation {
	return &apipb.FeedRevocation{KeyId: r.KeyID, At: timestamppb.New(r.At), Changed: r.Changed}
}

// snapshotOf writes a state as a snapshot, for the disk: without statuses, which are
// of their moment.
func snapshotOf(s *State) *apipb.FeedSnapshot {
	out := &apipb.FeedSnapshot{}
	pool := factsPool{}
	for i := range s.Entries {
		out.Entries = append(out.Entries, entryToWire(&s.Entries[i], pool.id(s.Entries[i].Facts)))
	}
	out.Facts = pool.wire()
	for _, m := range s.models {
		out.Models = append(out.Models, &apipb.FeedModel{Name: m.name, Definition: m.text})
	}
	for _, r := range s.Revoked {
		out.Revoked = append(out.Revoked, r.wire())
	}
	return out
}

// state makes a State of a content. What was has the same models keeps its list of
// them.
func (c *content) state(v Version, unverified bool, was *State) *State {
	s := &State{Version: v, Unverified: unverified, Entries: c.entries, Statuses: c.statuses, Revoked: c.revoked, models: c.models}
	if sameList(was.models, c.models) {
		s.Models, s.Unread = was.Models, was.Unread
		return s
	}
	s.Models = make([]catalog.Model, 0, len(c.models))
	for i := range c.models {
		if m := &c.models[i]; m.model == nil {
			s.Unread = append(s.Unread, m.name)
		} else {
			s.Models = append(s.Models, *m.model)
		}
	}
	return s
}

// sameList reports whether two lists are one and the same.
func sameList[T any](a, b []T) bool { return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0]) }
