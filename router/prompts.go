package router

import (
	"context"

	"github.com/llmgw/llmgw/router/openai"
)

// Prompts reads prompts for the index of prefixes that the scheduler asks
// (schedule.Deps.Prefixes).
type Prompts interface {
	// Prompt returns what stands for the prompt of a body that was sent to path and
	// peek has read; nil for one that is not to be looked up. It is called once for each request whose
	// body has its whole prompt, before the first decision, and must not block. Of
	// peek and body nothing may be used once Answered was called or the request is
	// over, nor after the index's Picked unless a further decision follows.
	Prompt(path string, peek *openai.Peek, body []byte) Prompt
}

// Prompt is one request's prompt: what decisions have in schedule.Request.Prompt.
// One goroutine at a time has it.
type Prompt interface {
	// Answered tells what the engine that was picked last said of the prompt. It is
	// called at most once.
	Answered(u openai.Usage)
	// Lost tells that the engine that was picked last did not compute the prompt, as
	// far as is known. Another may be picked after it.
	Lost()
	// Release gives the prompt back. It is called once the request has ended, and is
	// the last call; not after a panic.
	Release()
}

// Preparer is a [Prompt] that is to be told before decisions which model they are
// about.
type Preparer interface {
	// Prepare is called before the first decision about a model. It may wait for some
	// milliseconds, and less if ctx is done, and reports whether it did.
	Prepare(ctx context.Context, model string) (waited bool)
}

// beginPrompt prepares for the index what decisions are to know of the prompt. A body
// that goes on from what an engine keeps does not have all of it.
func (c *call) beginPrompt(data []byte) {
	if c.rt.readsPrompt(c.route, &c.peek, c.pin) {
		c.prompt = c.rt.deps.Prompts.Prompt(c.route.path, &c.peek, data)
		c.out.Prompt = c.prompt
	}
}

func (rt *Router) readsPrompt(at route, p *openai.Peek, pin string) bool {
	return rt.deps.Prompts != nil && at.prompt && pin == "" && !p.HasPrevious && !p.HasConversation
}

// endAttempt tells the index what became of the prompt at the endpoint it was sent
// to. What a client did not wait for, or an engine broke off, was computed if there
// is content, but its usage is not to be trusted: engines say all only at the end.
func (c *call) endAttempt(again bool) {
	o := &c.out
	switch {
	case c.prompt == nil:
	case again:
		c.prompt.Lost()
	case o.Result == ResultOK:
		if o.HasUsage {
			c.prompt.Answered(o.Usage)
		}
	case o.FirstContent.IsZero():
		c.prompt.Lost()
	}
}
