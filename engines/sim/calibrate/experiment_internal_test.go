package calibrate

import (
	"math"
	"testing"
	"time"
)

// A machine that is busy hands over tokens in bursts. The time per token stays
// what it is, whatever single gaps say.
func TestTogetherStandsBursts(t *testing.T) {
	const interval = 6 * time.Millisecond
	sent := time.Unix(0, 0)
	for _, burst := range []int{1, 8, 16} {
		var readings []*reading
		for range 4 {
			r := &reading{sent: sent, completion: 49}
			for i := range r.completion {
				// Read with the last one of its burst.
				at := sent.Add(time.Duration((i+burst-1)/burst*burst) * interval)
				r.times = append(r.times, at)
			}
			readings = append(readings, r)
		}
		d, ok := together(readings, 32)
		if !ok || math.Abs(d.IntervalSeconds/interval.Seconds()-1) > 0.001 || d.Sequences != 4 {
			t.Errorf("bursts of %d: %+v, %v; want %v", burst, d, ok, interval)
		}
	}
	// Everything at one moment tells nothing.
	r := &reading{sent: sent, completion: 20}
	for range r.completion {
		r.times = append(r.times, sent)
	}
	if d, ok := together([]*reading{r}, 32); ok {
		t.Errorf("%+v of one moment", d)
	}
}
