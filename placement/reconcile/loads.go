package reconcile

import (
	"slices"
	"time"

	"github.com/llmgw/llmgw/engines"
)

// loads are how long replicas of a model took from their first order until they were
// ready, by the class of their cards, the latest last.
type loads map[string][]time.Duration

// loadsKept is how many are kept of each class.
const loadsKept = 5

func (l *loads) add(class string, took time.Duration) {
	if *l == nil {
		*l = loads{}
	}
	all := append((*l)[class], took)
	(*l)[class] = all[max(0, len(all)-loadsKept):]
}

// estimate is how long one on cards of a class should take: the median of those
// before, and where there is none of the class the longest that any class has. Not
// known: none was loaded yet.
func (l loads) estimate(class string) (d engines.Opt[time.Duration]) {
	if all := l[class]; len(all) > 0 {
		sorted := slices.Sorted(slices.Values(all))
		return engines.Known(sorted[len(sorted)/2])
	}
	for other, all := range l {
		if len(all) == 0 || other == class {
			continue
		}
		if median := l.estimate(other); median.Or(0) > d.Or(-1) {
			d = median
		}
	}
	return d
}
