package console

import (
	"sync"
	"time"
)

// counts are what is sampled of one model, or of all.
type counts struct {
	requests, failed, refused, canceled, tokens uint64
	hasTokens                                   bool
}

func (c *counts) add(m *ModelTraffic) {
	c.requests += m.Requests
	c.failed += m.Failed
	c.refused += m.Refused
	c.canceled += m.Canceled
	c.tokens += m.OutputTokens
	c.hasTokens = c.hasTokens || m.HasTokens
}

// sample is one reading.
type sample struct {
	at     time.Time
	all    counts
	models map[string]counts
}

// history is a ring of samples.
type history struct {
	interval time.Duration

	mu   sync.RWMutex
	ring []sample // guarded by mu; as long as there ever are samples
	next int      // guarded by mu; where the next one goes
	n    int      // guarded by mu; how many there are
}

func newHistory(interval, reach time.Duration) *history {
	return &history{interval: interval, ring: make([]sample, int(reach/interval)+1)}
}

// take adds a reading.
func (h *history) take(at time.Time, r *TrafficReading) {
	s := sample{at: at, models: make(map[string]counts, len(r.Models))}
	for i := range r.Models {
		m := &r.Models[i]
		c := s.models[m.Model]
		c.add(m)
		s.models[m.Model] = c
		s.all.add(m)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ring[h.next] = s
	h.next = (h.next + 1) % len(h.ring)
	h.n = min(h.n+1, len(h.ring))
}

// at returns the sample that is i before the newest; h.mu is held.
func (h *history) at(i int) *sample { return &h.ring[(h.next-1-i+2*len(h.ring))%len(h.ring)] }

// rate is how often something happened a second. Known false: there are no two samples
// that say so.
type rate struct {
	Requests, Failed, Refused, Tokens float64
	Known, HasTokens                  bool
}

// between is the rate from one reading to another. A counter that went back was begun
// anew, of which no rate comes.
func between(from, to counts, span time.Duration) rate {
	if span <= 0 || to.requests < from.requests || to.failed < from.failed || to.refused < from.refused || to.tokens < from.tokens {
		return rate{}
	}
	per := func(a, b uint64) float64 { return float64(b-a) / span.Seconds() }
	return rate{
		Requests: per(from.requests, to.requests), Failed: per(from.failed, to.failed), Refused: per(from.refused, to.refused),
		Tokens: per(from.tokens, to.tokens), Known: true, HasTokens: to.hasTokens,
	}
}

// pick is what of a sample a rate is of.
type pick func(s *sample) counts

func ofAll(s *sample) counts { return s.all }

// ofModel picks a model. One of which no request had ended is left out of a sample,
// and has counted none.
func ofModel(name string) pick { return func(s *sample) counts { return s.models[name] } }

// over returns the rate over the last window, or as much of it as there are samples
// of. It is not known where the newest sample is older than three should be.
func (h *history) over(now time.Time, window time.Duration, of pick) rate {
	h.mu.RLock()
	defer h.mu.RUnlock()
	if h.n < 2 || now.Sub(h.at(0).at) > 3*h.interval {
		return rate{}
	}
	newest, oldest := h.at(0), h.at(1)
	for i := 2; i < h.n; i++ {
		s := h.at(i)
		if newest.at.Sub(s.at) > window+h.interval/2 {
			break
		}
		oldest = s
	}
	return between(of(oldest), of(newest), newest.at.Sub(oldest.at))
}

// point is the rate at a time.
type point struct {
	at time.Time
	rate
}

// course returns the rate between each two samples that follow each other, the oldest
// first, and how far back samples are kept.
func (h *history) course(of pick) []point {
	h.mu.RLock()
	defer h.mu.RUnlock()
	out := make([]point, 0, h.n)
	for i := h.n - 1; i > 0; i-- {
		from, to := h.at(i), h.at(i-1)
		out = append(out, point{to.at, between(of(from), of(to), to.at.Sub(from.at))})
	}
	return out
}
