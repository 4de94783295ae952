package gateway

import (
	"cmp"
	"time"

	"github.com/llmgw/llmgw/placement/catalog"
	"github.com/llmgw/llmgw/router"
	"github.com/llmgw/llmgw/router/openai"
	"github.com/llmgw/llmgw/storage"
)

// count is what a request came to.
type count struct {
	source                           storage.Source
	input, cached, output, reasoning int64
	hasInput, hasCached              bool
	hasOutput, hasReasoning          bool
	cost                             int64 // 10^-9 of the currency unit
	priced                           bool  // the model has a price
}

// counted is what a request came to, at the price that the model which served it
// had at that time in that catalog, or has in today's if it was not in that one.
func (v *governor) counted(o *router.Outcome, prices *catalog.Catalog, at time.Time) count {
	c := countTokens(o)
	name := cmp.Or(o.Served, o.Model)
	m, ok := prices.Resolve(name)
	if !ok {
		m, ok = v.models.at.Load().from.Resolve(name)
	}
	if !ok || name == "" {
		return c
	}
	price, ok := priceAt(m, at)
	if !ok {
		return c
	}
	c.priced = true
	t := storage.Tokens{Input: &c.input, Output: &c.output}
	if c.hasCached {
		t.CachedInput = &c.cached
	}
	c.cost = min(price.Cost(t), storage.MaxCostNanos)
	return c
}

// countTokens says how many tokens a request came to, and who says so. In order:
//
//   - nothing ran, or nothing came of it: none
//   - the engine has said it at the end: engine
//   - it has said it so far, and the answer ended early: partial
//   - pieces of a stream were seen: counted, a token each
//   - there is a text: estimated, four bytes for a token
//
// What an engine leaves out, or says as nonsense, is counted or estimated by itself:
// it is unknown, and not free. A client who leaves while the engine is still reading
// pays for the prompt.
func countTokens(o *router.Outcome) count {
	left := o.Result == router.ResultCanceled
	switch {
	case o.Attempts == 0, o.Work == router.WorkNone, o.Work == router.WorkUnset,
		o.Result != router.ResultOK && o.Result != router.ResultCut && !left && !o.HasUsage:
		return count{source: storage.SourceNone, hasInput: true, hasOutput: true}
	}
	whole := o.Result == router.ResultOK
	c := count{source: storage.SourceEstimated}
	if o.HasUsage {
		c = countOf(&o.Usage, o.Work)
		c.source = storage.SourcePartial
		if whole {
			c.source = storage.SourceEngine
		}
	}
	if !c.hasInput {
		c.input, c.hasInput, c.source = textTokens(int64(o.PromptBytes)), true, storage.SourceEstimated
	}
	if o.Work != router.WorkAnswer {
		c.hasOutput = c.hasOutput || !o.HasUsage
		return c
	}
	// Of an answer that ended early an engine may have said how it began, and
	// nothing since.
	pieces := max(0, o.Events-otherEvents(o.Path, whole))
	switch {
	case c.hasOutput && (whole || pieces <= c.output):
	case o.Events > 0:
		c.output, c.hasOutput, c.source = pieces, true, storage.SourceCounted
	default:
		c.output, c.hasOutput, c.source = textTokens(o.TextBytes), true, storage.SourceEstimated
	}
	return c
}

// countOf is what an engine has said.
func countOf(u *openai.Usage, work router.Work) (c count) {
	c.input, c.hasInput = within(u.PromptTokens)
	c.output, c.hasOutput = within(u.CompletionTokens)
	c.cached, c.hasCached = within(u.CachedTokens)
	c.reasoning, c.hasReasoning = within(u.ReasoningTokens)
	total, ok := within(u.TotalTokens)
	switch {
	case !ok:
	case !c.hasInput && work == router.WorkRead:
		c.input, c.hasInput = total, true
	case !c.hasInput && c.hasOutput && total >= c.output:
		c.input, c.hasInput = total-c.output, true
	case c.hasInput && !c.hasOutput && total >= c.input:
		c.output, c.hasOutput = total-c.input, true
	}
	return c
}

// otherEvents is how many events of a stream bring no piece of the answer: those
// before it, such as that of the role, and if it is whole those after it.
func otherEvents(path string, whole bool) int64 {
	before, after := int64(0), int64(1)
	switch path {
	case "/v1/chat/completions":
		before, after = 1, 2 // a role; a reason, [DONE]
	case "/v1/messages":
		before, after = 2, 3 // message and block begin; both end
	case "/v1/responses":
		before, after = 4, 4 // likewise, and the parts of an item
	}
	if whole {
		return before + after
	}
	return before
}

// within is a count that can be kept.
func within(c openai.Count) (int64, bool) {
	n, ok := c.Get()
	return min(max(n, 0), storage.MaxTokens), ok
}

// account gives the usage row of a request to the recorder: one, whatever became of
// it. Of requests without a known caller, where callers have keys, there is none:
// nobody is there to account to.
func (v *governor) account(o *router.Outcome) {
	who := callerOf(o.Identity)
	if who == nil && v.auth != nil {
		return
	}
	c, ok := o.Charge.(*charge)
	if !ok || !c.settled {
		c = &charge{count: v.counted(o, v.models.at.Load().from, o.Start)}
	}
	u := storage.Usage{
		RequestID: rowID(o), Asked: o.Model, Model: o.Served, Endpoint: o.Endpoint, Path: o.Path, Router: v.router, Stream: o.Stream,
		At: o.Start, Latency: max(0, o.End.Sub(o.Start)), Status: o.Status, Result: o.Result.String(), Code: o.Code, Retries: max(0, o.Attempts-1),
	}
	if u.Model == "" {
		u.Model = o.Model
	}
	switch {
	case who != nil:
		u.KeyID, u.Owner = who.id.KeyID(), who.id.Owner()
	case len(o.Identity.Tenant) <= maxKeyID:
		u.KeyID = o.Identity.Tenant // as an embedder's own hook has it
	}
	if !o.FirstContent.IsZero() {
		c.row.ttft = max(0, o.FirstContent.Sub(o.Start))
		u.TTFT = &c.row.ttft
	}
	if c.held != nil && !c.undone {
		if b, ok := c.held.Budget(); ok {
			c.row.charged = storage.BudgetPeriod{KeyID: b.Subject, Period: storage.Period(b.Period), Start: b.Start}
			u.Charged = &c.row.charged
		}
	}
	c.held, c.prices = nil, nil // the row keeps hold of c
	kept := &c.count
	u.Source = kept.source
	u.Tokens = storage.Tokens{
		Input: known(&kept.input, kept.hasInput), CachedInput: known(&kept.cached, kept.hasCached),
		Output: known(&kept.output, kept.hasOutput), Reasoning: known(&kept.reasoning, kept.hasReasoning),
	}
	u.CostNanos = known(&kept.cost, kept.priced)
	u.Tidy()
	v.usage.Record(&u)
}

// known is n, or nil for what is not known.
func known(n *int64, is bool) *int64 {
	if is {
		return n
	}
	return nil
}

// maxKeyID is how long the ID of a key is at most.
const maxKeyID = 64

// rowID is what a request's row is known by: its ID, or one of our own before it where
// the client has chosen it, for clients use one ID twice.
func rowID(o *router.Outcome) string {
	if !o.ClientID {
		return o.ID
	}
	const most = 128 - 37 // 36 characters of our own and a point
	return router.NewRequestID(o.Start) + "." + o.ID[:min(len(o.ID), most)]
}
