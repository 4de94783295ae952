package prefix_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/llmgw/llmgw/engines/sim"
	"github.com/llmgw/llmgw/engines/sim/workload"
	"github.com/llmgw/llmgw/router/prefix"
)

// fleet is simulated engines under virtual time behind an index.
type fleet struct {
	t       *testing.T
	x       *prefix.Index
	ids     []prefix.ID
	cores   []*sim.Core
	next    []time.Time // when to step each core; zero: not before the next request
	load    []int
	rng     *rand.Rand
	blind   bool // pick without regard to the index
	prompts int64
}

type flight struct {
	sent  prefix.Sent
	chain *prefix.Chain
}

func newFleet(t *testing.T, engines int, change func(*prefix.Config)) *fleet {
	t.Helper()
	f := &fleet{t: t, x: newIndex(t, change), rng: rand.New(rand.NewPCG(1, 2))}
	for range engines {
		core, err := sim.NewCore(sim.DefaultConfig())
		if err != nil {
			t.Fatal(err)
		}
		f.cores = append(f.cores, core)
		f.ids = append(f.ids, add(t, f.x, "m"))
	}
	f.next, f.load = make([]time.Time, engines), make([]int, engines)
	return f
}

// until steps the engines through all that is due before now.
func (f *fleet) until(now time.Time) {
	for {
		first := -1
		for i, at := range f.next {
			if !at.IsZero() && !at.After(now) && (first < 0 || at.Before(f.next[first])) {
				first = i
			}
		}
		if first < 0 {
			return
		}
		b, next := f.cores[first].Step(f.next[first])
		f.next[first] = next
		for _, s := range b.Finished {
			fl := s.Owner.(*flight)
			f.load[first]--
			f.prompts += int64(s.PromptTokens())
			f.x.Observe(fl.sent, fl.chain, prefix.Usage{
				PromptTokens: int64(s.PromptTokens()), CachedTokens: int64(s.CachedTokens()), CachedKnown: true,
			})
		}
	}
}

// pick weighs what an engine holds against how busy it is, with a little chance.
func (f *fleet) pick(r *prefix.Result, promptTokens int) int {
	best, most := 0, -1e18
	for i, id := range f.ids {
		score := -float64(f.load[i])*2000 - f.rng.Float64()
		if m, ok := r.Of(id); ok && !f.blind {
			score += float64(min(m.Tokens, promptTokens))
		}
		if score > most {
			best, most = i, score
		}
	}
	return best
}

// run replays the requests of the trace from first to before end.
func (f *fleet) run(tr *workload.Trace, first, end int) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	p := workload.NewPrompter(tr)
	var text []byte
	var r prefix.Result
	for i := range tr.Requests[first:end] {
		q := &tr.Requests[first+i]
		now := start.Add(q.At)
		f.until(now)
		text = p.Append(text[:0], q)
		fl := &flight{chain: &prefix.Chain{}}
		fl.chain.Reset(prefix.Root("m"))
		_, _ = fl.chain.Write(text)
		f.x.Lookup(fl.chain, &r)
		e := f.pick(&r, q.PromptTokens)
		fl.sent = f.x.Send(f.ids[e], fl.chain)
		f.load[e]++
		f.cores[e].Submit(now, sim.Request{
			PromptTokens: q.PromptTokens, OutputTokens: q.OutputTokens, Owner: fl,
			Blocks: tr.AppendBlockHashes(nil, q, sim.DefaultConfig().BlockSize),
		})
		if f.next[e].IsZero() {
			_, f.next[e] = f.cores[e].Step(now)
		}
	}
	if end == len(tr.Requests) {
		f.until(start.Add(24 * time.Hour))
	}
}
