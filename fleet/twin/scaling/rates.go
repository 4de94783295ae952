package scaling

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"
)

// window is how long each row of a file of rates speaks for, as in ServeGen.
const window = 10 * time.Minute

const (
	// maxRows bounds a file of rates, maxCV how much gaps vary in it.
	maxRows = 10_000_000
	maxCV   = 1000
	// leastVariance is that of gaps that are all but equal.
	leastVariance = 1e-4
)

// Rates are at what rate clients send, ten minutes by ten minutes.
type Rates struct {
	// Name is where they are from.
	Name    string
	clients map[string][]Window
}

// Window is ten minutes of one client.
type Window struct {
	// Start is from the beginning of the rates.
	Start time.Duration
	// PerSecond is the mean rate of requests.
	PerSecond float64
	// CV is the coefficient of variation of the gaps between requests: 1 as by chance,
	// more in bursts.
	CV float64
}

// ErrNoRates says that a file has no rates, or none of a client.
var ErrNoRates = errors.New("scaling: no rates")

// NewRates returns rates made by a program: windows by client. It keeps them.
func NewRates(name string, clients map[string][]Window) *Rates {
	for _, all := range clients {
		slices.SortFunc(all, func(a, b Window) int { return int(a.Start - b.Start) })
	}
	return &Rates{Name: name, clients: clients}
}

// columns are those that a file must have; others are not looked at.
func columns() []string {
	return []string{"trace", "client", "window_start_s", "requests_per_s", "interarrival_cv"}
}

// OpenRates reads a file of rates; see [ReadRates].
func OpenRates(path string) (*Rates, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // it was only read
	return ReadRates(f, filepath.Base(path))
}

// ReadRates reads CSV, gzipped or not: a header with trace, client, window_start_s,
// requests_per_s and interarrival_cv, and a row for each client and ten minutes in
// which it sent anything. Errors name the line.
func ReadRates(r io.Reader, name string) (*Rates, error) {
	in := bufio.NewReader(r)
	if magic, err := in.Peek(2); err == nil && bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		unpacked, err := gzip.NewReader(in)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		in = bufio.NewReader(unpacked)
	}
	rows := csv.NewReader(in)
	rows.ReuseRecord = true
	header, err := rows.Read()
	if errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%w: %s is empty", ErrNoRates, name)
	} else if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	at := make([]int, len(columns()))
	for i, column := range columns() {
		if at[i] = slices.Index(header, column); at[i] < 0 {
			return nil, fmt.Errorf("%s: line 1: there is no column %s", name, column)
		}
	}
	out := &Rates{Name: name, clients: map[string][]Window{}}
	for n := 2; ; n++ {
		row, err := rows.Read()
		switch {
		case errors.Is(err, io.EOF):
			if n == 2 {
				return nil, fmt.Errorf("%w: %s has no rows", ErrNoRates, name)
			}
			return NewRates(name, out.clients), nil
		case err != nil:
			return nil, fmt.Errorf("%s: %w", name, err)
		case n > maxRows:
			return nil, fmt.Errorf("%s: more than %d rows", name, maxRows)
		}
		w, err := parseWindow(row[at[2]], row[at[3]], row[at[4]])
		if err != nil {
			return nil, fmt.Errorf("%s: line %d: %w", name, n, err)
		}
		client := row[at[0]] + "/" + row[at[1]]
		out.clients[client] = append(out.clients[client], w)
	}
}

func parseWindow(start, rate, cv string) (w Window, err error) {
	seconds, err := strconv.ParseInt(start, 10, 32)
	if err != nil || seconds < 0 || time.Duration(seconds)*time.Second%window != 0 {
		return w, fmt.Errorf("window_start_s: %q; want seconds, a multiple of %v", start, window.Seconds())
	}
	w.Start = time.Duration(seconds) * time.Second
	if w.PerSecond, err = strconv.ParseFloat(rate, 64); err != nil || !(w.PerSecond >= 0) || w.PerSecond > 1e6 {
		return w, fmt.Errorf("requests_per_s: %q; want 0 to 1e6", rate)
	}
	if w.CV, err = strconv.ParseFloat(cv, 64); err != nil || !(w.CV >= 0) || w.CV > maxCV {
		return w, fmt.Errorf("interarrival_cv: %q; want 0 to %v", cv, maxCV)
	}
	return w, nil
}

// arrivals appends to dst the times, from from on and before to, at which a client's
// requests come when its rates are multiplied by scale. Gaps are of a Gamma
// distribution. The first one in a window is what a look at any moment finds left of a
// gap, so that the mean rate is kept however much gaps vary.
//
// A scale below 1 keeps each request with that chance, so that bursts are smaller in
// the measure that the client is: gaps of a coefficient of variation cv become some of
// sqrt(1 - scale + scale*cv^2), as follows from a sum of so many of them as chance
// leaves out. With keep they stay as they were, as if a whole client of that size sent.
func (r *Rates) arrivals(dst []time.Duration, client string, from, to time.Duration, scale float64, keep bool, rng *rand.Rand) []time.Duration {
	for _, w := range r.clients[client] {
		rate := w.PerSecond * scale
		if w.Start+window <= from || w.Start >= to || rate <= 0 {
			continue
		}
		squared := w.CV * w.CV
		if scale < 1 && !keep {
			squared = 1 - scale + scale*squared
		}
		shape := 1 / max(squared, leastVariance)
		// What is left of a gap is a part of one that is drawn by its length, for a long one
		// is met more often. Source: Cox, Renewal Theory, 1962.
		seconds := rng.Float64() * gamma(shape+1, rng) / (rate * shape)
		for seconds < window.Seconds() {
			if at := w.Start + time.Duration(seconds*float64(time.Second)); at >= from && at < to {
				dst = append(dst, at-from)
			}
			seconds += gamma(shape, rng) / (rate * shape)
		}
	}
	return dst
}

// gamma draws from the Gamma distribution of that shape and scale 1. Source:
// Marsaglia and Tsang, A simple method for generating gamma variables, ACM TOMS 26(3),
// 2000.
func gamma(shape float64, rng *rand.Rand) float64 {
	if shape < 1 {
		return gamma(shape+1, rng) * math.Pow(rng.Float64(), 1/shape)
	}
	d := shape - 1.0/3
	c := 1 / math.Sqrt(9*d)
	for {
		x := rng.NormFloat64()
		v := 1 + c*x
		if v <= 0 {
			continue
		}
		v *= v * v
		if math.Log(rng.Float64()) < x*x/2+d-d*v+d*math.Log(v) {
			return d * v
		}
	}
}
