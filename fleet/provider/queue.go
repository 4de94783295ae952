package provider

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/llmgw/llmgw/storage"
)

// Store is the part of a store that the registry needs: [storage.Providers] has it.
type Store interface {
	ListProviders(ctx context.Context, q storage.ProviderQuery) (list []storage.Provider, next string, err error)
	CreateProvider(ctx context.Context, f storage.Fence, p storage.Provider, why storage.Audit) error
	UpdateProvider(ctx context.Context, f storage.Fence, p storage.Provider, why storage.Audit) error
	SeeProviders(ctx context.Context, f storage.Fence, seen []storage.ProviderSeen) error
	DeleteProvider(ctx context.Context, f storage.Fence, id string, revision int64, why storage.Audit) error
}

const (
	// seenTogether is of how many providers what was seen is written in one step.
	seenTogether = 500

	firstPause = 100 * time.Millisecond
	lastPause  = 5 * time.Second
)

// queue holds what waits to be written. What was seen is kept once for each provider,
// and written after the jobs, since a provider has to be there first.
type queue struct {
	store Store
	fence func() storage.Fence
	now   func() time.Time
	most  int // how many jobs may wait before changes are refused

	mu    sync.Mutex
	jobs  []job                           // guarded by mu
	seen  map[string]storage.ProviderSeen // guarded by mu
	ready chan struct{}                   // has room for one: something waits
}

type job struct {
	write Write
	why   storage.Audit
	done  chan error // nil: nobody waits; has room for one
}

func newQueue(store Store, fence func() storage.Fence, now func() time.Time, most int) *queue {
	return &queue{store: store, fence: fence, now: now, most: most, seen: make(map[string]storage.ProviderSeen), ready: make(chan struct{}, 1)}
}

// full reports whether as much waits as may.
func (q *queue) full() bool { return q.waiting() >= q.most }

// waiting is how many jobs wait.
func (q *queue) waiting() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.jobs)
}

// put adds the writes of a decision and returns what tells that the last of them that
// has an audit row is kept; nil if there is none.
func (q *queue) put(writes []Write, requestID string) (done chan error) {
	if len(writes) == 0 {
		return nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, w := range writes {
		id := w.Provider.ID
		if w.Op == WriteSeen {
			q.seen[id] = seenOf(&w.Provider)
			continue
		}
		why := storage.Audit{ID: rand.Text(), At: q.now(), Actor: w.Actor, Action: w.Action, Target: id, RequestID: requestID}
		if w.Before != nil {
			why.Before = w.Before.Audited()
		}
		switch _, waits := q.seen[id]; {
		case w.Op == WriteDelete:
			delete(q.seen, id)
		case waits:
			q.seen[id] = seenOf(&w.Provider)
			fallthrough
		default:
			why.After = w.Provider.Audited()
		}
		done = make(chan error, 1)
		q.jobs = append(q.jobs, job{w, why, done})
	}
	select {
	case q.ready <- struct{}{}:
	default:
	}
	return done
}

func seenOf(p *storage.Provider) storage.ProviderSeen {
	return storage.ProviderSeen{ID: p.ID, DegradedAt: p.DegradedAt, DegradedReason: p.DegradedReason, Models: p.Models}
}

func (q *queue) take() (jobs []job, seen []storage.ProviderSeen) {
	q.mu.Lock()
	defer q.mu.Unlock()
	jobs, q.jobs = q.jobs, nil
	for _, s := range q.seen {
		seen = append(seen, s)
	}
	clear(q.seen)
	slices.SortFunc(seen, func(a, b storage.ProviderSeen) int { return strings.Compare(a.ID, b.ID) })
	return jobs, seen
}

// run writes until stop is closed, and then what waits still, unless ctx is done. It
// returns the error of a write in a term that is over; report gets the others.
func (q *queue) run(ctx context.Context, stop <-chan struct{}, report func(what string, err error)) error {
	for {
		select {
		case <-stop:
			return q.flush(ctx, report)
		case <-q.ready:
		}
		if err := q.flush(ctx, report); err != nil {
			return err
		}
	}
}

func (q *queue) flush(ctx context.Context, report func(what string, err error)) error {
	jobs, seen := q.take()
	for _, j := range jobs {
		err := q.try(ctx, report, j.write.Action, func(ctx context.Context) error { return q.do(ctx, j) })
		j.done <- err
		if errors.Is(err, storage.ErrFenced) {
			return err
		}
		if err != nil {
			report(j.write.Action, err)
		}
	}
	for part := range slices.Chunk(seen, seenTogether) {
		err := q.try(ctx, report, "provider.see", func(ctx context.Context) error { return q.store.SeeProviders(ctx, q.fence(), part) })
		if errors.Is(err, storage.ErrFenced) {
			return err
		}
		if err != nil {
			report("provider.see", err)
		}
	}
	return nil
}

func (q *queue) do(ctx context.Context, j job) error {
	switch p := j.write.Provider; j.write.Op {
	case WriteCreate:
		return q.store.CreateProvider(ctx, q.fence(), p, j.why)
	case WriteUpdate:
		return q.store.UpdateProvider(ctx, q.fence(), p, j.why)
	case WriteDelete:
		return q.store.DeleteProvider(ctx, q.fence(), p.ID, p.Revision, j.why)
	default:
		return fmt.Errorf("provider: write %d has no method", j.write.Op)
	}
}

// try repeats a write for as long as the store is away. Each can be repeated: its audit
// row tells that it was done.
func (q *queue) try(ctx context.Context, report func(what string, err error), what string, write func(context.Context) error) error {
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		err := write(ctx)
		if err == nil || !errors.Is(err, storage.ErrUnavailable) || ctx.Err() != nil {
			return err
		}
		if pause == firstPause {
			report(what, err)
		}
		t := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			t.Stop()
			return err
		case <-t.C:
		}
	}
}
