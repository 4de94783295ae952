package sim

// blockPool is the KV cache: numbered blocks, each free or referenced by
// sequences. A free block keeps its content, found by hash, until its room is
// needed; the least recently freed goes first. It mirrors vLLM's block pool
// (vllm/v1/core/block_pool.py). Every operation is O(1).
type blockPool struct {
	log    *cacheLog   // nil: nobody is told
	nodes  []blockNode // [0] is the sentinel of the free list
	byHash map[uint64]int32
	free   int // blocks without a reference, cached ones included
}

type blockNode struct {
	hash       uint64 // valid if cached
	prev, next int32  // free list; valid while refs is 0
	refs       int32
	cached     bool
}

func newBlockPool(blocks int) *blockPool {
	p := &blockPool{
		nodes:  make([]blockNode, blocks+1),
		byHash: make(map[uint64]int32),
		free:   blocks,
	}
	for i := range p.nodes {
		p.nodes[i].prev, p.nodes[i].next = int32(i)-1, int32(i)+1
	}
	p.nodes[0].prev, p.nodes[blocks].next = int32(blocks), 0
	return p
}

func (p *blockPool) total() int { return len(p.nodes) - 1 }

// take removes the head of the free list, forgetting what it held, and
// references it. The caller has checked p.free.
func (p *blockPool) take() int32 {
	id := p.nodes[0].next
	p.unlink(id)
	n := &p.nodes[id]
	if n.cached {
		delete(p.byHash, n.hash)
		n.cached = false
		p.log.removed(n.hash)
	}
	n.refs = 1
	return id
}

// find returns the block with this content.
func (p *blockPool) find(hash uint64) (int32, bool) {
	id, ok := p.byHash[hash]
	return id, ok
}

// share adds a reference to a block that find returned.
func (p *blockPool) share(id int32) {
	n := &p.nodes[id]
	if n.refs == 0 {
		p.unlink(id)
	}
	n.refs++
}

// remember publishes the content of a full, referenced block; true if it was
// not there to find before. If another block holds the same, that one stays the
// one to find.
func (p *blockPool) remember(id int32, hash uint64) bool {
	n := &p.nodes[id]
	if n.cached {
		return false
	}
	if _, ok := p.byHash[hash]; ok {
		return false
	}
	n.hash, n.cached = hash, true
	p.byHash[hash] = id
	return true
}

// release drops the references of ids, last block first, so that of one
// sequence the tail is evicted before the prefix others may share.
func (p *blockPool) release(ids []int32) {
	for i := len(ids) - 1; i >= 0; i-- {
		id := ids[i]
		n := &p.nodes[id]
		if n.refs--; n.refs > 0 {
			continue
		}
		p.free++
		after := p.nodes[0].prev // the tail: evicted last
		if !n.cached {
			after = 0 // nothing to keep: the head, used first
		}
		before := p.nodes[after].next
		n.prev, n.next = after, before
		p.nodes[after].next, p.nodes[before].prev = id, id
	}
}

func (p *blockPool) unlink(id int32) {
	n := &p.nodes[id]
	p.nodes[n.prev].next, p.nodes[n.next].prev = n.next, n.prev
	p.free--
}

// clear forgets the content of every block; references stay.
func (p *blockPool) clear() {
	clear(p.byHash)
	for i := range p.nodes {
		p.nodes[i].cached = false
	}
	p.log.cleared()
}
