package sim

import (
	"math"
	"math/bits"
	"time"
)

// Request is one sequence to generate.
type Request struct {
	// PromptTokens is the length of the prompt, 1 or more.
	PromptTokens int
	// OutputTokens is how many tokens it generates before it ends by itself,
	// 0 for one that is only prefilled (an embedding). With PromptTokens at
	// most Config.MaxModelLen.
	OutputTokens int
	// Blocks are the chained hashes of the prompt's full blocks (see
	// [BlockHashes]); those of the output may follow. Blocks beyond are never
	// cached. The core keeps the slice and does not write to it.
	Blocks []uint64
	// Tokens are those of Blocks, block size for each, if the core tells of
	// its cache (Config.KVEvents.Enabled); else they are not looked at. The
	// core keeps the slice and does not write to it.
	Tokens []uint32
	// CacheSalt is told with the first block; Blocks have to begin with it.
	CacheSalt string
	// Priority matters with [PolicyPriority] only: the lower runs first.
	Priority int
	// Owner is for the caller's use.
	Owner any
}

type sequenceState uint8

const (
	stateWaiting sequenceState = iota + 1
	stateRunning
	stateFinished
	stateAborted
)

// noMore, as nextFull, says that no further block will be published.
const noMore = math.MaxInt

// Sequence is a request inside a Core. Its methods may be called between the
// calls of that core, never during them.
type Sequence struct {
	// Owner is Request.Owner.
	Owner any

	// What every iteration touches comes first.
	tokens    int // prompt and generated
	computed  int // of these, in the KV cache when the iteration under way began
	planned   int // computed by the iteration under way
	room      int // free token slots in its blocks
	generated int
	nextFull  int // computed tokens at which the next block is published

	output, prompt, cached int
	need                   int // free blocks without which admission is not tried
	state                  sequenceState
	preempted              bool // ever
	blocks                 []int32
	hashes                 []uint64
	content                []uint32 // tokens of hashes, if somebody is told
	salt                   string
	priority               int
	arrived, ready         time.Duration
	scheduled, firstToken  time.Duration
	previous, last         time.Duration
}

// PromptTokens is the length of the prompt.
func (s *Sequence) PromptTokens() int { return s.prompt }

// CachedTokens is how many prompt tokens the prefix cache held when the
// sequence was first scheduled; 0 before.
func (s *Sequence) CachedTokens() int { return s.cached }

// Generated is how many tokens it has produced.
func (s *Sequence) Generated() int { return s.generated }

// Finished reports whether it ended by itself.
func (s *Sequence) Finished() bool { return s.state == stateFinished }

// Preempted reports whether it ever lost its blocks.
func (s *Sequence) Preempted() bool { return s.preempted }

// TTFT is the time from Submit to the first token, or to the end of prefill
// if there is no output. It is meaningful once that happened.
func (s *Sequence) TTFT() time.Duration { return s.firstToken - s.arrived }

// ITL is the time between its last two tokens, meaningful from the second on.
func (s *Sequence) ITL() time.Duration { return s.last - s.previous }

// Elapsed is the time from Submit to the last token.
func (s *Sequence) Elapsed() time.Duration { return s.last - s.arrived }

// Queued is the time from Submit until it first ran.
func (s *Sequence) Queued() time.Duration { return s.scheduled - s.arrived }

// BlockHashes returns the chained hashes of the full blocks of tokens: equal
// hashes mean equal tokens from the beginning. salt separates caches.
func BlockHashes(salt uint64, tokens []uint32, blockSize int) []uint64 {
	h := newChain(salt, blockSize, len(tokens))
	for _, t := range tokens {
		h.add(t)
	}
	return h.hashes
}

// chain hashes tokens block by block.
type chain struct {
	hashes    []uint64
	state     uint64
	fill      int
	blockSize int
}

func newChain(salt uint64, blockSize, capacity int) *chain {
	return &chain{
		hashes:    make([]uint64, 0, capacity/blockSize),
		state:     mix(salt, 0x9e3779b97f4a7c15),
		blockSize: blockSize,
	}
}

func (c *chain) add(token uint32) {
	c.state = mix(c.state^uint64(token), 0xa0761d6478bd642f)
	if c.fill++; c.fill == c.blockSize {
		c.hashes = append(c.hashes, c.state)
		c.fill = 0
	}
}

// mix folds the 128-bit product, as wyhash does.
func mix(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a^0xe7037ed1a0b428db, b^0x8ebc6af09c88c6e3)
	return hi ^ lo
}
