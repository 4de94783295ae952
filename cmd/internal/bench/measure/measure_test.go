package measure_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/llmgw/llmgw/cmd/internal/bench/measure"
)

func TestQuantilesAgainstSorting(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	draws := map[string]func() time.Duration{
		"a few nanoseconds": func() time.Duration { return time.Duration(rng.IntN(300)) },
		"exponential":       func() time.Duration { return time.Duration(rng.ExpFloat64() * 1e6) },
		"wide":              func() time.Duration { return time.Duration(math.Exp(rng.Float64() * 25)) },
		"one value":         func() time.Duration { return 12345678 },
	}
	for name, draw := range draws {
		t.Run(name, func(t *testing.T) {
			var whole, left, right measure.Histogram
			var all []time.Duration
			for i := range 5000 {
				d := draw()
				all = append(all, d)
				whole.Record(d)
				if i%3 == 0 {
					left.Record(d)
				} else {
					right.Record(d)
				}
			}
			left.Merge(&right)
			slices.Sort(all)
			for _, q := range []float64{0, .01, .5, .9, .99, .999, 1} {
				want := all[max(int(math.Ceil(q*float64(len(all))))-1, 0)]
				got, ok := whole.Quantile(q)
				if !ok || math.Abs(float64(got-want)) > float64(want)/256+1 {
					t.Errorf("quantile %v = %v, %v; exact is %v", q, got, ok, want)
				}
				if merged, _ := left.Quantile(q); merged != got {
					t.Errorf("quantile %v merged = %v, recorded together %v", q, merged, got)
				}
			}
			if diff := cmp.Diff(whole.Summary().Count, left.Summary().Count); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestEmptyHistogram(t *testing.T) {
	var h measure.Histogram
	if d, ok := h.Quantile(.5); ok {
		t.Errorf("quantile of nothing is %v", d)
	}
	if diff := cmp.Diff(measure.Summary{}, h.Summary()); diff != "" {
		t.Error(diff)
	}
	h.Record(-time.Second)
	h.Merge(&measure.Histogram{})
	if d, ok := h.Quantile(1); !ok || d != 0 {
		t.Errorf("a negative duration is %v, %v; want 0", d, ok)
	}
}

func TestMedian(t *testing.T) {
	tests := []struct {
		name string
		in   []float64
		want float64
	}{
		{"nothing", nil, math.NaN()},
		{"one", []float64{4}, 4},
		{"odd", []float64{9, 1, 5}, 5},
		{"even", []float64{4, 1, 3, 2}, 2.5},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			before := slices.Clone(tt.in)
			got := measure.Median(tt.in)
			if got != tt.want && !(math.IsNaN(got) && math.IsNaN(tt.want)) {
				t.Errorf("got %v, want %v", got, tt.want)
			}
			if diff := cmp.Diff(before, tt.in); diff != "" {
				t.Errorf("input changed: %s", diff)
			}
		})
	}
}

func TestPairedRounds(t *testing.T) {
	a := measure.Rounds{0: 1, 1: 20, 2: 3, 7: 100}
	b := measure.Rounds{0: 2, 1: 10, 2: 4, 3: 9, 4: 0}
	if diff := cmp.Diff(measure.Spread{Median: .75, Min: .5, Max: 2, N: 3}, a.Ratio(b)); diff != "" {
		t.Errorf("ratio: %s", diff)
	}
	if diff := cmp.Diff(measure.Spread{Median: -1, Min: -1, Max: 10, N: 3}, a.Minus(b)); diff != "" {
		t.Errorf("difference: %s", diff)
	}
	if s := (measure.Rounds{4: 1}).Ratio(b); s.N != 0 || !math.IsNaN(s.Median) {
		t.Errorf("ratio to 0 = %+v; want none", s)
	}
	if diff := cmp.Diff([]float64{1, 20, 3, 100}, a.Values()); diff != "" {
		t.Errorf("values: %s", diff)
	}
}

func TestTable(t *testing.T) {
	table := measure.NewTable("target", "p50 ms", "×")
	table.Row("direct", measure.Number(.126, 2), measure.Number(math.NaN(), 1))
	table.Row("a|b", measure.Signed(12.5, 1), measure.Signed(-3, 0), "dropped")
	table.Row("naïve\nname")
	want := strings.TrimLeft(`
| target     | p50 ms |   × |
|------------|-------:|----:|
| direct     |   0.13 |   – |
| a\|b       |  +12.5 |  -3 |
| naïve name |        |     |
`, "\n")
	if diff := cmp.Diff(want, table.String()); diff != "" {
		t.Error(diff)
	}
}

func BenchmarkRecord(b *testing.B) {
	var h measure.Histogram
	d := time.Duration(1)
	for b.Loop() {
		h.Record(d)
		d = (d*7 + 1) % (1 << 30)
	}
}
