package scale

import (
	"fmt"
	"math"
	"time"

	"github.com/llmgw/llmgw/engines"
)

// Input is what is known of a model at one moment.
type Input struct {
	Now time.Time
	// Floor is how many replicas have to run, Max how many may. Of the two Max counts.
	Floor, Max int
	// Ready serve, Coming are on their way. Disturbed: one of them is lost, is being
	// replaced, or its nodes have not been heard yet, so that no other may go.
	Ready, Coming int
	Disturbed     bool
	// Waiting are the requests that wait for a replica to come up, Queued those that
	// wait for room at those that serve.
	Waiting, Queued int
	// Asked is for how long nobody has asked for the model. Not known: nobody has, as
	// far as anybody remembers.
	Asked engines.Opt[time.Duration]
	// Load is how full those that serve are, of what their engines run at once; above
	// 1 where more waits. Not known: nobody has said. Held are the requests that they
	// have, by which Queued are measured. Not known: somebody who may have some there was
	// not heard.
	Load engines.Opt[float64]
	Held engines.Opt[int]
	// Idle is for how long nothing has shown that any of those that serve works. Not
	// known: somebody who might have seen it was not heard, or it is not long enough.
	Idle engines.Opt[time.Duration]
	// NoRoom says why the last replica that was wanted has no place. Empty: it has one,
	// or none is looked for.
	NoRoom string
}

// Decision is how many replicas are wanted, and why.
type Decision struct {
	// Want is how many.
	Want int
	// Why says for people what it is by. At is when it came to be so.
	Why string
	At  time.Time
	// Changed: Want is not what it was.
	Changed bool
}

// roomWindow is for how long what is wanted may have no place until it is not wanted
// any more: cards that something else leaves are free by then.
const roomWindow = 30 * time.Second

// Scaler decides how many replicas of one model run. It is for one goroutine. The
// zero value has decided nothing yet.
type Scaler struct {
	begun bool
	last  Decision
	// full and spare are since when it has been so without a break; zero: it is not.
	full, spare time.Time
	// short is since when what is wanted has had no place.
	short time.Time
	// moved is when Want was changed last by load, whichever way; blocked when it was
	// found last that there are no cards for more.
	moved, blocked time.Time
}

// Step decides on what is known now, which never goes back. Replicas that were
// there before the first step are taken for wanted, so that who steps anew takes
// nothing down.
func (s *Scaler) Step(cfg Config, in Input) Decision {
	floor := max(min(in.Floor, in.Max), 0)
	if !s.begun {
		s.begun = true
		s.decide(in.Now, max(min(in.Ready+in.Coming, in.Max), floor), "it was there")
		if s.last.Want == floor {
			s.last.Why = atFloor(floor, in.Max)
		}
	}
	before := s.last.Want
	s.watch(cfg, in)
	switch want, why := s.next(cfg, in, floor); {
	case want != s.last.Want:
		s.decide(in.Now, want, why)
	case want == floor && want != 0 && s.last.Why == "":
		s.last.Why = atFloor(floor, in.Max)
	}
	s.last.Changed = s.last.Want != before
	return s.last
}

// Less says that one of what was wanted is not any more, for a reason that this
// package does not know of. Who asked before that does not count as asking again.
func (s *Scaler) Less(now time.Time, why string) {
	s.begun = true
	s.decide(now, max(s.last.Want-1, 0), why)
}

func (s *Scaler) decide(now time.Time, want int, why string) {
	s.last.Want, s.last.Why, s.last.At = want, why, now
	s.full, s.spare, s.short = time.Time{}, time.Time{}, time.Time{}
}

func atFloor(floor, most int) string {
	switch {
	case most == 0:
		return "none may run: max is 0"
	case floor == 0:
		return "nobody asks for it"
	}
	return fmt.Sprintf("at least %d run", floor)
}

// watch notes since when replicas are full, or to spare, or have no place.
func (s *Scaler) watch(cfg Config, in Input) {
	load, known := in.Load.Get()
	full := known && load >= cfg.TargetLoad || in.Queued > 0
	spare := known && in.Queued == 0 && in.Ready > 1 && spread(load, in.Ready, in.Ready-1) <= cfg.TargetLoad*cfg.SpareLoad
	since(&s.full, full && in.Ready > 0, in.Now)
	since(&s.spare, spare, in.Now)
	since(&s.short, in.NoRoom != "", in.Now)
}

// demand is how full those that serve would be if they had what waits for room, too:
// a queue in front of them keeps their load from showing how much is asked of them.
func (in *Input) demand() engines.Opt[float64] {
	load, known := in.Load.Get()
	held := in.Held.Or(0)
	if !known || held <= 0 || in.Queued <= 0 {
		return in.Load
	}
	return engines.Known(load * float64(held+in.Queued) / float64(held))
}

// spread is how full to replicas are with the load of from.
func spread(load float64, from, to int) float64 { return load * float64(from) / float64(to) }

func since(at *time.Time, is bool, now time.Time) {
	switch {
	case !is:
		*at = time.Time{}
	case at.IsZero():
		*at = now
	}
}

// next returns how many are wanted from now on, and why if that is another number.
func (s *Scaler) next(cfg Config, in Input, floor int) (want int, why string) {
	want = s.last.Want
	switch {
	case want > in.Max:
		return max(in.Max, 0), fmt.Sprintf("at most %d may run", in.Max)
	case want < floor:
		return floor, atFloor(floor, in.Max)
	case want == 0:
		return s.wake(in)
	case want > floor && s.asleep(cfg, in):
		return floor, fmt.Sprintf("nobody has used it for %v", cfg.IdleTimeout)
	case want > floor && in.Ready == 0 && in.Coming == 0 && s.forgotten(cfg, in):
		return floor, fmt.Sprintf("nobody has asked for it for %v, and it has not come up", cfg.IdleTimeout)
	case s.tooMany(in, floor):
		s.blocked = in.Now
		return max(in.Ready+in.Coming, floor, 1), "no cards are free for more: " + in.NoRoom
	case s.needsMore(cfg, in):
		return s.more(cfg, in)
	case s.canSpare(cfg, in, floor):
		s.moved = in.Now
		return want - 1, fmt.Sprintf("%d can do the work of %d, for %v", want-1, want, cfg.DownWindow)
	}
	return want, ""
}

// wake starts the first replica for who asks.
func (s *Scaler) wake(in Input) (want int, why string) {
	asked, known := in.Asked.Get()
	switch {
	case in.Max == 0:
		return 0, ""
	case in.Waiting+in.Queued > 0:
		return 1, requests(in.Waiting+in.Queued) + " for it"
	case known && in.Now.Add(-asked).After(s.last.At): // and was told to come again
		return 1, "it was asked for"
	}
	return 0, ""
}

func requests(n int) string {
	if n == 1 {
		return "1 request waits"
	}
	return fmt.Sprintf("%d requests wait", n)
}

// asleep reports whether all that serve are idle for so long that those above the
// floor may go.
func (s *Scaler) asleep(cfg Config, in Input) bool {
	idle, known := in.Idle.Get()
	return known && in.Ready > 0 && in.Coming == 0 && !in.Disturbed && idle >= cfg.IdleTimeout && s.forgotten(cfg, in)
}

// forgotten reports whether nobody waits or has asked lately, since the last
// decision either.
func (s *Scaler) forgotten(cfg Config, in Input) bool {
	asked, known := in.Asked.Get()
	return in.Waiting+in.Queued == 0 && (!known || asked >= cfg.IdleTimeout) && in.Now.Sub(s.last.At) >= cfg.IdleTimeout
}

// tooMany reports whether what is wanted above what runs has found no place for
// roomWindow. What has to run, and the first one that somebody waits for, stay
// wanted.
func (s *Scaler) tooMany(in Input, floor int) bool {
	return !s.short.IsZero() && in.Now.Sub(s.short) >= roomWindow && s.last.Want > max(in.Ready+in.Coming, floor, 1)
}

// needsMore reports whether another replica is to be started: those that serve are
// full, for a whole window, all that were wanted have come, the last decision is a
// window ago, and that there were no cards is not just known.
func (s *Scaler) needsMore(cfg Config, in Input) bool {
	return s.last.Want < in.Max && in.Ready >= s.last.Want && in.Coming == 0 && !s.full.IsZero() &&
		in.Now.Sub(s.full) >= cfg.UpWindow && in.Now.Sub(s.moved) >= cfg.UpWindow && (s.blocked.IsZero() || in.Now.Sub(s.blocked) >= cfg.DownWindow)
}

// more is as many as would not be full with what waits, but no more than twice as many
// as serve: what one moment shows is not built on further than that.
func (s *Scaler) more(cfg Config, in Input) (want int, why string) {
	load, known := in.demand().Get()
	want = s.last.Want + 1
	if known {
		want = max(want, int(math.Ceil(spread(load, in.Ready, 1)/cfg.TargetLoad)))
	}
	want = min(want, 2*s.last.Want, in.Max)
	s.moved = in.Now
	if !known {
		return want, requests(in.Queued) + " for room"
	}
	if in.Queued > 0 && in.Held.Or(0) > 0 {
		return want, fmt.Sprintf("%d are %.0f %% full with the %d that wait for room, for %v", in.Ready, 100*load, in.Queued, cfg.UpWindow)
	}
	return want, fmt.Sprintf("%d are %.0f %% full, for %v", in.Ready, 100*load, cfg.UpWindow)
}

// canSpare reports whether the work of one replica fits in the others, for a whole
// window since then and since any decision.
func (s *Scaler) canSpare(cfg Config, in Input, floor int) bool {
	return s.last.Want > max(floor, 1) && in.Ready >= s.last.Want && in.Coming == 0 && !in.Disturbed && !s.spare.IsZero() &&
		in.Now.Sub(s.spare) >= cfg.DownWindow && in.Now.Sub(s.moved) >= cfg.DownWindow && in.Now.Sub(s.last.At) >= cfg.DownWindow
}
