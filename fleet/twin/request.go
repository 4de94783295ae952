package twin

import (
	"time"

	"github.com/llmgw/llmgw/admission"
	"github.com/llmgw/llmgw/engines/sim/workload"
	"github.com/llmgw/llmgw/router/endpoint"
	"github.com/llmgw/llmgw/router/prefix"
)

// request is one that has arrived and not ended. Its memory is used again.
type request struct {
	trace   *workload.Request
	arrived time.Duration
	sentAt  time.Duration
	tenant  int
	engine  int

	leased bool
	ticket admission.Ticket
	held   endpoint.Reservation

	blockTokens int
	blocks      []uint64     // hashes of the engine's blocks
	tokens      []uint32     // for exact
	chain       prefix.Chain // for sent and exact
	sent        prefix.Sent
	predicted   int // prompt tokens that the index said the engine holds
}

// take returns a request for the trace's next.
func (t *Twin) take(tr *workload.Request) *request {
	var r *request
	if n := len(t.spare); n > 0 {
		r, t.spare = t.spare[n-1], t.spare[:n-1]
	} else {
		r = &request{blockTokens: t.cfg.Engine.BlockSize}
	}
	r.trace, r.arrived, r.tenant = tr, t.now, t.tenantOf(tr)
	r.leased, r.predicted, r.sent = false, 0, prefix.Sent{}
	return r
}

func (t *Twin) put(r *request) {
	r.trace, r.held, r.ticket = nil, endpoint.Reservation{}, admission.Ticket{}
	t.spare = append(t.spare, r)
}

// tenantOf draws whose request it is: the same for all of a session, and the
// same whatever the policy.
func (t *Twin) tenantOf(tr *workload.Request) int {
	if len(t.shares) == 1 {
		return 0
	}
	h := stir(t.cfg.Seed) ^ tr.Seq
	if tr.Session != "" {
		h = stir(t.cfg.Seed)
		for i := range len(tr.Session) {
			h = (h ^ uint64(tr.Session[i])) * 1099511628211
		}
	}
	at := float64(stir(h)>>11) / (1 << 53) * t.shares[len(t.shares)-1]
	for i, upTo := range t.shares {
		if at < upTo {
			return i
		}
	}
	return len(t.shares) - 1
}

// stir is the finaliser of splitmix64.
func stir(h uint64) uint64 {
	h += 0x9e3779b97f4a7c15
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}
