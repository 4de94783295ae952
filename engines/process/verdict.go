package process

import (
	"regexp"
	"time"

	"github.com/llmgw/llmgw/engines"
)

// verdict decides whether a process is ready or has failed to become so. It is
// told what happens, and when; it does nothing itself.
type verdict struct {
	want   engines.Readiness
	ready  *regexp.Regexp // nil: no line says so
	rules  []rule
	once   bool // ready is: ended with status 0
	giveUp time.Duration

	started, progress time.Time
	phase             engines.Phase
	phaseSince        time.Time
	probe             string // the last answer in words
	isReady           bool
	failed            *finding // the line that knows best why it failed
	failedAt          time.Time
	exit              *Exit
}

func newVerdict(p role, giveUp time.Duration, started time.Time) (*verdict, error) {
	v := &verdict{
		want: p.ready, once: p.once, giveUp: giveUp,
		started: started, progress: started, phase: engines.PhaseStarting, phaseSince: started,
	}
	var err error
	if v.rules, err = compile(p.logs); err != nil {
		return nil, err
	}
	if p.ready.Log != "" && p.ready.Probe == nil {
		if v.ready, err = regexp.Compile(p.ready.Log); err != nil {
			return nil, err
		}
	}
	v.isReady = !p.once && p.ready.Probe == nil && v.ready == nil
	return v, nil
}

// output notes that the process printed something, if only a part of a line.
func (v *verdict) output(now time.Time) { v.progress = now }

// line notes a line of output.
func (v *verdict) line(now time.Time, line string) {
	if v.ready != nil && v.ready.MatchString(line) {
		v.isReady = true
	}
	found, ok := read(v.rules, line)
	switch {
	case !ok:
	case found.phase == engines.PhaseFailed:
		if v.failed == nil {
			v.failedAt = now
		}
		v.blame(found)
	case found.phase > v.phase: // ranks and workers print in any order: never back
		v.phase, v.phaseSince = found.phase, now
	}
}

// blame keeps the finding of the rule that stands first: adapters put what is
// special before what is general.
func (v *verdict) blame(found finding) {
	if v.failed == nil || found.rule < v.failed.rule {
		v.failed = &found
	}
}

// answered notes an answer of the probe.
func (v *verdict) answered(now time.Time, a answer) {
	v.probe = a.text
	if a.spoke {
		v.progress = now
	}
	v.isReady = v.isReady || a.ready
}

// ended notes the end of the process.
func (v *verdict) ended(exit Exit) { v.exit = &exit }

// decide returns whether the process is ready, or the class of its failure as
// the error, and if neither, when it will have failed unless something happens.
func (v *verdict) decide(now time.Time) (ready bool, next time.Time, failure error) {
	if v.exit != nil {
		if v.once && v.exit.clean() {
			return true, time.Time{}, nil
		}
		return false, time.Time{}, ErrExited
	}
	if v.isReady && !v.once {
		return true, time.Time{}, nil
	}
	next, class := v.started.Add(v.want.Timeout), ErrTimeout
	sooner := func(at time.Time, because error) {
		if at.Before(next) {
			next, class = at, because
		}
	}
	if v.want.Stalled > 0 {
		sooner(v.progress.Add(v.want.Stalled), ErrStalled)
	}
	if v.failed != nil {
		sooner(v.failedAt.Add(v.giveUp), ErrGaveUp)
		class = ErrGaveUp
	}
	if now.Before(next) {
		return false, next, nil
	}
	return false, next, class
}

// failure is the error that says all that is known.
func (v *verdict) failure(now time.Time, class error, shard, process string, t *tail, lines int) *FailedError {
	e := &FailedError{
		Shard: shard, Process: process, Class: class, Exit: v.exit,
		Phase: v.phase, InPhase: now.Sub(v.phaseSince), After: now.Sub(v.started),
		Lines: t.last(lines),
	}
	v.explain(e, t)
	return e
}

// explain fills in why, in this order: a rule of the adapter, what is known of
// refused flags, how the process ended, what the probe said last.
func (v *verdict) explain(e *FailedError, t *tail) {
	found := v.failed
	if found == nil && v.exit != nil {
		flags := flagRules()
		for _, line := range t.lines {
			if f, ok := read(flags, line); ok {
				found = &f
				break
			}
		}
	}
	switch {
	case found != nil:
		e.Reason, e.Advice = found.reason, found.advice
	case v.exit != nil && v.exit.Signal == "SIGKILL":
		e.Reason, e.Advice = "somebody killed it, and not the launcher", "look for the kernel's out-of-memory killer: dmesg | grep -i oom"
	case v.exit == nil && v.probe != "":
		e.Reason = "the probe's last answer was " + v.probe
	}
}

// again begins anew for a process that was ready once and is adopted: whether
// it still is its probe has to say, with the time that a start has; one that
// nobody can ask stays ready.
func (v *verdict) again(now time.Time) {
	v.started, v.progress = now, now
	v.isReady = v.want.Probe == nil
}
