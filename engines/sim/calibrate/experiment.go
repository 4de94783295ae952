package calibrate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// experiment is one run's state; Run's goroutine only, except for client.
type experiment struct {
	cfg     Config
	client  *client
	prompts *prompter
	step    func(format string, args ...any)
	until   time.Time // when the part under way has to end

	samples  Samples
	interval time.Duration // between tokens of one sequence alone, roughly
	lengths  []int         // of prompts that are not refused, rising
	slots    int           // sequences that run at once; 0: not known
	notes    []string
}

// Lengths of answers. A wave's must outlast its own prefill; short ones make
// the run short.
const (
	firstTokens  = 4 // where only the first token counts
	decodeTokens = 48
	shortPrompt  = 32 // simulated tokens
	slowPrefill  = 8 * time.Second
)

// left reports whether the part under way has time for something that takes
// about d.
func (x *experiment) left(d time.Duration) bool { return time.Until(x.until) > d }

// skip notes that a part was left out.
func (x *experiment) skip(format string, args ...any) {
	x.notes = append(x.notes, fmt.Sprintf(format, args...))
}

// run measures everything that the budget allows. Each part may use the
// budget up to a share of its own, so that a slow engine is measured in every
// respect, less often.
func (x *experiment) run(ctx context.Context, begin time.Time) error {
	for _, part := range []struct {
		run   func(context.Context) error
		share float64
	}{
		{x.warmUp, 0.1}, {x.prefills, 0.35}, {x.waves, 0.48}, {x.decodes, 0.68}, {x.mixed, 0.75}, {x.repeated, 0.8},
	} {
		x.until = begin.Add(time.Duration(part.share * float64(x.cfg.Budget)))
		if err := part.run(ctx); err != nil {
			return err
		}
	}
	x.until = begin.Add(x.cfg.Budget)
	return nil
}

// one sends a request alone.
func (x *experiment) one(ctx context.Context, promptTokens, output int) (*reading, int, error) {
	text, n := x.prompts.prompt(promptTokens)
	r, err := x.client.stream(ctx, ask{text: text, output: output})
	return r, n, err
}

// warmUp lets the engine allocate and compile, and learns the speed.
func (x *experiment) warmUp(ctx context.Context) error {
	x.step("warming up")
	for range 3 {
		begin := time.Now()
		r, _, err := x.one(ctx, shortPrompt, decodeTokens)
		if err != nil {
			return err
		}
		if r.completion < decodeTokens/2 {
			return fmt.Errorf("%w: an answer ended after %d of %d tokens; the engine must honour ignore_eos or have a model that goes on",
				ErrStream, r.completion, decodeTokens)
		}
		x.interval = r.last().Sub(r.times[0]) / time.Duration(max(r.completion-1, 1))
		if took := time.Since(begin); 20*took > x.cfg.Budget {
			return fmt.Errorf("%w: one request of %d tokens took %v; want a budget of at least %v",
				ErrBudget, decodeTokens, took.Round(time.Millisecond), (50 * took).Round(time.Second))
		}
	}
	return nil
}

// prefills measures the first token of prompts of growing length, one request
// at a time. The first pass finds the lengths that are possible; the others go
// through all of them, so that a slow minute does not fall on one length.
func (x *experiment) prefills(ctx context.Context) error {
	room := x.cfg.MaxPromptTokens
	for n := shortPrompt; n <= room; n *= 2 {
		x.step("prefill of %d tokens", n)
		took, err := x.prefill(ctx, n)
		if refused, ok := errors.AsType[*StatusError](err); ok && refused.refusal() && len(x.lengths) > 0 {
			x.samples.Told.RefusedAbove = x.lengths[len(x.lengths)-1]
			break
		}
		if err != nil {
			return err
		}
		x.lengths = append(x.lengths, n)
		// A length costs twice the one before it, and is measured again.
		if took > slowPrefill/2 || !x.left(time.Duration(3*x.cfg.Repeats)*took) {
			break
		}
	}
	x.samples.Told.LongestPrompt = x.lengths[len(x.lengths)-1]
	for i := 1; i < x.cfg.Repeats; i++ {
		x.step("prefill, pass %d of %d", i+1, x.cfg.Repeats)
		for _, n := range x.lengths {
			if took, err := x.prefill(ctx, n); err != nil {
				return err
			} else if last := i == x.cfg.Repeats-1 && n == x.lengths[len(x.lengths)-1]; !last && !x.left(2*took) {
				x.skip("the budget ended in pass %d of %d of prefill", i+1, x.cfg.Repeats)
				return nil
			}
		}
	}
	return nil
}

func (x *experiment) prefill(ctx context.Context, promptTokens int) (time.Duration, error) {
	r, n, err := x.one(ctx, promptTokens, firstTokens)
	if err != nil {
		return 0, err
	}
	p := Prefill{PromptTokens: n, EnginePromptTokens: r.prompt, TTFTSeconds: r.ttft().Seconds()}
	if r.cached != nil {
		// A template's beginning may be cached; it counts in the same tokens
		// as the prompt it is part of.
		p.CachedTokens = min(max(*r.cached, 0)*n/r.prompt, n-1)
	}
	x.samples.Prefills = append(x.samples.Prefills, p)
	return time.Since(r.sent), nil
}

// waves doubles the requests sent at once until some have to wait for others,
// which tells how many sequences run at once. Each wave is a measurement of
// decoding as well.
func (x *experiment) waves(ctx context.Context) error {
	if told := x.samples.Told.Slots; told > 0 {
		x.slots = told
	}
	for b := 1; b <= x.cfg.MaxConcurrency; b = min(2*b, max(x.cfg.MaxConcurrency, b+1)) {
		// The last step may cost its whole length twice, since half may wait.
		if expected := 4 * decodeTokens * x.interval; b > 1 && !x.left(expected) {
			x.skip("the budget ended before %d requests at once", b)
			return nil
		}
		x.step("%d at once", b)
		w, err := x.wave(ctx, b, shortPrompt, decodeTokens)
		if err != nil {
			return err
		}
		if w.Waited == 0 {
			continue
		}
		// Those who came late may only have been prefilled late. Longer
		// answers tell: then they still overlap.
		x.step("%d at once, longer answers", b)
		longer, err := x.wave(ctx, b, shortPrompt, 3*decodeTokens)
		if err != nil {
			return err
		}
		if longer.Waited > 0 && longer.Overlap <= w.Overlap {
			x.slots = longer.Overlap
			return nil
		}
	}
	return nil
}

// decodes measures the time between tokens for few and many sequences with
// short and long contexts.
func (x *experiment) decodes(ctx context.Context) error {
	most := x.cfg.MaxConcurrency
	if x.slots > 0 {
		most = min(most, x.slots)
	}
	var sizes []int
	for b := 1; b < most; b *= 2 {
		sizes = append(sizes, b)
	}
	sizes = append(sizes, most)
	// Contexts from short to long. Long ones are costly, so only two, only for
	// one and a few sequences, and no longer than can be measured twice.
	few := min(4, most)
	longest := x.longest(func(c int, ttft time.Duration) bool {
		room := x.samples.Told.MaxModelLen
		return x.left(3*time.Duration(1+few)*ttft) && (room == 0 || c+2*decodeTokens < room)
	})
	type point struct{ sequences, context int }
	var points []point
	for _, b := range sizes {
		points = append(points, point{b, shortPrompt})
	}
	for _, c := range []int{longest / 2, longest} {
		if c > shortPrompt {
			points = append(points, point{1, c}, point{few, c})
		}
	}
	for i := range x.cfg.Repeats {
		for j, p := range points {
			x.step("decoding, %d sequences of %d tokens, pass %d of %d", p.sequences, p.context, i+1, x.cfg.Repeats)
			begin := time.Now()
			if _, err := x.wave(ctx, p.sequences, p.context, decodeTokens); err != nil {
				if refused, ok := errors.AsType[*StatusError](err); ok && refused.refusal() && p.context > shortPrompt {
					continue // prompt and answer together are too long
				}
				return err
			}
			if last := i == x.cfg.Repeats-1 && j == len(points)-1; !last && !x.left(2*time.Since(begin)) {
				x.skip("the budget ended in pass %d of %d of decoding", i+1, x.cfg.Repeats)
				return nil
			}
		}
	}
	return nil
}

// longest is the longest prompt, of those whose prefill was measured, that ok
// accepts by its length and time; the shortest if it accepts none.
func (x *experiment) longest(ok func(promptTokens int, ttft time.Duration) bool) int {
	for i := len(x.lengths) - 1; i > 0; i-- {
		for _, p := range medians(x.samples.Prefills) {
			if p.PromptTokens >= x.lengths[i] && ok(x.lengths[i], seconds(p.TTFTSeconds)) {
				return x.lengths[i]
			}
		}
	}
	return x.lengths[0]
}

// wave sends b requests at once and notes how they ran beside each other.
func (x *experiment) wave(ctx context.Context, b, promptTokens, output int) (Wave, error) {
	texts, n := make([]string, b), 0
	for i := range texts {
		texts[i], n = x.prompts.prompt(promptTokens)
	}
	readings := make([]*reading, b)
	errs := make([]error, b)
	var all sync.WaitGroup
	for i := range texts {
		all.Go(func() { readings[i], errs[i] = x.client.stream(ctx, ask{text: texts[i], output: output}) })
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		return Wave{}, firstOf(errs)
	}
	w := Wave{Requests: b, OutputTokens: output}
	w.Overlap, w.Waited = overlap(readings)
	x.samples.Waves = append(x.samples.Waves, w)
	x.samples.Told.SentAtMost = max(x.samples.Told.SentAtMost, b)
	if d, ok := together(readings, n); ok {
		x.samples.Decodes = append(x.samples.Decodes, d)
	}
	return w, nil
}

func firstOf(errs []error) error {
	return errs[slices.IndexFunc(errs, func(err error) bool { return err != nil })]
}

// overlap is the most answers that were under way at one time, and how many
// began after another had ended.
func overlap(readings []*reading) (most, waited int) {
	firstEnd := readings[0].last()
	for _, r := range readings {
		if r.last().Before(firstEnd) {
			firstEnd = r.last()
		}
	}
	for _, r := range readings {
		n := 0
		for _, other := range readings {
			if !other.times[0].After(r.times[0]) && other.last().After(r.times[0]) {
				n++
			}
		}
		most = max(most, n)
		if !r.times[0].Before(firstEnd) {
			waited++
		}
	}
	return most, waited
}

// together is what the answers show of the time in which all of them were
// decoded and nothing else; false if that was too short.
func together(readings []*reading, promptTokens int) (Decode, bool) {
	begin, end := readings[0].times[0], readings[0].last()
	for _, r := range readings {
		if r.times[0].After(begin) {
			begin = r.times[0]
		}
		if r.last().Before(end) {
			end = r.last()
		}
	}
	// Span ÷ tokens and no statistic of single gaps: a busy machine reads many
	// tokens at once, and most gaps are then nothing at all.
	span, tokens, context := 0.0, 0.0, 0.0
	for _, r := range readings {
		perEvent := tokensPerEvent(r)
		inside, sum := 0, 0.0
		for i := 1; i < len(r.times); i++ {
			if r.times[i-1].Before(begin) || r.times[i].After(end) {
				continue
			}
			span += r.times[i].Sub(r.times[i-1]).Seconds()
			sum += float64(i) * perEvent
			inside++
		}
		if inside < 4 {
			return Decode{}, false
		}
		tokens += float64(inside) * perEvent
		context += (float64(promptTokens) + sum/float64(inside)) / float64(len(readings))
	}
	return Decode{Sequences: len(readings), ContextTokens: context, IntervalSeconds: span / tokens}, span > 0
}

// tokensPerEvent is 1 where each token comes as an event of its own. An engine
// that holds back parts of characters sends fewer events.
func tokensPerEvent(r *reading) float64 {
	return max(1, float64(r.completion)/float64(len(r.times)))
}

// mixed watches a stream while a long prompt comes in: each chunk of the
// prompt delays one token.
func (x *experiment) mixed(ctx context.Context) error {
	if x.slots == 1 {
		x.skip("one sequence at a time: nothing can be prefilled beside another")
		return nil
	}
	longest := x.longest(func(_ int, ttft time.Duration) bool { return x.left(2 * ttft) })
	for range min(x.cfg.Repeats, 3) {
		x.step("a prompt of %d tokens beside a stream", longest)
		begin := time.Now()
		if err := x.beside(ctx, longest); err != nil {
			return err
		}
		if !x.left(2 * time.Since(begin)) {
			break
		}
	}
	return nil
}

// beside measures one prompt beside one stream. A stream that ends first is
// no measurement and no failure.
func (x *experiment) beside(ctx context.Context, promptTokens int) error {
	text, _ := x.prompts.prompt(shortPrompt)
	output := 4096
	if room := x.samples.Told.MaxModelLen; room > 0 {
		output = min(output, max(room/2, decodeTokens))
	} else if limit := x.samples.Told.RefusedAbove; limit > 0 {
		output = min(output, limit/2)
	}
	streamCtx, enough := context.WithCancel(ctx)
	defer enough()
	const warmTokens = 12 // of the stream before the prompt is sent
	warm := make(chan struct{})
	type result struct {
		r   *reading
		err error
	}
	done := make(chan result, 1)
	go func() {
		r, err := x.client.stream(streamCtx, ask{text: text, output: output, seen: func(n int) {
			if n == warmTokens {
				close(warm)
			}
		}})
		done <- result{r, err}
	}()
	var stream result
	select {
	case <-warm:
	case stream = <-done:
		return stream.err
	}
	long, n, err := x.one(ctx, promptTokens, firstTokens)
	enough()
	stream = <-done
	switch {
	case err != nil:
		return err
	case stream.r == nil || (stream.err != nil && ctx.Err() != nil):
		return stream.err
	}
	m := Mixed{PromptTokens: n, EnginePromptTokens: long.prompt}
	before, alone := 0, time.Duration(0) // gaps until the prompt was sent, and their sum
	times := stream.r.times
	for i := 1; i < len(times); i++ {
		gap := times[i].Sub(times[i-1])
		switch {
		case !times[i].After(long.sent):
			before, alone = before+1, alone+gap
		case !times[i-1].After(long.times[0]):
			m.GapsSeconds = append(m.GapsSeconds, gap.Seconds())
		}
	}
	if before < warmTokens/2 || !times[len(times)-1].After(long.times[0]) {
		return nil
	}
	m.IntervalSeconds = alone.Seconds() / float64(before)
	x.samples.Mixed = append(x.samples.Mixed, m)
	return nil
}

// repeated sends prompts twice. They differ in length by numbers without a
// common divisor, so that what is cached of them tells in what units.
func (x *experiment) repeated(ctx context.Context) error {
	n := x.longest(func(_ int, ttft time.Duration) bool { return x.left(6 * ttft) })
	for i := range max(2, min(x.cfg.Repeats, 4)) {
		x.step("a prompt of %d tokens, twice", n)
		text, tokens := x.prompts.prompt(max(shortPrompt, n-[]int{0, 17, 35, 54}[i]))
		first, err := x.client.stream(ctx, ask{text: text, output: firstTokens})
		if err != nil {
			return err
		}
		again, err := x.client.stream(ctx, ask{text: text, output: firstTokens})
		if err != nil {
			return err
		}
		x.samples.Repeats = append(x.samples.Repeats, Repeat{
			PromptTokens: tokens, FirstSeconds: first.ttft().Seconds(), AgainSeconds: again.ttft().Seconds(),
			CachedTokens: again.cached,
		})
		if i > 0 && !x.left(2*time.Since(first.sent)) { // one length tells no unit
			break
		}
	}
	return nil
}
