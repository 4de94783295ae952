package schedule

import (
	"maps"
	"strings"

	"github.com/llmgw/llmgw/router/endpoint"
)

// maxTables bounds the tables that are kept, one for each model with a large pool.
const maxTables = 64

// poolTable is what sampling reads of every endpoint of a large pool, close
// together: to gather it from 1,000 endpoints that are not in the processor's
// cache takes longer than the rest of the decision. It is immutable.
type poolTable struct {
	version uint64
	pool    []*endpoint.Endpoint
	hashes  []uint64 // by position in pool, as the weights
	weights []float64
	members map[*endpoint.Endpoint]bool
}

// table returns the pool's table, which it makes when a snapshot is seen for the
// first time, or nil for a pool that is from no snapshot.
func (s *Scheduler) table(req *Request, pool []*endpoint.Endpoint) *poolTable {
	if req.PoolVersion == 0 {
		return nil
	}
	known := s.tables.Load()
	if known != nil {
		t := (*known)[req.Model]
		if t != nil && t.version == req.PoolVersion && len(t.pool) == len(pool) && &t.pool[0] == &pool[0] {
			return t
		}
	}
	t := &poolTable{
		version: req.PoolVersion,
		pool:    pool,
		hashes:  make([]uint64, len(pool)),
		weights: make([]float64, len(pool)),
		members: make(map[*endpoint.Endpoint]bool, len(pool)),
	}
	for i, e := range pool {
		t.hashes[i], t.weights[i], t.members[e] = e.Hash(), e.Weight(), true
	}
	next := make(map[string]*poolTable)
	if known != nil && len(*known) < maxTables {
		maps.Copy(next, *known)
	}
	next[strings.Clone(req.Model)] = t
	s.tables.Store(&next) // what another decision stored meanwhile is made again
	return t
}
