//go:build !race

package flight_test

import (
	"testing"

	"github.com/llmgw/llmgw/router/gateway/flight"
	"github.com/llmgw/llmgw/router/schedule"
)

// Under the race detector pools drop what they are given.
func TestDecidedAllocatesNothing(t *testing.T) {
	set, s := newSet(t, 3), newScheduler(t)
	r := newRecorder(t, set, nowhere{}, newRing(t))
	var d schedule.Decision
	if _, _, err := s.Decide("", &schedule.Request{Model: "m", Now: start(), Session: "s"}, set.Snapshot().ForModel("m"), nil, &d); err != nil {
		t.Fatal(err)
	}
	o := flight.Outcome{Model: "m", Start: start(), End: start(), Result: "ok", Blocks: make([]uint64, 32), BlockBytes: 1024}
	// But for a sixteenth of the ring when the last is full, until it is full itself.
	if n := testing.AllocsPerRun(1000, func() {
		r.Decided("req_0123456789abcdef0123456789abcdef", flight.Route{Attempt: 1}, &d)
		r.Ended("req_0123456789abcdef0123456789abcdef", "s", "t", &o)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
