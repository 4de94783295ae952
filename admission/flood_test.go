//go:build !race

// The core holds no goroutine, so the race detector has nothing to find here, and
// takes twenty times as long.

package admission_test

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/llmgw/llmgw/admission"
	"github.com/llmgw/llmgw/engines/sim"
)

// flood is a load on simulated engines, behind admission or not, run under
// virtual time.
type flood struct {
	engine    sim.Config
	engines   int
	admission bool
	told      bool          // admission knows what an engine runs at once
	ceiling   float64       // of bronze; 0: the default
	warmup    time.Duration // platinum that came before is not measured
	scrape    time.Duration // between two measurements of an engine
	span      time.Duration
	clients   []crowd
	// platinum arrives one by one, at random times with this mean between.
	every          time.Duration
	prompt, output int
	seed           uint64
}

// crowd is clients of one band that send their next request as soon as the last
// has ended.
type crowd struct {
	band           string
	clients        int
	prompt, output int // output: the middle of lengths from half to one and a half
}

// felt is what the platinum requests felt, and what became of the others.
type felt struct {
	total, ttft []time.Duration // of platinum, sorted
	done        map[string]int  // by band
	mostRunning int             // of one engine
	end         admission.Saturation
}

func p99(d []time.Duration) time.Duration { return d[(len(d)*99+99)/100-1] }

type job struct {
	band           string
	prompt, output int
	length         int  // of the answer; 0: output
	closed         bool // sent again when it ends
	born           time.Time
	submitted      time.Time
	ticket         admission.Ticket
	engine         int
	tenant         string
}

type floodRun struct {
	flood
	t        *testing.T
	core     *admission.Core
	rng      *rand.Rand // when platinum comes: the same whatever else happens
	lengths  *rand.Rand // of the crowds' answers
	now      time.Time
	cores    []*sim.Core
	next     []time.Time
	inflight []int
	measured []admission.EndpointLoad // by engine, as scraped last
	jobs     map[admission.Ticket]*job
	result   felt
}

func (f flood) run(t *testing.T) felt {
	t.Helper()
	r := &floodRun{
		flood: f, t: t, rng: rand.New(rand.NewPCG(f.seed, 1)), lengths: rand.New(rand.NewPCG(f.seed, 2)), now: start(),
		next: make([]time.Time, f.engines), inflight: make([]int, f.engines), measured: make([]admission.EndpointLoad, f.engines),
		jobs: map[admission.Ticket]*job{},
	}
	r.result.done = map[string]int{}
	for range f.engines {
		core, err := sim.NewCore(f.engine)
		if err != nil {
			t.Fatal(err)
		}
		r.cores = append(r.cores, core)
	}
	cfg := admission.DefaultConfig()
	cfg.Enabled = true
	cfg.QueueTTL = 100 * time.Hour
	if f.ceiling > 0 {
		cfg.Bands[len(cfg.Bands)-1].SaturationCeiling = f.ceiling
	}
	if !f.admission {
		for i := range cfg.Bands {
			cfg.Bands[i].SaturationCeiling = 2 // never waits
		}
	}
	detector, err := admission.NewWorseOf(cfg.Saturation)
	if err != nil {
		t.Fatal(err)
	}
	r.core, err = admission.NewCore(cfg, func(string) admission.Detector { return detector })
	if err != nil {
		t.Fatal(err)
	}
	r.loop()
	r.result.end = detector.Explain(r.core.Leases())
	slices.Sort(r.result.total)
	slices.Sort(r.result.ttft)
	return r.result
}

func (r *floodRun) loop() {
	end := r.now.Add(r.span)
	scrape := r.now
	arrival := r.now.Add(2 * time.Second)
	started := false
	for r.now.Before(end) {
		if !r.now.Before(scrape) {
			r.scrapeAll()
			scrape = scrape.Add(r.scrape)
		}
		if !started {
			started = true
			for _, c := range r.clients {
				for i := range c.clients {
					r.again(&job{band: c.band, prompt: c.prompt, output: c.output, closed: true, tenant: strconv.Itoa(i % 7)})
				}
			}
		}
		if r.every > 0 && !r.now.Before(arrival) {
			r.offer(&job{band: "platinum", prompt: r.prompt, output: r.output})
			arrival = arrival.Add(time.Duration(r.rng.ExpFloat64() * float64(r.every)))
		}
		r.stepEngines()
		soonest := scrape
		if r.every > 0 && arrival.Before(soonest) {
			soonest = arrival
		}
		for _, n := range r.next {
			if !n.IsZero() && n.Before(soonest) {
				soonest = n
			}
		}
		r.now = soonest
	}
}

// scrapeAll measures every engine and tells admission.
func (r *floodRun) scrapeAll() {
	for i, c := range r.cores {
		s := c.Stats()
		r.result.mostRunning = max(r.result.mostRunning, s.Running)
		r.measured[i] = admission.EndpointLoad{
			ID: strconv.Itoa(i), MeasuredAt: r.now, MeasuredInFlight: admission.Read(float64(r.inflight[i])),
			Running: admission.Read(float64(s.Running)), Waiting: admission.Read(float64(s.Waiting)),
			KVUsedRatio: admission.Read(s.KVUsedRatio()),
		}
		if r.told {
			r.measured[i].BatchCapacity = admission.Read(float64(r.engine.MaxNumSeqs))
		}
	}
	r.settle(r.core.Step(r.now, admission.PoolLoad{Pool: "m", Load: r.load()}))
}

func (r *floodRun) load() *admission.Load {
	for i := range r.measured {
		r.measured[i].InFlight = admission.Read(float64(r.inflight[i]))
	}
	return &admission.Load{Endpoints: r.measured}
}

// again offers a crowd's request, whose answer has a length of its own: answers of
// one length would end together, and their successors begin together, for ever.
func (r *floodRun) again(j *job) {
	j.length = j.output/2 + r.lengths.IntN(j.output+1)
	r.offer(j)
}

func (r *floodRun) offer(j *job) {
	j.born = r.now
	ticket, granted := mustOffer(r.t, r.core, r.now, admission.Request{Pool: "m", Band: j.band, Tenant: j.tenant})
	j.ticket = ticket
	r.jobs[ticket] = j
	if granted {
		r.send(j)
		return
	}
	r.settle(r.core.Step(r.now))
}

func (r *floodRun) settle(decisions []admission.Decision) {
	for _, d := range decisions {
		if d.Err != nil {
			r.t.Fatal(d.Err)
		}
		r.send(r.jobs[d.Ticket])
	}
}

// send gives the job to the engine with the fewest requests in flight.
func (r *floodRun) send(j *job) {
	best := 0
	for i, n := range r.inflight {
		if n < r.inflight[best] {
			best = i
		}
	}
	j.engine, j.submitted = best, r.now
	r.inflight[best]++
	r.cores[best].Submit(r.now, sim.Request{PromptTokens: j.prompt, OutputTokens: cmp.Or(j.length, j.output), Owner: j})
	if r.next[best].IsZero() || r.now.Before(r.next[best]) {
		_, r.next[best] = r.cores[best].Step(r.now)
	}
}

func (r *floodRun) stepEngines() {
	for i, c := range r.cores {
		if r.next[i].IsZero() || r.now.Before(r.next[i]) {
			continue
		}
		batch, next := c.Step(r.now)
		r.next[i] = next
		var ended []*job
		for _, s := range batch.Finished {
			j := s.Owner.(*job)
			ended = append(ended, j)
			r.result.done[j.band]++
			if j.band == "platinum" && !j.born.Before(start().Add(r.warmup)) {
				queued := j.submitted.Sub(j.born)
				r.result.ttft = append(r.result.ttft, queued+s.TTFT())
				r.result.total = append(r.result.total, queued+s.Elapsed())
			}
		}
		for _, j := range ended {
			r.inflight[j.engine]--
			delete(r.jobs, j.ticket)
			if !r.core.Release(r.now, j.ticket) {
				r.t.Fatal("a lease was not there")
			}
		}
		r.settle(r.core.Step(r.now))
		for _, j := range ended {
			if j.closed {
				r.again(&job{band: j.band, prompt: j.prompt, output: j.output, closed: true, tenant: j.tenant})
			}
		}
	}
}

func ratio(a, b time.Duration) float64 {
	return math.Round(100*float64(a)/float64(b)) / 100
}

// TestFlood sends platinum requests one by one to an engine with a FIFO queue
// that 500 bronze clients flood without end (R-ADM-21 to R-ADM-23). Without
// admission they wait behind the flood; with it they hardly notice, and the
// flood still gets on.
//
// Two things no admission can hide. What runs beside a request makes each
// iteration of the batch longer, so on an engine with many places bronze's ceiling
// trades its throughput for the others' pace. And a request that comes has to
// wait for the end of the iteration that is under way, which is as long as the
// prompts in it: TestFloodFirstToken.
func TestFlood(t *testing.T) {
	type variant struct {
		name        string
		told        bool
		warmup      time.Duration
		ceiling     float64 // of bronze
		total, ttft float64 // p99 of platinum at most, of idle
		bronze      int     // at least
	}
	for seqs, variants := range map[int][]variant{
		16: {
			{name: "told", told: true, total: 1.25, ttft: 1.5, bronze: 1000},
			// For the first seconds it is taken for one that runs 256.
			{name: "found out", warmup: 20 * time.Second, total: 1.25, ttft: 1.5, bronze: 1000},
		},
		256: {
			{name: "bronze 0.30", total: 3.5, ttft: 4, bronze: 10000},
			{name: "bronze 0.10", ceiling: 0.10, total: 2, ttft: 3, bronze: 5000},
			{name: "bronze 0.02", ceiling: 0.02, total: 1.25, ttft: 2, bronze: 1000},
		},
	} {
		t.Run(fmt.Sprintf("runs %d", seqs), func(t *testing.T) {
			engine := sim.DefaultConfig()
			engine.MaxNumSeqs = seqs
			f := flood{
				engine: engine, engines: 1, scrape: 2 * time.Second, span: 10 * time.Minute,
				every: 2 * time.Second, prompt: 400, output: 100, seed: 7,
			}
			idle := f.run(t)
			log := func(name string, r felt) {
				t.Logf("%-12s %3d platinum: p99 %8v (%5.2f of idle), first token %8v (%7.2f); bronze done %d",
					name, len(r.total), p99(r.total).Round(time.Millisecond), ratio(p99(r.total), p99(idle.total)),
					p99(r.ttft).Round(time.Millisecond), ratio(p99(r.ttft), p99(idle.ttft)), r.done["bronze"])
			}
			log("idle", idle)
			f.clients = []crowd{{"bronze", 500, 400, 200}}
			off := f.run(t)
			log("off", off)
			if r := ratio(p99(off.total), p99(idle.total)); r < 20 {
				t.Errorf("platinum p99 is %.2f of idle without admission, want 20 at least: is this a flood?", r)
			}
			f.admission = true
			for _, v := range variants {
				f.told, f.warmup, f.ceiling = v.told, v.warmup, v.ceiling
				on := f.run(t)
				log(v.name, on)
				if r := ratio(p99(on.total), p99(idle.total)); r > v.total {
					t.Errorf("%s: platinum p99 is %.2f of idle with admission, want %.2f at most", v.name, r, v.total)
				}
				if r := ratio(p99(on.ttft), p99(idle.ttft)); r > v.ttft {
					t.Errorf("%s: platinum's p99 of the first token is %.2f of idle with admission, want %.2f at most", v.name, r, v.ttft)
				}
				if on.done["bronze"] < v.bronze {
					t.Errorf("%s: %d bronze requests got done, want %d at least", v.name, on.done["bronze"], v.bronze)
				}
			}
		})
	}
}

// TestFloodFirstToken shows what of platinum's first token is left to the flood:
// the rest of the batch iteration that is under way as it comes, and no more. How
// much that is of the whole depends on how long prompts are.
func TestFloodFirstToken(t *testing.T) {
	engine := sim.DefaultConfig()
	engine.MaxNumSeqs = 16
	for _, test := range []struct {
		name             string
		platinum, bronze int     // prompt tokens
		most             float64 // of idle
	}{
		{"both 400 tokens", 400, 400, 1.5},
		{"platinum 2000 tokens", 2000, 400, 1.25},
		{"bronze 16 tokens", 400, 16, 1.3},
		{"bronze 4000 tokens", 400, 4000, 8},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := flood{
				engine: engine, engines: 1, scrape: 2 * time.Second, span: 10 * time.Minute,
				every: 2 * time.Second, prompt: test.platinum, output: 100, seed: 7, told: true,
			}
			idle := f.run(t)
			f.clients, f.admission = []crowd{{"bronze", 500, test.bronze, 200}}, true
			on := f.run(t)
			// One iteration prefills the bronze prompt and decodes; its KV reads and
			// attention are some per cent.
			iteration := engine.Timing.Step + time.Duration(1.2*float64(test.bronze)/engine.Timing.PrefillTokensPerSecond*float64(time.Second))
			added := p99(on.ttft) - p99(idle.ttft)
			t.Logf("p99 of the first token %v, idle %v (%.2f): %v added, an iteration with a bronze prompt is %v",
				p99(on.ttft).Round(time.Millisecond/10), p99(idle.ttft).Round(time.Millisecond/10), ratio(p99(on.ttft), p99(idle.ttft)), added, iteration)
			if r := ratio(p99(on.ttft), p99(idle.ttft)); r > test.most {
				t.Errorf("p99 is %.2f of idle, want %.2f at most", r, test.most)
			}
			if added > iteration+2*time.Millisecond {
				t.Errorf("%v added, want no more than an iteration", added)
			}
		})
	}
}

// TestFloodedNeighbour: two engines, and tenants within the flooding band; the
// result is the same each time.
func TestFloodedNeighbour(t *testing.T) {
	f := flood{
		engine: sim.DefaultConfig(), engines: 2, scrape: 2 * time.Second, span: 3 * time.Minute, admission: true,
		every: time.Second, prompt: 400, output: 100, seed: 7,
		clients: []crowd{{"silver", 100, 400, 200}, {"bronze", 500, 400, 200}},
	}
	a, b := f.run(t), f.run(t)
	if !slices.Equal(a.total, b.total) || !maps.Equal(a.done, b.done) {
		t.Error("the same run ended otherwise")
	}
	if a.done["silver"] < 500 {
		t.Errorf("%d silver requests got done", a.done["silver"])
	}
}

// TestLearnsFromFlood: a flood of a band that may use most of an engine finds
// out how much that is, from below the target and from above (R-ADM-18).
func TestLearnsFromFlood(t *testing.T) {
	for _, test := range []struct {
		band            string
		seqs            int
		running, atMost float64 // learned, and taken to be the capacity
	}{
		{"gold", 256, 256, 256},
		{"gold", 3, 3, 3},
		{"platinum", 8, 8, 8},
		{"platinum", 100, 100, 100},
	} {
		engine := sim.DefaultConfig()
		engine.MaxNumSeqs = test.seqs
		f := flood{
			engine: engine, engines: 1, scrape: 2 * time.Second, span: 5 * time.Minute, admission: true,
			clients: []crowd{{test.band, 500, 400, 200}},
		}
		if got := f.run(t).end; got.Learned != test.running || got.Capacity > test.atMost {
			t.Errorf("%s on %d: learned %v, capacity %v; want %v, %v", test.band, test.seqs, got.Learned, got.Capacity, test.running, test.atMost)
		}
	}
}

// TestBatchAloneKeepsOut: a flood of bronze alone does not talk an engine up from
// what is assumed of it or was found out, and finds out that one is small.
func TestBatchAloneKeepsOut(t *testing.T) {
	for seqs, want := range map[int]float64{256: 256, 16: 16, 2: 2} {
		engine := sim.DefaultConfig()
		engine.MaxNumSeqs = seqs
		f := flood{
			engine: engine, engines: 1, scrape: 2 * time.Second, span: 5 * time.Minute, admission: true,
			clients: []crowd{{"bronze", 500, 400, 200}},
		}
		if got := f.run(t); got.end.Capacity != want || got.done["bronze"] < 100 {
			t.Errorf("%d: capacity %v, %d done; want %v", seqs, got.end.Capacity, got.done["bronze"], want)
		}
	}
}
