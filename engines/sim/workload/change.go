package workload

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"
)

// The methods of this file return a new trace and leave t alone. What they
// refuse wraps [ErrInvalid].

// with is t with other requests.
func (t *Trace) with(requests []Request) *Trace {
	c := *t
	c.Requests = requests
	return &c
}

// First keeps the first n requests, all if there are fewer; n is 1 or more.
func (t *Trace) First(n int) (*Trace, error) {
	if n < 1 {
		return nil, fmt.Errorf("%w: the first %d requests; want 1 or more", ErrInvalid, n)
	}
	n = min(n, len(t.Requests))
	return t.with(t.Requests[:n:n]), nil
}

// Repeat plays the trace n times, n is 1 or more. A pass begins a mean gap
// after the last request of the one before. Passes share nothing: blocks and
// sessions are renumbered, so that the hit share stays that of the trace;
// only texts that the trace has itself come again as they are.
func (t *Trace) Repeat(n int) (*Trace, error) {
	size := len(t.Requests)
	if n < 1 || n > MaxRequests/max(size, 1) {
		return nil, fmt.Errorf("%w: %d requests %d times; want once or more, and at most %d in all", ErrInvalid, size, n, MaxRequests)
	}
	if n == 1 || size == 0 {
		return t.with(t.Requests), nil
	}
	last := t.Requests[size-1].At
	period := last
	if size > 1 {
		period += last / time.Duration(size-1)
	}
	if float64(period)*float64(n) > float64(MaxSpan) {
		return nil, fmt.Errorf("%w: %v of trace %d times; want at most %v in all", ErrInvalid, last, n, MaxSpan)
	}
	blocks := 0
	for i := range t.Requests {
		blocks += len(t.Requests[i].Blocks)
	}
	if blocks > MaxBlocks/n {
		return nil, fmt.Errorf("%w: %d blocks %d times; want at most %d in all", ErrInvalid, blocks, n, MaxBlocks)
	}
	number := t.numberBlocks()
	out := make([]Request, 0, n*size)
	for pass := range n {
		for _, r := range t.Requests {
			r.At += time.Duration(pass) * period
			r.Seq = uint64(len(out))
			if r.Session != "" && pass > 0 {
				r.Session += "#" + strconv.Itoa(pass+1)
			}
			r.Blocks = renumber(r.Blocks, number, uint64(pass)*uint64(len(number)))
			out = append(out, r)
		}
	}
	return t.with(out), nil
}

// numberBlocks numbers all blocks from 0 in the order they appear.
func (t *Trace) numberBlocks() map[uint64]uint64 {
	number := make(map[uint64]uint64)
	for i := range t.Requests {
		for _, id := range t.Requests[i].Blocks {
			if _, known := number[id]; !known {
				number[id] = uint64(len(number))
			}
		}
	}
	return number
}

func renumber(blocks []uint64, number map[uint64]uint64, offset uint64) []uint64 {
	if blocks == nil {
		return nil
	}
	out := make([]uint64, len(blocks))
	for i, id := range blocks {
		out[i] = number[id] + offset
	}
	return out
}

// Speedup divides all times by x, more than 0.
func (t *Trace) Speedup(x float64) (*Trace, error) {
	if !positive(x) {
		return nil, fmt.Errorf("%w: speed-up %v; want more than 0", ErrInvalid, x)
	}
	if n := len(t.Requests); n > 0 && float64(t.Requests[n-1].At)/x > float64(MaxSpan) {
		return nil, fmt.Errorf("%w: speed-up %v makes %v longer than %v", ErrInvalid, x, t.Requests[n-1].At, MaxSpan)
	}
	out := slices.Clone(t.Requests)
	for i := range out {
		// Monotone, since division and rounding are.
		out[i].At = time.Duration(math.Round(float64(out[i].At) / x))
	}
	return t.with(out), nil
}

// Scale multiplies the lengths, rounded and at least 1; both factors are more
// than 0. Blocks grow and shrink with the prompts, so the same requests share
// the same share of them: BlockTokens is rounded, and the real factor of
// prompts is the new one divided by the old. Prompts of a trace that has
// their texts cannot be scaled.
func (t *Trace) Scale(prompt, output float64) (*Trace, error) {
	if !positive(prompt) || !positive(output) {
		return nil, fmt.Errorf("%w: scale %v, %v; want more than 0", ErrInvalid, prompt, output)
	}
	c := t.with(slices.Clone(t.Requests))
	if t.BlockTokens > 0 {
		size := math.Round(float64(t.BlockTokens) * prompt)
		if size < 1 || size > MaxTokens {
			return nil, fmt.Errorf("%w: scale %v makes blocks of %d tokens %v; want 1 to %d", ErrInvalid, prompt, t.BlockTokens, size, MaxTokens)
		}
		c.BlockTokens = int(size)
	}
	for i := range c.Requests {
		r := &c.Requests[i]
		if r.Text != "" && prompt != 1 {
			return nil, fmt.Errorf("%w: scale %v: the trace has the texts of its prompts, which stay as they are; want 1", ErrInvalid, prompt)
		}
		ok1, ok2 := true, true
		if t.BlockTokens > 0 {
			r.PromptTokens, ok1 = scaleBlocks(r.PromptTokens, t.BlockTokens, c.BlockTokens)
		} else {
			r.PromptTokens, ok1 = scaleTokens(r.PromptTokens, prompt)
		}
		r.OutputTokens, ok2 = scaleTokens(r.OutputTokens, output)
		if !ok1 || !ok2 {
			return nil, fmt.Errorf("%w: scale %v, %v makes request %d longer than %d tokens", ErrInvalid, prompt, output, i, MaxTokens)
		}
	}
	return c, nil
}

// scaleBlocks is the length of a prompt whose blocks of size from have size
// to: as many blocks, the last filled by the same share but at least by 1.
func scaleBlocks(tokens, from, to int) (int, bool) {
	full := (tokens - 1) / from
	last := math.Round(float64(tokens-full*from) * float64(to) / float64(from))
	n := full*to + min(max(int(last), 1), to)
	return n, n <= MaxTokens
}

func scaleTokens(tokens int, x float64) (int, bool) {
	n := max(math.Round(float64(tokens)*x), 1)
	return int(min(n, MaxTokens)), n <= MaxTokens
}

// positive is false for NaN and infinity, too.
func positive(x float64) bool { return x > 0 && x <= math.MaxFloat64 }

// WithArrivals replaces the times of all requests and keeps their order.
func (t *Trace) WithArrivals(a Arrivals, seed uint64) (*Trace, error) {
	out := slices.Clone(t.Requests)
	if err := a.assign(out, rand.New(rand.NewPCG(seed, streamArrivals))); err != nil {
		return nil, err
	}
	return t.with(out), nil
}
