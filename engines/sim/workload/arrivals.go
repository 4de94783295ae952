package workload

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"
)

// Arrivals is a process by which requests arrive. The first is always at 0.
// Its text form is "poisson:5" or "uniform:5", the number being requests per
// second; it is an encoding.TextUnmarshaler and encoding.TextMarshaler. The
// zero Arrivals, "" as text, puts every request at 0.
type Arrivals struct {
	// Process draws the gaps; "" for none.
	Process Process
	// Rate is in requests per second, 1e-6 to [MaxRate]; 0 if Process is "".
	Rate float64
}

// MaxRate is the highest rate of arrivals, in requests per second: beyond one
// in a microsecond no client sends, and no clock tells them apart.
const MaxRate = 1e6

// Process names how gaps between requests are drawn.
type Process string

// The processes.
const (
	Poisson Process = "poisson" // gaps are exponential
	Uniform Process = "uniform" // all gaps are equal
)

// ParseArrivals reads the text form. Errors wrap [ErrInvalid].
func ParseArrivals(s string) (Arrivals, error) {
	if s == "" {
		return Arrivals{}, nil
	}
	process, text, _ := strings.Cut(s, ":")
	rate, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return Arrivals{}, fmt.Errorf("%w: arrivals %q; want such as poisson:5 or uniform:0.5, in requests per second", ErrInvalid, s)
	}
	a := Arrivals{Process: Process(process), Rate: rate}
	if a.Process == "" {
		a.Process = "?" // a rate alone is not the zero Arrivals
	}
	if err := a.Validate(); err != nil {
		return Arrivals{}, err
	}
	return a, nil
}

// Validate returns an error that wraps [ErrInvalid] if a is none of the
// processes or its rate out of range.
func (a Arrivals) Validate() error {
	switch a.Process {
	case "":
		if a.Rate != 0 {
			return fmt.Errorf("%w: arrivals: a rate of %v but no process; want %s or %s", ErrInvalid, a.Rate, Poisson, Uniform)
		}
		return nil
	case Poisson, Uniform:
	default:
		return fmt.Errorf("%w: arrivals: process %q; want %s or %s", ErrInvalid, a.Process, Poisson, Uniform)
	}
	if !(a.Rate >= 1e-6 && a.Rate <= MaxRate) { // NaN is refused, too
		return fmt.Errorf("%w: arrivals: %v requests per second; want 1e-06 to %v", ErrInvalid, a.Rate, MaxRate)
	}
	return nil
}

// String is the form that [ParseArrivals] reads.
func (a Arrivals) String() string {
	if a.Process == "" {
		return ""
	}
	return string(a.Process) + ":" + strconv.FormatFloat(a.Rate, 'g', -1, 64)
}

// MarshalText is String. It never fails.
func (a Arrivals) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// UnmarshalText is [ParseArrivals]; on error a is left alone.
func (a *Arrivals) UnmarshalText(text []byte) error {
	parsed, err := ParseArrivals(string(text))
	if err == nil {
		*a = parsed
	}
	return err
}

// assign sets the times of requests.
func (a Arrivals) assign(requests []Request, rng *rand.Rand) error {
	if err := a.Validate(); err != nil {
		return err
	}
	sum := 0.0 // of Poisson gaps, in mean gaps
	for i := range requests {
		switch {
		case a.Process == "":
			requests[i].At = 0
			continue
		case a.Process == Uniform:
			sum = float64(i) // no sum of rounded gaps
		case i > 0:
			sum += rng.ExpFloat64()
		}
		at := sum / a.Rate * float64(time.Second)
		if at > float64(MaxSpan) {
			return fmt.Errorf("%w: arrivals: %d requests at %v per second take longer than %v", ErrInvalid, len(requests), a.Rate, MaxSpan)
		}
		requests[i].At = time.Duration(at)
	}
	return nil
}
