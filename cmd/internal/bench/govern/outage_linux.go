package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// tally counts what a kind of clients was told.
type tally struct {
	mu    sync.Mutex
	codes map[string]int  // guarded by mu
	took  []time.Duration // guarded by mu
}

func (t *tally) add(c *call) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.codes == nil {
		t.codes = map[string]int{}
	}
	word := strings.TrimSuffix(fmt.Sprintf("%d %s", c.status, c.code), " ")
	if c.status == 200 && !c.whole {
		word = "cut"
	}
	t.codes[word]++
	t.took = append(t.took, c.end.Sub(c.begin))
}

// turn returns what was counted, and begins anew.
func (t *tally) turn() (codes map[string]int, n int, p50, p99 time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	codes, took := t.codes, t.took
	t.codes, t.took = nil, nil
	slices.Sort(took)
	if n = len(took); n > 0 {
		p50, p99 = took[n/2], took[n*99/100]
	}
	return codes, n, p50, p99
}

// holding is what a router holds at one moment.
type holding struct {
	heap, rss        int64 // bytes
	waiting, dropped int64 // rows
}

func (h holding) String() string {
	return fmt.Sprintf("heap %.1f MiB, RSS %d MiB, %d rows wait, %d are dropped", float64(h.heap)/(1<<20), h.rss>>20, h.waiting, h.dropped)
}

// mostAtOnce bounds the requests under way, should the machine be too busy for the
// load.
const mostAtOnce = 200

// steady is a load that comes however long answers take.
type steady struct {
	router            *router
	rate              int
	known             []*account
	spends            *account // of a budget
	late              []*account
	knew, spent, came tally
}

// run sends until ctx is done, and waits for the answers: rate requests a second of
// the keys that are known, one with a budget, and one of a key that is not known.
func (s *steady) run(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	room := make(chan struct{}, mostAtOnce)
	send := func(a *account, mode string, to *tally) {
		room <- struct{}{}
		wg.Go(func() {
			defer func() { <-room }()
			c := a.send(context.WithoutCancel(ctx), s.router, mode, "")
			to.add(&c)
		})
	}
	begin := time.Now()
	for n := 0; pause(ctx, time.Until(begin.Add(time.Duration(n)*time.Second/time.Duration(s.rate)))); n++ {
		mode := modeDocument
		if n%10 == 0 {
			mode = modeStream
		}
		send(s.known[n%len(s.known)], mode, &s.knew)
		if n%s.rate == 0 {
			send(s.spends, modeDocument, &s.spent)
			send(s.late[n/s.rate%len(s.late)], modeDocument, &s.came)
		}
	}
}

// outage is the run without the store.
func (p *place) outage(ctx context.Context) ([]string, error) {
	load := &steady{rate: p.opts.rate, spends: &account{name: "budget", budget: 1000 * nanos}}
	for i := range 10 {
		load.known = append(load.known, &account{name: fmt.Sprintf("known-%d", i), requests: 1e6, tokens: 1e9, concurrency: 10_000})
		load.late = append(load.late, &account{name: fmt.Sprintf("late-%d", i)})
	}
	for _, a := range slices.Concat(load.known, load.late, []*account{load.spends}) {
		if err := a.make(ctx, p.store); err != nil {
			return nil, err
		}
	}
	p.routers.at = p.routers.at[:1]
	if err := p.startAll(ctx); err != nil {
		return nil, err
	}
	load.router = p.routers.at[0].Load()
	first := &crowd{accounts: append(slices.Clone(load.known), load.spends), routers: p.routers}
	if err := first.meet(ctx); err != nil {
		return nil, err
	}
	requests := len(first.calls)
	v := &verdict{}
	during := func(d time.Duration) {
		running, end := context.WithTimeout(ctx, d)
		defer end()
		load.run(running)
	}
	take := func(what string) {
		codes, n, p50, p99 := load.knew.turn()
		requests += n
		fmt.Printf("%s: %d requests of known keys, %v; p50 %v, p99 %v\n", what, n, codes, p50.Round(10*time.Microsecond), p99.Round(10*time.Microsecond))
		if codes["200"] != n {
			v.problem("%s: known keys were told %v", what, codes)
		}
		budget, n, _, _ := load.spent.turn()
		requests += n
		fmt.Printf("  a key with a budget: %v\n", budget)
		if budget["200"]+budget["503 budget_unavailable"] != n {
			v.problem("%s: the key with a budget was told %v", what, budget)
		}
	}
	// Readings are taken while nothing is under way, so that they are of what is
	// kept.
	rest := func() (h holding, err error) {
		h, err = p.hold(ctx)
		p.log.Info("reading", "holds", h.String())
		return h, err
	}

	// The keys that come late are not known yet: nobody sends theirs.
	late := load.late
	load.late = load.known[:1]
	during(min(p.opts.away/4, 10*time.Second))
	_, n, _, _ := load.came.turn()
	requests += n
	take("with the store")
	load.late = late
	p.log.Info("postgres is away", "for", p.opts.away, "hangs", p.opts.hang)
	if p.opts.hang {
		p.postgres.process.Freeze()
		defer p.postgres.process.Thaw() // so that it can be ended
	} else {
		p.postgres.stop()
	}
	begin := time.Now()
	var full holding
	for full.waiting < p.opts.bufferRows() && time.Since(begin) < p.opts.away {
		during(p.opts.away / 10)
		var err error
		if full, err = rest(); err != nil {
			return nil, err
		}
	}
	during(p.opts.away - time.Since(begin))
	last, err := rest()
	if err != nil {
		return nil, err
	}
	take("without the store")
	codes, n, _, _ := load.came.turn()
	fmt.Printf("  keys that are not known: %v\n", codes)
	if codes["503 keys_unavailable"] != n {
		v.problem("keys that are not known were told %v", codes)
	}
	fmt.Printf("  when the buffer was full: %v\n  at the end: %v\n", full, last)
	if last.waiting != p.opts.bufferRows() {
		v.problem("%d rows wait; want the buffer full, with %d", last.waiting, p.opts.bufferRows())
	}
	if last.heap > full.heap+heapSlack {
		v.problem("the heap has grown by %d MiB since the buffer was full", (last.heap-full.heap)>>20)
	}
	back := time.Now()
	if p.opts.hang {
		p.postgres.process.Thaw()
	} else if err := p.postgres.start(ctx); err != nil {
		return nil, err
	}
	var healed, written time.Duration
	for healed == 0 || written == 0 {
		if healed == 0 {
			if c := late[0].send(ctx, load.router, modeDocument, ""); c.status == 200 {
				healed = time.Since(back)
				requests++
			} else if c.code != "keys_unavailable" {
				v.problem("a key that comes after the outage was told %d %s", c.status, c.code)
			}
		}
		if last, err = p.hold(ctx); err != nil {
			return nil, err
		}
		if written == 0 && last.waiting == 0 {
			written = time.Since(back)
		}
		if time.Since(back) > time.Minute {
			v.problem("a minute after the store was back it is not used")
			break
		}
		pause(ctx, 200*time.Millisecond)
	}
	fmt.Printf("the store was back: new keys are served after %v, the buffer is written after %v\n", healed.Round(10*time.Millisecond), written.Round(10*time.Millisecond))
	during(min(p.opts.away/4, 10*time.Second))
	_, n, _, _ = load.came.turn()
	requests += n
	take("after it")
	if last, err = rest(); err != nil {
		return nil, err
	}
	if err := p.routers.stop(); err != nil {
		return nil, err
	}
	rows, err := p.usage(ctx)
	if err != nil {
		return nil, err
	}
	fmt.Printf("%d requests were sent by keys that the router knew; %d rows are kept and %d counted as dropped\n", requests, len(rows), last.dropped)
	if int64(requests) != int64(len(rows))+last.dropped {
		v.problem("%d requests, %d rows and %d dropped", requests, len(rows), last.dropped)
	}
	if err := p.store.Check(ctx); err != nil {
		v.problem("the store is not sound: %v", err)
	}
	return v.problems, ctx.Err()
}

// heapSlack is by how much a heap may grow that does not.
const heapSlack = 4 << 20

// bufferRows is usage.buffer_rows: its default, or so few that a short time without
// the store fills them.
func (o options) bufferRows() int64 {
	if o.away == 0 {
		return 8000
	}
	return min(8000, int64(o.away.Seconds()*float64(o.rate)/4))
}

// hold takes a reading of the first router.
func (p *place) hold(ctx context.Context) (h holding, err error) {
	r := p.routers.at[0].Load()
	if h, err = p.rows(ctx, r); err != nil {
		return h, err
	}
	_, page, err := r.get(ctx, "/debug/pprof/heap?gc=1&debug=1")
	if err != nil {
		return h, err
	}
	if h.heap, err = after(page, "# HeapAlloc = "); err != nil {
		return h, err
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", r.process.PID()))
	if err != nil {
		return h, err
	}
	h.rss, err = after(string(status), "VmRSS:")
	h.rss <<= 10
	return h, err
}

// rows reads what a router says of its usage rows.
func (p *place) rows(ctx context.Context, r *router) (h holding, err error) {
	_, page, err := r.get(ctx, "/metrics")
	if err != nil {
		return h, err
	}
	for line := range strings.Lines(page) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		n, _ := strconv.ParseFloat(value, 64)
		switch {
		case name == "llmgw_usage_waiting_rows":
			h.waiting = int64(n)
		case strings.HasPrefix(name, "llmgw_usage_dropped_total{"):
			h.dropped += int64(n)
		}
	}
	return h, nil
}

// after is the whole number behind a mark.
func after(page, mark string) (int64, error) {
	_, rest, ok := strings.Cut(page, mark)
	if !ok {
		return 0, fmt.Errorf("there is no %q", mark)
	}
	return strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
}
