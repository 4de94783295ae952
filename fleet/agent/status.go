package agent

import (
	"cmp"
	"fmt"
	"reflect"
	"time"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/engines/process"
)

// publish makes the shard's status what it is now, and says so if it is another
// one. How much a serving engine has to do is told by the next heartbeat alone.
func (s *shard) publish() {
	if s.life == nil {
		return
	}
	now := s.life.status(s.id)
	if s.old != nil && s.life.proc == nil && !s.life.stopping {
		now.Reason = cmp.Or(now.Reason, fmt.Sprintf("generation %d is being ended first", s.old.wish.Generation))
	}
	s.mu.Lock()
	last := s.status
	now.Revision, now.Since = last.Revision, last.Since
	if now.State != last.State || now.Generation != last.Generation {
		now.Since = time.Now()
	}
	s.ended, s.cards, s.pids, s.sleeps = !s.life.ended.IsZero(), s.life.cards(), s.processes(), s.life.sleeps()
	told := now
	if now.State == engines.ShardReady {
		told.Running, told.Waiting = last.Running, last.Waiting
	}
	same := reflect.DeepEqual(told, last)
	if !same {
		now.Revision = s.tools.revision()
	}
	s.status = now
	s.mu.Unlock()
	if same {
		return
	}
	s.tools.changed(s.id)
	if now.State != last.State || now.Generation != last.Generation {
		s.log.Info("shard is "+now.State.String(), "generation", now.Generation, "was", last.State.String(), "pid", now.PID,
			"address", now.Address, "adopted", now.Adopted, "reason", now.Reason, "advice", now.Advice)
	}
}

// processes are those of what is here and of what is being ended.
func (s *shard) processes() []int {
	var pids []int
	for _, l := range []*life{s.old, s.life} {
		if l == nil || l.proc == nil {
			continue
		}
		now, _ := l.proc.Changed()
		for _, p := range now.Processes {
			if p.PID > 0 && p.Exit == nil {
				pids = append(pids, p.PID)
			}
		}
	}
	return pids
}

func (l *life) cards() []string {
	var ids []string
	for _, c := range l.wish.Cards {
		ids = append(ids, c.ID)
	}
	return ids
}

// status says how a life is.
func (l *life) status(id engines.ShardID) engines.ShardStatus {
	st := engines.ShardStatus{
		ID: id, Generation: l.wish.Generation, Address: l.wish.Address, Ports: firsts(l.wish.Ports), Cards: l.cards(),
		Adopted: l.adopted, Running: l.running, Waiting: l.queued, MemoryHeld: l.held,
	}
	if l.proc == nil {
		st.State = engines.ShardStarting
		if l.failed != nil {
			st.State, st.Reason, st.Advice = engines.ShardFailed, l.failed.reason, l.failed.advice
		}
	} else {
		now, _ := l.proc.Changed()
		st.State = l.state(now.State)
		fill(&st, now)
	}
	switch {
	case !l.ended.IsZero():
		st.State = engines.ShardStopped
	case l.ending, l.stopping && st.State != engines.ShardDraining:
		st.State = engines.ShardStopping
	}
	switch {
	case l.waiting != "":
		st.Reason, st.Advice = l.waiting, ""
	case l.sleep.broken != nil && st.Exit == "":
		st.Reason, st.Advice = l.sleep.broken.reason, l.sleep.broken.advice
	case l.ready() && (st.State == engines.ShardDraining || st.State == engines.ShardLoading):
		st.Reason = cmp.Or(l.sleep.doing(), st.Reason)
	}
	return st
}

// state says where a life is by the state of its processes.
func (l *life) state(s process.State) engines.ShardState {
	switch s {
	case process.StateStarting, process.StateUnset:
		return engines.ShardStarting
	case process.StateLoading:
		if l.sleep.asleep && l.sleep.want != awake { // taken up, and not asked yet whether it is ready
			return engines.ShardSleeping
		}
		return engines.ShardLoading
	case process.StateReady:
		return l.serving()
	case process.StateFailed:
		return engines.ShardFailed
	case process.StateStopping, process.StateStopped: // until its memory was looked at
	}
	return engines.ShardStopping
}

// serving says where a life is whose engine was ready.
func (l *life) serving() engines.ShardState {
	switch z := &l.sleep; {
	case l.stopping && (z.asleep || z.broken != nil):
		return engines.ShardStopping
	case z.broken != nil:
		return engines.ShardFailed
	case l.stopping:
		return engines.ShardDraining
	case z.asleep && z.want == awake:
		return engines.ShardLoading
	case z.asleep:
		return engines.ShardSleeping
	case l.draining || z.want == asleep:
		return engines.ShardDraining
	}
	return engines.ShardReady
}

// fill puts what is known of the processes into a status.
func fill(st *engines.ShardStatus, now process.Status) {
	st.Phase, st.PhaseSince = now.Phase, now.PhaseSince
	st.Start, st.Command = now.Start, now.Command
	st.Reason = cmp.Or(now.Reason, waitingFor(now))
	for _, p := range now.Processes {
		if p.Name != process.Engine {
			continue
		}
		if p.Exit != nil {
			st.Exit = p.Exit.String()
		} else {
			st.PID = p.PID
		}
	}
	if f := now.Failure; f != nil {
		st.Reason, st.Advice, st.Lines = reasonOf(f), f.Advice, f.Lines
		if f.Exit != nil {
			st.Exit = f.Exit.String()
		}
	}
}

// waitingFor says what a shard that loads waits for, where nothing better is
// known.
func waitingFor(now process.Status) string {
	if now.State == process.StateLoading && now.Probe != "" {
		return "the last answer to its probe: " + now.Probe
	}
	return ""
}

// reasonOf says why a shard failed.
func reasonOf(f *process.FailedError) string {
	why := fmt.Sprintf("%s %v", f.Process, f.Class)
	if f.Phase != engines.PhaseUnset {
		why += fmt.Sprintf(" after %v, in phase %v", f.After.Round(time.Millisecond), f.Phase)
	}
	if f.Reason != "" {
		why += ": " + f.Reason
	}
	return why
}
