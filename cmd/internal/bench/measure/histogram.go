// Package measure turns what a load generator saw into figures: histograms with
// quantiles, medians and same-round ratios, and tables of them.
package measure

import (
	"math"
	"math/bits"
	"slices"
	"time"
)

// subBits is the logarithm of the buckets per power of two: 128 of them, so a
// quantile is at most 1/256 (0.4 %) off.
const subBits = 7

// Histogram counts durations in buckets that are exact below 256 ns and within
// 0.4 % above. The zero value is empty and ready. It grows with the largest
// duration seen (45 KiB for minutes) and is not safe for concurrent use: give
// each goroutine one and merge them, or put it behind a mutex.
type Histogram struct {
	buckets  []uint64
	count    uint64
	sum      float64 // nanoseconds
	min, max int64
}

// bucket returns the index of the bucket that v falls in.
func bucket(v int64) int {
	shift := max(bits.Len64(uint64(v))-subBits-1, 0)
	return shift<<subBits + int(v>>shift)
}

// middle returns the middle of bucket i.
func middle(i int) int64 {
	shift := max(i>>subBits-1, 0)
	low := int64(i-shift<<subBits) << shift
	return low + int64(1)<<shift/2
}

// Record counts d; a negative d counts as 0.
func (h *Histogram) Record(d time.Duration) {
	v := max(int64(d), 0)
	i := bucket(v)
	if i >= len(h.buckets) {
		h.buckets = append(h.buckets, make([]uint64, i+1-len(h.buckets))...)
	}
	h.buckets[i]++
	if h.count == 0 || v < h.min {
		h.min = v
	}
	h.max = max(h.max, v)
	h.count++
	h.sum += float64(v)
}

// Merge adds all that o counted.
func (h *Histogram) Merge(o *Histogram) {
	if o.count == 0 {
		return
	}
	if len(o.buckets) > len(h.buckets) {
		h.buckets = slices.Grow(h.buckets, len(o.buckets)-len(h.buckets))[:len(o.buckets)]
	}
	for i, n := range o.buckets {
		h.buckets[i] += n
	}
	if h.count == 0 || o.min < h.min {
		h.min = o.min
	}
	h.max = max(h.max, o.max)
	h.count += o.count
	h.sum += o.sum
}

// Count is the number of durations recorded.
func (h *Histogram) Count() uint64 { return h.count }

// Quantile returns the least bucket's middle that at least q of all recorded
// durations do not exceed, within the smallest and the largest seen; q is in
// [0,1]. It reports false when nothing was recorded.
func (h *Histogram) Quantile(q float64) (time.Duration, bool) {
	if h.count == 0 {
		return 0, false
	}
	rank := uint64(max(math.Ceil(q*float64(h.count)), 1))
	var seen uint64
	for i, n := range h.buckets {
		if seen += n; seen >= rank {
			return time.Duration(min(max(middle(i), h.min), h.max)), true
		}
	}
	return time.Duration(h.max), true
}

// Summary is a histogram in a few figures, in milliseconds. All are 0 when
// Count is.
type Summary struct {
	Count  uint64  `json:"count"`
	MeanMS float64 `json:"mean_ms"`
	P50MS  float64 `json:"p50_ms"`
	P90MS  float64 `json:"p90_ms"`
	P99MS  float64 `json:"p99_ms"`
	P999MS float64 `json:"p999_ms"`
	MaxMS  float64 `json:"max_ms"`
}

// Summary returns h's figures.
func (h *Histogram) Summary() Summary {
	if h.count == 0 {
		return Summary{}
	}
	at := func(q float64) float64 {
		d, _ := h.Quantile(q)
		return float64(d) / 1e6
	}
	return Summary{
		Count: h.count, MeanMS: h.sum / float64(h.count) / 1e6,
		P50MS: at(.5), P90MS: at(.9), P99MS: at(.99), P999MS: at(.999), MaxMS: float64(h.max) / 1e6,
	}
}
