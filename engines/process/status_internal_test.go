package process

import (
	"errors"
	"testing"
)

// TestReached: nobody waits for what cannot come.
func TestReached(t *testing.T) {
	failure := &FailedError{Class: ErrTimeout}
	for state := StateStarting; state <= StateFailed; state++ {
		for want := StateStarting; want <= StateFailed; want++ {
			status := Status{State: state}
			if state == StateFailed {
				status.Failure = failure
			}
			done, err := status.reached(want)
			switch {
			case state == want:
				if !done || err != nil {
					t.Errorf("%v, wanted: %v, %v", state, done, err)
				}
			case want == StateStopping || want == StateStopped: // anything can be stopped yet
				if done != (state == StateStopped) || err != nil {
					t.Errorf("%v, want %v: %v, %v", state, want, done, err)
				}
			case state == StateStopping || state == StateStopped:
				if !done || !errors.Is(err, ErrStopped) {
					t.Errorf("%v, want %v: %v, %v", state, want, done, err)
				}
			case state == StateFailed:
				if !done || !errors.Is(err, ErrTimeout) {
					t.Errorf("%v, want %v: %v, %v", state, want, done, err)
				}
			case want == StateFailed:
				if done {
					t.Errorf("%v, want %v: %v, %v", state, want, done, err)
				}
			default: // on its way to being ready
				if done != (state > want) || err != nil {
					t.Errorf("%v, want %v: %v, %v", state, want, done, err)
				}
			}
		}
	}
}
