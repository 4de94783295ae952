// Package exposition reads an engine's load from its metrics page, by the
// contract of that engine.
//
// It is a reader for pages in Prometheus text format as engines really write
// them, not a parser of the format: it looks at the few series that a contract
// names and passes over everything else, so that a line it does not understand
// costs nothing but that line. NaN, infinite and negative values, unquoted
// labels, exponents, timestamps, exemplars, CRLF and a missing last newline
// are all survived. What is not on the page stays unknown.
package exposition

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/llmgw/llmgw/engines"
)

var (
	// ErrNoMetrics: the page has no series of the contract. The engine may be
	// cold, another one, or have renamed everything.
	ErrNoMetrics = errors.New("exposition: no series of the contract")
	// ErrNotText: the page is no metrics text at all but JSON or HTML.
	ErrNotText = errors.New("exposition: not a metrics page")
)

// ratioSlack is how far above 1 a fraction may be and still be taken for
// rounding; a greater one is in some other unit and unknown.
const ratioSlack = 1.05

// Read reads the load from a page by the contract. Fields whose metric is not
// on the page or has no usable value are unknown, which is no error; the error
// wraps ErrNotText, or is ErrNoMetrics if nothing of the contract was found.
// Where a metric has several candidate names the first that is on the page
// wins, whatever the order on the page. Read keeps nothing of page.
func Read(page []byte, c engines.MetricContract) (engines.Load, error) {
	if err := checkText(page); err != nil {
		return engines.Load{}, err
	}
	r := reader{metrics: [...]engines.Metric{
		c.Running, c.Waiting, c.KVUsed, c.PrefixQueryTokens, c.PrefixHitTokens, c.Preemptions,
		c.KVCapacityTokens, c.MaxRunning,
	}}
	for i := range r.sums {
		r.sums[i].candidate = len(r.metrics[i].Names)
	}
	prefix := []byte(c.Prefix)
	for line := range lines(page) {
		if bytes.HasPrefix(line, prefix) {
			r.line(line)
		}
	}
	if !r.found {
		return engines.Load{}, fmt.Errorf("%w of %s, which begin with %q", ErrNoMetrics, c.Engine, c.Prefix)
	}
	return engines.Load{
		Running:           r.reading(0),
		Waiting:           r.reading(1),
		KVUsedRatio:       ratio(r.reading(2)),
		PrefixQueryTokens: r.reading(3),
		PrefixHitTokens:   r.reading(4),
		Preemptions:       r.reading(5),
		KVCapacityTokens:  r.reading(6),
		MaxRunning:        r.reading(7),
	}, nil
}

// Detect returns the first of the contracts that some series of the page
// belongs to, by its prefix.
func Detect(page []byte, cs []engines.MetricContract) (engines.MetricContract, bool) {
	found := len(cs)
	for line := range lines(page) {
		if line[0] == '#' {
			continue
		}
		for i, c := range cs[:found] {
			if c.Prefix != "" && bytes.HasPrefix(line, []byte(c.Prefix)) {
				found = i
				break
			}
		}
		if found == 0 {
			break
		}
	}
	if found == len(cs) {
		return engines.MetricContract{}, false
	}
	return cs[found], true
}

// lines yields the page's lines without leading blanks, and no empty one.
func lines(page []byte) func(yield func([]byte) bool) {
	return func(yield func([]byte) bool) {
		for len(page) > 0 {
			line := page
			if end := bytes.IndexByte(page, '\n'); end >= 0 {
				line, page = page[:end], page[end+1:]
			} else {
				page = nil
			}
			for len(line) > 0 && blank(line[0]) {
				line = line[1:]
			}
			if len(line) > 0 && !yield(line) {
				return
			}
		}
	}
}

func blank(c byte) bool { return c == ' ' || c == '\t' || c == '\r' }

// checkText refuses what is certainly no metrics text.
func checkText(page []byte) error {
	head := bytes.TrimLeft(page, " \t\r\n")
	if len(head) == 0 {
		return nil
	}
	if head[0] == '<' || head[0] == '[' || head[0] == '{' && !bytes.Contains(head, []byte("\n")) {
		return fmt.Errorf("%w: it begins with %q", ErrNotText, head[0])
	}
	return nil
}

// reader collects the series of one page.
type reader struct {
	metrics [8]engines.Metric
	sums    [8]sum
	found   bool // some series of the contract's names was there
}

// sum is one metric's series so far.
type sum struct {
	candidate int // which of the names; as many as there are: none yet
	count     int
	value     float64 // by the metric's aggregation; a sum for the mean
	also      float64
}

// line reads one line that begins with the contract's prefix.
func (r *reader) line(line []byte) {
	end := len(line)
	for i, c := range line {
		if c == '{' || blank(c) {
			end = i
			break
		}
	}
	name := line[:end]
	for i := range r.metrics {
		m := &r.metrics[i]
		for k := range m.Names {
			if k > r.sums[i].candidate {
				break // a better name was there already
			}
			if string(name) == m.Names[k] {
				r.found = true
				if v, ok := sample(line[end:], m); ok {
					r.sums[i].add(k, v, m.Aggregate)
				}
				break
			}
		}
		if slices.ContainsFunc(m.Also, func(also string) bool { return also == string(name) }) {
			if v, ok := sample(line[end:], m); ok {
				r.sums[i].also += v
			}
		}
	}
}

// add adds one series of the given candidate name.
func (s *sum) add(candidate int, v float64, how engines.Aggregation) {
	if candidate < s.candidate {
		s.candidate, s.count, s.value = candidate, 0, 0
	}
	s.count++
	if how == engines.AggregateMax {
		s.value = max(s.value, v)
	} else {
		s.value += v
	}
}

// reading joins what was collected of the i-th metric.
func (r *reader) reading(i int) engines.Reading {
	s := &r.sums[i]
	if s.count == 0 {
		return engines.Reading{}
	}
	v := s.value
	if r.metrics[i].Aggregate == engines.AggregateMean {
		v /= float64(s.count)
	}
	if v += s.also; math.IsInf(v, 0) {
		return engines.Reading{}
	}
	return engines.Read(v)
}

// ratio makes a fraction of a reading: rounding above 1 is cut, another unit
// is unknown.
func ratio(r engines.Reading) engines.Reading {
	v, ok := r.Get()
	if !ok || v > ratioSlack {
		return engines.Reading{}
	}
	return engines.Read(min(v, 1))
}

// sample reads what follows a name: labels, if any, and the value. It is false
// if a label that must hold does not, or what counts is no finite number of 0 or
// more.
func sample(rest []byte, m *engines.Metric) (float64, bool) {
	rest = bytes.TrimLeft(rest, " \t")
	factors := 1.0
	if len(rest) > 0 && rest[0] == '{' {
		var ok bool
		if rest, factors, ok = labels(rest[1:], m); !ok {
			return 0, false
		}
		rest = bytes.TrimLeft(rest, " \t")
	} else if len(m.Factors) > 0 {
		return 0, false
	}
	if len(m.Factors) > 0 {
		return factors, !math.IsInf(factors, 0)
	}
	if end := bytes.IndexAny(rest, " \t\r#"); end >= 0 {
		rest = rest[:end]
	}
	return number(rest)
}

// number reads a finite number of 0 or more.
func number(text []byte) (float64, bool) {
	v, err := strconv.ParseFloat(string(text), 64)
	if err != nil || math.IsNaN(v) || math.IsInf(v, 0) || v < 0 {
		return 0, false
	}
	return v, true
}

// labels reads labels up to the closing brace and returns what follows it, the
// product of m's factors, and whether every label holds that must and every factor
// is there.
func labels(rest []byte, m *engines.Metric) (after []byte, factors float64, holds bool) {
	factors, holds = 1, true
	missing := len(m.Factors)
	for {
		rest = bytes.TrimLeft(rest, " \t,")
		if len(rest) == 0 {
			return nil, 0, false
		}
		if rest[0] == '}' {
			return rest[1:], factors, holds && missing == 0
		}
		key, after, ok := bytes.Cut(rest, []byte{'='})
		if !ok {
			return nil, 0, false
		}
		key = bytes.TrimRight(key, " \t")
		var value []byte
		if value, rest, ok = labelValue(bytes.TrimLeft(after, " \t")); !ok {
			return nil, 0, false
		}
		// No value that a contract wants has an escape in it, so an escaped
		// one differs as it stands.
		if wanted, ok := m.Labels[string(key)]; ok && wanted != string(value) {
			holds = false
		}
		if slices.ContainsFunc(m.Factors, func(f string) bool { return f == string(key) }) {
			f, ok := number(value)
			factors, holds = factors*f, holds && ok
			missing--
		}
	}
}

// labelValue splits off a quoted value, its escapes as they stand, or an
// unquoted one.
func labelValue(rest []byte) (value, after []byte, ok bool) {
	if len(rest) == 0 || rest[0] != '"' {
		end := bytes.IndexAny(rest, ",}")
		if end < 0 {
			return nil, nil, false
		}
		return bytes.TrimRight(rest[:end], " \t"), rest[end:], true
	}
	rest = rest[1:]
	for i := 0; i < len(rest); i++ {
		switch rest[i] {
		case '\\':
			i++
		case '"':
			return rest[:i], rest[i+1:], true
		}
	}
	return nil, nil, false
}
