package gateway

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/router"
	"github.com/llmgw/llmgw/router/endpoint"
	"github.com/llmgw/llmgw/router/openai"
	"github.com/llmgw/llmgw/router/prefix"
	"github.com/llmgw/llmgw/router/schedule"
	"github.com/llmgw/llmgw/router/scrape"
)

// Prefix is how the gateway knows which endpoint has computed which beginning of
// a prompt already. How much that counts beside load is said under scoring.
type Prefix struct {
	// Enabled remembers which prompts went where, so that those that begin alike
	// can go to the same endpoint. Default true. false saves max_bytes of memory and
	// some microseconds a request; engines then compute prompts again that another
	// of them remembers.
	Enabled bool `yaml:"enabled"`
	// Index is the index's own configuration.
	Index prefix.Config `yaml:",inline"`
	// Exact is what endpoints with kv_events tell of their caches themselves.
	Exact PrefixExact `yaml:"exact"`
}

// PrefixExact is how what engines tell of their own caches is kept.
type PrefixExact struct {
	// Index is the exact index's own configuration.
	Index prefix.ExactConfig `yaml:",inline"`
	// TokensMaxBytes bounds the memory of the prompts' tokens that engines have
	// said, 4 bytes each. Default 67108864 (64 MiB); at least 1048576. Too low asks
	// engines again for what they have said already.
	TokensMaxBytes int64 `yaml:"tokens_max_bytes"`
	// TokenizeWait is how long a request waits for an engine to say its prompt's
	// tokens, where nothing is known of its beginning. Default 5ms; 0 to 5ms. What
	// comes later is for the prompt's next turn; this one is sent by what was sent
	// before.
	TokenizeWait time.Duration `yaml:"tokenize_wait"`
}

// maxTokenizeWait is the longest that affinity may delay a request.
const maxTokenizeWait = 5 * time.Millisecond

func defaultPrefix() Prefix {
	return Prefix{Enabled: true, Index: prefix.DefaultConfig(), Exact: PrefixExact{
		Index: prefix.DefaultExactConfig(), TokensMaxBytes: 64 << 20, TokenizeWait: maxTokenizeWait,
	}}
}

// validate returns every problem, each beginning with its key below prefix.
func (p Prefix) validate() []error {
	errs := under("", p.Index.Validate())
	errs = append(errs, under("exact.", p.Exact.Index.Validate())...)
	if p.Exact.TokensMaxBytes < 1<<20 {
		errs = append(errs, fmt.Errorf("exact.tokens_max_bytes: %d is too small; want at least 1048576 (1 MiB)", p.Exact.TokensMaxBytes))
	}
	if w := p.Exact.TokenizeWait; w < 0 || w > maxTokenizeWait {
		errs = append(errs, fmt.Errorf("exact.tokenize_wait: %v is out of range; want 0 to %v", w, maxTokenizeWait))
	}
	return errs
}

// prefixes joins package prefix to the router, which hands it prompts and tells
// what became of them, and to the scheduler, which asks it who holds them and
// tells it the picks.
type prefixes struct {
	index   *prefix.Index
	exact   *exacts
	log     *slog.Logger
	every   time.Duration // between two looks for engines that were started again
	prompts sync.Pool     // *prompt
	members atomic.Pointer[members]
	turn    atomic.Uint32 // see page
}

var (
	_ router.Prompts       = (*prefixes)(nil)
	_ schedule.PrefixIndex = (*prefixes)(nil)
)

// newPrefixes returns nil where they are switched off.
func newPrefixes(cfg Prefix, every time.Duration, client func(*endpoint.Endpoint) (scrape.Doer, func()), log *slog.Logger, reg prometheus.Registerer) (*prefixes, error) {
	if !cfg.Enabled {
		return nil, nil
	}
	index, err := prefix.New(cfg.Index, prefix.Deps{Registerer: reg})
	if err != nil {
		return nil, err
	}
	exact, err := newExacts(cfg.Exact, client, log, reg)
	if err != nil {
		return nil, err
	}
	x := &prefixes{index: index, exact: exact, log: log, every: every}
	x.prompts.New = func() any { return new(prompt) }
	x.members.Store(&members{})
	return x, nil
}

// members are the endpoints of the index at one moment. They never change.
type members struct {
	by   map[*endpoint.Endpoint]*member
	slot []*member // by the slots of their IDs; nil where there is none
}

// member is one instance of an endpoint in the index, from its coming to its
// going. One that comes back under the same name is another.
type member struct {
	id       prefix.ID
	endpoint *endpoint.Endpoint
	// says has the paths, each a bit, whose answers have told of cached tokens.
	says atomic.Uint32

	counters [3]engines.Reading // of the engine, as last told; watch goroutine only
	room     float64            // tokens of its cache, as last told; watch goroutine only
}

// sync makes all the endpoints of the index: what is gone is forgotten, what is
// new holds nothing. One call at a time. On nil it does nothing.
func (x *prefixes) sync(all []*endpoint.Endpoint) {
	if x == nil {
		return
	}
	old := x.members.Load()
	next := &members{by: make(map[*endpoint.Endpoint]*member, len(all))}
	for _, e := range all {
		if m := old.by[e]; m != nil {
			next.by[e] = m
		}
	}
	for e, m := range old.by { // first, so that there is room
		if next.by[e] == nil {
			x.index.Remove(m.id)
		}
	}
	without := 0
	for _, e := range all {
		if next.by[e] != nil {
			continue
		}
		// Models of one endpoint share its engine, and so its tokenizer.
		id, err := x.index.Add(e.Spec().Models[0].Name)
		if err != nil {
			without++
			continue
		}
		next.by[e] = &member{id: id, endpoint: e}
	}
	if without > 0 {
		x.log.Warn("endpoints are more than the prefix index takes; the rest gets requests by load alone: raise prefix.max_endpoints",
			"without", without)
	}
	for _, m := range next.by {
		if missing := m.id.Slot() + 1 - len(next.slot); missing > 0 {
			next.slot = append(next.slot, make([]*member, missing)...)
		}
		next.slot[m.id.Slot()] = m
	}
	x.members.Store(next)
}

// of returns the member of that ID, nil if it is gone.
func (ms *members) of(id prefix.ID) *member {
	if s := id.Slot(); s < len(ms.slot) && ms.slot[s] != nil && ms.slot[s].id == id {
		return ms.slot[s]
	}
	return nil
}

// Prompt implements [router.Prompts]. The body is read when the first decision
// asks.
func (x *prefixes) Prompt(path string, peek *openai.Peek, body []byte) router.Prompt {
	p := x.prompts.Get().(*prompt)
	p.x, p.path, p.peek, p.body, p.trial = x, pathBit(path), peek, body, false
	return p
}

// Holders implements [schedule.PrefixIndex].
func (x *prefixes) Holders(req *schedule.Request, out []schedule.Holder) (n, promptBytes int) {
	p, ok := req.Prompt.(*prompt)
	if !ok || !p.read(req.Model) {
		return 0, 0
	}
	turn := &x.turn
	if req.Trial {
		turn = new(atomic.Uint32)
		turn.Store(x.turn.Load())
		x.index.Peek(&p.chain, &p.found)
		x.exact.recall(p)
	} else {
		x.index.Lookup(&p.chain, &p.found)
	}
	if p.hashing && len(p.tokens) > 0 {
		x.rank(p, req.Model)
		for _, h := range page(p.held, len(out), func(h *beginning) int { return h.bytes }, turn) {
			for i := range h {
				out[n] = schedule.Holder{
					Endpoint: h[i].endpoint, Bytes: h[i].bytes, Exact: h[i].source == sourceExact, Seen: h[i].seen, Doubt: h[i].doubt,
				}
				n++
			}
		}
		return n, p.found.PromptBytes
	}
	members := x.members.Load()
	for _, m := range page(p.found.Matches, len(out), func(m *prefix.Match) int { return m.Bytes }, turn) {
		for i := range m {
			holder := members.of(m[i].ID)
			if holder == nil {
				continue
			}
			out[n] = schedule.Holder{Endpoint: holder.endpoint, Bytes: m[i].Bytes, Seen: m[i].Seen, Doubt: 1 - m[i].Trust}
			n++
		}
	}
	return n, p.found.PromptBytes
}

// page returns at most n of the matches, which have the longest first, as two
// stretches. Of more that hold equally much, as the system prompt that everybody
// has, each look sees others: the same ones would get all of the traffic.
func page[M any](ms []M, n int, bytes func(*M) int, turn *atomic.Uint32) [2][]M {
	if len(ms) <= n || n == 0 {
		return [2][]M{ms[:min(len(ms), n)]}
	}
	least := bytes(&ms[n-1])
	first := 0
	for first < n && bytes(&ms[first]) > least {
		first++
	}
	last := n
	for last < len(ms) && bytes(&ms[last]) == least {
		last++
	}
	room := n - first
	from := first + int(turn.Add(1)%uint32(last-first-room+1))
	return [2][]M{ms[:first], ms[from : from+room]}
}

// Picked implements [schedule.PrefixIndex].
func (x *prefixes) Picked(req *schedule.Request, e *endpoint.Endpoint) {
	p, ok := req.Prompt.(*prompt)
	if !ok || !p.read(req.Model) {
		return
	}
	p.Lost()
	m := x.members.Load().by[e]
	x.exact.picked(p, m, e)
	if m != nil {
		p.sent, p.to = x.index.Send(m.id, &p.chain), m
	}
}

// watch looks at each measurement for how much engines' caches have room for, and
// for engines that were started again, which have lost all they held, until ctx is
// done; then it returns nil.
func (x *prefixes) watch(ctx context.Context) error {
	tick := time.NewTicker(x.every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		for _, m := range x.members.Load().by {
			if room, changed := m.capacity(); changed {
				x.index.SetCapacity(m.id, int64(min(room, 1<<50)))
			}
			if m.restarted() {
				x.index.Clear(m.id)
				x.log.Info("engine was started again; its prefix cache is taken to be empty", "endpoint", m.endpoint.ID())
			}
		}
	}
}

// capacity returns how many tokens the engine says its cache has room for, and
// whether that is another number than last time.
func (m *member) capacity() (tokens float64, changed bool) {
	load := m.endpoint.Load()
	if load == nil {
		return 0, false
	}
	now, ok := load.KVCapacityTokens.Get()
	if !ok || now < 1 || now == m.room {
		return 0, false
	}
	m.room = now
	return now, true
}

// restarted reports whether a counter has gone down since it was last told.
func (m *member) restarted() bool {
	load := m.endpoint.Load()
	if load == nil {
		return false
	}
	less := false
	for i, now := range [...]engines.Reading{load.PrefixQueryTokens, load.PrefixHitTokens, load.Preemptions} {
		if n, ok := now.Get(); ok {
			before, ok := m.counters[i].Get()
			less = less || ok && n < before
			m.counters[i] = now
		}
	}
	return less
}
