package calibrate

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/llmgw/llmgw/engines/sim"
)

// Check compares the engine with its model under requests that the fit did not
// see: prompts and answers of several lengths that come in faster than they
// are answered.
type Check struct {
	Requests     int     `json:"requests"`
	TTFT         Compare `json:"ttft"`
	Interval     Compare `json:"interval"` // (end − first token) ÷ (tokens − 1) of each request
	SpanSeconds  float64 `json:"span_seconds"`
	MeanInFlight float64 `json:"mean_in_flight"`
}

// Compare holds two medians.
type Compare struct {
	MeasuredSeconds  float64 `json:"measured_seconds"`
	SimulatedSeconds float64 `json:"simulated_seconds"`
}

// Ratio is simulated ÷ measured − 1.
func (c Compare) Ratio() float64 { return c.SimulatedSeconds/c.MeasuredSeconds - 1 }

// String is for people.
func (c Compare) String() string {
	return fmt.Sprintf("%s simulated, %s measured (%+.0f %%)", millis(c.SimulatedSeconds), millis(c.MeasuredSeconds), 100*c.Ratio())
}

// arrival is one request of the check as it was sent, and what it showed.
type arrival struct {
	at             time.Duration // since the first
	prompt, output int
	ttft, interval float64
}

// checkRequests is enough for a median, and short.
const checkRequests = 24

// check runs the burst on the engine and then on the model.
func (x *experiment) check(ctx context.Context, m *Model) (*Check, error) {
	cfg := m.Apply(sim.DefaultConfig())
	longest := x.lengths[max(0, len(x.lengths)-2)] // leaves room for the answer
	plan := x.plan(cfg, longest)
	for plan != nil && !x.left(span(plan)*5/4) {
		if longest /= 2; longest < shortPrompt {
			x.skip("the budget left no time for a check of %v", span(plan).Round(time.Second))
			return nil, nil
		}
		plan = x.plan(cfg, longest)
	}
	if plan == nil {
		x.skip("no check: what was measured does not fit into max_model_len %d", cfg.MaxModelLen)
		return nil, nil
	}
	x.step("a check: %d requests within %v", len(plan), span(plan).Round(time.Millisecond))
	done, err := x.burst(ctx, plan)
	if err != nil {
		return nil, err
	}
	simulated := replay(cfg, done)
	if simulated == nil {
		return nil, fmt.Errorf("%w: the model cannot run what the engine ran", ErrTooFew)
	}
	c := &Check{Requests: len(done), SpanSeconds: span(done).Seconds(), MeanInFlight: inFlight(done)}
	c.TTFT, c.Interval = compare(done, simulated)
	return c, nil
}

// plan spreads arrivals so that, by the model's own reckoning, requests take
// half as long again as alone: together enough to meet, and far enough from
// saturation that a small error of the model stays a small one. nil if the
// model cannot run them.
func (x *experiment) plan(cfg sim.Config, longest int) []arrival {
	plan := make([]arrival, checkRequests)
	alone := 0.0
	for i := range plan {
		plan[i].prompt, plan[i].output = max(shortPrompt, longest>>(i%3)), decodeTokens/2*(1+i%3)
		done := replay(cfg, []arrival{{prompt: plan[i].prompt, output: plan[i].output}})
		if done == nil {
			return nil
		}
		alone += total(done)
	}
	for gap := time.Millisecond; ; gap += gap / 4 {
		for i := range plan {
			plan[i].at = time.Duration(i) * gap
		}
		if total(replay(cfg, plan)) <= 1.5*alone || gap > x.cfg.Budget {
			return plan
		}
	}
}

// total is the time that all requests took, end to end, in seconds.
func total(done []arrival) float64 {
	sum := 0.0
	for _, a := range done {
		sum += a.ttft + a.interval*float64(a.output-1)
	}
	return sum
}

// span is the time between the first arrival and the last.
func span(plan []arrival) time.Duration { return plan[len(plan)-1].at }

// inFlight is how many requests were under way, the mean between the first
// arrival and the last.
func inFlight(done []arrival) float64 { return total(done) / max(span(done).Seconds(), 1e-9) }

// burst sends plan to the engine in time and returns what was really sent.
func (x *experiment) burst(ctx context.Context, plan []arrival) ([]arrival, error) {
	texts := make([]string, len(plan))
	done := make([]arrival, len(plan))
	for i := range plan {
		texts[i], done[i].prompt = x.prompts.prompt(plan[i].prompt)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	errs := make([]error, len(plan))
	var all sync.WaitGroup
	begin := time.Now()
	for i := range plan {
		all.Go(func() {
			select {
			case <-time.After(time.Until(begin.Add(plan[i].at))):
			case <-ctx.Done():
				errs[i] = context.Cause(ctx)
				return
			}
			r, err := x.client.stream(ctx, ask{text: texts[i], output: plan[i].output})
			if err != nil {
				errs[i] = err
				return
			}
			done[i].at, done[i].output = r.sent.Sub(begin), r.completion
			done[i].ttft = r.ttft().Seconds()
			done[i].interval = r.last().Sub(r.times[0]).Seconds() / float64(max(r.completion-1, 1))
		})
	}
	all.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	// Goroutines may have started in another order.
	slices.SortFunc(done, func(a, b arrival) int { return cmp.Compare(a.at, b.at) })
	return done, nil
}

// replay runs the requests, ordered by arrival, on a core under virtual time;
// nil if one of them does not fit into the model's context.
func replay(cfg sim.Config, plan []arrival) []arrival {
	core, err := sim.NewCore(cfg)
	if err != nil {
		return nil
	}
	origin := time.Unix(0, 0)
	out := make([]arrival, len(plan))
	sequences := make([]*sim.Sequence, len(plan))
	next := time.Time{}
	for i, left := 0, len(plan); left > 0; {
		now := next
		if i < len(plan) && (next.IsZero() || !origin.Add(plan[i].at).After(next)) {
			a := plan[i]
			if a.prompt+a.output > cfg.MaxModelLen {
				return nil
			}
			now = origin.Add(a.at)
			sequences[i] = core.Submit(now, sim.Request{PromptTokens: a.prompt, OutputTokens: a.output, Owner: i})
			out[i] = a
			i++
		}
		var b sim.Batch
		b, next = core.Step(now)
		for _, s := range b.Finished {
			a := &out[s.Owner.(int)]
			a.ttft = s.TTFT().Seconds()
			a.interval = (s.Elapsed() - s.TTFT()).Seconds() / float64(max(a.output-1, 1))
			left--
		}
		if next.IsZero() && i == len(plan) && left > 0 {
			return nil // a core that stops with work left would be a fault of its own
		}
	}
	return out
}

func compare(measured, simulated []arrival) (ttft, interval Compare) {
	pick := func(from []arrival, what func(arrival) float64) float64 {
		values := make([]float64, len(from))
		for i, a := range from {
			values[i] = what(a)
		}
		return median(values)
	}
	first := func(a arrival) float64 { return a.ttft }
	between := func(a arrival) float64 { return a.interval }
	return Compare{pick(measured, first), pick(simulated, first)},
		Compare{pick(measured, between), pick(simulated, between)}
}
