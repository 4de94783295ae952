package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// Found is what was there when a shard was adopted.
type Found uint8

const (
	// FoundNothing is the zero value, and goes with an error.
	FoundNothing Found = iota
	// FoundRunning: the engine runs.
	FoundRunning
	// FoundEnded: the engine has ended since; its exit is known only where it
	// stands in the record.
	FoundEnded
	// FoundReplaced: the engine has ended, and another process has its number.
	FoundReplaced
	// FoundOtherBoot: the machine was started anew since, and nothing is left.
	FoundOtherBoot
	// FoundUnstarted: the start was interrupted before the engine ran.
	FoundUnstarted
	// FoundStopping: the shard was being stopped; call Stop to go on with it.
	FoundStopping
	// FoundStopped: the shard was stopped.
	FoundStopped
)

// String returns what was found in two words at most.
func (f Found) String() string {
	names := [...]string{"nothing", "running", "ended", "replaced", "other boot", "unstarted", "stopping", "stopped"}
	if int(f) < len(names) {
		return names[f]
	}
	return "nothing"
}

// Adopt takes up the shard that was started in dir, by its record, whoever
// started it. A shard of which the engine runs is loading until its probe says
// that it is ready; of any other the State is failed or stopped. What is left
// of a failed one, such as sidecars and children, goes with Stop. The caller has
// to end with Stop or Detach, whatever was found.
//
// The error is [ErrNoRecord], [ErrRecord], or [ErrAttended] while somebody else
// attends to the shard.
func (r *Runner) Adopt(ctx context.Context, dir string) (*Shard, Found, error) {
	if err := errors.Join(supported(), context.Cause(ctx)); err != nil {
		return nil, FoundNothing, err
	}
	if _, err := os.Stat(filepath.Join(dir, recordName)); err != nil {
		return nil, FoundNothing, fmt.Errorf("%w: %w", ErrNoRecord, err)
	}
	lock, err := r.lockDir(ctx, dir)
	if err != nil {
		return nil, FoundNothing, fmt.Errorf("process: %s: %w", dir, err)
	}
	s, found, err := r.adopt(dir, lock)
	if err != nil {
		_ = lock.Close() // which letGo may have done
		return nil, FoundNothing, err
	}
	s.log.Info("shard adopted", "found", found.String())
	return s, found, nil
}

func (r *Runner) adopt(dir string, lock *os.File) (*Shard, Found, error) {
	rec, err := readRecord(dir)
	if err != nil {
		return nil, FoundNothing, err
	}
	boot, err := bootID()
	if err != nil {
		return nil, FoundNothing, err
	}
	secret, err := os.ReadFile(filepath.Join(dir, SecretFile))
	if err != nil {
		return nil, FoundNothing, fmt.Errorf("%w: %w", ErrRecord, err)
	}
	s := r.shard(dir, string(secret), rec, lock)
	if !rec.Stopped.IsZero() {
		s.rest(StateStopped, nil)
		return s, FoundStopped, nil
	}
	if rec.Boot != boot {
		s.update(func(st *Status) {
			for i := range st.Processes { // their numbers are others' now, if anybody's
				if st.Processes[i].Exit == nil {
					st.Processes[i].Exit = &Exit{}
				}
			}
		})
		s.rest(StateFailed, s.lost("the machine was started anew"))
		return s, FoundOtherBoot, nil
	}
	found, err := s.find()
	if err != nil {
		s.letGo()
		return nil, FoundNothing, err
	}
	if !rec.Stopping.IsZero() {
		s.rest(StateStopping, nil)
		return s, FoundStopping, nil
	}
	engine := s.procs[len(s.procs)-1]
	switch found {
	case FoundUnstarted:
		s.rest(StateFailed, s.unstarted())
	case FoundRunning:
		s.update(func(st *Status) { st.State, st.Since, st.Process = StateLoading, engine.begun, Engine })
		s.begin()
	default:
		engine.drain(true, nil)
		s.settle(engine)
		s.rest(StateFailed, s.endedError(engine))
	}
	return s, found, nil
}

// rest puts the shard into a state in which nothing is to be attended to.
func (s *Shard) rest(state State, failure *FailedError) {
	s.cancel = func(error) {}
	close(s.done)
	s.update(func(st *Status) {
		st.State, st.Since, st.Failure = state, time.Now(), failure
		if failure != nil {
			st.Process, st.Reason = failure.Process, failure.Reason
		}
	})
}

// unstarted is the failure of a shard of which the engine never ran.
func (s *Shard) unstarted() *FailedError {
	for _, p := range s.procs {
		if p != nil && p.ended() && !(p.once && p.exit.clean()) {
			p.drain(true, nil)
			s.settle(p)
			return s.endedError(p)
		}
	}
	return &FailedError{
		Shard: s.id, Process: Engine, Class: ErrInterrupted,
		Reason: "whoever started the shard ended before the engine ran", Advice: "stop it and start it anew",
	}
}

// lost is the failure of an engine that ended while nobody looked.
func (s *Shard) lost(reason string) *FailedError {
	e := &FailedError{Shard: s.id, Process: Engine, Class: ErrExited, Exit: &Exit{}, Reason: reason}
	if exit := s.record.Processes[len(s.record.Processes)-1].Exit; exit != nil {
		e.Exit = exit
	}
	return e
}

// find takes up every process of the record, and says what became of the
// engine.
func (s *Shard) find() (Found, error) {
	ctx, cancel := context.WithCancel(context.Background())
	s.unwatch = cancel
	found := FoundUnstarted
	for i := range s.roles {
		what, err := s.findOne(ctx, i)
		if err != nil {
			return FoundNothing, err
		}
		if s.roles[i].name == Engine {
			found = what
		}
	}
	return found, nil
}

func (s *Shard) findOne(ctx context.Context, place int) (Found, error) {
	rec := &s.record.Processes[place]
	p := &proc{
		role: s.roles[place], place: place, begun: rec.Begun, id: rec.identity, exited: make(chan struct{}),
		group: group{leader: rec.identity, marker: s.record.marker(rec.Name), log: logPath(s.dir, rec.Name), since: s.record.Since},
	}
	if rec.PID == 0 {
		// Started and not recorded, or not started: its marker says which.
		leader, err := p.group.unrecorded()
		if err != nil || leader.PID == 0 {
			return FoundUnstarted, err
		}
		p.id, p.begun, p.group.leader = leader, s.record.Begun, leader
		rec.identity, rec.Begun = leader, p.begun
		s.update(func(st *Status) { st.Processes[place].PID = leader.PID })
		if err := s.record.write(s.dir); err != nil {
			return FoundNothing, err
		}
	}
	output, err := s.runner.openLog(p.group.log, s.secret)
	if err != nil {
		return FoundNothing, fmt.Errorf("%w: %w", ErrRecord, err)
	}
	p.output = output
	if !s.record.Ready.IsZero() || rec.Exit != nil {
		p.output.skip(adoptBytes)
	}
	s.procs[place] = p
	st, err := readStat(p.id.PID)
	if err == nil && st.Start == p.id.Start && !st.dead() && rec.Exit == nil {
		s.watchers.Go(func() {
			if await(ctx, p.id, s.runner.cfg.Poll) == nil {
				close(p.exited) // with an exit that is not known
			}
		})
		return FoundRunning, nil
	}
	if rec.Exit != nil {
		p.exit = *rec.Exit
	}
	close(p.exited)
	if err == nil && st.Start != p.id.Start {
		return FoundReplaced, nil
	}
	return FoundEnded, nil
}

// unrecorded returns the process that carries the marker and leads its session,
// which only the process that was started by it does; zero: there is none.
func (g *group) unrecorded() (identity, error) {
	found, err := g.scan()
	for _, st := range found {
		if st.session == st.PID {
			return st.identity, err
		}
	}
	return identity{}, err
}
