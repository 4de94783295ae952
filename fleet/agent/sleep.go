package agent

import (
	"context"
	"fmt"
	"time"

	"github.com/llmgw/llmgw/fleet/fleetpb"
)

// sleep is how the engine of a life sleeps, and is to. The shard's goroutine alone.
type sleep struct {
	want   posture // as it was ordered
	asleep bool    // as the engine said last
	// unsure: it was taken up, and has not said yet how it is.
	unsure bool
	// doubt is until when what it says may change by what was asked of it before it
	// was taken up, so that it is asked again at askAgain. Zero: it is believed.
	doubt, askAgain time.Time
	turning         bool   // it is being put to sleep, or woken, or asked
	note            string // what that waits for, in words
	// broken is why the engine can be used no more, though it runs: it did not fall
	// asleep, or not wake, and nobody knows what it did.
	broken *refusal
}

// doubtTime is for how long an engine that was taken up is asked again whether it
// sleeps: what an earlier run of the agent asked of it may take effect only now.
const doubtTime = 2 * time.Minute

// taken notes, of a life that was taken up, how it was ordered to be. Until the
// engine says how it is, it counts as it was ordered.
func (z *sleep) taken(ordered posture) {
	z.want = ordered
	if z.unsure {
		z.asleep = ordered == asleep
	}
}

// asks reports whether the engine is to be asked how it is, now or at askAgain.
func (z *sleep) asks(now time.Time) bool { return z.unsure || now.Before(z.doubt) }

// said notes how an engine that was taken up says it is.
func (z *sleep) said(is bool) { z.asleep, z.unsure = is, false }

// due reports whether the engine is to be put to sleep or woken. What sleeps though
// nobody is known to have ordered it is left as it is.
func (z *sleep) due() bool { return z.want == asleep && !z.asleep || z.want == awake && z.asleep }

// doing says for people what is being done with the engine; empty: nothing.
func (z *sleep) doing() string {
	switch {
	case z.note != "":
		return z.note
	case z.unsure || !z.due():
		return ""
	case z.want == asleep:
		return "it is being put to sleep"
	}
	return "it is being woken"
}

// sleeps reports whether the engine of a life can sleep.
func (l *life) sleeps() bool {
	if l.proc != nil {
		return l.proc.Sleeps()
	}
	return l.spec.Launch.Sleep != nil && !l.lost
}

// takeTurn begins to put an engine to sleep, or to wake it.
func (s *shard) takeTurn(o order) {
	l, want := s.life, asleep
	if o.Kind == orderWake {
		want = awake
	}
	switch {
	case l == nil || l.wish.Generation != o.Generation:
		s.reply(o, fleetpb.Result_RESULT_REFUSED, fmt.Sprintf("there is no generation %d of the shard here", o.Generation), "start it first")
	case l.stopping || !l.ended.IsZero():
		s.reply(o, fleetpb.Result_RESULT_REFUSED, fmt.Sprintf("generation %d is being ended", o.Generation), "order a higher one to start")
	case l.sleep.broken != nil:
		s.reply(o, fleetpb.Result_RESULT_REFUSED, l.sleep.broken.reason, l.sleep.broken.advice)
	case want == asleep && l.sleep.want == asleep, want == awake && l.sleep.want != asleep && !l.draining && !l.sleep.asleep:
		s.reply(o, fleetpb.Result_RESULT_ALREADY, "", "")
	default:
		l.sleep.want = want
		if want == awake {
			l.draining, l.held, l.idle = false, "", 0
		}
		s.publish()
		s.reply(o, fleetpb.Result_RESULT_BEGUN, "", "")
	}
}

// turn asks an engine that was taken up how it is, and makes one that is not as it
// was ordered so, once it is ready.
func (s *shard) turn(ctx context.Context, l *life) {
	z, now := &l.sleep, time.Now()
	if z.turning || z.broken != nil || l.stopping || !l.ready() || !l.sleeps() {
		return
	}
	switch {
	case z.asks(now) && !now.Before(z.askAgain):
		s.askSleep(ctx, l)
	case z.unsure || !z.due():
	case z.want == asleep:
		s.putToSleep(ctx, l)
	default:
		s.wake(ctx, l)
	}
}

func (s *shard) askSleep(ctx context.Context, l *life) {
	l.sleep.turning = true
	s.do(func() func() {
		is, err := l.proc.Asleep(ctx)
		return func() {
			l.sleep.turning, l.sleep.askAgain = false, time.Now().Add(retryInterval)
			if err == nil {
				l.sleep.said(is)
			} else if ctx.Err() == nil {
				s.log.Warn("an engine that was taken up does not say whether it sleeps; it is asked again", "generation", l.wish.Generation, "err", err)
			}
		}
	})
}

// putToSleep puts an engine to sleep and sees the memory of its cards given back.
// One that does not, or keeps it, is of no use any more.
func (s *shard) putToSleep(ctx context.Context, l *life) {
	began := time.Now()
	l.sleep.turning = true
	s.do(func() func() {
		err := l.proc.Sleep(ctx)
		held, sure := "", true
		if err == nil && len(l.wish.Cards) > 0 {
			s.post(func() { l.sleep.note = "it sleeps, and the memory of its cards is not free yet" })
			held, sure = s.tools.rested(ctx, l.wish)
		}
		return func() {
			l.sleep.turning, l.sleep.note = false, ""
			switch {
			case ctx.Err() != nil || l.stopping:
			case err != nil:
				s.spoil(l, refused("leave sleep out of its profile if it cannot", "it could not be put to sleep: %v", err))
			case held != "" && sure:
				s.spoil(l, refused("leave sleep out of its profile: it does not give the memory back", "it sleeps, and has memory of its cards: %s", held))
			default:
				l.sleep.asleep, l.held = true, held
				s.log.Info("engine sleeps", "generation", l.wish.Generation, "after", time.Since(began), "memory", held)
			}
		}
	})
}

func (s *shard) wake(ctx context.Context, l *life) {
	began := time.Now()
	l.sleep.turning = true
	s.do(func() func() {
		err := l.proc.Wake(ctx)
		return func() {
			l.sleep.turning = false
			switch {
			case ctx.Err() != nil || l.stopping:
			case err != nil:
				s.spoil(l, refused("it is started anew; see who has memory of its cards", "it could not be woken: %v", err))
			default:
				l.sleep.asleep = false
				s.log.Info("engine is awake", "generation", l.wish.Generation, "after", time.Since(began))
			}
		}
	})
}

// spoil notes that an engine can be used no more. It runs until it is stopped.
func (s *shard) spoil(l *life, why *refusal) {
	l.sleep.broken = why
	s.log.Error("engine is of no use any more", "generation", l.wish.Generation, "reason", why.reason, "advice", why.advice)
}
