package generate

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// SLO is what a request must keep to count for goodput. A zero bound is not
// asked for; the zero SLO asks for nothing.
type SLO struct {
	// TTFT bounds the time to the first content. Streams only.
	TTFT time.Duration
	// TPOT bounds the mean time per output token after the first. An answer of
	// one token keeps it. Streams only.
	TPOT time.Duration
	// ITL bounds every gap between two contents of a stream, the longest
	// included. Streams only.
	ITL time.Duration
	// E2E bounds the time to the end of the answer.
	E2E time.Duration
}

// ErrSLO is the class of the errors of [ParseSLO].
var ErrSLO = errors.New("SLO")

// bound is one bound of an SLO and how it is written.
type bound struct {
	name string
	v    *time.Duration
}

// bounds lists the bounds in the order in which they are written.
func (s *SLO) bounds() []bound {
	return []bound{{"ttft", &s.TTFT}, {"tpot", &s.TPOT}, {"itl", &s.ITL}, {"e2e", &s.E2E}}
}

// ParseSLO reads bounds such as "ttft=2s,itl=50ms,e2e=30s": names of
// ttft, tpot, itl and e2e, each at most once, with a positive duration. The
// empty text is the zero SLO. Errors wrap [ErrSLO] and name what is wrong.
func ParseSLO(text string) (SLO, error) {
	var s SLO
	if strings.TrimSpace(text) == "" {
		return s, nil
	}
	for entry := range strings.SplitSeq(text, ",") {
		name, value, ok := strings.Cut(strings.TrimSpace(entry), "=")
		name, value = strings.ToLower(strings.TrimSpace(name)), strings.TrimSpace(value)
		if !ok {
			return SLO{}, fmt.Errorf("%w: %q has no bound; want e.g. ttft=2s,itl=50ms,e2e=30s", ErrSLO, entry)
		}
		var to *time.Duration
		for _, b := range s.bounds() {
			if b.name == name {
				to = b.v
			}
		}
		if to == nil {
			return SLO{}, fmt.Errorf("%w: %q is unknown; want ttft, tpot, itl or e2e", ErrSLO, name)
		}
		d, err := time.ParseDuration(value)
		if err != nil || d <= 0 {
			return SLO{}, fmt.Errorf("%w: %s=%q is no positive duration; want e.g. %s=2s", ErrSLO, name, value, name)
		}
		if *to != 0 {
			return SLO{}, fmt.Errorf("%w: %s stands twice; keep one", ErrSLO, name)
		}
		*to = d
	}
	return s, nil
}

// String writes s as ParseSLO reads it.
func (s SLO) String() string {
	var out []string
	for _, b := range s.bounds() {
		if *b.v != 0 {
			out = append(out, b.name+"="+b.v.String())
		}
	}
	return strings.Join(out, ",")
}

// UnmarshalText is ParseSLO, for flags.
func (s *SLO) UnmarshalText(text []byte) (err error) {
	*s, err = ParseSLO(string(text))
	return err
}

// misses names the bounds that the times of one request break. A time that a
// complete answer does not have (a gap, of an answer of one event) breaks none.
func (s SLO) misses(t times) []string {
	var out []string
	over := func(name string, bound, got time.Duration, known bool) {
		if bound > 0 && known && got > bound {
			out = append(out, name)
		}
	}
	over("ttft", s.TTFT, t.ttft, t.hasTTFT)
	over("tpot", s.TPOT, t.tpot, t.hasTPOT)
	over("itl", s.ITL, t.longestGap, t.hasGap)
	over("e2e", s.E2E, t.e2e, true)
	return out
}

// times are the figures of one request that an SLO judges.
type times struct {
	ttft, tpot, longestGap, e2e time.Duration
	hasTTFT, hasTPOT, hasGap    bool
}
