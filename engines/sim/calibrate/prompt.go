package calibrate

import (
	"math/rand/v2"
	"strings"

	"github.com/llmgw/llmgw/engines/sim"
	"github.com/llmgw/llmgw/engines/sim/workload"
)

// minWords keeps two prompts from beginning alike for long.
const minWords = 16

// prompter makes prompts that share no beginning: those of package workload,
// so that an engine is measured with the text that traces are replayed with,
// or words of the caller's. Not for concurrent use.
type prompter struct {
	words    []string // nil: workload's
	texts    *workload.Prompter
	rng      *rand.Rand
	overhead int // simulated tokens of the chat template
}

func newPrompter(cfg Config) *prompter {
	seed := cfg.Seed
	for seed == 0 {
		seed = rand.Uint64()
	}
	p := &prompter{
		words: cfg.Words,
		texts: workload.NewPrompter(&workload.Trace{}),
		rng:   rand.New(rand.NewPCG(seed, 0)),
	}
	if cfg.API == Chat {
		p.overhead = sim.CountChatTokens("")
	}
	return p
}

// prompt returns a text that makes about tokens simulated tokens with the
// template, and how many it makes.
func (p *prompter) prompt(tokens int) (string, int) {
	want := max(1, tokens-p.overhead)
	if len(p.words) == 0 {
		text := p.texts.Append(nil, &workload.Request{PromptTokens: want, Seq: p.rng.Uint64()})
		return string(text), want + p.overhead
	}
	var b strings.Builder
	n := 0
	for n < want {
		word := p.words[p.rng.IntN(len(p.words))]
		if b.Len() > 0 {
			word = " " + word
		}
		n += sim.CountTokens(word)
		b.WriteString(word)
	}
	return b.String(), n + p.overhead
}
