package provider

import (
	"fmt"
	"testing"
	"time"
)

// However many do not answer in time, those that do are asked once an interval: the
// others have three quarters of the places, and wait in a line of their own.
func TestScheduleSlow(t *testing.T) {
	const hung, well, takes = 2000, 400, 5 * time.Second
	s := newSchedule(time.Minute, 32)
	now := time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)
	for i := range hung {
		s.add(now, fmt.Sprint("hung", i))
	}
	for i := range well {
		s.add(now, fmt.Sprint("well", i))
	}
	last := map[string]time.Time{}
	ends := map[string]time.Time{}
	var late time.Duration
	// The first round finds out who hangs; from the second hour on it is known.
	for end := now.Add(2 * time.Hour); now.Before(end); now = now.Add(500 * time.Millisecond) {
		for id, at := range ends {
			if !now.Before(at) {
				delete(ends, id)
				s.done(now, id, s.all[id].took, true)
			}
		}
		s.due(now)
		for id, ok := s.next(); ok; id, ok = s.next() {
			if s.asking > 32 || s.slow > 24 {
				t.Fatalf("%d places are taken, %d by slow ones", s.asking, s.slow)
			}
			if id[0] == 'h' {
				ends[id] = now.Add(takes)
				continue
			}
			if at := last[id]; !at.IsZero() && end.Sub(now) < time.Hour {
				late = max(late, now.Sub(at))
			}
			last[id] = now
			s.done(now, id, s.all[id].took, false)
		}
	}
	if len(last) != well || late > 62*time.Second {
		t.Errorf("%d of %d were asked, one after %v", len(last), well, late)
	}
	if s.late(now) == 0 {
		t.Error("nobody waits, and nothing says so")
	}
	for id := range s.all {
		s.remove(id)
	}
	for id := range ends {
		s.done(now, id, true, true)
	}
	if _, ok := s.next(); ok || s.slow > 0 {
		t.Errorf("who is gone is asked; %d places are taken", s.slow)
	}
}
