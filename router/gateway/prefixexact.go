package gateway

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/llmgw/llmgw/engines/kvevents"
	"github.com/llmgw/llmgw/router/endpoint"
	"github.com/llmgw/llmgw/router/prefix"
	"github.com/llmgw/llmgw/router/scrape"
)

const (
	// exactRoot is below which all engines' blocks are: what must not be shared is
	// told apart by the endpoint and the extra keys.
	exactRoot = 1
	// maxUnderway bounds the beginnings of prompts under way: some 6,000 prompts of
	// 8 KB at a time, 10 MB.
	maxUnderway = 1 << 17
	// underwayLinger is how long after its end a prompt counts though the engine has
	// not told of it: events come some milliseconds later. Longer, and what the engine
	// has evicted since is believed.
	underwayLinger = 250 * time.Millisecond
	// maxLoRAs bounds the names of LoRAs that are remembered.
	maxLoRAs = 1024
)

// exacts is what engines themselves tell of their caches.
type exacts struct {
	index    *prefix.Exact
	underway *prefix.Underway
	tokens   *tokens
	log      *slog.Logger
	metrics  *exactMetrics

	mu    sync.Mutex
	all   atomic.Pointer[followers]       // written under mu
	loras atomic.Pointer[map[string]bool] // that some engine has told of; written under mu
}

// followers are the endpoints that tell, at one moment. They never change.
type followers struct {
	by     map[*endpoint.Endpoint]*follower
	slot   []*follower // by the slots of their ids; nil where there is none
	models map[string][]*follower
}

func newExacts(cfg PrefixExact, client func(*endpoint.Endpoint) (scrape.Doer, func()), log *slog.Logger, reg prometheus.Registerer) (*exacts, error) {
	index, err := prefix.NewExact(cfg.Index, prefix.Deps{Registerer: reg})
	if err != nil {
		return nil, err
	}
	x := &exacts{index: index, underway: prefix.NewUnderway(maxUnderway, underwayLinger), log: log}
	x.all.Store(&followers{})
	x.loras.Store(new(map[string]bool))
	if x.metrics, err = newExactMetrics(x, reg); err != nil {
		return nil, err
	}
	x.tokens = newTokens(cfg, client, log, x.metrics)
	return x, nil
}

// follower is what one instance of an endpoint tells of its cache. It is the sink of
// its events, from the first to the last.
type follower struct {
	x        *exacts
	endpoint *endpoint.Endpoint
	ids      []prefix.ID // by rank
	ranks    []rank
	speaks   *tokenizer
	live     atomic.Bool // all is known of all ranks
	told     atomic.Bool // it was live once
}

var (
	_ scrape.EventSink = (*follower)(nil)
	_ kvevents.Watcher = (*follower)(nil)
)

// rank is one data-parallel rank, and what is known of it.
type rank struct {
	known   atomic.Uint32    // knownFollowing and knownWhole
	partial bool             // something could not be recorded; the rank's goroutine only
	skipped map[int]struct{} // KV-cache groups that say nothing of prefixes; the rank's goroutine only
}

const (
	knownFollowing = 1 << iota // its events are being followed
	knownWhole                 // all since its start, or since it was cleared, was recorded
)

// open is scrape.EventsDeps.Open.
func (x *exacts) open(e *endpoint.Endpoint) scrape.EventSink {
	f := &follower{x: x, endpoint: e, ranks: make([]rank, scrape.KVEventsConfig(e.Spec().KVEvents).Ranks)}
	for range f.ranks {
		id, err := x.index.Add(exactRoot)
		if err != nil {
			for _, id := range f.ids {
				x.index.Remove(id)
			}
			x.log.Warn("endpoints are more than the exact prefix index takes; what this one holds is inferred from what it is sent: raise prefix.exact.max_endpoints",
				"endpoint", e.ID(), "err", err)
			return nil
		}
		f.ids = append(f.ids, id)
	}
	f.speaks = x.tokens.open(e)
	x.change(func(by map[*endpoint.Endpoint]*follower) { by[e] = f })
	return f
}

// Close implements [scrape.EventSink].
func (f *follower) Close() {
	f.live.Store(false)
	f.x.change(func(by map[*endpoint.Endpoint]*follower) { delete(by, f.endpoint) })
	for _, id := range f.ids {
		f.x.index.Remove(id)
	}
	f.speaks.close()
}

// change makes followers anew.
func (x *exacts) change(edit func(map[*endpoint.Endpoint]*follower)) {
	x.mu.Lock()
	defer x.mu.Unlock()
	next := &followers{by: maps.Clone(x.all.Load().by), models: map[string][]*follower{}}
	if next.by == nil {
		next.by = map[*endpoint.Endpoint]*follower{}
	}
	edit(next.by)
	for e, f := range next.by {
		for _, id := range f.ids {
			if missing := id.Slot() + 1 - len(next.slot); missing > 0 {
				next.slot = append(next.slot, make([]*follower, missing)...)
			}
			next.slot[id.Slot()] = f
		}
		for _, m := range e.Spec().Models {
			next.models[m.Name] = append(next.models[m.Name], f)
		}
	}
	x.all.Store(next)
}

// of returns the follower of that ID, nil if it is gone.
func (fs *followers) of(id prefix.ID) *follower {
	if s := id.Slot(); s < len(fs.slot) && fs.slot[s] != nil && slices.Contains(fs.slot[s].ids, id) {
		return fs.slot[s]
	}
	return nil
}

// serves reports whether the follower's endpoint serves the model.
func (f *follower) serves(model string) bool {
	return slices.ContainsFunc(f.endpoint.Spec().Models, func(m endpoint.Model) bool { return m.Name == model })
}

// note says what is known of a rank, and with that of the endpoint.
func (f *follower) note(r int, set, clear uint32) {
	known := &f.ranks[r].known
	for {
		was := known.Load()
		if now := (was | set) &^ clear; now == was || known.CompareAndSwap(was, now) {
			break
		}
	}
	live := true
	for i := range f.ranks {
		live = live && f.ranks[i].known.Load() == knownFollowing|knownWhole
	}
	if f.live.Swap(live) == live {
		return
	}
	if live {
		f.told.Store(true)
		f.x.log.Info("an engine's KV cache is known from its events", "endpoint", f.endpoint.ID())
	} else {
		f.x.log.Warn("an engine's KV cache is not wholly known from its events; what it is sent counts as well", "endpoint", f.endpoint.ID())
	}
}

// Following implements [kvevents.Watcher].
func (f *follower) Following(r int, yes bool) {
	if yes {
		f.note(r, knownFollowing, 0)
	} else {
		f.note(r, 0, knownFollowing)
	}
}

// Reset implements [kvevents.Handler].
func (f *follower) Reset(r int, _ kvevents.Reason) {
	f.x.index.Clear(f.ids[r])
	f.ranks[r].partial = false
	f.note(r, 0, knownWhole)
}

// Apply implements [kvevents.Handler].
func (f *follower) Apply(b *kvevents.Batch) {
	r := &f.ranks[b.Rank]
	cleared := b.Sequence == 0
	for i := range b.Events {
		e := &b.Events[i]
		switch e.Kind {
		case kvevents.KindStored:
			if f.skip(r, e) {
				continue
			}
			if err := f.stored(f.ids[b.Rank], e); err != nil && !errors.Is(err, prefix.ErrUnknownParent) {
				// Of an unknown parent nothing can be found, nor could of its
				// children. The rest is a fault of the engine's or want of room:
				// what is recorded is true, but no more all.
				if !r.partial {
					f.x.log.Warn("an engine's KV events cannot all be recorded", "endpoint", f.endpoint.ID(), "err", err)
				}
				r.partial = true
				if errors.Is(err, prefix.ErrBadEvent) {
					f.x.index.Clear(f.ids[b.Rank])
				}
			}
		case kvevents.KindRemoved:
			if _, skipped := r.skipped[e.Group]; e.Remote || e.HasGroup && skipped {
				continue
			}
			_ = f.x.index.Removed(f.ids[b.Rank], prefix.Removed{Blocks: e.Hashes, Offloaded: offloaded(e)})
		case kvevents.KindCleared:
			f.x.index.Clear(f.ids[b.Rank])
			r.partial, cleared = false, true
		}
	}
	switch {
	case r.partial:
		f.note(b.Rank, 0, knownWhole)
	case cleared:
		f.note(b.Rank, knownWhole, 0)
	}
	if lag := time.Since(time.Unix(0, int64(b.Time*1e9))).Seconds(); b.Time > 0 && lag < time.Hour.Seconds() {
		f.x.metrics.lag.Observe(max(lag, 0))
	}
}

// skip reports whether an event says nothing of prefixes that this engine holds:
// blocks elsewhere, without tokens, or of a group that holds a part of the context
// only.
func (f *follower) skip(r *rank, e *kvevents.Event) bool {
	if e.Remote || len(e.Tokens) == 0 {
		return true
	}
	if !e.HasGroup || e.Spec == "" || !partOfContext(e.Spec) {
		return false
	}
	if len(r.skipped) < 64 {
		if r.skipped == nil {
			r.skipped = map[int]struct{}{}
		}
		r.skipped[e.Group] = struct{}{}
	}
	return true
}

// partOfContext reports whether a kind of attention looks at a part of what came
// before, or keeps a state of it.
func partOfContext(spec string) bool {
	for _, part := range [...]string{"sliding", "chunked", "mamba", "cross", "encoder"} {
		if strings.Contains(spec, part) {
			return true
		}
	}
	return false
}

func offloaded(e *kvevents.Event) bool { return e.Medium != kvevents.GPU }

func (f *follower) stored(id prefix.ID, e *kvevents.Event) error {
	s := prefix.Stored{
		Blocks: e.Hashes, Parent: e.Parent, HasParent: e.HasParent, Tokens: e.Tokens, BlockTokens: e.BlockSize, Offloaded: offloaded(e),
	}
	if e.LoRA != "" {
		f.x.heard(e.LoRA)
	}
	switch {
	case len(e.Extra) == 0 && e.LoRA == "":
	case len(e.Extra) == 0: // an engine that does not say them; the LoRA is one
		s.Extra = slices.Repeat([]string{string(kvevents.NewExtraKeys(e.LoRA))}, len(e.Hashes))
	case slices.ContainsFunc(e.Extra, func(k kvevents.ExtraKeys) bool { return len(k) > 0 }):
		s.Extra = make([]string, len(e.Hashes))
		for i := range min(len(e.Extra), len(s.Extra)) {
			s.Extra[i] = string(e.Extra[i])
		}
	}
	return f.x.index.Stored(id, s)
}

// heard remembers that a name is a LoRA's.
func (x *exacts) heard(lora string) {
	if old := *x.loras.Load(); old[lora] || len(old) >= maxLoRAs {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	next := maps.Clone(*x.loras.Load())
	if next == nil {
		next = map[string]bool{}
	}
	next[lora] = true
	x.loras.Store(&next)
}

// run follows nobody, which is for scrape.Events, but asks for tokens, until ctx is
// done.
func (x *exacts) run(ctx context.Context) error { return x.tokens.run(ctx) }

// beginning is what one endpoint holds of a prompt.
type beginning struct {
	endpoint *endpoint.Endpoint
	bytes    int
	tokens   int // of an exact one
	source   source
	seen     int
	doubt    float64
}

// source is from where it is known.
type source uint8

const (
	sourceNone        source = iota // nothing is known to be held
	sourceExact                     // the engine's events
	sourceUnderway                  // what it was sent and has not told of yet
	sourceApproximate               // what it was sent
	sources
)

// String returns the source as metrics name it.
func (s source) String() string {
	return [sources]string{"none", "exact", "underway", "approximate"}[s]
}

// rank puts into p.held what each endpoint holds of the prompt, the most first:
// from its events and what is under way, of endpoints all of whose cache is known;
// from these or what was sent, if that is more, of others. p.found has what was
// sent, p.tokens is not empty.
func (x *prefixes) rank(p *prompt, model string) {
	fs, ms := x.exact.all.Load(), x.members.Load()
	p.lookExact(x.exact, fs, model)
	x.exact.underway.Lookup(time.Now(), &p.chain, &p.begun)
	exact, begun, sent := p.exact, p.begun.Matches, p.found.Matches
	p.held = p.held[:0]
	p.marked++
	if n := len(fs.slot); len(p.marks) < n {
		p.marks = append(p.marks, make([]uint32, n-len(p.marks))...)
	}
	for {
		best := sourceNone
		bytes := 0
		if len(exact) > 0 {
			best, bytes = sourceExact, exact[0].bytes
		}
		if len(begun) > 0 && begun[0].Bytes > bytes {
			best, bytes = sourceUnderway, begun[0].Bytes
		}
		if len(sent) > 0 && sent[0].Bytes > bytes {
			best, bytes = sourceApproximate, sent[0].Bytes
		}
		h := beginning{bytes: bytes, source: best}
		var f *follower
		switch best {
		case sourceNone:
			return
		case sourceExact:
			h.tokens, f, exact = exact[0].tokens, exact[0].follower, exact[1:]
		case sourceUnderway:
			f, begun = fs.of(begun[0].ID), begun[1:]
		default:
			m := ms.of(sent[0].ID)
			h.seen, h.doubt, sent = sent[0].Seen, 1-sent[0].Trust, sent[1:]
			if m == nil {
				continue
			}
			h.endpoint = m.endpoint
			if f = fs.by[m.endpoint]; f != nil && f.live.Load() {
				continue
			}
		}
		switch {
		case f != nil && p.marks[f.ids[0].Slot()] == p.marked:
			continue // by another source it holds more
		case f != nil:
			p.marks[f.ids[0].Slot()] = p.marked
			h.endpoint = f.endpoint
		case best != sourceApproximate:
			continue // gone
		}
		if best != sourceApproximate {
			if !f.serves(model) {
				continue
			}
			if m := ms.by[h.endpoint]; m != nil {
				if sent, ok := p.found.Of(m.id); ok {
					h.seen = sent.Seen // the home of a beginning is where it was sent most
				}
			}
		}
		p.held = append(p.held, h)
	}
}

// exactMatch is what a follower's events say that it holds.
type exactMatch struct {
	follower      *follower
	tokens, bytes int
}

// lookExact puts into p.exact what followers of the model hold, the most first.
func (p *prompt) lookExact(x *exacts, fs *followers, model string) {
	p.exact = p.exact[:0]
	loras := *x.loras.Load()
	var asked [4]string // as which LoRAs it was looked up; "" is none
	n := 0
	ask := func(lora string) {
		if n == len(asked) || slices.Contains(asked[:n], lora) {
			return
		}
		asked[n] = lora
		n++
		look := x.index.Lookup
		if p.trial {
			look = x.index.Peek
		}
		look(prefix.Prompt{Root: exactRoot, Tokens: p.tokens, Extra: p.extra(lora)}, &p.blocks)
		for _, m := range slices.Backward(p.blocks.Matches) { // those that hold most are last
			f := fs.of(m.ID)
			if f == nil || loraOf(f, model, loras) != lora {
				continue
			}
			p.exact = append(p.exact, exactMatch{f, m.Tokens, int(float64(m.Tokens) / float64(p.tokensOf) * float64(p.bytesOf))})
		}
	}
	if len(loras) == 0 {
		ask("")
		return
	}
	for _, f := range fs.models[model] {
		ask(loraOf(f, model, loras))
	}
	if n > 1 {
		slices.SortStableFunc(p.exact, func(a, b exactMatch) int { return b.tokens - a.tokens })
	}
}

// loraOf returns by which name the engine of f knows model if that is a LoRA, as some
// engine has told; else "".
func loraOf(f *follower, model string, loras map[string]bool) string {
	if name := f.endpoint.UpstreamModel(model); loras[name] {
		return name
	}
	return ""
}

// extra is what else the blocks of p stand for: vLLM has the LoRA in each and the
// salt in the first. What it has of images is not known here, so that none of their
// blocks is found.
func (p *prompt) extra(lora string) func(first, end int) string {
	if lora == "" && p.salt == "" {
		return nil
	}
	var keys []string
	if lora != "" {
		keys = append(keys, lora)
	}
	rest := string(kvevents.NewExtraKeys(keys...))
	if p.salt != "" {
		keys = append(keys, p.salt)
	}
	first := string(kvevents.NewExtraKeys(keys...))
	return func(at, _ int) string {
		if at == 0 {
			return first
		}
		return rest
	}
}

// picked notes that p goes to e, which may be a member, and by whose word.
func (x *exacts) picked(p *prompt, m *member, e *endpoint.Endpoint) {
	word, promised := sourceNone, 0
	if !p.hashing || len(p.tokens) == 0 {
		if m != nil {
			if _, held := p.found.Of(m.id); held {
				word = sourceApproximate
			}
		}
	} else if i := slices.IndexFunc(p.held, func(h beginning) bool { return h.endpoint == e }); i >= 0 {
		word, promised = p.held[i].source, p.held[i].tokens
	}
	x.metrics.picks[word].Inc()
	if f := x.all.Load().by[e]; f != nil {
		p.under = f.ids[0]
		x.underway.Begin(time.Now(), p.under, &p.chain)
		p.promised = -1
		if p.hashing && p.whole != nil && (word == sourceExact || word == sourceNone) {
			p.promised = promised
		}
	}
}

// over notes that what p began, if it did, has ended.
func (x *exacts) over(p *prompt, computed bool) {
	if p.under != (prefix.ID{}) {
		x.underway.End(time.Now(), p.under, &p.chain, computed)
		p.under = prefix.ID{}
	}
}

// answered compares what was known of p with what the engine said of it.
func (x *exacts) answered(p *prompt, promptTokens, cached int64, cachedKnown bool) {
	if !p.hashing || p.whole == nil {
		return
	}
	x.tokens.checked(p.whole, promptTokens)
	if !cachedKnown || p.promised < 0 {
		return
	}
	x.metrics.predicted.Add(float64(p.promised))
	x.metrics.cached.Add(float64(cached))
	x.metrics.agreed.Add(float64(min(int64(p.promised), cached)))
}
