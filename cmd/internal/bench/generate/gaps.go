package generate

import (
	"time"

	"github.com/llmgw/llmgw/cmd/internal/bench/measure"
)

// maxGapList bounds the gaps that are kept one by one: beyond, a histogram
// takes less.
const maxGapList = 4096

// gaps are the times between the contents of one stream. An answer may have
// any number of them; they take at most some 80 KiB. The zero value is empty
// and ready.
type gaps struct {
	list    []time.Duration
	rest    measure.Histogram // those that do not fit in list
	longest time.Duration
	any     bool
}

func (g *gaps) add(gap time.Duration) {
	g.longest, g.any = max(g.longest, gap), true
	if len(g.list) < maxGapList {
		g.list = append(g.list, gap)
		return
	}
	g.rest.Record(gap)
}

// addTo counts all gaps in h.
func (g *gaps) addTo(h *measure.Histogram) {
	for _, gap := range g.list {
		h.Record(gap)
	}
	h.Merge(&g.rest)
}

// emptied is an empty gaps with the same list.
func (g *gaps) emptied() gaps { return gaps{list: g.list[:0]} }
