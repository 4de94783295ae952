package sim

import (
	"strconv"
	"time"
)

// histogram counts observations under upper bounds, as Prometheus does.
type histogram struct {
	bounds []float64
	counts []int64 // one more than bounds: the last is +Inf
	sum    float64
	total  int64
}

func newHistogram(bounds []float64) histogram {
	return histogram{bounds: bounds, counts: make([]int64, len(bounds)+1)}
}

func (h *histogram) observe(v float64) {
	i := 0
	for i < len(h.bounds) && v > h.bounds[i] {
		i++
	}
	h.counts[i]++
	h.sum += v
	h.total++
}

func (h *histogram) seconds(d time.Duration) { h.observe(d.Seconds()) }

// append writes the series; labels are those before le and after it.
func (h *histogram) append(dst []byte, name string, labels string) []byte {
	cumulative := int64(0)
	for i, n := range h.counts {
		cumulative += n
		le := "+Inf"
		if i < len(h.bounds) {
			le = pythonFloat(h.bounds[i])
		}
		dst = append(dst, name...)
		dst = append(dst, `_bucket{engine="0",le="`...)
		dst = append(dst, le...)
		dst = append(dst, `",`...)
		dst = append(dst, labels...)
		dst = append(dst, "} "...)
		dst = append(dst, pythonFloat(float64(cumulative))...)
		dst = append(dst, '\n')
	}
	dst = appendSample(dst, name+"_count", `engine="0",`+labels, float64(h.total))
	return appendSample(dst, name+"_sum", `engine="0",`+labels, h.sum)
}

// pythonFloat is v as Python's client prints it: always with a point.
func pythonFloat(v float64) string {
	s := strconv.FormatFloat(v, 'g', -1, 64)
	for i := range len(s) {
		if c := s[i]; c == '.' || c == 'e' || c == 'N' || c == 'I' {
			return s
		}
	}
	return s + ".0"
}

func appendSample(dst []byte, name, labels string, v float64) []byte {
	dst = append(dst, name...)
	if labels != "" {
		dst = append(dst, '{')
		dst = append(dst, labels...)
		dst = append(dst, '}')
	}
	dst = append(dst, ' ')
	dst = append(dst, pythonFloat(v)...)
	return append(dst, '\n')
}
