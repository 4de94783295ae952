package sim

import (
	"slices"
	"sort"
	"time"
)

// plan chooses what the iteration that starts at start computes; false means
// nothing.
func (c *Core) plan(start time.Duration) bool {
	budget := c.cfg.MaxNumBatchedTokens
	for i := 0; i < len(c.running) && budget > 0; i++ {
		s := c.running[i]
		n := s.tokens - s.computed
		if n == 1 && s.room > 0 && s.generated > 0 { // the common case: decode into a block it has
			s.room--
			s.planned = 1
			budget--
			c.work.decoding++
			c.work.kvRead += int64(s.tokens)
			continue
		}
		n = min(n, budget)
		if !c.grow(s, n) {
			break // s itself was preempted, and with it the end of the batch
		}
		c.schedule(s, n)
		budget -= n
	}
	if c.preemptedNow == 0 {
		c.admit(start, budget)
	}
	return c.work.decoding > 0 || c.work.prefillTokens > 0
}

// schedule books n tokens of s, whose blocks are there.
func (c *Core) schedule(s *Sequence, n int) {
	s.planned = n
	s.room -= n
	if s.generated > 0 && n == 1 && s.computed+1 == s.tokens {
		c.work.decoding++
		c.work.kvRead += int64(s.tokens)
		return
	}
	c.work.prefillTokens += n
	c.work.attentionPairs += int64(n) * (int64(s.computed) + int64(n)/2)
	if s.preempted {
		c.stats.RecomputedPromptTokens += int64(n)
	}
}

// grow gives s blocks for n more tokens, preempting from the end of the batch
// as long as they are short; false means that s was the one to go.
func (c *Core) grow(s *Sequence, n int) bool {
	need := c.blocksFor(n - s.room)
	for c.pool.free < need {
		victim := c.running[len(c.running)-1]
		c.preempt(victim)
		if victim == s {
			return false
		}
	}
	c.extend(s, need)
	return true
}

func (c *Core) extend(s *Sequence, blocks int) {
	for range blocks {
		s.blocks = append(s.blocks, c.pool.take())
	}
	s.room += blocks * c.cfg.BlockSize
}

// blocksFor is how many blocks tokens need, 0 for none or fewer.
func (c *Core) blocksFor(tokens int) int {
	return max(0, (tokens+c.cfg.BlockSize-1)/c.cfg.BlockSize)
}

// preempt takes the last running sequence out of the batch. What it generated
// stays and is prefilled again with the prompt.
func (c *Core) preempt(s *Sequence) {
	c.running[len(c.running)-1] = nil
	c.running = c.running[:len(c.running)-1]
	c.pool.release(s.blocks)
	s.blocks = s.blocks[:0]
	s.computed, s.room, s.planned, s.need = 0, 0, 0, 0
	if s.hashes != nil {
		s.nextFull = c.cfg.BlockSize
	}
	s.state, s.preempted = stateWaiting, true
	if c.head > 0 {
		c.head--
		c.waiting[c.head] = s
	} else {
		c.waiting = slices.Insert(c.waiting, 0, s)
	}
	c.stats.Preemptions++
	c.preemptedNow++
}

// admit moves waiting sequences into the batch while tokens, places and
// blocks last. The next that does not fit stops it: nobody overtakes.
func (c *Core) admit(start time.Duration, budget int) {
	for c.head < len(c.waiting) && budget > 0 && len(c.running) < c.cfg.MaxNumSeqs {
		at := c.foremost(start)
		s := c.waiting[at]
		if s.ready > start || c.pool.free < s.need {
			return
		}
		hit, idle := c.lookup(s)
		n := min(s.tokens-hit*c.cfg.BlockSize, budget)
		fresh := c.blocksFor(n)
		if c.pool.free < idle+fresh {
			// Looked up again only when so many are free: a lookup is
			// O(prompt), and the queue's head is tried every iteration.
			s.need = idle + fresh
			return
		}
		for _, h := range s.hashes[:hit] {
			id, _ := c.pool.find(h)
			c.pool.share(id)
			s.blocks = append(s.blocks, id)
		}
		s.computed = hit * c.cfg.BlockSize
		if s.hashes != nil {
			s.nextFull = s.computed + c.cfg.BlockSize
			if hit == len(s.hashes) {
				s.nextFull = noMore
			}
		}
		c.extend(s, fresh)
		if !s.preempted {
			s.cached, s.scheduled = s.computed, start
			c.stats.PrefixQueryTokens += int64(s.prompt)
			c.stats.PrefixHitTokens += int64(s.computed)
		}
		c.unqueue(at)
		s.state = stateRunning
		c.enter(s)
		c.schedule(s, n)
		budget -= n
	}
}

// lookup returns how many whole blocks of s are cached, and how many of these
// nobody references. At least the last token is always computed.
func (c *Core) lookup(s *Sequence) (hit, idle int) {
	limit := min(len(s.hashes), (s.tokens-1)/c.cfg.BlockSize)
	for ; hit < limit; hit++ {
		id, ok := c.pool.find(s.hashes[hit])
		if !ok {
			break
		}
		if c.pool.nodes[id].refs == 0 {
			idle++
		}
	}
	return hit, idle
}

// before is the order of [PolicyPriority]: the lower number, then who came first.
func before(s, other *Sequence) bool {
	if s.priority != other.priority {
		return s.priority < other.priority
	}
	return s.arrived < other.arrived
}

// foremost returns where in the queue the sequence stands that is next.
func (c *Core) foremost(start time.Duration) int {
	at := c.head
	if c.cfg.SchedulingPolicy != PolicyPriority {
		return at
	}
	for i := c.head + 1; i < len(c.waiting); i++ {
		if s := c.waiting[i]; s.ready <= start && before(s, c.waiting[at]) {
			at = i
		}
	}
	return at
}

// unqueue takes a sequence out of the queue, which keeps the order in which they
// came.
func (c *Core) unqueue(at int) {
	if at > c.head {
		c.waiting = slices.Delete(c.waiting, at, at+1)
		return
	}
	c.waiting[c.head] = nil
	c.head++
	if c.head == len(c.waiting) {
		c.waiting, c.head = c.waiting[:0], 0
	}
}

// enter puts s into the batch, at whose end stands who is preempted first.
func (c *Core) enter(s *Sequence) {
	at := len(c.running)
	if c.cfg.SchedulingPolicy == PolicyPriority {
		at = sort.Search(len(c.running), func(i int) bool { return before(s, c.running[i]) })
	}
	c.running = slices.Insert(c.running, at, s)
}
