package twin

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/llmgw/llmgw/engines/kvevents"
	"github.com/llmgw/llmgw/engines/sim/workload"
	"github.com/llmgw/llmgw/router/endpoint"
	"github.com/llmgw/llmgw/router/prefix"
	"github.com/llmgw/llmgw/router/schedule"
)

const (
	// tokenBytes is what a token is taken to have in the prompt's text.
	tokenBytes = 4
	// chunkTokens is a chunk of the approximate index.
	chunkTokens = prefix.ChunkBytes / tokenBytes
)

// index is what a policy knows of the engines' caches.
type index interface {
	schedule.PrefixIndex
	// prepare gives r what the index knows prompts by.
	prepare(tr *workload.Trace, r *request)
	// told takes what an engine says of its cache.
	told(engine int, events []kvevents.Event) error
	// ended takes what the engine's answer says of r.
	ended(now time.Time, r *request, prompt, cached int)
}

// holders is what both indexes share: the way from their slots to endpoints.
type holders struct {
	pool   []*endpoint.Endpoint
	engine map[*endpoint.Endpoint]int
	ids    []prefix.ID // by engine
	bySlot []*endpoint.Endpoint
	result prefix.Result
}

func (h *holders) add(e *endpoint.Endpoint, id prefix.ID) {
	h.engine[e] = len(h.ids)
	h.ids = append(h.ids, id)
	for len(h.bySlot) <= id.Slot() {
		h.bySlot = append(h.bySlot, nil)
	}
	h.bySlot[id.Slot()] = e
}

// sent is the approximate index.
type sent struct {
	holders
	x   *prefix.Index
	buf []uint64
}

func newSent(cfg prefix.Config, model string, pool []*endpoint.Endpoint) (*sent, error) {
	cfg.MaxEndpoints = max(cfg.MaxEndpoints, len(pool))
	x, err := prefix.New(cfg, prefix.Deps{})
	if err != nil {
		return nil, err
	}
	s := &sent{x: x, holders: holders{pool: pool, engine: make(map[*endpoint.Endpoint]int)}}
	for _, e := range pool {
		id, err := x.Add(model)
		if err != nil {
			return nil, err
		}
		s.add(e, id)
	}
	return s, nil
}

// prepare writes the chain of a text in which each chunk stands for so many
// tokens and all before them.
func (s *sent) prepare(tr *workload.Trace, r *request) {
	s.buf = tr.AppendBlockHashes(s.buf[:0], r.trace, chunkTokens)
	r.chain.Reset(0)
	var chunk [prefix.ChunkBytes]byte
	// Where the trace has a text, that may have other tokens than the trace says.
	for _, h := range s.buf[:min(len(s.buf), r.trace.PromptTokens/chunkTokens)] {
		binary.LittleEndian.PutUint64(chunk[:], h)
		_, _ = r.chain.Write(chunk[:])
	}
	clear(chunk[:])
	for left := r.trace.PromptTokens*tokenBytes - r.chain.Bytes(); left > 0; left -= len(chunk) {
		_, _ = r.chain.Write(chunk[:min(left, len(chunk))])
	}
}

// Holders is that of schedule.PrefixIndex.
func (s *sent) Holders(req *schedule.Request, out []schedule.Holder) (n, promptBytes int) {
	r := req.Prompt.(*request)
	s.x.Lookup(&r.chain, &s.result)
	for _, m := range s.result.Matches {
		if n == len(out) {
			break
		}
		out[n] = schedule.Holder{Endpoint: s.bySlot[m.ID.Slot()], Bytes: m.Bytes, Seen: m.Seen, Doubt: 1 - m.Trust}
		n++
	}
	return n, s.result.PromptBytes
}

// Picked is that of schedule.PrefixIndex.
func (s *sent) Picked(req *schedule.Request, e *endpoint.Endpoint) {
	r := req.Prompt.(*request)
	r.sent = s.x.Send(s.ids[s.engine[e]], &r.chain)
}

func (*sent) told(int, []kvevents.Event) error { return nil }

func (s *sent) ended(_ time.Time, r *request, prompt, cached int) {
	s.x.Observe(r.sent, &r.chain, prefix.Usage{PromptTokens: int64(prompt), CachedTokens: int64(cached), CachedKnown: true})
}

const (
	// maxUnderway bounds the beginnings of prompts under way, for any trace here.
	maxUnderway = 1 << 22
	// underwayLinger is how long after its end a prompt counts as under way: engines
	// tell without delay.
	underwayLinger = time.Millisecond
)

// exact is the index of what engines say, and of what is under way to them; beside
// it, as in the gateway, what was sent tells the home of a beginning.
type exact struct {
	holders
	x        *prefix.Exact
	underway *prefix.Underway
	sent     *sent
	root     uint64
	begun    prefix.Result
	held     []schedule.Holder
}

func newExact(cfg prefix.Config, model string, pool []*endpoint.Endpoint, blocks []int) (*exact, error) {
	exactly := prefix.DefaultExactConfig()
	exactly.MaxEndpoints, exactly.MaxBlocks = max(exactly.MaxEndpoints, len(pool)), max(1024, sum(blocks))
	x, err := prefix.NewExact(exactly, prefix.Deps{})
	if err != nil {
		return nil, err
	}
	s := &exact{
		x: x, underway: prefix.NewUnderway(maxUnderway, underwayLinger), root: prefix.Root(model),
		holders: holders{pool: pool, engine: make(map[*endpoint.Endpoint]int)},
	}
	if s.sent, err = newSent(cfg, model, pool); err != nil {
		return nil, err
	}
	for _, e := range pool {
		id, err := x.Add(s.root)
		if err != nil {
			return nil, err
		}
		s.add(e, id)
	}
	return s, nil
}

// prepare makes token ids that are equal where the hashes of blocks are.
func (s *exact) prepare(tr *workload.Trace, r *request) {
	s.sent.prepare(tr, r)
	n := len(r.blocks) * r.blockTokens
	r.tokens = slices.Grow(r.tokens[:0], n)[:n]
	clear(r.tokens)
	for i, h := range r.blocks {
		block := r.tokens[i*r.blockTokens : (i+1)*r.blockTokens]
		block[0] = uint32(h)
		block[len(block)-1] ^= uint32(h >> 32)
	}
}

// Holders is that of schedule.PrefixIndex.
func (s *exact) Holders(req *schedule.Request, out []schedule.Holder) (n, promptBytes int) {
	r := req.Prompt.(*request)
	s.x.Lookup(prefix.Prompt{Root: s.root, Tokens: r.tokens}, &s.result)
	s.underway.Lookup(req.Now, &r.chain, &s.begun)
	s.sent.x.Lookup(&r.chain, &s.sent.result)
	s.held = s.held[:0]
	hold := func(id prefix.ID, bytes int, told bool) {
		seen, _ := s.sent.result.Of(s.sent.ids[s.engine[s.bySlot[id.Slot()]]])
		s.held = append(s.held, schedule.Holder{Endpoint: s.bySlot[id.Slot()], Bytes: bytes, Exact: told, Seen: seen.Seen})
	}
	for _, m := range s.result.Matches {
		begun, _ := s.begun.Of(m.ID)
		hold(m.ID, max(m.Tokens*tokenBytes, begun.Bytes), m.Tokens*tokenBytes >= begun.Bytes)
	}
	for _, m := range s.begun.Matches {
		if _, told := s.result.Of(m.ID); !told {
			hold(m.ID, m.Bytes, false)
		}
	}
	slices.SortStableFunc(s.held, func(a, b schedule.Holder) int { return b.Bytes - a.Bytes })
	return copy(out, s.held), r.trace.PromptTokens * tokenBytes
}

// Picked is that of schedule.PrefixIndex.
func (s *exact) Picked(req *schedule.Request, e *endpoint.Endpoint) {
	s.sent.Picked(req, e)
	s.underway.Begin(req.Now, s.ids[s.engine[e]], &req.Prompt.(*request).chain)
}

func (s *exact) told(engine int, events []kvevents.Event) error {
	id := s.ids[engine]
	for i := range events {
		var err error
		switch e := &events[i]; e.Kind {
		case kvevents.KindStored:
			err = s.x.Stored(id, prefix.Stored{
				Blocks: e.Hashes, Parent: e.Parent, HasParent: e.HasParent, Tokens: e.Tokens, BlockTokens: e.BlockSize,
			})
		case kvevents.KindRemoved:
			err = s.x.Removed(id, prefix.Removed{Blocks: e.Hashes})
		case kvevents.KindCleared:
			s.x.Clear(id)
		}
		// An engine may tell of a block whose parent it holds twice and of which
		// it has freed the one it told of: nothing can be found below it.
		if err != nil && !errors.Is(err, prefix.ErrUnknownParent) {
			return fmt.Errorf("twin: %s: %w", s.pool[engine].ID(), err)
		}
	}
	return nil
}

func (s *exact) ended(now time.Time, r *request, prompt, cached int) {
	s.sent.ended(now, r, prompt, cached)
	s.underway.End(now, s.ids[r.engine], &r.chain, true)
}

func sum(list []int) int {
	n := 0
	for _, v := range list {
		n += v
	}
	return n
}
