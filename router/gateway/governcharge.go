package gateway

import (
	"context"
	"math"
	"math/bits"
	"net/http"
	"time"

	"github.com/llmgw/llmgw/auth/limit"
	"github.com/llmgw/llmgw/auth/usage"
	"github.com/llmgw/llmgw/placement/catalog"
	"github.com/llmgw/llmgw/router"
	"github.com/llmgw/llmgw/storage"
)

// charge is what one request was charged, and afterwards what it came to.
type charge struct {
	v         *governor
	at        time.Time          // it was charged, by whose prices it is paid
	prices    *catalog.Catalog   // as it stood then: a reload is for later ones
	held      *limit.Reservation // nil: the key has no limits, or nobody enforces any
	anthropic bool
	bounds    bool // of an answer its model's longest is reserved, and no more may come

	settled bool
	undone  bool // nothing ran, and nothing was charged
	count   count
	row     rowParts
}

// rowParts are what a usage row points to, besides the count: here they cost no
// memory of their own.
type rowParts struct {
	ttft    time.Duration
	charged storage.BudgetPeriod
}

// Charge implements [router.Charger]. It is checked and charged in one step, on an
// estimate: for tokens a modest one, for money the most that the request can cost.
func (v *governor) Charge(ctx context.Context, e router.Estimate) (router.Charge, error) {
	c := &charge{v: v, at: time.Now(), prices: v.models.at.Load().from, anthropic: e.Anthropic}
	who := callerOf(e.Identity)
	if who == nil || v.limiter == nil {
		return c, nil
	}
	if who.err != nil {
		return nil, limitRefusal(limit.ErrUnavailable, e.Anthropic) // why is in the log
	}
	req := limit.Request{Tokens: v.estimate(&e)}
	if who.subject.Budget.Bounded() {
		var known bool
		if req.CostNanos, known = worst(c.prices, who, &e, c.at); !known {
			return nil, unbounded(e.Model)
		}
		c.bounds = e.Work == router.WorkAnswer && !e.Bounded
	}
	var err error
	if c.held, err = v.limiter.Acquire(ctx, c.at, &who.subject, req); err != nil {
		return nil, limitRefusal(err, e.Anthropic)
	}
	return c, nil
}

// bytesPerToken is what is assumed where nobody has counted.
const bytesPerToken = 4

// estimate is how many tokens the request takes, as far as can be told before.
func (v *governor) estimate(e *router.Estimate) int64 {
	switch e.Work {
	case router.WorkRead:
		return textTokens(int64(e.PromptBytes))
	case router.WorkAnswer:
		each := e.MaxTokens
		if !e.Bounded {
			each = max(each, v.assumed)
		}
		return plus(textTokens(int64(e.PromptBytes)), times(each, e.Answers))
	default:
		return 0
	}
}

func textTokens(text int64) int64 {
	whole := text / bytesPerToken
	if text%bytesPerToken > 0 {
		whole++
	}
	return whole
}

// pairTokens is what an engine puts around a pair of texts at most: three or four
// tokens where the model has places for two, and a template where it is one that
// chats. The longest of those that come with vLLM have some 90.
const pairTokens = 128

// worst is the most that the request can cost, at the dearest of its model and of
// those that may stand in for it; known is false if that of one has no bound.
func worst(prices *catalog.Catalog, who *caller, e *router.Estimate, at time.Time) (nanos int64, known bool) {
	if e.Work == router.WorkNone || e.Work == router.WorkUnset {
		return 0, true
	}
	asked, ok := prices.Resolve(e.Model)
	if !ok {
		return 0, true // it has gone since, and with it its price
	}
	nanos, known = worstOf(asked, e, at)
	for _, name := range asked.Fallbacks {
		if f, ok := prices.Resolve(name); ok && known && who.mayUse(f.Name) {
			var cost int64
			cost, known = worstOf(f, e, at)
			nanos = max(nanos, cost)
		}
	}
	return nanos, known
}

// worstOf is worst of one model. A prompt has at most as many tokens as the request
// has bytes, unless it goes on from an earlier one: then as many as there is room for.
func worstOf(m *catalog.Model, e *router.Estimate, at time.Time) (nanos int64, known bool) {
	price, ok := priceAt(m, at)
	if !ok {
		return 0, true
	}
	input := plus(e.BodyBytes, times(e.Pairs, pairTokens))
	window := int64(math.MaxInt64)
	if m.ContextTokens > 0 && !e.Several {
		window = times(m.ContextTokens, e.Answers)
		if input = min(input, window); e.Refers {
			input = window
		}
	}
	switch {
	case e.Work == router.WorkRead || price.Output == 0:
		return price.WorstCost(input, 0), true
	case e.Bounded:
		return price.WorstCost(input, min(times(e.MaxTokens, e.Answers), window)), true
	case m.MaxOutputTokens > 0:
		return price.WorstCost(input, min(times(max(m.MaxOutputTokens, e.MaxTokens), e.Answers), window)), true
	case m.ContextTokens > 0 && e.Several:
		return price.WorstCost(input, times(m.ContextTokens, e.Answers)), true
	case m.ContextTokens > 0:
		// Prompt and answer share the window; which of them is the dearer decides.
		return max(price.WorstCost(input, window-input), price.WorstCost(0, window)), true
	}
	return 0, false
}

// priceAt is the model's price in the terms of package usage.
func priceAt(m *catalog.Model, at time.Time) (usage.Price, bool) {
	p, ok := m.PriceAt(at)
	return usage.Price{Input: int64(p.Input), CachedInput: int64(p.Cached()), Output: int64(p.Answers())}, ok
}

// times is a product, at most what an int64 holds. Neither factor is negative.
func times(a, b int64) int64 {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	if hi > 0 || lo > math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(lo)
}

func plus(a, b int64) int64 {
	if b > math.MaxInt64-a {
		return math.MaxInt64
	}
	return a + b
}

// OutputBound implements [router.Bounder]: what is reserved of an answer is the
// longest that comes, where a model's answers have a length and a price.
func (c *charge) OutputBound(model string) int64 {
	if !c.bounds {
		return 0
	}
	m, ok := c.prices.Resolve(model)
	if !ok {
		return 0
	}
	if price, ok := priceAt(m, c.at); !ok || price.Output == 0 {
		return 0
	}
	return m.MaxOutputTokens
}

// AnswerHeader implements [router.Headers].
func (c *charge) AnswerHeader(h http.Header) {
	if c.held != nil {
		rateHeaders(h, c.held.Rates(), c.anthropic)
	}
}

// Settle implements [router.Charge]. What was sent to no engine never was: it counts
// for no limit.
func (c *charge) Settle(o *router.Outcome) {
	if c.settled {
		return
	}
	c.settled, c.undone = true, o.Attempts == 0
	c.count = c.v.counted(o, c.prices, c.at)
	switch {
	case c.held == nil:
	case c.undone:
		c.held.Undo(o.End)
	default:
		c.held.Settle(o.End, limit.Actual{Tokens: plus(c.count.input, c.count.output), CostNanos: c.count.cost})
	}
}
