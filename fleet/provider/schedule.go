package provider

import (
	"hash/fnv"
	"time"
)

// schedule says who is asked when. Each is asked once an interval, at a time of its
// own, so that the work is spread. Those that did not answer in time wait in a line of
// their own and take three quarters of the places at most: however many of them there
// are, the others are asked.
type schedule struct {
	interval     time.Duration
	places       int
	all          map[string]*turn
	lines        [2][]string // of IDs that are due: well, slow
	asking, slow int         // places that are taken, and by slow ones of them
}

// turn is a provider's place in the schedule.
type turn struct {
	next         time.Time
	queued, busy bool
	again        bool // asked for while busy
	slow, took   bool // did not answer in time last; takes a place as such
}

func newSchedule(interval time.Duration, places int) *schedule {
	return &schedule{interval: interval, places: places, all: make(map[string]*turn)}
}

// add schedules a provider that was there before: some time within the interval.
func (s *schedule) add(now time.Time, id string) {
	h := fnv.New64a()
	_, _ = h.Write([]byte(id))
	s.all[id] = &turn{next: now.Add(time.Duration(h.Sum64() % uint64(s.interval)))} //nolint:gosec // positive
}

// soon makes a provider due, one that is not known too. One that is asked just now is
// asked again after that, which busy says.
func (s *schedule) soon(id string) (busy bool) {
	t := s.all[id]
	if t == nil {
		t = &turn{}
		s.all[id] = t
	}
	if t.busy {
		t.again = true
		return true
	}
	s.enqueue(id, t)
	return false
}

func (s *schedule) enqueue(id string, t *turn) {
	if t.queued || t.busy {
		return
	}
	t.queued = true
	line := 0
	if t.slow {
		line = 1
	}
	s.lines[line] = append(s.lines[line], id)
}

// due puts those into line whose time has come.
func (s *schedule) due(now time.Time) {
	for id, t := range s.all {
		if !now.Before(t.next) {
			s.enqueue(id, t)
		}
	}
}

// next is who takes a place now; false if nobody does.
func (s *schedule) next() (string, bool) {
	for line := range s.lines {
		for len(s.lines[line]) > 0 && s.asking < s.places {
			if line == 1 && s.slow >= max(s.places*3/4, 1) {
				break
			}
			id := s.lines[line][0]
			s.lines[line] = s.lines[line][1:]
			t := s.all[id]
			if t == nil {
				continue // gone while it stood in line
			}
			t.queued, t.busy, t.took = false, true, line == 1
			s.asking++
			if t.took {
				s.slow++
			}
			return id, true
		}
	}
	return "", false
}

// done gives a place back. slow says that there was no answer in time.
func (s *schedule) done(now time.Time, id string, took, slow bool) {
	s.asking--
	if took {
		s.slow--
	}
	t := s.all[id]
	if t == nil || !t.busy {
		return
	}
	t.busy, t.slow = false, slow
	for t.next = t.next.Add(s.interval); !now.Before(t.next); {
		// It is late, or new: its phase begins here.
		t.next = now.Add(s.interval)
	}
	if t.again {
		t.again = false
		s.enqueue(id, t)
	}
}

// remove forgets a provider. A place that it has is given back by done.
func (s *schedule) remove(id string) { delete(s.all, id) }

// late is how long the one that waits longest is due; 0 if none is.
func (s *schedule) late(now time.Time) time.Duration {
	var late time.Duration
	for _, t := range s.all {
		if t.queued && !t.next.IsZero() {
			late = max(late, now.Sub(t.next))
		}
	}
	return late
}
