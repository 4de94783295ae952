package control

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/llmgw/llmgw/engines"
)

// Change is a node or a shard that is not as it was.
type Change struct {
	Node string
	// Shard has no replica where the node itself changed: its state, its stream,
	// its registration.
	Shard engines.ShardID
	// Status is how the shard is now. Gone: the node reports it no more, or is
	// forgotten itself.
	Status engines.ShardStatus
	Gone   bool
}

// Changes are what changed between two calls of [Watcher.Next].
type Changes struct {
	// All: everything may have changed, and the list is empty: look at
	// [Plane.Nodes].
	All bool
	// List has each node and each shard at most once, as they are now, by node and
	// shard. A change of the requests in an engine alone is none.
	List []Change
}

// Watcher is told of changes. It loses none: several of one shard become the
// last of them. Its methods are for one goroutine.
type Watcher struct {
	plane *Plane
	wake  chan struct{}       // has one element when there is something
	dirty map[change]struct{} // guarded by plane.mu
	all   bool                // guarded by plane.mu
}

// Watch returns a watcher of which the first Next says that everything may have
// changed. Close it when it is not read any more.
func (p *Plane) Watch() *Watcher {
	w := &Watcher{plane: p, wake: make(chan struct{}, 1), dirty: map[change]struct{}{}}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.watchers[w] = struct{}{}
	w.everything()
	return w
}

// Close ends the watcher.
func (w *Watcher) Close() {
	w.plane.mu.Lock()
	defer w.plane.mu.Unlock()
	delete(w.plane.watchers, w)
}

// C has an element when there may be something to take.
func (w *Watcher) C() <-chan struct{} { return w.wake }

// Next waits until something has changed, and returns what has since the last
// call. The error wraps the cause of ctx.
func (w *Watcher) Next(ctx context.Context) (Changes, error) {
	for {
		if c, some := w.Take(); some {
			return c, nil
		}
		select {
		case <-ctx.Done():
			return Changes{}, fmt.Errorf("control: watch: %w", context.Cause(ctx))
		case <-w.wake:
		}
	}
}

// Take is Next without waiting: it reports false if nothing has changed.
func (w *Watcher) Take() (Changes, bool) {
	p := w.plane
	p.mu.Lock()
	defer p.mu.Unlock()
	if w.all {
		w.all = false
		return Changes{All: true}, true
	}
	if len(w.dirty) == 0 {
		return Changes{}, false
	}
	list := make([]Change, 0, len(w.dirty))
	for d := range w.dirty {
		list = append(list, p.fleet.change(d))
	}
	clear(w.dirty)
	slices.SortFunc(list, func(a, b Change) int {
		if c := strings.Compare(a.Node, b.Node); c != 0 {
			return c
		}
		return compareIDs(a.Shard, b.Shard)
	})
	return Changes{List: list}, true
}

// change returns how something that changed is now.
func (f *fleet) change(d change) Change {
	out := Change{Node: d.node, Shard: d.shard}
	n, found := f.nodes[d.node]
	if d.shard.Replica == "" {
		out.Gone = !found
		return out
	}
	if found {
		if i, has := n.find(d.shard); has {
			out.Status = n.shards[i]
			return out
		}
	}
	out.Gone = true
	return out
}

// publish tells the watchers what has changed. p.mu is held.
func (p *Plane) publish() {
	for w := range p.watchers {
		w.note(p.fleet.changes, p.cfg.MaxWatched)
	}
	p.fleet.changes = p.fleet.changes[:0]
}

// note adds changes. The plane's mutex is held.
func (w *Watcher) note(changes []change, most int) {
	if len(changes) == 0 || w.all {
		return
	}
	for _, c := range changes {
		w.dirty[c] = struct{}{}
	}
	if len(w.dirty) > most {
		w.plane.metrics.overflows.Inc()
		w.everything()
		return
	}
	w.ring()
}

// everything notes that all may have changed. The plane's mutex is held.
func (w *Watcher) everything() {
	w.all = true
	clear(w.dirty)
	w.ring()
}

func (w *Watcher) ring() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}
