package workload

import (
	"math/rand/v2"
	"slices"
	"strings"
)

// A prompt is the texts of its blocks, one after the other. The text of a
// block depends on its id and the prompter's seed alone: first the id itself,
// spelt as words of six letters, then common words, which no id is spelt like.
// So two blocks of one seed differ in their first word, or, with ids from
// identities up, as soon as the words that spell them do.
const (
	// identities is how many ids one word of six letters tells apart.
	identities = 26 * 26 * 26 * 26 * 26 * 26
	// scatter, prime to identities, spreads ids that are near each other.
	scatter = 0x9e3779b1
	// proseWords is the length of the text that blocks continue with, each
	// from another place in it.
	proseWords = 8192
	// wordBytes bounds a word with the space before it.
	wordBytes = 7
)

// The product with scatter must not overflow.
const _ uint64 = scatter * identities

// Prompter makes prompt texts for the requests of a trace. It is immutable and
// may be used concurrently. It holds about 70 kB.
type Prompter struct {
	blockTokens int
	salt        uint64   // of the seed; 0 for seed 0
	prose       string   // words, each after a space
	at          []uint16 // where in prose each word's space stands, and the end
}

// NewPrompter returns a Prompter, of seed 0, for the requests of t. It keeps
// nothing of t.
func NewPrompter(t *Trace) *Prompter {
	p := &Prompter{blockTokens: t.BlockTokens, at: make([]uint16, 0, proseWords+1)}
	words := strings.Fields(commonWords)
	rng := rand.New(rand.NewPCG(1, 2)) // fixed: prompts are the same in every process
	var prose strings.Builder
	for range proseWords {
		p.at = append(p.at, uint16(prose.Len())) // at most 6 bytes a word: fits
		prose.WriteByte(' ')
		prose.WriteString(words[rng.IntN(len(words))])
	}
	p.prose, p.at = prose.String(), append(p.at, uint16(prose.Len()))
	return p
}

// Seeded returns a Prompter whose texts are as long and share as much among
// themselves, but are other ones: a text of one seed and one of another differ
// in their first word or, one pair in 300 million, soon after. So an engine
// that was sent a trace with one seed has nothing of it in its prefix cache
// when it is sent with the next. The texts that a trace has itself stay as they
// are. Any seed is good.
func (p *Prompter) Seeded(seed uint64) *Prompter {
	c := *p
	c.salt = mix(seed) ^ mix(0)
	return &c
}

// Append appends the prompt of r, a request of the trace, to dst and returns
// the longer slice: r.Text if it has one, else exactly r.PromptTokens tokens
// in the count of [sim.CountTokens], as words of ASCII letters joined by
// single spaces, which JSON need not escape. It allocates only to grow dst, by
// [Prompter.MaxBytes].
//
// Two texts begin with the same words as far as the requests have the same
// blocks, and no further; what a request shares with none is made from its
// Seq. (Prompts that end with the first token of a block are the exception if
// the block's id is 26⁶ or more.)
//
// A chat template adds tokens of its own.
func (p *Prompter) Append(dst []byte, r *Request) []byte {
	if r.Text != "" {
		return append(dst, r.Text...)
	}
	dst = slices.Grow(dst, p.MaxBytes(r))
	left, begin := r.PromptTokens, len(dst)
	if p.blockTokens > 0 {
		for _, id := range r.Blocks {
			if left <= 0 {
				break
			}
			n := min(left, p.blockTokens)
			dst = p.appendBlock(dst, id, n, 'a', len(dst) == begin)
			left -= n
		}
	}
	if left > 0 {
		// A capital tells it from every block.
		dst = p.appendBlock(dst, r.Seq, left, 'A', len(dst) == begin)
	}
	return dst
}

// MaxBytes bounds what Append adds for r.
func (p *Prompter) MaxBytes(r *Request) int { return max(len(r.Text), wordBytes*r.PromptTokens) }

// appendBlock appends n words, one or more: the block's id, the first letter
// counted from capital, then common ones. Every word has its leading space
// unless it begins the prompt.
func (p *Prompter) appendBlock(dst []byte, id uint64, n int, capital byte, begins bool) []byte {
	for v := id; ; {
		if !begins {
			dst = append(dst, ' ')
		}
		dst = appendIdentity(dst, (v%identities+p.salt%identities)%identities, capital)
		v /= identities
		if n--; n == 0 {
			return dst
		}
		if v == 0 {
			break
		}
		begins = false
	}
	// The simulated tokenizer has fewer tokens than there are identities.
	// Three single words make it all but impossible that two blocks, though
	// spelt otherwise, give it the same tokens.
	h := mix(id ^ uint64(capital)<<56 ^ p.salt)
	for range 3 {
		dst = p.appendProse(dst, int(h%proseWords), 1)
		h /= proseWords
		if n--; n == 0 {
			return dst
		}
	}
	for from := int(h % proseWords); n > 0; from = 0 {
		take := min(n, proseWords-from)
		dst = p.appendProse(dst, from, take)
		n -= take
	}
	return dst
}

func (p *Prompter) appendProse(dst []byte, from, n int) []byte {
	return append(dst, p.prose[p.at[from]:p.at[from+n]]...)
}

// appendIdentity spells v, below identities, in six letters.
func appendIdentity(dst []byte, v uint64, capital byte) []byte {
	v = (v + 1) * scatter % identities // 1: or id 0 were six times the letter a
	for i := range 6 {
		first := byte('a')
		if i == 0 {
			first = capital
		}
		dst = append(dst, first+byte(v%26))
		v /= 26
	}
	return dst
}
