package kvevents

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/llmgw/llmgw/engines/kvevents/internal/zmtp"
)

// follower follows one rank. Its goroutine alone uses it.
//
// It reads a message, acts on it, and reads the next; while it asks for a
// replay or the handler takes its time, messages wait in the connection. A
// publisher does not: it drops what does not fit, which shows as a gap.
type follower struct {
	*Subscriber
	rank    int
	tracker tracker
	decoder decoder
	batch   Batch
	topic   string
	digest  uint64 // of the last batch's payload
	seed    maphash.Seed
	got     bool               // a message on this connection
	warned  [reasons]time.Time // when a reset was last logged for this reason
}

// run keeps a connection until ctx is done.
func (f *follower) run(ctx context.Context) {
	f.seed = maphash.MakeSeed()
	pause, failing := f.cfg.MinBackoff, false
	for {
		f.got = false
		err := f.session(ctx)
		if ctx.Err() != nil {
			return
		}
		f.metrics.failures.Inc()
		if f.got {
			pause, failing = f.cfg.MinBackoff, false
		}
		level := slog.LevelDebug
		if !failing {
			level, failing = slog.LevelWarn, true
		}
		f.log.Log(ctx, level, "KV events cannot be followed; trying again", f.id(), slog.Any("err", err))
		wait := time.NewTimer(time.Duration(float64(pause) * (0.75 + 0.5*rand.Float64())))
		select {
		case <-ctx.Done():
			wait.Stop()
			return
		case <-wait.C:
		}
		pause = min(2*pause, f.cfg.MaxBackoff)
	}
}

func (f *follower) id() slog.Attr { return slog.String("endpoint", "tcp://"+f.events.rank(f.rank)) }

// connect dials a and shakes hands. The connection ends with ctx; done is to be
// called after its use.
func (f *follower) connect(ctx context.Context, a address, t zmtp.SocketType) (_ *zmtp.Conn, done func(), err error) {
	dialing, cancel := context.WithTimeout(ctx, f.cfg.ConnectTimeout)
	defer cancel()
	c, err := f.dial(dialing, "tcp", a.rank(f.rank))
	if err != nil {
		return nil, nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = c.Close() })
	done = func() {
		stop()
		_ = c.Close()
	}
	_ = c.SetDeadline(time.Now().Add(f.cfg.ConnectTimeout))
	z, err := zmtp.Handshake(c, t, f.cfg.MaxMessageBytes)
	if err != nil {
		done()
		return nil, nil, err
	}
	_ = c.SetDeadline(time.Time{})
	return z, done, nil
}

// session follows one connection to its end.
func (f *follower) session(ctx context.Context) error {
	c, done, err := f.connect(ctx, f.events, zmtp.Sub)
	if err != nil {
		return err
	}
	defer done()
	if err := c.Subscribe(f.cfg.Topic); err != nil {
		return err
	}
	f.tracker.connected()
	if f.replay != nil {
		f.resume(ctx)
	}
	f.metrics.connected.Inc()
	f.following(true)
	f.log.Info("KV events are followed", f.id())
	defer func() {
		f.metrics.connected.Dec()
		f.following(false)
		if f.replay == nil && f.tracker.known() && ctx.Err() == nil {
			f.reset(ReasonDisconnected)
		}
	}()
	for {
		frames, err := c.Read()
		if err != nil {
			return err
		}
		f.got = true
		seq, payload, ok := numbered(frames)
		if !ok || len(frames) != 3 {
			f.log.Debug("no batch of KV events", f.id(), slog.Int("frames", len(frames)))
			f.reset(ReasonMalformed)
			continue
		}
		if string(frames[0]) != f.topic {
			f.topic = string(frames[0])
		}
		f.take(ctx, seq, payload)
	}
}

// numbered takes a message apart from its end, before which frames may stand:
// sequence and payload.
func numbered(frames [][]byte) (seq int64, payload []byte, ok bool) {
	if len(frames) < 2 || len(frames[len(frames)-2]) != 8 {
		return 0, nil, false
	}
	seq = int64(binary.BigEndian.Uint64(frames[len(frames)-2]))
	return seq, frames[len(frames)-1], seq >= 0
}

// isEnd reports whether a message ends a replay: the number -1, nothing in it.
func isEnd(frames [][]byte) bool {
	n := len(frames)
	return n >= 2 && len(frames[n-1]) == 0 && string(frames[n-2]) == "\xff\xff\xff\xff\xff\xff\xff\xff"
}

// following notes that the rank is followed, or no longer.
func (f *follower) following(yes bool) {
	f.update(f.rank, func(s *Status) { s.Connected = yes })
	if w, ok := f.handler.(Watcher); ok {
		w.Following(f.rank, yes)
	}
}

// take acts on a message of the connection.
func (f *follower) take(ctx context.Context, seq int64, payload []byte) {
	switch f.tracker.see(seq) {
	case verdictApply:
		f.apply(seq, payload)
	case verdictSkip:
	case verdictRestart:
		f.reset(ReasonRestart)
		if seq > 0 {
			f.fill(ctx, 0)
		}
		f.join(seq, payload)
	case verdictGap:
		f.fill(ctx, f.tracker.last+1)
		f.join(seq, payload)
	}
}

// join applies a message of the connection after replay, which may have brought
// it, or not all before it.
func (f *follower) join(seq int64, payload []byte) {
	if seq <= f.tracker.last {
		return
	}
	if f.tracker.known() && seq > f.tracker.last+1 {
		f.reset(ReasonGap)
	}
	f.apply(seq, payload)
}

// apply gives a batch to the handler.
func (f *follower) apply(seq int64, payload []byte) {
	complete := seq == 0 || f.tracker.known() && f.Status(f.rank).Complete
	f.tracker.last, f.digest = seq, maphash.Bytes(f.seed, payload)
	f.metrics.batches.Inc()
	f.metrics.bytes.Add(float64(len(payload)))
	b := &f.batch
	if err := f.decoder.decode(b, payload); err != nil {
		f.log.Debug("batch of KV events cannot be read", f.id(), slog.Int64("sequence", seq), slog.Any("err", err))
		f.reset(ReasonMalformed)
		f.tracker.last = seq // the numbers go on
		return
	}
	b.Topic, b.Rank, b.Sequence = f.topic, f.rank, seq
	for i := range b.Events {
		f.metrics.events[b.Events[i].Kind].Inc()
		complete = complete || b.Events[i].Kind == KindCleared
	}
	f.metrics.events[0].Add(float64(b.Unknown))
	f.handler.Apply(b)
	f.update(f.rank, func(s *Status) { s.Sequence, s.Complete = seq, complete })
}

// reset tells the handler that nothing is known any more.
func (f *follower) reset(r Reason) {
	f.tracker.forget()
	f.metrics.resets[r].Inc()
	f.update(f.rank, func(s *Status) { s.Sequence, s.Complete = -1, false })
	if now := time.Now(); f.warned[r].IsZero() || now.Sub(f.warned[r]) >= time.Minute {
		f.warned[r] = now
		f.log.Warn("what KV events told of an engine's cache is void; it is learned anew", f.id(), slog.String("reason", r.String()))
	}
	f.handler.Reset(f.rank, r)
}

// resume finds out, on a new connection, what was missed since the last one,
// and everything if there was none. That the engine is the same process is seen
// from the last batch, which has to be the same byte for byte: numbers alone
// would not tell, since a new process may have counted past ours.
func (f *follower) resume(ctx context.Context) {
	if !f.tracker.known() {
		f.fill(ctx, 0)
		return
	}
	last, same := f.tracker.last, false
	n := 0
	err := f.ask(ctx, last, func(seq int64, payload []byte) bool {
		if n++; n == 1 && seq == last {
			if same = maphash.Bytes(f.seed, payload) == f.digest; !same {
				return false
			}
			return true
		}
		if n == 1 { // it is gone, and with it the proof
			f.reset(ReasonTooOld)
		}
		f.replayed(seq, payload)
		return true
	})
	switch {
	case err != nil:
		f.metrics.replays[outcomeFailed].Inc()
		if f.tracker.known() && ctx.Err() == nil {
			f.reset(ReasonGap)
		}
	case n > 0 && same:
		f.metrics.replays[outcomeFilled].Inc()
	case n > 0 && f.tracker.last != last:
		f.metrics.replays[outcomeTooOld].Inc()
	default: // fewer batches than we have seen, or another one
		f.reset(ReasonRestart)
		f.fill(ctx, 0)
	}
}

// fill asks for the batches from the number first on and applies them.
func (f *follower) fill(ctx context.Context, first int64) {
	if f.replay == nil {
		return
	}
	o, n := outcomeFilled, 0
	err := f.ask(ctx, first, func(seq int64, payload []byte) bool {
		if n++; n == 1 && seq > first {
			o = outcomeTooOld
			if f.tracker.known() {
				f.reset(ReasonTooOld)
			}
		}
		f.replayed(seq, payload)
		return true
	})
	if err != nil {
		o = outcomeFailed
	}
	f.metrics.replays[o].Inc()
}

// replayed applies a batch of a replay.
func (f *follower) replayed(seq int64, payload []byte) {
	if seq <= f.tracker.last {
		return
	}
	if f.tracker.known() && seq != f.tracker.last+1 {
		f.reset(ReasonGap)
	}
	f.apply(seq, payload)
}

var (
	errNoBatch   = errors.New("kvevents: replay has a message that is no batch")
	errBackwards = errors.New("kvevents: replay's numbers do not grow")
	errEndless   = errors.New("kvevents: replay does not end")
)

// replayTimeouts is how many times Config.ReplayTimeout a whole replay may take.
// While it lasts the connection is not read: what it tells comes late, or never.
const replayTimeouts = 10

// ask calls each for every batch from first on that the engine still has, until
// each returns false.
func (f *follower) ask(ctx context.Context, first int64, each func(seq int64, payload []byte) bool) error {
	err := f.askOnce(ctx, first, each)
	if err != nil && ctx.Err() == nil {
		f.log.Debug("replay of KV events failed", f.id(), slog.Int64("first", first), slog.Any("err", err))
	}
	return err
}

func (f *follower) askOnce(ctx context.Context, first int64, each func(seq int64, payload []byte) bool) error {
	c, done, err := f.connect(ctx, *f.replay, zmtp.Dealer)
	if err != nil {
		return err
	}
	defer done()
	// The empty frame is what a REQ socket puts first, and engines expect.
	if err := c.Write(nil, binary.BigEndian.AppendUint64(nil, uint64(first))); err != nil {
		return err
	}
	end, last := time.Now().Add(replayTimeouts*f.cfg.ReplayTimeout), int64(-1)
	for {
		now := time.Now()
		if !now.Before(end) {
			return errEndless
		}
		if err := c.NetConn().SetReadDeadline(now.Add(f.cfg.ReplayTimeout)); err != nil {
			return err
		}
		frames, err := c.Read()
		if err != nil {
			return fmt.Errorf("replay: %w", err)
		}
		if isEnd(frames) {
			return nil
		}
		seq, payload, ok := numbered(frames)
		switch {
		case !ok:
			return errNoBatch
		case seq <= last:
			return fmt.Errorf("%w: %d after %d", errBackwards, seq, last)
		case !each(seq, payload):
			return nil
		}
		last = seq
	}
}
