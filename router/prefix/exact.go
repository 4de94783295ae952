package prefix

import (
	"errors"
	"fmt"
	"math/bits"
	"sync"
)

// ExactConfig is the tunable data of an [Exact]. Start from DefaultExactConfig.
type ExactConfig struct {
	// MaxBlocks bounds the blocks of all endpoints together, one that two hold
	// counting twice. One takes up to some 150 bytes. Default 1048576; at
	// least 1024.
	MaxBlocks int `yaml:"max_blocks"`
	// MaxEndpoints bounds the endpoints. Default 4096; 1 to 65536.
	MaxEndpoints int `yaml:"max_endpoints"`
}

// DefaultExactConfig returns the defaults.
func DefaultExactConfig() ExactConfig { return ExactConfig{MaxBlocks: 1 << 20, MaxEndpoints: 4096} }

// Validate returns every problem of c, joined, each with the field's key.
func (c ExactConfig) Validate() error {
	var errs []error
	if c.MaxBlocks < 1024 {
		errs = append(errs, fmt.Errorf("max_blocks: %d is too small; want at least 1024", c.MaxBlocks))
	}
	if c.MaxEndpoints < 1 || c.MaxEndpoints > maxEndpoints {
		errs = append(errs, fmt.Errorf("max_endpoints: %d is out of range; want 1 to %d", c.MaxEndpoints, maxEndpoints))
	}
	return errors.Join(errs...)
}

// Stored is an event: an endpoint has cached blocks that follow each other.
type Stored struct {
	// Blocks are the engine's names of the blocks: its hashes, of longer ones
	// the last 8 bytes read big-endian. They mean nothing beyond the endpoint.
	Blocks []uint64
	// Parent is the block before the first; without HasParent that begins a
	// prompt.
	Parent    uint64
	HasParent bool
	// Tokens are those of all blocks, BlockTokens each.
	Tokens      []uint32
	BlockTokens int // 1 to 65536
	// Extra is what else a block stands for, one for each block or nil: salt,
	// images. Equal strings for what the engine shares. "" is nothing.
	Extra []string
	// Offloaded: in the memory of the host or on disk, not of the device.
	Offloaded bool
}

// Removed is an event: an endpoint has freed blocks.
type Removed struct {
	Blocks    []uint64
	Offloaded bool // from there
}

// Prompt is a prompt to look up in an [Exact].
type Prompt struct {
	// Root is that of the endpoints that may share it; see [Exact.Add].
	Root uint64
	// Tokens are the ids as the engine's tokenizer and template have them.
	Tokens []uint32
	// Extra returns what Stored.Extra would be of the block with the tokens
	// from first to before end. Nil: nothing.
	Extra func(first, end int) string
}

// maxBlockTokens bounds the size of a block.
const maxBlockTokens = 1 << 16

// Exact is an index of the blocks that engines say they have cached. Its keys
// are hashes of its own over token ids, so engines that hash by another seed or
// algorithm can share it. All methods are safe for concurrent use; lookups do
// not wait for each other.
//
// Events of one endpoint must come in order. Where one may be lost, Clear and
// begin again: the index has no way to know.
type Exact struct {
	cfg     ExactConfig
	metrics *exactMetrics

	mu     sync.RWMutex
	blocks map[uint64]*exactBlock // by own key; guarded by mu
	all    []exactEndpoint        // by slot, from 1; guarded by mu
	free   []uint32               // guarded by mu
	lives  uint32                 // guarded by mu
	held   int                    // blocks of all endpoints; guarded by mu
	sizes  map[int]*sizeClass     // block sizes in use; guarded by mu
	twice  map[holding]int        // by how many more names an endpoint has a block; guarded by mu
}

// holding is a block on an endpoint.
type holding struct {
	key  uint64
	slot uint32
}

// sizeClass are the endpoints with one size of blocks.
type sizeClass struct {
	slots slotSet
	count int
}

type exactEndpoint struct {
	life  uint32 // 0: the slot is free
	root  uint64
	size  int // of blocks; 0 before the first event
	named map[uint64]named
}

// named is a block by its engine's name. An engine can hold the same content
// twice, and then says so twice.
type named struct {
	key  uint64
	refs [2]uint16 // on the device, offloaded
}

// NewExact validates cfg and returns an empty index.
func NewExact(cfg ExactConfig, deps Deps) (*Exact, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("prefix: %w", err)
	}
	x := &Exact{
		cfg:    cfg,
		blocks: make(map[uint64]*exactBlock),
		all:    make([]exactEndpoint, 1),
		sizes:  make(map[int]*sizeClass),
		twice:  make(map[holding]int),
	}
	x.metrics = newExactMetrics(x)
	if deps.Registerer != nil {
		if err := deps.Registerer.Register(x.metrics); err != nil {
			return nil, fmt.Errorf("prefix: register metrics: %w", err)
		}
	}
	return x, nil
}

// Add puts an endpoint into the index, which holds nothing yet. What is below
// another root is never shared: use [Root] with the model. The error is
// [ErrTooManyEndpoints].
func (x *Exact) Add(root uint64) (ID, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(x.all)-1-len(x.free) >= x.cfg.MaxEndpoints {
		return ID{}, fmt.Errorf("%w: the limit is %d", ErrTooManyEndpoints, x.cfg.MaxEndpoints)
	}
	if x.lives++; x.lives == 0 {
		x.lives = 1
	}
	var slot uint32
	if n := len(x.free); n > 0 {
		slot, x.free = x.free[n-1], x.free[:n-1]
	} else {
		slot = uint32(len(x.all))
		x.all = append(x.all, exactEndpoint{})
	}
	x.all[slot] = exactEndpoint{life: x.lives, root: root, named: make(map[uint64]named)}
	return ID{slot, x.lives}, nil
}

func (x *Exact) get(id ID) *exactEndpoint {
	if int(id.slot) >= len(x.all) || id.life == 0 || x.all[id.slot].life != id.life {
		return nil
	}
	return &x.all[id.slot]
}

// Remove takes an endpoint and all it holds out of the index.
func (x *Exact) Remove(id ID) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if e := x.get(id); e != nil {
		x.clear(id.slot, e)
		*e = exactEndpoint{}
		x.free = append(x.free, id.slot)
	}
}

// Clear forgets all blocks of an endpoint: it said so, or events were lost.
func (x *Exact) Clear(id ID) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if e := x.get(id); e != nil {
		x.clear(id.slot, e)
	}
}

func (x *Exact) clear(slot uint32, e *exactEndpoint) {
	for _, n := range e.named { // the order changes nothing
		x.unhold(n.key, slot)
	}
	e.named = make(map[uint64]named) // a map that was cleared keeps its memory
	if c := x.sizes[e.size]; c != nil {
		c.slots.remove(slot)
		if c.count--; c.count == 0 {
			delete(x.sizes, e.size)
		}
	}
	e.size = 0
}

// unhold says that an endpoint has one block less.
func (x *Exact) unhold(key uint64, slot uint32) {
	x.held--
	if h := (holding{key, slot}); x.twice[h] > 0 {
		if x.twice[h]--; x.twice[h] == 0 {
			delete(x.twice, h)
		}
		return
	}
	if b := x.blocks[key]; b != nil {
		if b.remove(slot); b.count == 0 {
			delete(x.blocks, key)
		}
	}
}

// Stored records an event. An error means that not all of it was recorded; it
// is [ErrUnknownEndpoint], [ErrBadEvent], [ErrUnknownParent] or [ErrFull].
func (x *Exact) Stored(id ID, s Stored) error {
	if s.BlockTokens < 1 || s.BlockTokens > maxBlockTokens {
		return fmt.Errorf("%w: blocks of %d tokens; want 1 to %d", ErrBadEvent, s.BlockTokens, maxBlockTokens)
	}
	if len(s.Tokens) != len(s.Blocks)*s.BlockTokens {
		return fmt.Errorf("%w: %d tokens in %d blocks of %d", ErrBadEvent, len(s.Tokens), len(s.Blocks), s.BlockTokens)
	}
	if s.Extra != nil && len(s.Extra) != len(s.Blocks) {
		return fmt.Errorf("%w: %d extra keys for %d blocks", ErrBadEvent, len(s.Extra), len(s.Blocks))
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	e := x.get(id)
	if e == nil {
		return ErrUnknownEndpoint
	}
	if e.size == 0 {
		x.join(id.slot, e, s.BlockTokens)
	} else if e.size != s.BlockTokens {
		return fmt.Errorf("%w: blocks of %d tokens after blocks of %d", ErrBadEvent, s.BlockTokens, e.size)
	}
	key := e.root
	if s.HasParent {
		p, ok := e.named[s.Parent]
		if !ok {
			x.metrics.orphans.Add(uint64(len(s.Blocks)))
			return fmt.Errorf("%w: %#x", ErrUnknownParent, s.Parent)
		}
		key = p.key
	}
	for i, name := range s.Blocks {
		extra := ""
		if s.Extra != nil {
			extra = s.Extra[i]
		}
		key = blockKey(key, s.Tokens[i*s.BlockTokens:(i+1)*s.BlockTokens], extra)
		if !x.hold(id.slot, e, name, key, s.Offloaded) {
			x.metrics.overflows.Add(uint64(len(s.Blocks) - i))
			return fmt.Errorf("%w: %d blocks", ErrFull, x.held)
		}
	}
	return nil
}

// join notes the size of an endpoint's blocks.
func (x *Exact) join(slot uint32, e *exactEndpoint, size int) {
	e.size = size
	c := x.sizes[size]
	if c == nil {
		c = &sizeClass{}
		x.sizes[size] = c
	}
	c.count++
	c.slots.add(slot)
}

// hold says that an endpoint has a block; false if there is no room.
func (x *Exact) hold(slot uint32, e *exactEndpoint, name, key uint64, offloaded bool) bool {
	n, known := e.named[name]
	if known && n.key != key { // the name was given anew and the removal lost
		x.unhold(n.key, slot)
		known = false
	}
	if !known {
		if x.held >= x.cfg.MaxBlocks {
			delete(e.named, name)
			return false
		}
		n = named{key: key}
		x.held++
		b := x.blocks[key]
		if b == nil {
			b = &exactBlock{}
			x.blocks[key] = b
		}
		if !b.add(slot) {
			x.twice[holding{key, slot}]++
		}
	}
	if r := &n.refs[medium(offloaded)]; *r < 1<<16-1 {
		*r++
	}
	e.named[name] = n
	return true
}

func medium(offloaded bool) int {
	if offloaded {
		return 1
	}
	return 0
}

// Removed records an event. Blocks that were not known are skipped. The error
// is [ErrUnknownEndpoint].
func (x *Exact) Removed(id ID, r Removed) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	e := x.get(id)
	if e == nil {
		return ErrUnknownEndpoint
	}
	for _, name := range r.Blocks {
		n, ok := e.named[name]
		if !ok || n.refs[medium(r.Offloaded)] == 0 {
			continue
		}
		n.refs[medium(r.Offloaded)]--
		if n.refs != [2]uint16{} {
			e.named[name] = n
			continue
		}
		delete(e.named, name)
		x.unhold(n.key, id.slot)
	}
	return nil
}

// ExactStats are an exact index's gauges.
type ExactStats struct {
	Endpoints int
	Blocks    int // of all endpoints together, at most ExactConfig.MaxBlocks
	Contents  int // of these, different ones
}

// Stats returns the current gauges.
func (x *Exact) Stats() ExactStats {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return ExactStats{Endpoints: len(x.all) - 1 - len(x.free), Blocks: x.held, Contents: len(x.blocks)}
}

// Blocks returns how many blocks an endpoint holds.
func (x *Exact) Blocks(id ID) int {
	x.mu.RLock()
	defer x.mu.RUnlock()
	if e := x.get(id); e != nil {
		return len(e.named)
	}
	return 0
}

// blockKey is the key of a block after the one with key before.
func blockKey(before uint64, tokens []uint32, extra string) uint64 {
	h := before
	i := 0
	for ; i+2 <= len(tokens); i += 2 {
		hi, lo := bits.Mul64(h^0x9e3779b97f4a7c15, (uint64(tokens[i])|uint64(tokens[i+1])<<32)^0xd6e8feb86659fd93)
		h = hi ^ lo
	}
	if i < len(tokens) {
		h = link(h, uint64(tokens[i]))
	}
	if extra != "" {
		h = link(h, Root(extra))
	}
	return link(h, uint64(len(tokens)))
}
