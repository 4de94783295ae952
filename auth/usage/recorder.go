package usage

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/llmgw/llmgw/storage"
)

// Deps are a Recorder's collaborators.
type Deps struct {
	Log        storage.UsageLog      // required
	Logger     *slog.Logger          // nil discards
	Registerer prometheus.Registerer // nil leaves metrics unregistered
}

// Recorder takes rows to a store. Its methods may be called concurrently.
type Recorder struct {
	cfg     Config
	log     *slog.Logger
	store   storage.UsageLog
	buffer  buffer
	metrics *metrics
	ready   chan struct{} // holds one: a batch is full
}

// New validates cfg and returns a Recorder. It starts nothing; call Run.
func New(cfg Config, deps Deps) (*Recorder, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("usage: %w", err)
	}
	if deps.Log == nil {
		return nil, errors.New("usage: Deps.Log is required")
	}
	r := &Recorder{cfg: cfg, log: deps.Logger, store: deps.Log, ready: make(chan struct{}, 1)}
	r.buffer.rows = make([]storage.Usage, cfg.BufferRows)
	if r.log == nil {
		r.log = slog.New(slog.DiscardHandler)
	}
	var err error
	if r.metrics, err = newMetrics(deps.Registerer, &r.buffer); err != nil {
		return nil, fmt.Errorf("usage: %w", err)
	}
	return r, nil
}

// Record keeps a copy of u for the store. It never blocks: where there is no room,
// or Run has ended, the row is dropped and counted, and false returned. What u's
// pointers point to must not be changed afterwards.
func (r *Recorder) Record(u *storage.Usage) bool {
	n, open, ok := r.buffer.put(u)
	switch {
	case !open:
		r.metrics.ended.Inc()
	case !ok:
		r.metrics.full.Inc()
	case n >= r.cfg.BatchRows:
		select {
		case r.ready <- struct{}{}:
		default: // it knows
		}
	}
	return ok
}

// Run writes rows, and forgets those that are too old, until ctx is done; then it
// writes what is left, for at most Config.DrainTimeout, and returns nil. Call it
// once, and end it after the last Record.
func (r *Recorder) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { r.prune(ctx) })
	tick := time.NewTicker(r.cfg.FlushInterval)
	defer tick.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-tick.C:
			r.flush(ctx, false)
		case <-r.ready:
			if r.buffer.len() >= r.cfg.BatchRows { // not written since it was said
				r.flush(ctx, false)
			}
		}
	}
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.cfg.DrainTimeout)
	defer cancel()
	r.flush(end, true)
	if lost := r.buffer.end(); lost > 0 {
		r.metrics.ended.Add(float64(lost))
		r.log.Error("usage could not be kept before the end", "rows", lost)
	}
	return nil
}

// flush writes a batch, and others while they are full, however often it must try,
// until ctx is done. What has come meanwhile waits for others, unless all is to be
// written: else a busy gateway would write many small batches, which cost the more.
func (r *Recorder) flush(ctx context.Context, all bool) {
	const first, last = 100 * time.Millisecond, time.Second // a store that is away is asked in vain, and rows are dropped meanwhile
	wait := first
	away := false
	left := min(r.buffer.len(), r.cfg.BatchRows) // of the batch, which the buffer's end may divide
	for ctx.Err() == nil {
		batch := r.buffer.front(r.cfg.BatchRows)
		if len(batch) == 0 {
			return
		}
		kept, err := r.write(ctx, batch)
		r.buffer.drop(kept)
		left -= kept
		if err == nil {
			if away {
				r.log.Info("usage is kept again", "waiting", r.buffer.len())
			}
			if !all && left <= 0 && r.buffer.len() < r.cfg.BatchRows {
				return
			}
			wait, away = first, false
			continue
		}
		if !away {
			r.log.Error("usage cannot be kept now; it waits", "err", err, "waiting", r.buffer.len(), "room", r.cfg.BufferRows)
			away = true
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait):
			wait = min(2*wait, last)
		}
	}
}

// write tells the store of the rows and returns how many of the first are done
// with: kept, or refused for what they are, which is counted. With an error the
// store is away and the rest is to be written again.
func (r *Recorder) write(ctx context.Context, rows []storage.Usage) (done int, err error) {
	one, cancel := context.WithTimeout(ctx, r.cfg.WriteTimeout)
	begin := time.Now()
	_, err = r.store.InsertUsage(one, rows)
	cancel()
	r.metrics.write.Observe(time.Since(begin).Seconds())
	if err == nil {
		r.metrics.kept.Add(float64(len(rows)))
		return len(rows), nil
	}
	r.metrics.failures.Inc()
	if !errors.Is(err, storage.ErrInvalid) {
		return 0, err
	}
	if len(rows) == 1 {
		r.metrics.refused.Inc()
		r.log.Error("the store refuses a usage row", "request", rows[0].RequestID, "err", err)
		return 1, nil
	}
	// One of them cannot be kept. The others must not go with it.
	done, err = r.write(ctx, rows[:len(rows)/2])
	if err != nil {
		return done, err
	}
	more, err := r.write(ctx, rows[len(rows)/2:])
	return done + more, err
}

// pruneEvery is how often old usage is looked for.
const pruneEvery = time.Hour

// prune forgets what is older than it has to be, until ctx is done.
func (r *Recorder) prune(ctx context.Context) {
	tick := time.NewTicker(pruneEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			r.pruneAt(ctx, now)
		}
	}
}

// pruneAt forgets in small steps, with a rest between them for others.
func (r *Recorder) pruneAt(ctx context.Context, now time.Time) {
	const most, rest = 1000, 50 * time.Millisecond
	before := func(keep time.Duration) time.Time {
		if keep == 0 {
			return time.Time{}
		}
		return now.Add(-keep)
	}
	keep := r.cfg.Retention
	what := storage.Retention{Rows: before(keep.Rows), Hours: before(keep.Hours), Days: before(keep.Days), Most: most}
	for ctx.Err() == nil {
		one, cancel := context.WithTimeout(ctx, r.cfg.WriteTimeout)
		n, more, err := r.store.PruneUsage(one, what)
		cancel()
		r.metrics.pruned.Add(float64(n))
		if err != nil {
			if ctx.Err() == nil {
				r.log.Warn("old usage could not be forgotten; it is tried again in an hour", "err", err)
			}
			return
		}
		if !more {
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(rest):
		}
	}
}
