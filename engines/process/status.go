package process

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/llmgw/llmgw/engines"
)

// State is where a shard is in its life.
type State uint8

const (
	// StateUnset is the zero value and no state.
	StateUnset State = iota
	// StateStarting: sidecars start.
	StateStarting
	// StateLoading: the engine runs and is not ready. It is neither failed nor
	// idle.
	StateLoading
	// StateReady: the engine has said that it is ready, and runs.
	StateReady
	// StateStopping: it was asked to end.
	StateStopping
	// StateStopped: nothing of it is left.
	StateStopped
	// StateFailed: it will not become ready, or has ended by itself. Parts of it
	// may still run, and hold memory and ports, until it is stopped.
	StateFailed
)

// String returns the state in one word, lower case.
func (s State) String() string {
	names := [...]string{"unset", "starting", "loading", "ready", "stopping", "stopped", "failed"}
	if int(s) < len(names) {
		return names[s]
	}
	return "unset"
}

// Exit says how a process ended.
type Exit struct {
	// Known is false where the process was not our child, as after a restart of
	// the launcher: the kernel tells only the parent. The rest is zero then.
	Known bool `json:"known"`
	Code  int  `json:"code,omitempty"`
	// Signal is the one that ended it, such as "SIGKILL"; empty: none.
	Signal string `json:"signal,omitempty"`
}

// String returns "exit status 2", "ended by SIGKILL" or "ended, status unknown".
func (e Exit) String() string {
	switch {
	case !e.Known:
		return "ended, status unknown"
	case e.Signal != "":
		return "ended by " + e.Signal
	}
	return fmt.Sprintf("exit status %d", e.Code)
}

// clean reports whether the process is known to have ended as it should.
func (e Exit) clean() bool { return e == Exit{Known: true} }

// Status is what is known of a shard at one moment. The caller owns it.
type Status struct {
	ID         string
	Generation uint64
	// Start is the random name of this start, by which another start of the same
	// generation would be told apart.
	Start string
	// Command is the [CommandHash] of the launch.
	Command string
	State   State
	Since   time.Time
	// Process is the one that Phase, Probe and Reason are about.
	Process    string
	Phase      engines.Phase
	PhaseSince time.Time
	// Probe is the last answer of the probe, in words; empty: none yet.
	Probe string
	// Reason says for people why the shard is not ready; empty: nothing known.
	Reason string
	// Failure is why the shard failed, also after it was stopped. Nil: it did
	// not.
	Failure *FailedError
	// Processes are in the order in which they start, the engine last.
	Processes []ProcessStatus
	// Ended says how the processes were stopped, in that order.
	Ended []Ended
}

// ProcessStatus is one process of a shard.
type ProcessStatus struct {
	Name string
	// PID is 0 until it was started.
	PID int
	// Exit is nil until it has ended.
	Exit *Exit
}

// Ended says how one process was stopped, children included.
type Ended struct {
	Name string
	// Took is the time from the signal until nothing was left.
	Took time.Duration
	// Killed are the processes that needed SIGKILL: the process itself or its
	// children. Empty: all ended within their grace.
	Killed []Member
}

// Member is a process that belongs to a shard.
type Member struct {
	PID int
	// Name is the kernel's name of it, State its letter: D waits for a device
	// or a file system and ends only when that answers.
	Name  string
	State string
}

// String returns "4711 (python, D)".
func (m Member) String() string { return fmt.Sprintf("%d (%s, %s)", m.PID, m.Name, m.State) }

// The classes of a [*FailedError].
var (
	// ErrStart: a process could not be started.
	ErrStart = errors.New("could not be started")
	// ErrExited: a process ended that should not have.
	ErrExited = errors.New("ended by itself")
	// ErrGaveUp: a process said that it failed, and did not end.
	ErrGaveUp = errors.New("said that it failed")
	// ErrTimeout: a process was not ready in time.
	ErrTimeout = errors.New("was not ready in time")
	// ErrStalled: a process showed no progress for too long.
	ErrStalled = errors.New("showed no progress")
	// ErrInterrupted: whoever started the shard ended before the engine ran.
	ErrInterrupted = errors.New("start was interrupted")
)

// ErrStopped says that a shard was stopped, or is being stopped, while
// somebody waited for something else.
var ErrStopped = errors.New("process: shard was stopped")

// ErrDetached says that the shard was let go.
var ErrDetached = errors.New("process: shard was let go")

// FailedError says why a shard failed. It unwraps to its class.
type FailedError struct {
	Shard string
	// Process is [Engine] or the name of a sidecar.
	Process string
	// Class is one of [ErrStart], [ErrExited], [ErrGaveUp], [ErrTimeout],
	// [ErrStalled] and [ErrInterrupted].
	Class error
	// Phase is where the process was, for InPhase; After is the time from its
	// start.
	Phase          engines.Phase
	InPhase, After time.Duration
	// Exit is how the process ended. Nil: it has not.
	Exit *Exit
	// Reason and Advice are the words of the log rule that knew the failure, or
	// of the launcher. They may be empty.
	Reason, Advice string
	// Lines are the last lines of the process's output, the newest last, without
	// the shard's secret.
	Lines []string
}

// Error returns everything in one line, with the last three lines of output but
// for an engine that served: the requests of clients can stand in them.
func (e *FailedError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "process: shard %s: %s %v", e.Shard, e.Process, e.Class)
	if e.Exit != nil {
		fmt.Fprintf(&b, " (%v)", e.Exit)
	}
	if e.Phase != engines.PhaseUnset {
		fmt.Fprintf(&b, " after %v, for %v in phase %v", e.After.Round(time.Millisecond), e.InPhase.Round(time.Millisecond), e.Phase)
	}
	if e.Reason != "" {
		b.WriteString(": " + e.Reason)
	}
	if e.Advice != "" {
		b.WriteString("; " + e.Advice)
	}
	if n := len(e.Lines); n > 0 && e.Phase != engines.PhaseListening {
		b.WriteString("; last output: " + strings.Join(e.Lines[max(0, n-3):], " | "))
	}
	return b.String()
}

// Unwrap returns the class.
func (e *FailedError) Unwrap() error { return e.Class }

// Status returns what is known now.
func (s *Shard) Status() Status {
	status, _ := s.Changed()
	return status
}

// Changed returns what is known now, and a channel that is closed when there is
// something new.
func (s *Shard) Changed() (Status, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.status.clone(), s.changed
}

func (s Status) clone() Status {
	s.Processes = append([]ProcessStatus(nil), s.Processes...)
	s.Ended = append([]Ended(nil), s.Ended...)
	return s
}

// Wait blocks until the shard is in state want, or, on its way to being ready,
// has passed it. It returns early where that cannot happen any more: with the
// [*FailedError] of a shard that failed, with [ErrStopped], or with
// [ErrDetached].
func (s *Shard) Wait(ctx context.Context, want State) (Status, error) {
	for {
		status, changed := s.Changed()
		if done, err := status.reached(want); done {
			return status, err
		}
		select {
		case <-changed:
		case <-s.left:
			if status, _ = s.Changed(); status.State != StateStopped {
				return status, fmt.Errorf("%w: %s", ErrDetached, s.id)
			}
		case <-ctx.Done():
			return status, fmt.Errorf("process: wait until shard %s is %v, it is %v: %w", s.id, want, status.State, context.Cause(ctx))
		}
	}
}

// reached reports whether there is nothing left to wait for, and why.
func (s Status) reached(want State) (bool, error) {
	switch {
	case s.State == want:
		return true, nil
	case want == StateStopping || want == StateStopped:
		return s.State == StateStopped, nil
	case s.State == StateStopping || s.State == StateStopped:
		return true, fmt.Errorf("%w: %s", ErrStopped, s.ID)
	case want == StateFailed:
		return false, nil
	case s.State == StateFailed:
		return true, s.Failure
	}
	return s.State > want, nil
}

// update changes the status and wakes those who wait.
func (s *Shard) update(change func(*Status)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.status.State
	change(&s.status)
	if s.status.State != before {
		s.status.Since = time.Now()
	}
	close(s.changed)
	s.changed = make(chan struct{})
}
