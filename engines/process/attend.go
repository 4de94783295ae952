package process

import (
	"context"
	"sync"
	"time"

	"github.com/llmgw/llmgw/engines"
)

// untilReady looks after a process that has been started until it is ready, and
// reports whether it is. It is not where it failed, which is noted then, where
// another process of the shard did, or where ctx is done.
func (s *Shard) untilReady(ctx context.Context, p *proc) bool {
	v, err := newVerdict(p.role, s.runner.cfg.GiveUp, p.begun)
	if err != nil {
		s.fail(&FailedError{Shard: s.id, Process: p.name, Class: ErrStart, Reason: err.Error()})
		return false
	}
	if p.name == Engine && !s.record.Ready.IsZero() {
		v.again(time.Now())
	}
	class := p.follow(ctx, v, s.question(p), s.runner.cfg, func() bool {
		s.note(p, v)
		return s.look(p)
	})
	switch {
	case ctx.Err() != nil || s.Status().State == StateFailed:
		return false
	case class != nil:
		s.settle(p)
		s.fail(v.failure(time.Now(), class, s.id, p.name, &p.output.tail, s.runner.cfg.TailLines))
		return false
	}
	s.settle(p)
	s.log.Info("process is ready", "process", p.name, "after", time.Since(p.begun))
	if p.name != Engine {
		return true
	}
	if s.record.Ready.IsZero() {
		s.record.Ready = time.Now()
		s.save()
	}
	s.update(func(status *Status) {
		status.State, status.Reason = StateReady, ""
		status.Phase, status.PhaseSince = engines.PhaseListening, time.Now()
	})
	return true
}

// question returns how the process is asked whether it is ready; nil: it cannot
// be.
func (s *Shard) question(p *proc) func(context.Context) answer {
	if p.ready.Probe == nil || p.once {
		return nil
	}
	ask := func(ctx context.Context) answer { return s.runner.ask(ctx, *p.ready.Probe, s.record.Address, s.secret) }
	if p.name == Engine && s.Sleeps() && !s.record.Ready.IsZero() { // taken up
		return s.sleeper(ask)
	}
	return ask
}

// follow tells v what happens to the process until it is decided, look says
// that there is nothing more to wait for, or ctx is done. It returns the class
// of the failure; nil in all other cases.
func (p *proc) follow(ctx context.Context, v *verdict, ask func(context.Context) answer, cfg Config, look func() bool) error {
	answers := make(chan answer)
	var asking sync.WaitGroup
	ctx, cancel := context.WithCancel(ctx)
	defer asking.Wait()
	defer cancel()
	if ask != nil {
		asking.Go(func() { probes(ctx, cfg.ProbeEvery, ask, answers) })
	}
	for {
		ended := p.ended() // asked before the output is read, so that nothing of it is missed
		p.drain(ended, v)
		if ended {
			v.ended(p.exit)
		}
		now := time.Now()
		ready, next, failure := v.decide(now)
		if ready {
			return nil // who watches is not to see the answer before what it means
		}
		if look() || failure != nil {
			return failure
		}
		pause := min(cfg.Poll, next.Sub(now))
		if p.output.behind {
			pause = 0
		}
		select {
		case <-ctx.Done():
			return nil
		case <-p.exited:
		case a := <-answers:
			v.answered(time.Now(), a)
		case <-time.After(pause):
		}
	}
}

// drain reads what the process has printed, all of it once it has ended. V, which
// may be nil, is told.
func (p *proc) drain(ended bool, v *verdict) {
	now := time.Now()
	emit := func(line string) {
		if v != nil {
			v.line(now, line)
		}
	}
	for {
		n, err := p.output.read(emit)
		if n > 0 && v != nil {
			v.output(now)
		}
		if n == 0 || err != nil || !ended {
			break
		}
	}
	if ended {
		p.output.end(emit)
	}
}

// note publishes how far a process has come.
func (s *Shard) note(p *proc, v *verdict) {
	reason := ""
	if v.failed != nil {
		reason = v.failed.reason
	}
	now := s.Status()
	if now.Process == p.name && now.Phase == v.phase && now.Probe == v.probe && now.Reason == reason {
		return
	}
	s.update(func(status *Status) {
		status.Process, status.Phase, status.PhaseSince = p.name, v.phase, v.phaseSince
		status.Probe, status.Reason = v.probe, reason
	})
}

// look reads what the processes but one have printed, and reports whether one
// of them has ended that should not have. That is noted as the shard's failure.
func (s *Shard) look(but *proc) (failed bool) {
	for _, p := range s.procs {
		if p == nil || p == but || p.noted {
			continue
		}
		ended := p.ended()
		p.drain(ended, nil)
		if !ended {
			continue
		}
		s.settle(p)
		if p.once || s.Status().State == StateFailed {
			continue
		}
		s.fail(s.endedError(p))
		failed = true
	}
	return failed
}

// endedError says why a process has ended that was left to itself. What a running engine
// prints is not held against it, since clients can make it print anything; once
// it has ended its last lines say why.
func (s *Shard) endedError(p *proc) *FailedError {
	now := time.Now()
	v, err := newVerdict(p.role, 0, p.begun)
	if err != nil {
		return &FailedError{Shard: s.id, Process: p.name, Class: ErrExited, Exit: &p.exit, Lines: p.output.tail.last(s.runner.cfg.TailLines)}
	}
	for _, line := range p.output.tail.lines {
		v.line(now, line)
	}
	if p.name == Engine && !s.record.Ready.IsZero() {
		v.phase, v.phaseSince = engines.PhaseListening, s.record.Ready
	}
	v.ended(p.exit)
	return v.failure(now, ErrExited, s.id, p.name, &p.output.tail, s.runner.cfg.TailLines)
}

// keep looks after a shard that is ready or has failed, until ctx is done. The
// logs of what still runs are kept within their bounds.
func (s *Shard) keep(ctx context.Context) {
	for ctx.Err() == nil {
		s.look(nil)
		var ended <-chan struct{} // of the engine; that of a sidecar may be seen a little later
		if p := s.procs[len(s.procs)-1]; p != nil && !p.noted {
			ended = p.exited
		}
		select {
		case <-ctx.Done():
		case <-ended:
		case <-time.After(s.runner.cfg.Poll):
		}
	}
}

// settle puts the end of a process into the record, once.
func (s *Shard) settle(p *proc) {
	if p.noted || !p.ended() {
		return
	}
	p.noted = true
	s.record.Processes[p.place].Exit = &p.exit
	s.save()
	s.log.Info("process ended", "process", p.name, "pid", p.id.PID, "exit", p.exit.String())
	s.update(func(status *Status) { status.Processes[p.place].Exit = &p.exit })
}

// save writes the record. Where that fails, the one before stands, which names
// the same processes.
func (s *Shard) save() {
	if err := s.record.write(s.dir); err != nil {
		s.log.Warn("record of the shard was not written", "err", err)
	}
}
