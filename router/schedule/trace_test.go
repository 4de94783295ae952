//go:build !race

// One goroutine under virtual time: the race detector finds nothing here and takes
// ten times as long.

package schedule_test

import (
	"container/list"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/engines/sim"
	"github.com/llmgw/llmgw/engines/sim/workload"
	"github.com/llmgw/llmgw/router/endpoint"
	"github.com/llmgw/llmgw/router/schedule"
)

// tokenBytes is what a token is taken for in the traces' prompts.
const tokenBytes = 4

// sentIndex is a PrefixIndex that remembers the blocks each endpoint was sent, as
// many as its engine can hold, the last used. Prompts are *prompt.
type sentIndex struct {
	blockTokens, capacity int
	sent                  map[*endpoint.Endpoint]*blockLRU
	pool                  []*endpoint.Endpoint
}

type prompt struct {
	tokens int
	blocks []uint64 // chained hashes
}

type blockLRU struct {
	at    map[uint64]*list.Element
	order list.List // of *block, the last used first
}

type block struct {
	hash uint64
	seen int
}

func newSentIndex(pool []*endpoint.Endpoint, blockTokens, capacity int) *sentIndex {
	x := &sentIndex{blockTokens: blockTokens, capacity: capacity, sent: make(map[*endpoint.Endpoint]*blockLRU), pool: pool}
	for _, e := range pool {
		x.sent[e] = &blockLRU{at: make(map[uint64]*list.Element)}
	}
	return x
}

func (x *sentIndex) Holders(req *schedule.Request, out []schedule.Holder) (n, promptBytes int) {
	p := req.Prompt.(*prompt)
	for _, e := range x.pool {
		blocks, seen := 0, 0
		for blocks < len(p.blocks) && x.sent[e].at[p.blocks[blocks]] != nil {
			seen = x.sent[e].at[p.blocks[blocks]].Value.(*block).seen
			blocks++
		}
		if blocks > 0 && n < len(out) {
			out[n] = schedule.Holder{Endpoint: e, Bytes: blocks * x.blockTokens * tokenBytes, Seen: seen}
			n++
		}
	}
	return n, p.tokens * tokenBytes
}

func (x *sentIndex) Picked(req *schedule.Request, e *endpoint.Endpoint) {
	lru := x.sent[e]
	blocks := req.Prompt.(*prompt).blocks
	for _, b := range slices.Backward(blocks) { // the begin is used last, the end goes first
		if at := lru.at[b]; at != nil {
			lru.order.MoveToFront(at)
			at.Value.(*block).seen++
			continue
		}
		lru.at[b] = lru.order.PushFront(&block{b, 1})
	}
	for lru.order.Len() > x.capacity {
		last := lru.order.Back()
		delete(lru.at, last.Value.(*block).hash)
		lru.order.Remove(last)
	}
}

// run is a trace sent to simulated engines under virtual time.
type run struct {
	trace   *workload.Trace
	engines int
	engine  sim.Config
	profile string // or "random"
	cfg     schedule.Config
	ttft    time.Duration // the SLO: to the first token
	tpot    time.Duration // and the mean time between tokens
	seed    uint64
}

// figures are what came of a run.
type figures struct {
	good, hits float64 // shares of requests in their SLO, of prompt tokens cached
	ttft       time.Duration
}

type place struct {
	held     endpoint.Reservation
	endpoint *endpoint.Endpoint
}

func (r *run) do(tb testing.TB) figures {
	tb.Helper()
	pool := weighted(tb, equals(r.engines)...)
	const size = 512
	deps := schedule.Deps{Prefixes: newSentIndex(pool, size, r.engine.NumGPUBlocks*r.engine.BlockSize/size)}
	deps.Profiles = []schedule.Profile{{Name: "random", Picker: schedule.WeightedRandom{}}}
	s, err := schedule.New(r.cfg, deps)
	if err != nil {
		tb.Fatal(err)
	}
	cores := make([]*sim.Core, r.engines)
	due := make([]time.Time, r.engines)
	for i := range cores {
		if cores[i], err = sim.NewCore(r.engine); err != nil {
			tb.Fatal(err)
		}
	}
	const scrapeEvery = 2 * time.Second
	start := time.Unix(0, 0)
	scrape, next, left := start, 0, len(r.trace.Requests)
	rng := rand.New(rand.NewPCG(r.seed, 1))
	var f figures
	var ttfts time.Duration
	for left > 0 {
		at, what := scrape, -2
		if next < len(r.trace.Requests) {
			if t := start.Add(r.trace.Requests[next].At); !t.After(at) {
				at, what = t, -1
			}
		}
		for i, d := range due {
			if !d.IsZero() && !d.After(at) {
				at, what = d, i
			}
		}
		switch what {
		case -2:
			for i, e := range pool {
				st := cores[i].Stats()
				e.SetLoad(&endpoint.LoadState{
					InFlight: e.InFlight(), At: at,
					Load: engines.Load{
						Running: engines.Read(float64(st.Running)), Waiting: engines.Read(float64(st.Waiting)),
						KVUsedRatio: engines.Read(st.KVUsedRatio()),
					},
				})
			}
			scrape = scrape.Add(scrapeEvery)
		case -1:
			req := &r.trace.Requests[next]
			next++
			p := &prompt{tokens: req.PromptTokens, blocks: r.trace.AppendBlockHashes(nil, req, size)}
			sr := &schedule.Request{Prompt: p, PromptBytes: p.tokens * tokenBytes, Session: req.Session, Now: at}
			e, held, err := s.Decide(r.profile, sr, pool, rng, nil)
			if err != nil {
				tb.Fatal(err)
			}
			for i := range pool {
				if pool[i] == e {
					cores[i].Submit(at, sim.Request{
						PromptTokens: req.PromptTokens, OutputTokens: req.OutputTokens,
						Blocks: r.trace.AppendBlockHashes(nil, req, r.engine.BlockSize), Owner: place{held, e},
					})
					if due[i].IsZero() {
						_, due[i] = cores[i].Step(at)
					}
				}
			}
		default:
			var b sim.Batch
			b, due[what] = cores[what].Step(at)
			for _, seq := range b.Advanced {
				if seq.Generated() == 1 {
					ttfts += seq.TTFT()
					if seq.TTFT() <= r.ttft {
						f.good++ // taken back below if it is too slow later
					}
				}
			}
			for _, seq := range b.Finished {
				seq.Owner.(place).held.Release()
				left--
				if n := seq.Generated(); n > 1 && seq.TTFT() <= r.ttft && (seq.Elapsed()-seq.TTFT())/time.Duration(n-1) > r.tpot {
					f.good--
				}
			}
		}
	}
	var cached, prompts float64
	for _, c := range cores {
		st := c.Stats()
		cached += float64(st.CachedPromptTokens)
		prompts += float64(st.PromptTokens)
	}
	n := float64(len(r.trace.Requests))
	f.good, f.hits, f.ttft = f.good/n, cached/prompts, ttfts/time.Duration(n)
	return f
}

// recorded opens one of the recorded traces of the examples, its first n requests
// so many times as fast.
func recorded(tb testing.TB, file string, n int, speed float64) *workload.Trace {
	tb.Helper()
	trace, err := workload.Open("../../examples/traces/"+file, "")
	if err != nil {
		tb.Fatal(err)
	}
	if trace, err = trace.First(n); err != nil {
		tb.Fatal(err)
	}
	if trace, err = trace.Speedup(speed); err != nil {
		tb.Fatal(err)
	}
	return trace
}

// byPolicy runs a trace at random, by load alone, and by load and prefix.
func byPolicy(tb testing.TB, r run) (random, load, prefix figures) {
	tb.Helper()
	r.cfg = schedule.DefaultConfig()
	prefix = r.do(tb)
	r.cfg.PrefixWeight, r.cfg.PrefixWeightBatch = 0, 0
	load = r.do(tb)
	r.profile = "random"
	random = r.do(tb)
	tb.Logf("in SLO, cached, TTFT: at random %.3f %.3f %v, by load %.3f %.3f %v, by prefix %.3f %.3f %v",
		random.good, random.hits, random.ttft, load.good, load.hits, load.ttft, prefix.good, prefix.hits, prefix.ttft)
	return random, load, prefix
}

// On a recorded trace of conversations with long prompts, near the load that the
// engines can bear, knowing prefixes beats chance by far and load alone too.
func TestPrefixOnMooncake(t *testing.T) {
	for _, profile := range []string{schedule.Chat, schedule.LongContext, schedule.Batch} {
		random, load, prefix := byPolicy(t, run{
			trace: recorded(t, "mooncake_conversation.jsonl.gz", 1500, 2.2), engines: 8, engine: sim.DefaultConfig(),
			profile: profile, ttft: 3 * time.Second, tpot: 50 * time.Millisecond, seed: 1,
		})
		if prefix.good < 1.25*random.good || prefix.good < load.good || prefix.hits < 2*load.hits {
			t.Errorf("%s: knowing prefixes is not worth it", profile)
		}
	}
}

// On a trace that shares nothing it does no harm.
func TestPrefixOnAzure(t *testing.T) {
	_, load, prefix := byPolicy(t, run{
		trace: recorded(t, "azure2023_conv.csv.gz", 3000, 10), engines: 4, engine: sim.DefaultConfig(),
		profile: schedule.Chat, ttft: time.Second, tpot: 50 * time.Millisecond, seed: 1,
	})
	if prefix.good < 0.99*load.good || prefix.ttft > load.ttft+load.ttft/100 {
		t.Error("knowing that nothing is shared makes it worse")
	}
}

// Where one engine's cache is too small for all prefixes, each goes to an engine
// of its own and stays: after the first round all of them are found.
func TestPrefixBeyondOneCache(t *testing.T) {
	const prefixes, rounds, blocks, block = 32, 5, 8, 512
	trace := &workload.Trace{BlockTokens: block}
	for i := range prefixes * rounds {
		req := workload.Request{
			At: time.Duration(i) * 300 * time.Millisecond, PromptTokens: blocks * block, OutputTokens: 4, Seq: uint64(i),
		}
		for b := range blocks {
			req.Blocks = append(req.Blocks, uint64(i%prefixes*blocks+b))
		}
		trace.Requests = append(trace.Requests, req)
	}
	engine := sim.DefaultConfig()
	engine.NumGPUBlocks = 16 * blocks * block / engine.BlockSize // half of the prefixes
	engine.MaxModelLen = 2 * blocks * block
	random, load, prefix := byPolicy(t, run{
		trace: trace, engines: 4, engine: engine, profile: schedule.Chat, ttft: time.Second, tpot: time.Second, seed: 1,
	})
	// A prompt's last token is always computed, and its block with it.
	found := 1 - float64(engine.BlockSize)/(blocks*block)
	if want := found * (rounds - 1) / rounds; prefix.hits < want-1e-9 || prefix.hits > 1-1.0/rounds {
		t.Errorf("%.4f of the prompts are cached; want %.4f, all but the first round", prefix.hits, want)
	}
	if prefix.hits < 2*load.hits || prefix.hits < 2*random.hits {
		t.Error("not twice what others find")
	}
}
