package gateway

import (
	"errors"

	"github.com/llmgw/llmgw/router/openai"
	"github.com/llmgw/llmgw/router/prefix"
)

// prompt is one request's prompt on its way. Prompts are pooled, so that a request
// allocates nothing for it.
type prompt struct {
	x    *prefixes
	path uint32 // its bit in member.says
	peek *openai.Peek
	body []byte

	model string // below which chain is rooted; empty: not read yet
	state readState
	chain prefix.Chain
	found prefix.Result

	sent prefix.Sent
	to   *member // that sent was sent to; nil: nobody, or what became of it is told
}

// readState is what came of reading a body.
type readState uint8

const (
	readNothing readState = iota // too short to share, or not understood
	readWhole
	readPart // of a very long one
)

const (
	// maxPromptBytes bounds how much of a prompt is read: some 128,000 tokens, the
	// context of most models. Two that are alike so far are taken to be alike.
	maxPromptBytes = 512 << 10
	// keptPromptBytes bounds the prompts whose memory is kept, an eighth of them,
	// for the next ones.
	keptPromptBytes = 1 << 20
)

// errEnough ends the reading of a long prompt.
var errEnough = errors.New("gateway: enough of the prompt is read")

// read makes the chain that of the model, and reports whether there is something
// to look up. Models never share what was computed, so a fallback's chain is
// another.
func (p *prompt) read(model string) bool {
	if p.model == model {
		return p.state != readNothing
	}
	p.model, p.state = model, readNothing
	p.chain.Reset(prefix.Root(model))
	switch err := p.peek.WritePrompt(p, p.body); {
	case errors.Is(err, errEnough):
		p.state = readPart
	case err == nil && p.chain.Bytes() >= prefix.ChunkBytes:
		p.state = readWhole
	}
	return p.state != readNothing
}

// Write takes a piece of the prompt from WritePrompt.
func (p *prompt) Write(b []byte) (int, error) {
	if p.chain.Bytes() > maxPromptBytes {
		return 0, errEnough
	}
	return p.chain.Write(b)
}

// Answered implements [router.Prompt].
func (p *prompt) Answered(u openai.Usage) {
	m := p.to
	p.to = nil
	if m == nil || p.state != readWhole {
		return // how many of the tokens are of the part that was read nobody knows
	}
	tokens, _ := u.PromptTokens.Get()
	cached, known := u.CachedTokens.Get()
	p.x.index.Observe(p.sent, &p.chain, prefix.Usage{
		PromptTokens: tokens, CachedTokens: cached, CachedKnown: m.tellsCached(p.path, known),
	})
}

// tellsCached reports whether an answer says how many tokens were cached. vLLM
// leaves the number out where it is 0, whatever it was asked for: on a path that
// has told of some before, silence means 0.
func (m *member) tellsCached(path uint32, said bool) bool {
	if m.says.Load()&path != 0 {
		return true
	}
	if said {
		m.says.Or(path)
	}
	return said
}

// Lost implements [router.Prompt].
func (p *prompt) Lost() {
	if p.to != nil {
		p.x.index.Failed(p.sent, &p.chain)
		p.to = nil
	}
}

// Release implements [router.Prompt].
func (p *prompt) Release() {
	x := p.x
	if p.chain.Bytes() > keptPromptBytes {
		return
	}
	p.x, p.peek, p.body, p.model, p.to = nil, nil, nil, "", nil
	x.prompts.Put(p)
}

// pathBit returns the bit of a path in member.says. What has none of its own
// shares one.
func pathBit(path string) uint32 {
	switch path {
	case "/v1/chat/completions":
		return 1
	case "/v1/completions":
		return 2
	case "/v1/responses":
		return 4
	case "/v1/messages":
		return 8
	}
	return 16
}
