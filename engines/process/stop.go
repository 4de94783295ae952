package process

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/llmgw/llmgw/engines"
)

// LeftError says what SIGKILL did not end in time. It unwraps to [ErrLeft].
type LeftError struct {
	Shard   string
	Members []Member
	After   time.Duration
}

// ErrLeft is the class of every [*LeftError].
var ErrLeft = errors.New("process: shard cannot be ended")

// Error names every process with its state.
func (e *LeftError) Error() string {
	names := make([]string, len(e.Members))
	for i, m := range e.Members {
		names[i] = m.String()
	}
	return fmt.Sprintf("process: shard %s: %s ran on for %v after SIGKILL; in state D they wait for a driver or a file system: see dmesg, and cat /proc/PID/stack",
		e.Shard, strings.Join(names, ", "), e.After)
}

// Unwrap returns [ErrLeft].
func (e *LeftError) Unwrap() error { return ErrLeft }

// Stop ends the engine and then its sidecars, last started first: each gets the
// signal of its launch with all its group, has its grace, and is killed with
// every child that outlives it, wherever that went. Stop returns nil when
// nothing of the shard is left and its ports are free; the directory stays.
//
// It may be called in any state, at any time and again: a shard that is starting
// starts nothing more, one that is stopped stays so. Where ctx ends first, or
// the error is a [*LeftError] or a [*PortsError], the shard is still stopping
// and another call goes on with it; no grace begins anew.
func (s *Shard) Stop(ctx context.Context) error {
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return fmt.Errorf("process: stop shard %s: %w", s.id, context.Cause(ctx))
	}
	if s.Status().State == StateStopped {
		s.letGo()
		return nil
	}
	if isClosed(s.left) {
		return fmt.Errorf("%w: %s", ErrDetached, s.id)
	}
	s.cancel(ErrStopped)
	<-s.done
	s.update(func(status *Status) { status.State = StateStopping })
	if s.record.Stopping.IsZero() {
		s.record.Stopping = time.Now()
		s.save()
	}
	if err := s.end(ctx); err != nil {
		s.update(func(status *Status) { status.Reason = err.Error() })
		return err
	}
	s.record.Stopped = time.Now()
	s.save()
	s.update(func(status *Status) { status.State, status.Reason = StateStopped, "" })
	s.log.Info("shard stopped")
	s.letGo()
	return nil
}

// end ends every process and sees the ports free.
func (s *Shard) end(ctx context.Context) error {
	if boot, err := bootID(); err != nil || boot != s.record.Boot {
		return err // another boot: nothing of the shard can run
	}
	for _, p := range slices.Backward(s.procs) {
		if p == nil {
			continue
		}
		if err := s.endOne(ctx, p); err != nil {
			return fmt.Errorf("process: stop shard %s: %s: %w", s.id, p.name, err)
		}
	}
	if slices.Contains(s.procs, nil) { // one may have been started and not recorded
		rest := &group{marker: s.record.marker(""), since: s.record.Since}
		if _, err := s.runner.kill(ctx, s.id, rest, time.Now()); err != nil {
			return fmt.Errorf("process: stop shard %s: %w", s.id, err)
		}
	}
	return s.portsFree(ctx)
}

// The time between two looks at what is ending grows: a look costs as much as
// there are processes on the machine.
const (
	leastPause = 5 * time.Millisecond
	mostPause  = 200 * time.Millisecond
)

// endOne ends one process and what belongs to it.
func (s *Shard) endOne(ctx context.Context, p *proc) error {
	found, err := p.group.scan() // children are known before their parent ends
	if err != nil {
		return err
	}
	if len(found) == 0 && p.ended() {
		s.settle(p)
		return nil
	}
	if p.asked.IsZero() {
		p.asked = time.Now()
		p.ask(found)
		s.update(func(status *Status) {
			status.Process, status.Phase, status.PhaseSince = p.name, engines.PhaseStopping, p.asked
		})
	}
	grace := p.asked.Add(p.stop.Grace)
	for !p.ended() && time.Now().Before(grace) {
		if err := until(ctx, p.exited, min(time.Until(grace), s.runner.cfg.Poll)); err != nil {
			return err
		}
		p.drain(false, nil) // which keeps its log within bounds
	}
	linger := time.Now().Add(s.runner.cfg.Linger)
	if grace.Before(linger) {
		linger = grace
	}
	killed, err := s.runner.kill(ctx, s.id, &p.group, linger)
	if err != nil {
		return err
	}
	// The kernel says so within moments of the last look.
	if err := until(ctx, p.exited, s.runner.cfg.KillTimeout); err != nil {
		return err
	}
	p.drain(true, nil)
	s.settle(p)
	s.update(func(status *Status) {
		status.Ended = append(status.Ended, Ended{Name: p.name, Took: time.Since(p.asked), Killed: killed})
	})
	return nil
}

// ask sends the process's signal: to its group while it leads it, and to what
// has left the group.
func (p *proc) ask(found []stat) {
	sig := number(p.stop.Signal)
	led := len(found) > 0 && found[0].identity == p.id
	if led {
		led = signalGroup(p.id.PID, sig) == nil
	}
	for _, st := range found {
		if !led || st.group != p.id.PID {
			_ = signalOne(st.identity, sig) // one that has ended meanwhile is what is wanted
		}
	}
}

// kill waits until nothing of the group is left, and ends with SIGKILL what is
// there after linger. It returns what was killed.
func (r *Runner) kill(ctx context.Context, shard string, g *group, linger time.Time) ([]Member, error) {
	var killed []Member
	pause, empty := leastPause, 0
	for {
		found, err := g.scan()
		if err != nil {
			return killed, err
		}
		// One look can miss a child that was made during it, two do not.
		if len(found) == 0 {
			if empty++; empty == 2 {
				return killed, nil
			}
			continue
		}
		empty = 0
		if after := time.Since(linger); after >= 0 {
			for _, st := range found {
				m := member(st)
				known := slices.ContainsFunc(killed, func(k Member) bool { return k.PID == m.PID })
				if !known && st.state != 'Z' { // which ends already
					killed, pause = append(killed, m), leastPause
				}
				_ = signalOne(st.identity, sigKill) // one that has ended meanwhile is what is wanted
			}
			if after > r.cfg.KillTimeout {
				return killed, &LeftError{Shard: shard, Members: members(found), After: after}
			}
		}
		if err := until(ctx, nil, pause); err != nil {
			return killed, err
		}
		pause = min(2*pause, mostPause)
	}
}

// until waits for done or for d to pass; the error is the cause of ctx.
func until(ctx context.Context, done <-chan struct{}, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}

// portsFree waits until the shard's ports can be bound.
func (s *Shard) portsFree(ctx context.Context) error {
	deadline := time.Now().Add(s.runner.cfg.KillTimeout)
	for {
		held := unfree(s.record.Ports)
		if len(held) == 0 || time.Now().After(deadline) {
			return portsError("shard "+s.id+" has ended, and its ports are not free", held)
		}
		if err := until(ctx, nil, leastPause); err != nil {
			return fmt.Errorf("process: stop shard %s: wait for its ports: %w", s.id, err)
		}
	}
}

func member(st stat) Member {
	return Member{PID: st.PID, Name: clean([]byte(st.name), 64), State: string(st.state)}
}

func members(found []stat) []Member {
	all := make([]Member, len(found))
	for i, st := range found {
		all[i] = member(st)
	}
	return all
}

// list names processes for an error.
func list(found []stat) string {
	var names []string
	for _, m := range members(found) {
		names = append(names, m.String())
	}
	return strings.Join(names, ", ")
}
