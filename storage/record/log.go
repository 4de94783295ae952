package record

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"
)

// Log writes records to a directory. Make one with New, and call Run. Append,
// Flush and Stats may be called concurrently, with Run and with each other.
type Log struct {
	cfg     Config
	deps    Deps
	log     *slog.Logger
	buffer  *buffer
	flushes chan chan error
	ended   chan struct{} // closed once nothing is written any more

	diskErrors atomic.Uint64
	bytes      atomic.Int64 // of all segments
	segments   atomic.Int64

	dir     *directory // Run goroutine only, as all below
	batch   []byte     // taken from the buffer and not written yet
	synced  time.Time
	failing bool   // the last write failed
	full    uint64 // Stats.Full as of the last look
	dropped bool   // records were dropped between the last two looks
}

// New validates cfg and deps and returns a Log. It touches no file and starts no
// goroutine; records wait in the buffer until Run is called.
func New(cfg Config, deps Deps) (*Log, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if deps.Key.ID() == 0 {
		return nil, fmt.Errorf("%w: no key; make one with KeyFile or NewKey", ErrInvalid)
	}
	l := &Log{
		cfg:     cfg,
		deps:    deps,
		log:     deps.Logger,
		buffer:  newBuffer(cfg.BufferBytes, cfg.MaxEntryBytes),
		flushes: make(chan chan error),
		ended:   make(chan struct{}),
	}
	if l.log == nil {
		l.log = slog.New(slog.DiscardHandler)
	}
	if deps.Registerer != nil {
		if err := deps.Registerer.Register(newMetrics(l)); err != nil {
			return nil, fmt.Errorf("record: register metrics: %w", err)
		}
	}
	return l, nil
}

// Append takes a record: a type from 1 to MaxType, the decision's own time, and
// the payload, of which it keeps nothing. It never waits for the disk and
// allocates nothing. The error says why the record was dropped: ErrFull, ErrClosed
// after Run, or one wrapping ErrInvalid. It need not be looked at, since dropped
// records are counted in [Log.Stats], in the metrics and, but for those after
// Run, by a [Gap] in the log itself.
func (l *Log) Append(t Type, at time.Time, payload []byte) error {
	return l.buffer.append(t, at, payload)
}

// Key returns the key that the log's fingerprints are made with.
func (l *Log) Key() Key { return l.deps.Key }

// Stats returns what was counted since New.
func (l *Log) Stats() Stats { return l.buffer.counts() }

// Flush waits until every record that was appended before is in its file, where
// a [Reader] finds it; it does not sync. It waits for Run to begin, too. The
// error is that of the disk, in which case the records are tried again later,
// ErrClosed if Run has ended, or wraps the cause of ctx.
func (l *Log) Flush(ctx context.Context) error {
	reply := make(chan error, 1)
	select {
	case l.flushes <- reply:
	case <-l.ended:
		return ErrClosed
	case <-ctx.Done():
		return fmt.Errorf("record: flush: %w", context.Cause(ctx))
	}
	// Run has taken it and will answer.
	return <-reply
}

// Run writes what is appended until ctx is done, then writes the rest, completes
// the segment and returns. Call it once. A directory that cannot be made, opened
// or locked (ErrInUse) is an error at once; an error of the disk later is logged
// and counted and the write tried again, while the buffer fills and then drops.
// At the end the error says what could not be written.
func (l *Log) Run(ctx context.Context) error {
	defer close(l.ended)
	defer l.buffer.close()
	dir, err := openDirectory(l.cfg, l.deps)
	if err != nil {
		l.lose()
		return err
	}
	return l.run(ctx, dir)
}

// reopenEvery is how long Keep waits between two tries to open the directory.
const reopenEvery = 5 * time.Second

// Keep is Run for who goes on without a log: a directory that cannot be made,
// opened or locked is logged and counted as any error of the disk is, and tried
// again every 5 seconds, while the buffer fills and then drops. Call it in place
// of Run.
func (l *Log) Keep(ctx context.Context) error {
	defer close(l.ended)
	defer l.buffer.close()
	again := time.NewTicker(reopenEvery)
	defer again.Stop()
	for {
		dir, err := openDirectory(l.cfg, l.deps)
		if err == nil {
			l.report(nil)
			return l.run(ctx, dir)
		}
		l.report(err)
		for waiting := true; waiting; {
			select {
			case <-ctx.Done():
				if lost := l.lose(); lost > 0 {
					err = fmt.Errorf("record: %d records are lost: %w", lost, err)
				}
				return err
			case reply := <-l.flushes:
				reply <- err
			case <-again.C:
				waiting = false
			}
		}
	}
}

func (l *Log) run(ctx context.Context, dir *directory) error {
	l.dir = dir
	l.synced = time.Now()
	tick := time.NewTicker(l.cfg.FlushInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return l.finish()
		case reply := <-l.flushes:
			reply <- l.step(time.Now())
		case <-l.buffer.wake:
			_ = l.step(time.Now()) // logged and counted there
		case <-tick.C:
			_ = l.step(time.Now()) // logged and counted there
		}
	}
}

// step does all that there is to do at a time. The error is that of writing.
func (l *Log) step(now time.Time) error {
	err := l.write(now)
	upkeep := l.dir.expire(now)
	if l.cfg.SyncInterval > 0 && now.Sub(l.synced) >= l.cfg.SyncInterval {
		l.synced = now
		upkeep = errors.Join(upkeep, l.dir.sync())
	}
	l.bytes.Store(l.dir.total)
	l.segments.Store(int64(l.dir.segments()))
	l.report(errors.Join(err, upkeep))
	return err
}

// write writes what an earlier error left, then what came since.
func (l *Log) write(now time.Time) error {
	for range 2 {
		if len(l.batch) == 0 {
			l.batch = l.buffer.swap(l.batch)
		}
		if len(l.batch) == 0 {
			return nil
		}
		n, err := l.dir.write(now, l.batch)
		l.batch = l.batch[:copy(l.batch, l.batch[n:])]
		if err != nil {
			return err
		}
	}
	return nil
}

// report logs what has changed: the disk, and whether records are dropped.
func (l *Log) report(err error) {
	switch {
	case err != nil:
		l.diskErrors.Add(1)
		if !l.failing {
			l.log.Warn("the recorder's log cannot be written; trying again", "dir", l.cfg.Dir, "err", err)
		}
	case l.failing:
		l.log.Info("the recorder's log is written again", "dir", l.cfg.Dir)
	}
	l.failing = err != nil

	stats := l.buffer.counts()
	dropped := stats.Full > l.full
	l.full = stats.Full
	switch {
	case dropped && !l.dropped:
		l.log.Warn("records are dropped: they come faster than they can be written", "dir", l.cfg.Dir, "dropped", stats.Full)
	case l.dropped && !dropped:
		l.log.Info("no records are dropped any more", "dir", l.cfg.Dir, "dropped", stats.Full)
	}
	l.dropped = dropped
}

// finish writes the rest and ends the log.
func (l *Log) finish() error {
	l.buffer.close()
	err := l.write(time.Now())
	if lost := l.lose(); lost > 0 {
		err = fmt.Errorf("record: %d records are lost: %w", lost, err)
	}
	err = errors.Join(err, l.dir.close())
	l.bytes.Store(l.dir.total)
	l.segments.Store(int64(l.dir.segments()))
	return err
}

// lose counts what is in memory and will never be written, after the last try.
func (l *Log) lose() uint64 {
	l.buffer.close()
	lost := records(l.batch) + records(l.buffer.swap(nil))
	l.buffer.lose(lost)
	return lost
}

// records counts the entries of b that are not gaps, whose records are counted
// when they are dropped.
func records(b []byte) uint64 {
	var n uint64
	for len(b) > 0 {
		if parseHead(b).typ != TypeGap {
			n++
		}
		b = b[entrySize(b):]
	}
	return n
}
