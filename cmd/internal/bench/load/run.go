package load

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/llmgw/llmgw/cmd/internal/bench/measure"
	"github.com/llmgw/llmgw/cmd/internal/bench/wire"
)

// run is one load under way.
type run struct {
	cfg      Config
	from, to time.Time // the window

	mu                            sync.Mutex
	res                           Result // guarded by mu, as the histograms
	latency, firstEvent, gap, lag measure.Histogram
}

// Run applies cfg's load and returns what it saw. It ends when the window and
// the answers under way are over, at most cfg.Timeout later, and earlier, with
// what was seen, when ctx is done. An error is one of cfg.
func Run(ctx context.Context, cfg Config) (*Result, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	r := &run{cfg: cfg, res: Result{Config: cfg, Failed: map[Failure]int64{}}}
	callers := make([]*caller, cfg.Callers)
	calls := map[string][]call{}
	for i := range callers {
		addr := cfg.Addrs[i%len(cfg.Addrs)]
		if calls[addr] == nil {
			calls[addr] = prepare(addr, cfg.Key, cfg.Mix)
		}
		// Seeded, so that two targets get the same calls.
		callers[i] = &caller{run: r, addr: addr, calls: calls[addr], rng: rand.New(rand.NewPCG(uint64(i), 1))}
	}
	cpu := processCPU()
	start := time.Now()
	r.from = start.Add(cfg.Warmup)
	r.to = r.from.Add(cfg.Window)
	if cfg.Rate > 0 {
		r.open(ctx, callers, start)
	} else {
		r.closed(ctx, callers)
	}
	r.res.CPUSeconds = (processCPU() - cpu).Seconds()
	r.res.Config.Key = "" // what was seen is for others to read
	r.res.Latency, r.res.FirstEvent = r.latency.Summary(), r.firstEvent.Summary()
	r.res.Gap, r.res.Lag = r.gap.Summary(), r.lag.Summary()
	return &r.res, nil
}

// closed lets every caller send its next call as soon as the last is answered.
func (r *run) closed(ctx context.Context, callers []*caller) {
	var wg sync.WaitGroup
	for _, c := range callers {
		wg.Go(func() {
			defer c.hangUp()
			for ctx.Err() == nil && time.Now().Before(r.to) {
				c.do(ctx, time.Time{})
			}
		})
	}
	wg.Wait()
}

// open sends calls at the times of a Poisson process, whether or not earlier
// ones are answered, as long as a caller is free; later ones wait their turn.
func (r *run) open(ctx context.Context, callers []*caller, start time.Time) {
	// Ten thousand calls behind is a target that will not catch up.
	due := make(chan time.Time, 10_000)
	var wg sync.WaitGroup
	for _, c := range callers {
		wg.Go(func() {
			defer c.hangUp()
			for at := range due {
				c.do(ctx, at)
			}
		})
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for at := start; ctx.Err() == nil; {
		at = at.Add(time.Duration(rng.ExpFloat64() / r.cfg.Rate * 1e9))
		if at.After(r.to) {
			break
		}
		sleepUntil(at)
		select {
		case due <- at:
		default:
			r.mu.Lock()
			r.res.Unsent++
			r.mu.Unlock()
		}
	}
	close(due)
	wg.Wait()
}

// prepare builds every call of mix for addr.
func prepare(addr, key string, mix []Shape) []call {
	if key != "" {
		key = "Authorization: Bearer " + key + "\r\n"
	}
	most := 0
	for _, s := range mix {
		most = max(most, s.Prompts)
	}
	var out []call
	for i := range most {
		// Shapes with few prompts repeat them, so that each is drawn as often.
		for _, s := range mix {
			want := wire.WholeAnswer(s.AnswerBytes)
			if s.Stream {
				want = wire.StreamAnswer(s.Events, wire.NoUsage)
			}
			body := wire.RequestBody(wire.Model, s.Stream, s.PromptBytes, i%s.Prompts, s.Params)
			var b bytes.Buffer
			fmt.Fprintf(&b, "POST /v1/chat/completions HTTP/1.1\r\nHost: %s\r\nUser-Agent: llmgw-bench\r\nAccept: */*\r\n%s"+
				"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n", addr, key, len(body))
			b.Write(body)
			out = append(out, call{request: b.Bytes(), want: want})
		}
	}
	return out
}

// good records a whole answer that ended at end.
func (r *run) good(c *check, end, due time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.res.Whole++
	if end.Before(r.from) || end.After(r.to) {
		return
	}
	r.res.Window++
	r.res.Events += int64(c.tokens())
	r.latency.Record(end.Sub(c.sent))
	r.firstEvent.Record(c.first)
	for _, g := range c.gaps {
		r.gap.Record(g)
	}
	if !due.IsZero() {
		r.lag.Record(c.sent.Sub(due))
	}
}

func (r *run) fail(f Failure) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.res.Failed[f]++
}

func (r *run) hungUp() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.res.HungUp++
}

func (r *run) redial() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.res.Redials++
}
