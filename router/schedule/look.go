package schedule

import (
	"math"
	"slices"

	"github.com/llmgw/llmgw/router/endpoint"
)

// sessionDepth is how many endpoints of a session's own order a sampled decision
// looks at: the first, and where it yields to load those that come after it, so
// that a busy session moves to the same few.
const sessionDepth = 4

// look fills the record's candidates and drops: from the whole pool or, where
// that is large, from the endpoints of which something speaks for the request
// (they hold its prefix, its session belongs there) and a random sample of the
// rest. Of very many a sample finds one that is as good as idle nearly always,
// and what is not looked at costs nothing. Where nothing of the sample can be
// used the whole pool is looked at.
func (s *Scheduler) look(p *compiled, req *Request, pool []*endpoint.Endpoint, rec *Decision) {
	rec.Pool = len(pool)
	if len(pool) > s.sampleAbove && !p.Full && s.sample(p, req, pool, rec) {
		return
	}
	rec.Sampled = false
	rec.start(len(pool))
	for _, e := range pool {
		s.consider(p, req, e, rec)
	}
}

// sample looks at a part of the pool, and reports whether a candidate came of
// chance alone.
func (s *Scheduler) sample(p *compiled, req *Request, pool []*endpoint.Endpoint, rec *Decision) bool {
	rec.Sampled = true
	rec.start(maxHolders + sessionDepth + s.sampleSize)
	s.favour(p, req, pool, rec)
	for _, e := range rec.favoured {
		s.consider(p, req, e, rec)
	}
	favoured := len(rec.Candidates)

	// One of each of so many equal stretches of the pool, the first of which
	// begins anywhere: all are equally likely and nobody is there twice.
	chance := splitMix(rec.Draw + uint64(rec.Attempts))
	n := len(pool)
	size := min(s.sampleSize, n)
	begin := int(chance.float() * float64(n))
	stretch := float64(n) / float64(size)
	last := -1
	for i := range size {
		at := min(int((float64(i)+chance.float())*stretch), n-1)
		if at == last {
			continue // the end of one stretch and the begin of the next
		}
		last = at
		if at += begin; at >= n {
			at -= n
		}
		if e := pool[at]; !slices.Contains(rec.favoured, e) {
			s.consider(p, req, e, rec)
		}
	}
	return len(rec.Candidates) > favoured
}

// favour finds the endpoints of the pool that speak for themselves: those that
// hold the beginning of the prompt, and the first of the session's order.
func (s *Scheduler) favour(p *compiled, req *Request, pool []*endpoint.Endpoint, rec *Decision) {
	rec.favoured = rec.favoured[:0]
	session, sticky := req.sessionHash()
	sticky = sticky && p.sessions
	if !sticky && len(rec.holders.list) == 0 {
		return
	}
	var first order
	var here [maxHolders]bool // who of the holders is in the pool
	if t := s.table(req, pool); t != nil {
		for i := range rec.holders.list {
			here[i] = t.members[rec.holders.list[i].Endpoint]
		}
		if sticky {
			for i, hash := range t.hashes {
				first.offer(pool[i], t.weights[i], rendezvous(session, hash))
			}
		}
	} else {
		for _, e := range pool {
			if i := rec.holders.find(e, e.Hash()); i >= 0 {
				here[i] = true
			}
			if sticky {
				first.offer(e, e.Weight(), rendezvous(session, e.Hash()))
			}
		}
	}
	for i := range rec.holders.list {
		if here[i] {
			rec.favoured = append(rec.favoured, rec.holders.list[i].Endpoint)
		}
	}
	for _, e := range first.endpoints[:first.n] {
		if !slices.Contains(rec.favoured, e) {
			rec.favoured = append(rec.favoured, e)
		}
	}
}

// consider adds the endpoint to the record's candidates or drops.
func (s *Scheduler) consider(p *compiled, req *Request, e *endpoint.Endpoint, rec *Decision) {
	n := len(rec.Candidates)
	rec.Candidates = slices.Grow(rec.Candidates, 1)[:n+1]
	c := &rec.Candidates[n]
	c.read(e, req.Now, s.staleAfter)
	if blame := p.blame(req, c, rec); blame >= 0 {
		rec.Candidates = rec.Candidates[:n]
		rec.Dropped = append(rec.Dropped, Drop{Endpoint: e, Filter: p.blames[blame]})
		rec.drops[blame]++
		return
	}
	c.Prefix = rec.holders.match(e, c.Hash)
}

// blame returns the index of what drops the candidate, or -1.
func (p *compiled) blame(req *Request, c *Candidate, rec *Decision) int {
	for i, f := range p.Filters {
		if !f.Keep(req, c) {
			return i
		}
	}
	if len(rec.refused) > 0 && slices.Contains(rec.refused, c.Endpoint) {
		return p.refusal
	}
	return -1
}

// order keeps the greatest of the endpoints that it was offered, greatest first.
type order struct {
	n         int
	endpoints [sessionDepth]*endpoint.Endpoint
	ranks     [sessionDepth]float64
}

// offer takes an endpoint with its weight and its plain rank in (0,1), which it
// weighs as SessionAffinity does.
func (o *order) offer(e *endpoint.Endpoint, w, plain float64) {
	// The logarithm is spared wherever w/(1-plain), which is never less than the
	// weighted rank, says that it would change nothing.
	if o.n == sessionDepth && w <= (1-plain)*o.ranks[o.n-1] {
		return
	}
	rank := weightedRank(w, plain)
	if o.n == sessionDepth {
		if rank <= o.ranks[o.n-1] {
			return
		}
	} else {
		o.n++
	}
	i := o.n - 1
	for ; i > 0 && rank > o.ranks[i-1]; i-- {
		o.endpoints[i], o.ranks[i] = o.endpoints[i-1], o.ranks[i-1]
	}
	o.endpoints[i], o.ranks[i] = e, rank
}

// weightedRank makes an endpoint win in proportion to its weight. For equal
// weights the order is that of the plain rank.
func weightedRank(weight, plain float64) float64 { return -weight / math.Log(plain) }

// splitMix is a generator of 64 bits of state, Vigna's splitmix64: enough to draw
// a sample by, apart from the generator that the picker draws from, so that the
// pick can be made again without the sampling.
type splitMix uint64

func (m *splitMix) next() uint64 {
	*m += 0x9e3779b97f4a7c15
	h := uint64(*m)
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}

func (m *splitMix) float() float64 { return float64(m.next()>>11) / (1 << 53) }
