package schedule_test

import (
	"fmt"
	"strings"
	"time"

	"github.com/llmgw/llmgw/router/endpoint"
	"github.com/llmgw/llmgw/router/schedule"
)

// nearby votes for endpoints of one pool.
type nearby struct{ pool string }

func (nearby) Name() string { return "nearby" }

func (n nearby) Score(_ *schedule.Request, cs []schedule.Candidate, out []float64) {
	for i := range cs {
		out[i] = 0.2
		if cs[i].Endpoint.Spec().Pool == n.pool {
			out[i] = 1
		}
	}
}

// A scorer of one's own, in a profile that begins as a built-in one.
func ExampleScorer() {
	cfg := schedule.DefaultConfig()
	local := schedule.Profiles(cfg)[0]
	local.Name = "local"
	local.Scorers = append(local.Scorers, schedule.Weighted{Scorer: nearby{"rack-7"}, Weight: 3})
	s, err := schedule.New(cfg, schedule.Deps{Profiles: []schedule.Profile{local}})
	if err != nil {
		fmt.Println(err)
		return
	}
	set, err := endpoint.NewSet(endpoint.DefaultConfig(), endpoint.Deps{})
	if err != nil {
		fmt.Println(err)
		return
	}
	models := []endpoint.Model{{Name: "m"}}
	err = set.Replace([]endpoint.Spec{
		{ID: "far", URL: "http://10.0.0.5:8000", Pool: "rack-2", Models: models},
		{ID: "near", URL: "http://10.0.0.6:8000", Pool: "rack-7", Models: models},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	var rec schedule.Decision
	e, held, err := s.Decide("local", &schedule.Request{Model: "m", Now: time.Now()}, set.Snapshot().ForModel("m"), nil, &rec)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer held.Release()
	last := len(rec.Scorers()) - 1
	fmt.Println("picked", e.ID())
	for i, c := range rec.Candidates {
		fmt.Printf("%s votes %.1f on %s\n", rec.Scorers()[last].Scorer.Name(), rec.Vote(last, i), c.Endpoint.ID())
	}
	// Output:
	// picked near
	// nearby votes 0.2 on far
	// nearby votes 1.0 on near
}

// lanes votes for a pool of its own for each band.
type lanes map[string]string

func (lanes) Name() string { return "lanes" }

func (l lanes) Score(r *schedule.Request, cs []schedule.Candidate, out []float64) {
	for i := range cs {
		out[i] = 0
		if cs[i].Endpoint.Spec().Pool == l[r.Band] {
			out[i] = 1
		}
	}
}

// A scorer may look at who asks: at the tenant and the band that the router's
// Caller hook found out.
func ExampleScorer_caller() {
	s, err := schedule.New(schedule.DefaultConfig(), schedule.Deps{Profiles: []schedule.Profile{{
		Name: "by-band", Picker: schedule.MaxScore{},
		Scorers: []schedule.Weighted{{Scorer: lanes{"batch": "old", "interactive": "new"}, Weight: 1}},
	}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	set, err := endpoint.NewSet(endpoint.DefaultConfig(), endpoint.Deps{})
	if err != nil {
		fmt.Println(err)
		return
	}
	models := []endpoint.Model{{Name: "m"}}
	err = set.Replace([]endpoint.Spec{
		{ID: "a100", URL: "http://10.0.0.5:8000", Pool: "old", Models: models},
		{ID: "h200", URL: "http://10.0.0.6:8000", Pool: "new", Models: models},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	pool := set.Snapshot().ForModel("m")
	var rec schedule.Decision
	for _, band := range []string{"batch", "interactive"} {
		request := schedule.Request{Model: "m", Tenant: "acme", Band: band, Now: time.Now()}
		_, held, err := s.Decide("by-band", &request, pool, nil, &rec)
		if err != nil {
			fmt.Println(err)
			return
		}
		held.Release()
		fmt.Println(rec.Explain())
	}
	// Output:
	// by-band picks a100 for tenant acme in band batch; a100 1.000 = lanes 1.00*1; h200 0.000 = lanes 0.00*1
	// by-band picks h200 for tenant acme in band interactive; a100 0.000 = lanes 0.00*1; h200 1.000 = lanes 1.00*1
}

// Why a request went where it went, in one line; Explain also encodes as JSON.
func ExampleExplanation_String() {
	cfg := schedule.DefaultConfig()
	plain := schedule.Profile{
		Name: "plain", Filters: []schedule.Filter{schedule.Untried{}}, Picker: schedule.MaxScore{},
		Scorers: []schedule.Weighted{
			{Scorer: schedule.LeastLoaded{Target: cfg.TargetInflight}, Weight: 2},
			{Scorer: nearby{"rack-7"}, Weight: 1},
		},
	}
	s, err := schedule.New(cfg, schedule.Deps{Profiles: []schedule.Profile{plain}})
	if err != nil {
		fmt.Println(err)
		return
	}
	set, err := endpoint.NewSet(endpoint.DefaultConfig(), endpoint.Deps{})
	if err != nil {
		fmt.Println(err)
		return
	}
	models := []endpoint.Model{{Name: "m"}}
	err = set.Replace([]endpoint.Spec{
		{ID: "far", URL: "http://10.0.0.5:8000", Pool: "rack-2", Models: models},
		{ID: "near", URL: "http://10.0.0.6:8000", Pool: "rack-7", Models: models},
		{ID: "tried", URL: "http://10.0.0.7:8000", Pool: "rack-7", Models: models},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	pool := set.Snapshot().ForModel("m")
	var rec schedule.Decision
	_, held, err := s.Decide("plain", &schedule.Request{Model: "m", Tried: pool[2:], Now: time.Now()}, pool, nil, &rec)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer held.Release()
	for part := range strings.SplitSeq(rec.Explain().String(), "; ") {
		fmt.Println(part)
	}
	// Output:
	// plain picks near
	// far 0.659 = inflight 0.89*2 + nearby 0.20*1
	// near 0.926 = inflight 0.89*2 + nearby 1.00*1
	// tried dropped by untried (closed)
}
