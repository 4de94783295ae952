package sim

import (
	"slices"
	"time"

	"github.com/llmgw/llmgw/engines/kvevents"
)

// maxLag is how late a Step may come and still be treated as punctual: the
// next iteration then starts when the last one ended. A later one starts at
// the time of the call, so that a stalled driver makes no burst.
const maxLag = 100 * time.Millisecond

// Core is the engine as a discrete-event model: a FIFO queue, a running batch
// and a KV cache, advanced one batch iteration at a time. It holds no
// goroutine, timer or clock: the caller says what time it is. The same calls
// give the same events. Not safe for concurrent use.
//
// Scheduling follows vLLM v1 (vllm/v1/core/sched/scheduler.py): running
// sequences first, then waiting ones, under one budget of tokens that prefill
// and decode share; when blocks run out the sequence that started last, or
// matters least, is preempted, loses its blocks and goes to the head of the queue.
type Core struct {
	cfg   Config
	costs costs
	pool  *blockPool

	origin  time.Time // the first time heard; inside, times are offsets from it
	started bool
	busy    bool          // an iteration is under way
	begun   time.Duration // its start
	end     time.Duration // its end
	work    load

	running []*Sequence
	waiting []*Sequence // FIFO from head on
	head    int

	advanced, finished []*Sequence // backing of Batch, reused
	stats              Stats
	preemptedNow       int
}

// Batch is what one batch iteration did. Its slices are reused by the next
// Step. One without an End means that no iteration ended.
type Batch struct {
	Start, End     time.Time
	PrefillTokens  int         // prompt tokens computed
	DecodeTokens   int         // sequences that were decoding
	Advanced       []*Sequence // each has one more token than before
	Finished       []*Sequence // ended here; those with output are in Advanced too
	Preemptions    int         // sequences that lost their blocks as it was planned
	Running, Depth int         // sequences running and waiting after it

	// CacheEvents is what happened to the prefix cache since the last Step, in
	// order; also in a Batch of no iteration, and never without
	// Config.KVEvents.Enabled. Tokens and hashes are parts of the requests'.
	CacheEvents []kvevents.Event
}

// Stats are a Core's gauges, and counters since it was made.
type Stats struct {
	Running, Waiting       int
	UsedBlocks, Blocks     int
	PrefixQueryTokens      int64 // prompt tokens looked up in the prefix cache
	PrefixHitTokens        int64 // of these, found
	PromptTokens           int64 // prefilled to the end, cached ones included
	CachedPromptTokens     int64 // of these, taken from the cache
	GenerationTokens       int64
	Preemptions            int64
	Iterations             int64
	RecomputedPromptTokens int64 // computed again after a preemption
}

// KVUsedRatio is the referenced part of the KV cache, in [0,1].
func (s Stats) KVUsedRatio() float64 { return float64(s.UsedBlocks) / float64(s.Blocks) }

// NewCore validates cfg and returns an idle core. Only the fields from
// MaxModelLen to Speed, and KVEvents.Enabled, matter to it.
func NewCore(cfg Config) (*Core, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	c := &Core{
		cfg:   cfg,
		costs: newCosts(cfg.Timing, cfg.Speed),
		pool:  newBlockPool(cfg.NumGPUBlocks),
	}
	if cfg.KVEvents.Enabled {
		c.pool.log = &cacheLog{blockSize: cfg.BlockSize}
	}
	return c, nil
}

// Stats returns the current gauges and counters.
func (c *Core) Stats() Stats {
	s := c.stats
	s.Running, s.Waiting = len(c.running), len(c.waiting)-c.head
	s.Blocks = c.pool.total()
	s.UsedBlocks = s.Blocks - c.pool.free
	return s
}

// Idle reports whether nothing runs, waits or is under way.
func (c *Core) Idle() bool { return !c.busy && len(c.running) == 0 && c.head == len(c.waiting) }

// ClearPrefixCache forgets all cached content, as after a restart. Sequences
// that run keep their blocks.
func (c *Core) ClearPrefixCache() { c.pool.clear() }

func (c *Core) since(now time.Time) time.Duration {
	if !c.started {
		c.origin, c.started = now, true
	}
	return now.Sub(c.origin)
}

// Submit queues a request that arrives at now. It joins a batch in a later
// Step; when the core was idle, call Step at once. The request must satisfy
// its own documented bounds: Submit panics otherwise, since the caller has to
// refuse it towards the client.
func (c *Core) Submit(now time.Time, r Request) *Sequence {
	if r.PromptTokens < 1 || r.OutputTokens < 0 || r.PromptTokens+r.OutputTokens > c.cfg.MaxModelLen {
		panic("sim: request outside the context length")
	}
	if c.pool.log != nil && len(r.Tokens) < len(r.Blocks)*c.cfg.BlockSize {
		panic("sim: request without the tokens of its blocks")
	}
	t := c.since(now)
	s := &Sequence{
		Owner:    r.Owner,
		tokens:   r.PromptTokens,
		prompt:   r.PromptTokens,
		output:   r.OutputTokens,
		hashes:   r.Blocks,
		content:  r.Tokens,
		salt:     r.CacheSalt,
		priority: r.Priority,
		arrived:  t,
		ready:    t + c.costs.request,
		state:    stateWaiting,
		nextFull: c.cfg.BlockSize,
	}
	if !c.cfg.PrefixCaching || len(s.hashes) == 0 {
		s.hashes, s.nextFull = nil, noMore
	}
	if c.head > 64 && c.head*2 > len(c.waiting) {
		n := copy(c.waiting, c.waiting[c.head:])
		clear(c.waiting[n:])
		c.waiting, c.head = c.waiting[:n], 0
	}
	c.waiting = append(c.waiting, s)
	return s
}

// Abort ends s at once and frees its blocks; false means it had ended before.
// The iteration under way keeps its length.
func (c *Core) Abort(s *Sequence) bool {
	switch s.state {
	case stateWaiting:
		i := c.head + slices.Index(c.waiting[c.head:], s)
		c.waiting = slices.Delete(c.waiting, i, i+1)
	case stateRunning:
		i := slices.Index(c.running, s)
		c.running = slices.Delete(c.running, i, i+1)
		c.pool.release(s.blocks)
		s.blocks = nil
	default:
		return false
	}
	s.state = stateAborted
	return true
}

// Step ends the batch iteration that is due at now, if one is, and starts the
// next. It returns what the ended one did and when to call again; the zero
// time means not before the next Submit. A call that comes early changes
// nothing. It costs O(running sequences).
func (c *Core) Step(now time.Time) (b Batch, next time.Time) {
	next = c.step(c.since(now), &b)
	if c.pool.log != nil {
		b.CacheEvents = c.pool.log.take()
	}
	return b, next
}

func (c *Core) step(t time.Duration, b *Batch) (next time.Time) {
	start := t
	if c.busy {
		if t < c.end {
			return c.origin.Add(c.end)
		}
		if t-c.end <= maxLag {
			start = c.end
		}
		c.busy = false
		c.complete(b)
	}
	c.work = load{}
	c.preemptedNow = 0
	if c.plan(start) {
		c.busy, c.begun, c.end = true, start, start+c.costs.duration(&c.work)
		c.stats.Iterations++
		return c.origin.Add(c.end)
	}
	if c.head < len(c.waiting) {
		// Everything that waits is still on its way through the front end.
		return c.origin.Add(c.waiting[c.head].ready)
	}
	return time.Time{}
}

// complete gives the sequences of the ended iteration their tokens and tells b.
// Slots that already hold the right pointer are not written: that would cost a
// write barrier per token while the garbage collector runs.
func (c *Core) complete(b *Batch) {
	c.finished = c.finished[:0]
	kept, advanced := 0, 0
	for i, s := range c.running {
		if s.planned > 0 {
			s.computed += s.planned
			s.planned = 0
			if s.computed >= s.nextFull {
				c.remember(s)
			}
			if s.computed == s.tokens {
				if s.generated == 0 {
					c.prefilled(s)
				}
				if s.output > 0 {
					s.tokens++
					s.generated++
					s.previous, s.last = s.last, c.end
					c.advanced = place(c.advanced, advanced, s)
					advanced++
				}
				if s.generated == s.output {
					c.finish(s)
					continue
				}
			}
		}
		if kept != i {
			c.running[kept] = s
		}
		kept++
	}
	clear(c.running[kept:])
	c.running = c.running[:kept]
	clear(c.advanced[advanced:])
	c.advanced = c.advanced[:advanced]
	c.stats.GenerationTokens += int64(advanced)
	b.Start, b.End = c.origin.Add(c.begun), c.origin.Add(c.end)
	b.PrefillTokens, b.DecodeTokens = c.work.prefillTokens, c.work.decoding
	b.Advanced, b.Finished, b.Preemptions = c.advanced, c.finished, c.preemptedNow
	b.Running, b.Depth = len(c.running), len(c.waiting)-c.head
}

// place puts s at index i of list, at most one past its end.
func place(list []*Sequence, i int, s *Sequence) []*Sequence {
	if i == len(list) {
		return append(list, s)
	}
	if list[i] != s {
		list[i] = s
	}
	return list
}

// prefilled notes that the prompt of s is in the cache for the first time.
func (c *Core) prefilled(s *Sequence) {
	s.firstToken = c.end
	c.stats.PromptTokens += int64(s.prompt)
	c.stats.CachedPromptTokens += int64(s.cached)
}

func (c *Core) finish(s *Sequence) {
	s.state, s.last = stateFinished, c.end
	c.pool.release(s.blocks)
	s.blocks = nil
	c.finished = append(c.finished, s)
}

// remember publishes the blocks of s that have become full.
func (c *Core) remember(s *Sequence) {
	full := s.computed / c.cfg.BlockSize
	i := s.nextFull/c.cfg.BlockSize - 1
	for ; i < full && i < len(s.hashes); i++ {
		if c.pool.remember(s.blocks[i], s.hashes[i]) {
			c.pool.log.stored(s, i)
		}
	}
	s.nextFull = (i + 1) * c.cfg.BlockSize
	if i >= len(s.hashes) {
		s.nextFull = noMore
	}
}
