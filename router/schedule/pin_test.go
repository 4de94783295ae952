package schedule_test

import (
	"errors"
	"testing"
	"time"

	"github.com/llmgw/llmgw/router/schedule"
)

// A pin holds whatever the profile: no scorer outvotes it, and where its endpoint
// is not there, or was tried, there is none.
func TestPin(t *testing.T) {
	s := newScheduler(t, custom(favourite{"e2", 1}, schedule.MaxScore{}))
	pool := weighted(t, 1, 1, 1)
	for _, profile := range append(schedule.ProfileNames(), "custom") {
		var rec schedule.Decision
		e, place, err := s.Decide(profile, &schedule.Request{Now: time.Now(), Pin: "e1"}, pool, nil, &rec)
		if err != nil || e.ID() != "e1" {
			t.Fatalf("%s: picked %v, %v", profile, e, err)
		}
		if x := rec.Explain(); x.Pin != "e1" || x.Picked != "e1" || len(x.Candidates) != 1 {
			t.Errorf("%s: explained as %+v", profile, x)
		}
		place.Release()
		if _, _, err := s.Decide(profile, &schedule.Request{Now: time.Now(), Pin: "e9"}, pool, nil, &rec); !errors.Is(err, schedule.ErrNoEndpoint) {
			t.Errorf("%s: a pin to nobody: %v", profile, err)
		}
		if _, _, err := s.Decide(profile, &schedule.Request{Now: time.Now()}, pool, nil, &rec); err != nil || rec.Pin != "" {
			t.Errorf("%s: the record keeps the pin %q, %v", profile, rec.Pin, err)
		}
	}
	_, _, err := s.Decide("", &schedule.Request{Now: time.Now(), Pin: "e1", Tried: pool[1:2]}, pool, nil, nil)
	if !errors.Is(err, schedule.ErrNoEndpoint) {
		t.Errorf("tried before: %v", err)
	}
}
