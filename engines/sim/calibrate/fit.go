package calibrate

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/llmgw/llmgw/engines/sim"
)

// Fit finds the model that explains the samples best. It is pure. The error is
// [ErrTooFew] if there is no prefill, or no decoding, to fit, and [ErrSample]
// for a time or a number of tokens that cannot be.
func Fit(s Samples) (*Model, error) {
	if err := s.validate(); err != nil {
		return nil, err
	}
	if len(s.Prefills) == 0 || len(s.Decodes) == 0 {
		return nil, fmt.Errorf("%w: %d prefills and %d times of decoding; want at least one of each",
			ErrTooFew, len(s.Prefills), len(s.Decodes))
	}
	m := &Model{Name: s.Told.Model, TokenRatio: tokenRatio(s.Prefills)}
	m.fitSlots(s)
	m.fitChunk(s)
	m.roomForAll()
	m.fitPrefix(s)
	m.fitBlock(s)
	m.fitLengths(s)
	m.fitCosts(s)
	return m, nil
}

func (m *Model) unknown(format string, args ...any) {
	m.Unknown = append(m.Unknown, fmt.Sprintf(format, args...))
}

// tokenRatio compares what two prompts differ by, if there are two, so that
// the template's tokens are left out.
func tokenRatio(prefills []Prefill) float64 {
	byLength := func(a, b Prefill) int { return cmp.Compare(a.PromptTokens, b.PromptTokens) }
	short, long := slices.MinFunc(prefills, byLength), slices.MaxFunc(prefills, byLength)
	if long.PromptTokens > short.PromptTokens && long.EnginePromptTokens > short.EnginePromptTokens {
		return float64(long.EnginePromptTokens-short.EnginePromptTokens) / float64(long.PromptTokens-short.PromptTokens)
	}
	return float64(long.EnginePromptTokens) / float64(long.PromptTokens)
}

// simulated turns the engine's tokens into simulated ones.
func (m *Model) simulated(engine int) int {
	return int(math.Round(float64(engine) / m.TokenRatio))
}

// fitSlots reads the number of sequences from the waves in which somebody had
// to wait; of several the longest answers are the surest.
func (m *Model) fitSlots(s Samples) {
	var surest Wave
	for _, w := range s.Waves {
		if w.Waited > 0 && w.OutputTokens >= surest.OutputTokens {
			surest = w
		}
	}
	switch {
	case surest.Overlap > 0 && m.confirmed(s, surest):
		m.MaxNumSeqs = &surest.Overlap
	case s.Told.Slots > 0:
		m.MaxNumSeqs = &s.Told.Slots
	case len(s.Waves) == 0:
		m.unknown("max_num_seqs: no waves were measured")
	default:
		m.unknown("max_num_seqs: nobody had to wait with %d requests at once, so that many or more", s.Told.SentAtMost)
	}
}

// confirmed reports whether a shorter wave of as many requests had the same
// overlap: late prefill alone would give way to longer answers.
func (m *Model) confirmed(s Samples, w Wave) bool {
	return slices.ContainsFunc(s.Waves, func(o Wave) bool {
		return o.Requests == w.Requests && o.OutputTokens < w.OutputTokens && o.Waited > 0 && o.Overlap >= w.Overlap
	})
}

// fitChunk finds how long a prompt is cut off to be computed at once. A
// stream beside it shows one long gap for each piece.
func (m *Model) fitChunk(s Samples) {
	var sizes []float64
	most := 0
	for _, x := range s.Mixed {
		most = max(most, x.EnginePromptTokens)
		if size, ok := chunk(x); ok {
			sizes = append(sizes, size*float64(x.EnginePromptTokens))
		}
	}
	switch {
	case len(s.Mixed) == 0:
		m.unknown("max_num_batched_tokens: no prompt was measured beside a stream")
	case len(sizes)*2 <= len(s.Mixed):
		m.unknown("max_num_batched_tokens: a prompt of %d of the engine's tokens delayed a stream once, so it is that long or longer", most)
	default:
		// Everybody configures powers of two.
		size := median(sizes)
		if power := math.Exp2(math.Round(math.Log2(size))); math.Abs(size/power-1) < 0.2 {
			size = power
		}
		m.MaxNumBatchedTokens = new(max(int(math.Round(size/m.TokenRatio)), 1))
	}
}

// roomForAll keeps what sim.Config asks for: every running sequence advances.
func (m *Model) roomForAll() {
	defaults := sim.DefaultConfig()
	size, sequences := defaults.MaxNumBatchedTokens, defaults.MaxNumSeqs
	if m.MaxNumBatchedTokens != nil {
		size = *m.MaxNumBatchedTokens
	}
	if m.MaxNumSeqs != nil {
		sequences = *m.MaxNumSeqs
	}
	if sequences > size {
		m.MaxNumBatchedTokens = &sequences
	}
}

// chunk is the part of a prompt that one long gap stands for; false if there
// are not two that a late timer cannot have made.
func chunk(x Mixed) (float64, bool) {
	var extra []float64
	longest := 0.0
	for _, g := range x.GapsSeconds {
		longest = max(longest, g-x.IntervalSeconds)
	}
	total := 0.0
	for _, g := range x.GapsSeconds {
		if e := g - x.IntervalSeconds; e > longest/4 && e > x.IntervalSeconds/2 && e > lateTimer.Seconds() {
			extra = append(extra, e)
			total += e
		}
	}
	if len(extra) < 2 {
		return 0, false
	}
	// The last piece is what remained. Later pieces cost more, by attention,
	// so the middle one stands for all.
	return median(extra[:len(extra)-1]) / total, true
}

// fitPrefix decides whether the second of two equal prompts was cheaper.
func (m *Model) fitPrefix(s Samples) {
	said, faster, slower := 0, 0, 0
	for _, r := range s.Repeats {
		if r.CachedTokens != nil && m.simulated(*r.CachedTokens) > r.PromptTokens/2 {
			said++
		}
		switch ratio := r.AgainSeconds / r.FirstSeconds; {
		case ratio < 0.6:
			faster++
		case ratio > 0.85:
			slower++
		}
	}
	n := len(s.Repeats)
	switch {
	case n == 0:
		m.unknown("enable_prefix_caching: no prompt was sent twice")
	case 2*said > n || 2*faster > n:
		m.PrefixCaching = new(true)
	case 2*slower > n:
		m.PrefixCaching = new(false)
	default:
		m.unknown("enable_prefix_caching: a repeated prompt was neither clearly faster nor as slow as before")
	}
}

// fitBlock finds in what units prompts are cached: the greatest that all
// cached lengths are multiples of. Prompts of several lengths are needed for
// that, since one says little.
func (m *Model) fitBlock(s Samples) {
	unit, seen := 0, map[int]bool{}
	for _, r := range s.Repeats {
		if r.CachedTokens != nil && *r.CachedTokens > 0 {
			unit = gcd(unit, *r.CachedTokens)
			seen[*r.CachedTokens] = true
		}
	}
	if m.PrefixCaching == nil || !*m.PrefixCaching {
		return // not used
	}
	if size := max(1, m.simulated(unit)); len(seen) >= 2 && size <= 256 {
		m.BlockSize = &size
		return
	}
	m.unknown("block_size: the engine does not say how much of a repeated prompt was cached, or too few were sent")
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// fitLengths takes over what the engine says about its context, or what it
// showed by refusing.
func (m *Model) fitLengths(s Samples) {
	defaults := sim.DefaultConfig()
	switch {
	case s.Told.MaxModelLen > 0:
		m.MaxModelLen = new(max(m.simulated(s.Told.MaxModelLen), 1))
	case s.Told.RefusedAbove > 0:
		m.MaxModelLen = new(s.Told.RefusedAbove + defaults.BlockSize)
		m.unknown("max_model_len: a prompt of %d simulated tokens was taken and one twice as long refused; the lower is used", s.Told.RefusedAbove)
	default:
		m.unknown("max_model_len: the engine does not say, and refused none of up to %d simulated tokens", s.Told.LongestPrompt)
	}
	size := defaults.BlockSize
	if m.BlockSize != nil {
		size = *m.BlockSize
	}
	blocks := func(tokens int) int { return (tokens + size - 1) / size }
	usual := blocks(defaults.NumGPUBlocks * defaults.BlockSize) // as many tokens
	longest := defaults.MaxModelLen
	if m.MaxModelLen != nil {
		longest = *m.MaxModelLen
	}
	switch need := blocks(longest); {
	case s.Told.Slots > 0 && m.MaxModelLen != nil: // llama.cpp: each slot has room for one context
		m.NumGPUBlocks = new(s.Told.Slots * need)
	case need > usual:
		m.NumGPUBlocks = new(need) // the least that is valid
		m.unknown("num_gpu_blocks: not measured; just enough for one request of max_model_len")
	default:
		if usual != defaults.NumGPUBlocks {
			m.NumGPUBlocks = new(usual)
		}
		m.unknown("num_gpu_blocks: not measured; room for %d tokens, as by default", usual*size)
	}
}

// fitCosts is the least-squares fit of sim.Timing. What the core does in one
// iteration is known (see sim.Timing), so both kinds of samples are sums of
// known counts times unknown costs.
func (m *Model) fitCosts(s Samples) {
	limit := sim.DefaultConfig().MaxNumBatchedTokens // what is used where none is known
	if m.MaxNumBatchedTokens != nil {
		limit = *m.MaxNumBatchedTokens
	}
	var rows [][]float64
	var y []float64
	for _, p := range medians(append(m.cached(s.Repeats), s.Prefills...)) {
		n := float64(p.PromptTokens - p.CachedTokens)
		row := make([]float64, terms)
		row[termRequest] = 1
		row[termStep] = math.Ceil(n / float64(limit))
		row[termPrefill] = n
		row[termAttention] = n * (float64(p.CachedTokens) + n/2)
		rows, y = append(rows, row), append(y, p.TTFTSeconds)
	}
	prefills := len(rows)
	for _, d := range s.Decodes {
		b := float64(d.Sequences)
		row := make([]float64, terms)
		row[termStep], row[termSequence], row[termRead] = 1, b, b*d.ContextTokens
		rows, y = append(rows, row), append(y, d.IntervalSeconds)
	}
	fit := leastSquares(rows, y, slices.Concat(typical(y[:prefills]), typical(y[prefills:])))
	m.TTFT, m.Interval = misfit(fit.misfit[:prefills]), misfit(fit.misfit[prefills:])
	for i, key := range termKeys() {
		c := Cost{Key: key, Seconds: fit.x[i]}
		if !math.IsNaN(fit.stdErr[i]) {
			c.ErrorSeconds = &fit.stdErr[i]
		}
		m.Costs = append(m.Costs, c)
	}
	m.explain(s)
	m.warn()
}

// typical is a first guess for measurements of one kind: their median, each.
// It only keeps absurdly short ones from steering the fit before it knows
// better.
func typical(y []float64) []float64 {
	return slices.Repeat([]float64{median(y)}, len(y))
}

// cached are the prompts that were mostly found in the cache: the shortest
// prefills there are, which tell what a request costs apart from its tokens.
func (m *Model) cached(repeats []Repeat) []Prefill {
	var out []Prefill
	for _, r := range repeats {
		if r.CachedTokens != nil && *r.CachedTokens > 0 {
			out = append(out, Prefill{
				PromptTokens: r.PromptTokens, CachedTokens: min(m.simulated(*r.CachedTokens), r.PromptTokens-1),
				TTFTSeconds: r.AgainSeconds,
			})
		}
	}
	return out
}

// explain says which costs are not told apart from nothing.
func (m *Model) explain(s Samples) {
	for _, c := range m.Costs {
		switch {
		case c.ErrorSeconds == nil:
			m.unknown("timing.%s: not told apart from the other costs by what was measured; part of them", c.Key)
		case *c.ErrorSeconds > c.Seconds:
			m.unknown("timing.%s: may as well be nothing; it matters little in what was measured", c.Key)
		case *c.ErrorSeconds > c.Seconds/2:
			m.unknown("timing.%s: known to a factor of about two only; it matters little in what was measured", c.Key)
		}
	}
}

// Timers are up to a millisecond late, which shows in single gaps up to about
// four times that.
const (
	lateTimer = time.Millisecond
	timerStep = 4 * lateTimer
)

// warn compares the step with what timers can do.
func (m *Model) warn() {
	t := m.Timing()
	if step := t.Step + t.PerSequence; step < timerStep {
		m.Warnings = append(m.Warnings, fmt.Sprintf("a step of %v is short for timers, which are up to 1 ms late: llmgw sim keeps the mean, not every gap, and an engine that is itself simulated was measured with its lateness", step))
	}
}

// medians joins the prefills of equal prompts of which about as much was
// cached: a token more or less of the template makes no other prompt.
func medians(prefills []Prefill) []Prefill {
	const about = 16
	type key struct{ prompt, cached int }
	times, cached := map[key][]float64{}, map[key]int{}
	for _, p := range prefills {
		k := key{p.PromptTokens, p.CachedTokens / about}
		times[k] = append(times[k], p.TTFTSeconds)
		cached[k] = p.CachedTokens
	}
	var out []Prefill
	for k, t := range times {
		out = append(out, Prefill{PromptTokens: k.prompt, CachedTokens: cached[k], TTFTSeconds: median(t)})
	}
	slices.SortFunc(out, func(a, b Prefill) int {
		return cmp.Or(cmp.Compare(a.PromptTokens, b.PromptTokens), cmp.Compare(a.CachedTokens, b.CachedTokens))
	})
	return out
}

func misfit(relative []float64) Misfit {
	m := Misfit{Points: len(relative)}
	off := make([]float64, len(relative))
	for i, r := range relative {
		off[i] = math.Abs(r)
		m.WorstRatio = max(m.WorstRatio, off[i])
	}
	m.MedianRatio = median(off)
	return m
}

func seconds(s float64) time.Duration {
	return time.Duration(math.Round(significant(s) * float64(time.Second)))
}
