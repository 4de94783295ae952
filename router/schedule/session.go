package schedule

import "math"

// SessionAffinity votes 1 for one endpoint and 0 for the rest, and for all
// alike where a request has no session.
//
// Which one is decided by weighted rendezvous hashing: every endpoint draws a
// number from its ID and the session, and the greatest wins. So a session
// keeps its endpoint while others come and go, every router chooses the same,
// and the sessions of an endpoint that goes are spread over all the others.
// An endpoint whose requests per weight exceed LoadFactor times the mean of
// the pool is passed over, and the next in the session's own order serves.
//
// Sources: Thaler and Ravishankar, A Name-Based Mapping Scheme for Rendezvous,
// 1996; Mirrokni, Thorup and Zadimoghaddam, Consistent Hashing with Bounded
// Loads, 2016.
type SessionAffinity struct {
	LoadFactor float64 // at least 1
}

// Name returns "session".
func (SessionAffinity) Name() string { return "session" }

// Score votes for the session's endpoint.
func (s SessionAffinity) Score(req *Request, cs []Candidate, out []float64) {
	session, sticky := req.sessionHash()
	if !sticky {
		for i := range out {
			out[i] = neutral
		}
		return
	}
	var requests, weight float64
	equal := true
	for i := range cs {
		c := &cs[i]
		n := c.Requests()
		out[i] = n / c.Weight // scratch until the choice is made
		requests += n
		weight += c.Weight
		equal = equal && c.Weight == cs[0].Weight
	}
	bound := s.LoadFactor * requests / weight
	chosen, best := -1, math.Inf(-1)
	for i := range cs {
		if out[i] > bound {
			continue
		}
		rank := rendezvous(session, cs[i].Hash)
		if !equal {
			rank = weightedRank(cs[i].Weight, rank)
		}
		if rank > best {
			chosen, best = i, rank
		}
	}
	clear(out)
	if chosen >= 0 { // rounding may put all above a bound they are all at
		out[chosen] = 1
	}
}

// rendezvous ranks an endpoint for a session, uniformly in (0,1).
func rendezvous(session, endpoint uint64) float64 {
	h := session ^ endpoint
	// The finaliser of splitmix64.
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	h ^= h >> 31
	return (float64(h>>11) + 0.5) / (1 << 53)
}

// hashSession is FNV-1a.
func hashSession(session string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(session) {
		h = (h ^ uint64(session[i])) * 1099511628211
	}
	return h
}
