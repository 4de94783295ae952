package plugin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/llmgw/llmgw/engines"
)

// slot is an adapter that was asked for, through all its starts and ends.
//
//	idle ── a call ──> starting ── up ──> running ── no call for long ──> idle
//	                      │ ^               │
//	                      v └── delay ──────┘ ended, hung
//	                     away
type slot struct {
	host *Host
	name string
	log  *slog.Logger
	wake chan struct{} // a call waits for a start; room for one
	look chan struct{} // ping now; room for one

	mu      sync.Mutex
	state   state         // guarded by mu
	current *instance     // not nil where state is running; guarded by mu
	cause   error         // not nil where state is away; guarded by mu
	changed chan struct{} // closed when state changes; guarded by mu
	used    time.Time     // the last call; guarded by mu
}

// state is where in its life an adapter is.
type state uint8

const (
	stateIdle     state = iota // not started, or ended for want of calls; a call starts it
	stateStarting              // calls wait
	stateRunning
	stateAway // calls fail with the cause
)

var errNotRunning = errors.New("the host does not run")

func newSlot(h *Host, name string) *slot {
	return &slot{
		host: h, name: name, log: h.log.With("adapter", name),
		wake: make(chan struct{}, 1), look: make(chan struct{}, 1), changed: make(chan struct{}),
	}
}

func (s *slot) set(to state, current *instance, cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state, s.current, s.cause = to, current, cause
	close(s.changed)
	s.changed = make(chan struct{})
}

// instance returns the run that a call can be made of, and waits for a start that
// is under way or that it causes itself. The call is counted in the run's calls, and
// the caller takes it out.
func (s *slot) instance(ctx context.Context) (*instance, error) {
	// A start ends by itself; what may never come is the host's Run.
	hostless := time.NewTimer(s.host.cfg.StartTimeout + s.host.cfg.CallTimeout)
	defer hostless.Stop()
	for {
		s.mu.Lock()
		s.used = time.Now()
		state, current, cause, changed := s.state, s.current, s.cause, s.changed
		if state == stateRunning {
			current.calls.Add(1) // under mu, so that stop counts it
		}
		s.mu.Unlock()
		switch state {
		case stateRunning:
			return current, nil
		case stateAway:
			return nil, fmt.Errorf("%w: %w", engines.ErrUnavailable, cause)
		case stateIdle:
			if s.host.ended() {
				return nil, fmt.Errorf("%w: %w", engines.ErrUnavailable, errNotRunning)
			}
			nudge(s.wake)
		case stateStarting:
		}
		select {
		case <-changed:
		case <-hostless.C:
			return nil, fmt.Errorf("%w: %w", engines.ErrUnavailable, errNotRunning)
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// ended reports whether Run is over, or about to be.
func (h *Host) ended() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.over
}

// suspect has the adapter asked at once whether it lives.
func (s *slot) suspect() { nudge(s.look) }

func nudge(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// supervise runs the adapter whenever it is called, until ctx is done.
func (s *slot) supervise(ctx context.Context) {
	defer func() { s.set(stateAway, nil, errNotRunning) }()
	up := s.host.metrics.up
	for {
		select {
		case <-s.wake:
		case <-ctx.Done():
			return
		}
		up.WithLabelValues(s.name).Set(0)
		s.keep(ctx)
		up.DeleteLabelValues(s.name)
		if ctx.Err() != nil {
			return
		}
		s.log.Info("adapter ended: nobody calls it")
		select { // what waits since then wakes it again
		case <-s.wake:
		default:
		}
		s.set(stateIdle, nil, nil)
	}
}

// keep starts the adapter, again and again, until nobody calls it or ctx is done.
func (s *slot) keep(ctx context.Context) {
	const stable = time.Minute // after which a death is not one in a row
	cfg, m := s.host.cfg, s.host.metrics
	delay := cfg.RestartDelay
	var last string // said in the log already
	for {
		s.set(stateStarting, nil, nil)
		began := time.Now()
		inst, err := s.start(ctx)
		if err == nil {
			s.log.Info("adapter runs", "pid", inst.process.ID(), "took", time.Since(began).Round(time.Millisecond))
			last = ""
			m.up.WithLabelValues(s.name).Set(1)
			s.set(stateRunning, inst, nil)
			err = s.watch(ctx, inst)
			m.up.WithLabelValues(s.name).Set(0)
			if err == nil || ctx.Err() != nil {
				if err != nil { // otherwise nobody calls it, and those who do now wait
					s.set(stateAway, nil, errNotRunning)
				}
				inst.stop(cfg.DrainTimeout)
				return
			}
			s.set(stateAway, nil, err)
			inst.end()
			if time.Since(began) > stable {
				delay = cfg.RestartDelay
			}
		}
		s.set(stateAway, nil, err)
		if ctx.Err() != nil || s.retire() {
			return
		}
		if err.Error() != last { // the same again every few seconds helps nobody
			s.log.Warn("adapter is away", "err", err, "again_in", delay)
			last = err.Error()
		}
		select {
		case <-time.After(delay):
		case <-ctx.Done():
			return
		}
		m.restarts.WithLabelValues(s.name).Inc()
		delay = min(2*delay, cfg.MaxRestartDelay)
	}
}

// start finds the program, as it is on the disk by now, and runs it.
func (s *slot) start(ctx context.Context) (*instance, error) {
	program, err := find(s.host.cfg, s.host.builtin, s.name)
	if err != nil {
		return nil, err
	}
	return starter{cfg: s.host.cfg, program: program, log: s.log}.start(ctx)
}

// watch returns why a run has to end: it has already, it hangs, or ctx is done; nil
// where nobody calls it.
func (s *slot) watch(ctx context.Context, inst *instance) error {
	ticks := time.NewTicker(s.host.cfg.PingInterval)
	defer ticks.Stop()
	fault := func(reason error, detail, advice string) error {
		return &ProgramError{Name: s.name, Path: inst.process.program.Path, Reason: reason, Detail: detail, Advice: advice}
	}
	for {
		select {
		case <-ctx.Done():
			return errNotRunning
		case <-inst.process.exited:
			return fault(ErrEnded, inst.process.outcome(), "it is started again; see what it logged")
		case <-ticks.C:
			if s.retire() {
				return nil
			}
		case <-s.look:
		}
		bounded, cancel := context.WithTimeout(ctx, s.host.cfg.PingTimeout)
		err := inst.remote.ping(bounded)
		cancel()
		if err == nil || ctx.Err() != nil {
			continue
		}
		select {
		case <-inst.process.exited: // which is why
			continue
		case <-time.After(lingers / 5): // its end may be seen a moment after that of the connection
		}
		select {
		case <-inst.process.exited:
			continue
		default:
		}
		return fault(ErrHung, fmt.Sprintf("a ping failed within %v: %v", s.host.cfg.PingTimeout, err), "it is started again; see what it logged")
	}
}

// retire reports whether the adapter was not called for so long that it may end.
// Calls that come then wait for its end and the next start.
func (s *slot) retire() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	limit := s.host.cfg.IdleTimeout
	if limit == 0 || time.Since(s.used) <= limit {
		return false
	}
	s.state, s.current, s.cause = stateStarting, nil, nil // nobody waits for a change yet
	return true
}
