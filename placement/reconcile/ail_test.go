package reconcile_test

import (
	"testing"
	"time"

	"github.com/llmgw/llmgw/placement/reconcile"
)

// A model whose engines never do is asked for without a pause for two hours: it is
// tried less and less often, its clients are told why, and the other one of the card
// has its turn.
func TestAilingModels(t *testing.T) {
	for _, tt := range []struct {
		name string
		ail  ailment
		most int // starts
	}{
		{"it ends while it loads", brittle, 30},
		{"it loads for ever", hung, 30},
		{"it ends as soon as it is used", fragile, 30},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ill, other := onDemand("ill", 2, 1), onDemand("other", 1, 1)
			ill.Profile.LoadTimeout = time.Minute
			w := awake(t, 1, 2, ill, other)
			w.ails["ill"] = tt.ail
			told := 0
			for range 7200 {
				w.demand["ill"] = nil
				delete(w.demand, "ill")
				w.ask("ill", 3)
				w.pass()
				if s := w.statuses["ill"]; s.State == reconcile.ModelFailing && s.Reason != "" {
					told++
				}
			}
			if n := len(w.startedAt["ill"]); n > tt.most {
				t.Errorf("%d starts, last at %v", n, w.startedAt["ill"][n-1])
			}
			if told < 3600 {
				t.Errorf("its clients were told for %d s why it does not serve", told)
			}
			w.ask("other", 1)
			w.until(120, "other serves", func() bool { return w.serves("other") == 1 })
			delete(w.ails, "ill")
			w.until(400, "ill serves", func() bool { return w.serves("ill") == 1 })
		})
	}
}

// Engines that will not sleep, or will not wake, cost a start when they are asked
// for, and are not put to sleep again and again.
func TestAilingSleepers(t *testing.T) {
	for _, tt := range []struct {
		name string
		ail  ailment
	}{
		{"it does not fall asleep", wakeful},
		{"it does not wake", dead},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := awake(t, 1, 1, sleeper("m", 1))
			w.ails["m"] = tt.ail
			longest := 0
			for range 6 {
				w.ask("m", 1)
				waited := 0
				for ; w.serves("m") == 0 && waited < 400; waited++ {
					w.pass()
				}
				longest = waited
				w.until(200, "it is let go", func() bool { return w.serves("m") == 0 })
				w.forSeconds(200)
			}
			if longest > 30 {
				t.Errorf("the sixth request waited for %d s", longest)
			}
		})
	}
}
