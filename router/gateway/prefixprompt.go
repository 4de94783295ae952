package gateway

import (
	"bytes"
	"context"
	"errors"
	"hash/maphash"

	"github.com/llmgw/llmgw/router/openai"
	"github.com/llmgw/llmgw/router/prefix"
)

// prompt is one request's prompt on its way. Prompts are pooled, so that a request
// allocates nothing for it.
type prompt struct {
	// What every prompt needs stands together, and first.
	x    *prefixes
	path uint32 // its bit in member.says
	// trial: the request is not going to be sent; what is only looked at must
	// neither count nor be kept for it.
	trial   bool
	state   readState
	hashing bool // some engine tells its cache of the model
	hashed  bool // some was, of this model or of one before
	peek    *openai.Peek
	body    []byte
	model   string    // below which chain is rooted; empty: not read yet
	to      *member   // that sent was sent to; nil: nobody, or what became of it is told
	under   prefix.ID // that it is under way at; zero: nowhere
	chain   prefix.Chain
	found   prefix.Result
	sent    prefix.Sent

	written []uint64 // for the recorder; see recorded

	// Of models of which an engine tells its cache: used where hashed is set.
	hash     maphash.Hash
	turns    [keptTurns]turnEnd // the last ones, a ring
	ended    int                // turns so far
	sum      uint64             // of all
	salt     string
	whole    *tokenized // its tokens; nil: not known
	tokens   []uint32   // its tokens, or the first ones; empty: not known
	tokensOf int        // how many there are up to
	bytesOf  int        // so many bytes
	exact    []exactMatch
	blocks   prefix.Result
	begun    prefix.Result
	held     []beginning
	marks    []uint32 // by slot of a follower: those that are in held have marked
	marked   uint32
	promised int // tokens, by events; -1: by another source
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
	if p.hashed {
		p.tokens, p.whole = nil, nil
	}
	if p.hashing = len(p.x.exact.all.Load().models[model]) > 0; p.hashing {
		p.hashed, p.ended = true, 0
		p.hash.SetSeed(p.x.exact.tokens.seed)
		_, _ = p.hash.WriteString(model)
		_ = p.hash.WriteByte(byte(p.path))
	}
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
	if p.hashing {
		p.count(b)
	}
	return p.chain.Write(b)
}

// count makes the sums of p by which its tokens are known.
func (p *prompt) count(b []byte) {
	at := p.chain.Bytes()
	for {
		i := bytes.IndexByte(b, turnMark)
		if i < 0 {
			_, _ = p.hash.Write(b)
			return
		}
		_, _ = p.hash.Write(b[:i])
		if at += i; at > 0 {
			p.turns[p.ended%keptTurns] = turnEnd{p.hash.Sum64(), at}
			p.ended++
		}
		_ = p.hash.WriteByte(turnMark)
		b, at = b[i+1:], at+1
	}
}

// turnEnds returns where the last turns of p end, the last of all aside, in their
// order.
func (p *prompt) turnEnds() []turnEnd {
	if p.ended <= keptTurns {
		return p.turns[:p.ended]
	}
	first := p.ended % keptTurns
	rotated := p.turns
	n := copy(p.turns[:], rotated[first:])
	copy(p.turns[n:], rotated[:first])
	p.ended = keptTurns // in order, and a further call leaves them so
	return p.turns[:]
}

// Prepare implements [router.Preparer].
func (p *prompt) Prepare(ctx context.Context, model string) (waited bool) {
	return p.read(model) && p.x.exact.prepare(ctx, p, model)
}

// Answered implements [router.Prompt].
func (p *prompt) Answered(u openai.Usage) {
	m := p.to
	p.to = nil
	p.x.exact.over(p, true)
	if m == nil || p.state != readWhole {
		return // how many of the tokens are of the part that was read nobody knows
	}
	tokens, _ := u.PromptTokens.Get()
	cached, known := u.CachedTokens.Get()
	known = m.tellsCached(p.path, known)
	p.x.index.Observe(p.sent, &p.chain, prefix.Usage{PromptTokens: tokens, CachedTokens: cached, CachedKnown: known})
	p.x.exact.answered(p, tokens, cached, known)
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
	p.x.exact.over(p, false)
	if p.to != nil {
		p.x.index.Failed(p.sent, &p.chain)
		p.to = nil
	}
}

// Release implements [router.Prompt].
func (p *prompt) Release() {
	x := p.x
	x.exact.over(p, true)
	if p.chain.Bytes() > keptPromptBytes {
		return
	}
	p.x, p.peek, p.body, p.model, p.to = nil, nil, nil, "", nil
	if p.hashed {
		p.hashed, p.tokens, p.whole, p.salt = false, nil, nil, ""
		clear(p.held[:cap(p.held)])
		clear(p.exact[:cap(p.exact)])
	}
	x.prompts.Put(p)
}

const (
	pathChat = 1
	pathText = 2
)

// pathBit returns the bit of a path in member.says. What has none of its own
// shares one.
func pathBit(path string) uint32 {
	switch path {
	case chatRoute:
		return pathChat
	case textRoute:
		return pathText
	case "/v1/responses":
		return 4
	case "/v1/messages":
		return 8
	}
	return 16
}
