package server

import (
	"context"
	"os"
	"runtime/debug"
	runtimemetrics "runtime/metrics"
	"time"
)

// A gateway's live heap is small, and gcPercent of it is little memory. That of a
// control plane grows with its agents, 100 KB each with their stacks, which make
// little garbage: there gcPercent would let garbage grow to four times of what is
// live, for a collection in minutes.
const (
	// mostGarbage is what may become garbage between two collections, unless
	// leastPercent is more or gcPercent less.
	mostGarbage = 48 << 20
	// leastPercent bounds what collecting may cost where much is live: at 2,000
	// agents mostGarbage is a little more, and costs a hundredth of a core.
	leastPercent = 25
	// paceEvery is how often the pace is looked at. A collection of a large heap
	// comes every few seconds at most.
	paceEvery = time.Second
)

// pacer keeps the collector's pace by what is live.
type pacer struct {
	live func() uint64 // bytes that the last collection found, stacks included
	set  func(percent int) int
	now  int // what was set last
}

// newPacer returns nil where the environment sets the pace.
func newPacer() *pacer {
	if os.Getenv("GOGC") != "" {
		return nil
	}
	return &pacer{live: liveBytes, set: debug.SetGCPercent, now: gcPercent}
}

// run follows what is live until ctx is done.
func (p *pacer) run(ctx context.Context) error {
	ticker := time.NewTicker(paceEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			p.step()
		}
	}
}

// step sets the pace, if it is off by more than a tenth: to set it stops the
// process for a moment.
func (p *pacer) step() {
	want := percentFor(p.live())
	if d := want - p.now; d*10 > p.now || -d*10 > p.now || want != p.now && (want == gcPercent || want == leastPercent) {
		p.set(want)
		p.now = want
	}
}

// percentFor is how far the heap may grow over what is live.
func percentFor(live uint64) int {
	return int(min(max(mostGarbage*100/max(live, 1), leastPercent), gcPercent))
}

// liveBytes is what the runtime takes GOGC of.
func liveBytes() uint64 {
	samples := []runtimemetrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/scan/stack:bytes"}, {Name: "/gc/scan/globals:bytes"}}
	runtimemetrics.Read(samples)
	var sum uint64
	for _, s := range samples {
		if s.Value.Kind() == runtimemetrics.KindUint64 {
			sum += s.Value.Uint64()
		}
	}
	return sum
}
