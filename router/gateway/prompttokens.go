package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"time"

	"github.com/llmgw/llmgw/router/openai"
)

// turnEnd is a place in a prompt at which a turn ends.
type turnEnd struct {
	sum   uint64
	bytes int
}

// prepare gives p the tokens that are known of it, or of a beginning. For those of a
// prompt of which nothing is known it waits, t.wait at most, and reports that.
func (x *exacts) prepare(ctx context.Context, p *prompt, model string) (waited bool) {
	t := x.tokens
	if !p.hashing || p.state != readWhole {
		return false
	}
	p.tokens, p.whole, p.tokensOf, p.bytesOf = nil, nil, 0, 0
	if _, ok := kind(p.path); !ok {
		t.metrics.tokens[tokensUnsupported].Inc()
		return false
	}
	p.sum = p.hash.Sum64()
	p.salt = saltOf(p.body, p.peek.PromptSpan)
	if z, ok := t.get(p.sum); ok {
		t.metrics.tokens[tokensKnown].Inc()
		p.take(z)
		return false
	}
	from := x.all.Load().models[model]
	q, outcome := t.ask(p, model, from)
	if z, at := t.longest(p.turnEnds()); z != nil && len(z.tokens) > seamTokens {
		t.metrics.tokens[tokensExtended].Inc()
		p.tokens, p.tokensOf, p.bytesOf = z.tokens[:len(z.tokens)-seamTokens], len(z.tokens), p.turnEnds()[at].bytes
		return false
	}
	if q == nil {
		t.metrics.tokens[outcome].Inc()
		return false
	}
	if waited = t.wait > 0 && q.by.late.Load() < slowAfter; waited {
		timer := time.NewTimer(t.wait)
		defer timer.Stop()
		select {
		case <-q.done:
		case <-timer.C:
			q.by.late.Add(1)
		case <-ctx.Done():
		}
	}
	if z, ok := t.get(p.sum); ok {
		t.metrics.tokens[tokensFetched].Inc()
		p.take(z)
		return waited
	}
	t.metrics.tokens[tokensLate].Inc()
	return waited
}

// recall is prepare for a request that is not going to be sent: p gets the tokens
// that are known, and nobody is asked for more.
func (x *exacts) recall(p *prompt) {
	p.trial = true
	p.tokens, p.whole, p.tokensOf, p.bytesOf = nil, nil, 0, 0
	if _, ok := kind(p.path); !ok || !p.hashing || p.state != readWhole {
		return
	}
	p.sum = p.hash.Sum64()
	p.salt = saltOf(p.body, p.peek.PromptSpan)
	switch z, at := x.tokens.peek(p.sum, p.turnEnds()); {
	case z == nil:
	case at < 0:
		p.take(z)
	case len(z.tokens) > seamTokens:
		p.tokens, p.tokensOf, p.bytesOf = z.tokens[:len(z.tokens)-seamTokens], len(z.tokens), p.turnEnds()[at].bytes
	}
}

// take gives p all of its tokens.
func (p *prompt) take(z *tokenized) {
	p.whole, p.tokens, p.tokensOf, p.bytesOf = z, z.tokens, len(z.tokens), p.chain.Bytes()
}

// saltOf returns the cache salt of a body, "" if it has none. It stands outside the
// messages, which are long.
func saltOf(body []byte, messages openai.Span) string {
	key := []byte(`"cache_salt"`)
	if !bytes.Contains(body[:messages.Start], key) && !bytes.Contains(body[messages.End:], key) {
		return ""
	}
	var with struct {
		Salt string `json:"cache_salt"`
	}
	if json.Unmarshal(body, &with) != nil || len(with.Salt) > maxSaltBytes {
		return ""
	}
	return with.Salt
}

// maxSaltBytes bounds a salt that is looked at.
const maxSaltBytes = 4096

// tokensOutcome is how a request came to its prompt's tokens, or not.
type tokensOutcome uint8

const (
	tokensKnown       tokensOutcome = iota // they were known
	tokensExtended                         // those of a beginning were known
	tokensFetched                          // an engine said them in time
	tokensLate                             // it did not in time
	tokensBusy                             // the engines are asked as much as they may
	tokensAbsent                           // no engine is there to ask
	tokensUnsupported                      // no engine tokenizes such a request
	tokensFailed                           // an engine was asked in vain; beside one of those above
	tokensWrong                            // they were not as many as the engine then had; beside one of those above
	tokensOutcomes
)

// String returns the outcome as metrics name it.
func (o tokensOutcome) String() string {
	return [tokensOutcomes]string{
		"known", "extended", "fetched", "late", "busy", "absent", "unsupported", "failed", "wrong",
	}[o]
}
