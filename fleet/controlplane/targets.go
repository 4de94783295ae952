package controlplane

import (
	"context"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/llmgw/llmgw/storage"
)

// refresh is how often operators' words are read again: others may write them.
const refresh = 5 * time.Second

// targets is what operators want of nodes, as the store said last.
type targets struct {
	store   Store
	timeout time.Duration
	log     *slog.Logger
	changes chan struct{} // has an element when something may not be as it was

	mu     sync.Mutex
	known  bool                      // guarded by mu; the store was read once
	byNode map[string]storage.Cordon // guarded by mu
	writes uint64                    // guarded by mu; goes up with each change made here
}

func newTargets(store Store, timeout time.Duration, log *slog.Logger) *targets {
	return &targets{store: store, timeout: timeout, log: log, changes: make(chan struct{}, 1)}
}

// run reads them again now and then, until ctx is done.
func (t *targets) run(ctx context.Context) error {
	away := false
	for {
		err := t.read(ctx)
		if err != nil && ctx.Err() == nil && !away {
			t.log.Warn("what operators want of nodes cannot be read; it stays as it was read last", "err", err)
		}
		away = err != nil
		pause := refresh
		if away && !t.once() {
			pause = time.Second
		}
		if !wait(ctx, pause) {
			return nil
		}
	}
}

// once reports whether they were read once.
func (t *targets) once() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.known
}

func (t *targets) read(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, t.timeout)
	defer cancel()
	t.mu.Lock()
	began := t.writes
	t.mu.Unlock()
	list, err := t.store.ListCordons(ctx)
	if err != nil {
		return err
	}
	byNode := make(map[string]storage.Cordon, len(list))
	for _, c := range list {
		byNode[c.Node] = c
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	// What was changed here since is newer than what was read.
	if t.writes == began {
		if !t.known || !maps.Equal(t.byNode, byNode) {
			t.tell()
		}
		t.known, t.byNode = true, byNode
	}
	return nil
}

// tell has who follows look again.
func (t *targets) tell() {
	select {
	case t.changes <- struct{}{}:
	default:
	}
}

// of is what is wanted of a node: nil for nothing. It is not known until the
// store was read once.
func (t *targets) of(node string) (c *storage.Cordon, known bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if there, is := t.byNode[node]; is {
		return &there, true
	}
	return nil, t.known
}

// changed notes what the store was just told; nil: nothing is wanted any more.
func (t *targets) changed(node string, c *storage.Cordon) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.writes++
	t.tell()
	if c == nil {
		delete(t.byNode, node)
		return
	}
	if t.byNode == nil {
		t.byNode = make(map[string]storage.Cordon)
	}
	t.byNode[node] = *c
}
