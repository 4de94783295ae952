package flight

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/llmgw/llmgw/router/endpoint"
	"github.com/llmgw/llmgw/router/schedule"
)

// Query says which recent decisions are wanted.
type Query struct {
	// N is how many at most, the newest; below 1 means 20, above MaxRecent means that.
	N int
	// Model is the canonical one; empty: all.
	Model string
	// Request is the x-request-id of one request; empty: all.
	Request string
}

const defaultRecent = 20

// MaxRecent is the most decisions that one Query gets.
const MaxRecent = 1000

// Recent is one decision of the ring.
type Recent struct {
	Request string `json:"request"`
	// Attempt counts the decisions of the request, from 1.
	Attempt int `json:"attempt"`
	// Pinned: there was only one endpoint that the request could go to.
	Pinned   bool                  `json:"pinned,omitempty"`
	Decision *schedule.Explanation `json:"decision"`
	// Outcome is what became of the request; nil while it runs.
	Outcome *RecentOutcome `json:"outcome,omitempty"`
}

// RecentOutcome is what became of a request in a form to show. What is unknown is
// absent.
type RecentOutcome struct {
	Result       string   `json:"result"`
	Status       int      `json:"status,omitempty"`
	Code         string   `json:"code,omitempty"`
	Served       string   `json:"served,omitempty"`
	Endpoint     string   `json:"endpoint,omitempty"`
	Attempts     int      `json:"attempts"`
	TTFTSeconds  *float64 `json:"ttft_seconds,omitempty"`
	Seconds      float64  `json:"seconds"`
	PromptTokens *int64   `json:"prompt_tokens,omitempty"`
	CachedTokens *int64   `json:"cached_tokens,omitempty"`
	OutputTokens *int64   `json:"output_tokens,omitempty"`
}

// line is an entry of the ring that was asked for.
type line struct {
	id, tenant string
	payload    []byte
}

// Recent returns the newest decisions that the ring has, the newest first, with
// votes as scheduler, which made them, casts them again. It never makes a decision
// wait. The caller owns the result.
func (r *Recorder) Recent(q Query, scheduler *schedule.Scheduler) []Recent {
	if q.N < 1 {
		q.N = defaultRecent
	}
	q.N = min(q.N, MaxRecent)
	if r.deps.Ring == nil {
		return nil
	}
	var routes []line // the last N of them, by turns
	found := 0
	outcomes := make(map[string][]byte)
	for e := range r.deps.Ring.Entries(time.Time{}, time.Time{}) {
		id, tenant, payload, ok := parseLine(e.Payload)
		if !ok || q.Request != "" && id != q.Request {
			continue
		}
		switch e.Type {
		case TypeOutcome:
			outcomes[id] = payload
			continue
		case TypeRoute:
		default:
			continue
		}
		if q.Model != "" && routeModel(payload) != q.Model {
			continue
		}
		if l := (line{id, tenant, payload}); found < q.N {
			routes = append(routes, l)
		} else {
			routes[found%q.N] = l
		}
		found++
	}
	by := make(map[uint64]*endpoint.Endpoint)
	for _, e := range r.deps.Pool().All() {
		by[e.Hash()] = e
	}
	out := make([]Recent, 0, len(routes))
	for i := range routes {
		l := routes[(found-1-i)%q.N]
		x, ok := r.explain(l, scheduler, by)
		if !ok {
			continue
		}
		if o, err := parseOutcome(outcomes[l.id]); err == nil {
			x.Outcome = r.recentOutcome(o)
		}
		out = append(out, x)
	}
	return out
}

func (r *Recorder) explain(l line, scheduler *schedule.Scheduler, by map[uint64]*endpoint.Endpoint) (Recent, bool) {
	route, err := parseRoute(l.payload)
	if err != nil {
		return Recent{}, false
	}
	var d schedule.Decision
	if err := route.decode(&d); err != nil {
		return Recent{}, false
	}
	d.Tenant = l.tenant
	picked := d.Picked
	whole := true // a scorer of an embedder's own may look at the endpoints
	for i := range d.Candidates {
		c := &d.Candidates[i]
		c.Endpoint = by[c.Hash]
		whole = whole && c.Endpoint != nil
	}
	if whole || builtIn(d.Profile) {
		_, _ = scheduler.Replay("", &d)
		d.Picked = picked // what was done, whatever a scorer says by now
	}
	x := d.Explain()
	rename(x, r.names.of)
	return Recent{Request: l.id, Attempt: route.Attempt, Pinned: route.Pinned, Decision: x}, true
}

func (r *Recorder) recentOutcome(o *Outcome) *RecentOutcome {
	x := &RecentOutcome{
		Result: o.Result, Status: o.Status, Code: o.Code, Served: o.Served, Attempts: o.Attempts,
		Seconds: o.End.Sub(o.Start).Seconds(), Endpoint: r.names.of(o.Endpoint),
		PromptTokens: shown(o.PromptTokens), CachedTokens: shown(o.CachedTokens), OutputTokens: shown(o.OutputTokens),
	}
	if ttft, ok := o.TTFT(); ok {
		x.TTFTSeconds = new(ttft.Seconds())
	}
	return x
}

func shown(t Tokens) *int64 {
	if n, ok := t.Get(); ok {
		return &n
	}
	return nil
}

func builtIn(profile string) bool { return slices.Contains(schedule.ProfileNames(), profile) }

// rename puts in names for the hashes that a decision which was read back has in
// place of endpoints.
func rename(x *schedule.Explanation, of func(hash uint64) string) {
	name := func(s *string) {
		digits, ok := strings.CutPrefix(*s, "#")
		if hash, err := parseHash(digits); ok && err == nil {
			*s = of(hash)
		}
	}
	name(&x.Picked)
	for i := range x.Candidates {
		name(&x.Candidates[i].Endpoint)
	}
	for i := range x.Dropped {
		name(&x.Dropped[i].Endpoint)
	}
}

func parseHash(digits string) (uint64, error) { return strconv.ParseUint(digits, 16, 64) }
