package prefix_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/llmgw/llmgw/router/prefix"
)

// text is n bytes of random text, other ones for each seed.
func text(seed uint64, n int) string { return words(rand.New(rand.NewPCG(seed, 7)), n) }

// holds is how many bytes of the prompt an endpoint is believed to hold.
func holds(x *prefix.Index, id prefix.ID, prompt string) int {
	var r prefix.Result
	x.Lookup(chain(prompt), &r)
	m, _ := r.Of(id)
	return m.Bytes
}

// answered sends a prompt and has the engine answer with so many cached tokens.
func answered(x *prefix.Index, id prefix.ID, prompt string, cachedBytes int) {
	c := chain(prompt)
	s := x.Send(id, c)
	x.Observe(s, c, prefix.Usage{PromptTokens: int64(len(prompt) / 4), CachedTokens: int64(cachedBytes / 4), CachedKnown: true})
}

// TestSharedPreamble: two prompts with the same 700 bytes and different ends; the
// second is a hit.
func TestSharedPreamble(t *testing.T) {
	x := newIndex(t, nil)
	a, b := add(t, x, "m"), add(t, x, "m")
	preamble := text(1, 700)
	x.Send(a, chain(preamble+text(2, 500)))
	var r prefix.Result
	x.Lookup(chain(preamble+text(3, 900)), &r)
	m, ok := r.Of(a)
	if !ok || m.Bytes < 700-prefix.ChunkBytes || m.Bytes > 700 {
		t.Errorf("%+v, want a match of almost 700 bytes", m)
	}
	if m.Tokens != m.Bytes/4 {
		t.Errorf("%d tokens, want %d", m.Tokens, m.Bytes/4)
	}
	if _, ok := r.Of(b); ok {
		t.Error("an endpoint that was sent nothing holds something")
	}
	x.Lookup(chain(text(4, 700)), &r)
	if len(r.Matches) != 0 {
		t.Errorf("a prompt that shares nothing matches: %+v", r.Matches)
	}
}

// TestSeen: the endpoint that a beginning was sent to most often is told from
// the one that it was sent to last.
func TestSeen(t *testing.T) {
	x := newIndex(t, nil)
	often, last := add(t, x, "m"), add(t, x, "m")
	preamble := text(1, 640)
	for i := range 5 {
		x.Send(often, chain(preamble+text(uint64(10+i), 300)))
	}
	x.Send(last, chain(preamble+text(20, 300)))
	var r prefix.Result
	x.Lookup(chain(preamble+text(30, 300)), &r)
	m, _ := r.Of(often)
	n, _ := r.Of(last)
	if m.Seen != 5 || n.Seen != 1 || m.Bytes != 640 || n.Bytes != 640 {
		t.Errorf("%+v and %+v, want 640 bytes seen 5 times and once", m, n)
	}
}

func TestRootsAreApart(t *testing.T) {
	x := newIndex(t, nil)
	id := add(t, x, "m")
	x.Send(id, chain(text(1, 640)))
	var c prefix.Chain
	c.Reset(prefix.Root("m", "salt"))
	_, _ = c.WriteString(text(1, 640))
	var r prefix.Result
	if x.Lookup(&c, &r); len(r.Matches) != 0 {
		t.Errorf("a prompt below another root matches: %+v", r.Matches)
	}
	if prefix.Root("ab", "c") == prefix.Root("a", "bc") || prefix.Root("a") == prefix.Root("a", "") {
		t.Error("roots of other parts are equal")
	}
}

// TestPieces: how a prompt is cut into writes makes no difference.
func TestPieces(t *testing.T) {
	prompt := text(1, 1000)
	x := newIndex(t, nil)
	id := add(t, x, "m")
	x.Send(id, chain(prompt))
	for _, n := range []int{1, 7, 63, 64, 65, 128, 999} {
		var c prefix.Chain
		c.Reset(prefix.Root("m"))
		for rest := prompt; rest != ""; {
			k := min(n, len(rest))
			_, _ = c.Write([]byte(rest[:k]))
			rest = rest[k:]
		}
		var r prefix.Result
		x.Lookup(&c, &r)
		if m, _ := r.Of(id); m.Bytes != 960 || c.Bytes() != 1000 {
			t.Errorf("pieces of %d: %d of %d bytes, want 960 of 1000", n, m.Bytes, c.Bytes())
		}
	}
}

// TestLostByPressure: an engine that lost what was used before the middle has
// lost all that was used before, and its capacity is estimated lower.
func TestLostByPressure(t *testing.T) {
	x := newIndex(t, func(c *prefix.Config) { c.CapacityTokens = 100_000 })
	id := add(t, x, "m")
	const size = 40_000 // 10,000 tokens each
	for i := range 8 {
		answered(x, id, text(uint64(i), size), 0)
	}
	if got := holds(x, id, text(0, size)); got != size {
		t.Fatalf("%d bytes of the first prompt, want all of it", got)
	}
	answered(x, id, text(3, size), 0) // which was believed to be cached
	for i := range 3 {
		if got := holds(x, id, text(uint64(i), size)); got != 0 {
			t.Errorf("prompt %d, older than what was lost: %d bytes, want none", i, got)
		}
	}
	for _, i := range []int{3, 5, 6, 7} { // 4 pays for the lower estimate
		if got := holds(x, id, text(uint64(i), size)); got < size/2 {
			t.Errorf("prompt %d, younger or just computed: %d bytes", i, got)
		}
	}
	if got, _ := x.Capacity(id); got >= 60_000 {
		t.Errorf("capacity of %d tokens, want less than 60,000", got)
	}
}

// TestLostTail: an engine that has less of one prompt loses what hangs on it.
func TestLostTail(t *testing.T) {
	x := newIndex(t, func(c *prefix.Config) { c.CapacityTokens = 100_000 })
	id := add(t, x, "m")
	head := text(1, 20_000)
	answered(x, id, head+text(2, 20_000), 0)
	answered(x, id, head+text(3, 20_000), 20_000)
	for i := range 6 {
		answered(x, id, text(uint64(10+i), 40_000), 0)
	}
	answered(x, id, head+text(3, 20_000), 20_000) // the head only
	if got := holds(x, id, head+text(2, 20_000)); got > 20_000 {
		t.Errorf("%d bytes of the sibling, want the head at most", got)
	}
	if got := holds(x, id, head+text(3, 20_000)); got < 39_000 {
		t.Errorf("%d bytes of what was just computed, want all", got)
	}
}

// TestClearedUnsaid: an engine whose cache was cleared without a word is noticed
// by its answers.
func TestClearedUnsaid(t *testing.T) {
	x := newIndex(t, nil)
	id := add(t, x, "m")
	for i := range 10 {
		answered(x, id, text(uint64(i), 8000), 0)
	}
	for i := 9; i > 6; i-- {
		answered(x, id, text(uint64(i), 8000), 0)
	}
	if got := holds(x, id, text(0, 8000)); got != 0 {
		t.Errorf("%d bytes of what was never seen again, want none", got)
	}
	if got := holds(x, id, text(8, 8000)); got < 7900 {
		t.Errorf("%d bytes of what was computed since, want all", got)
	}
}

// TestInFlight: a second request that finds nothing because the first is still
// being computed proves nothing.
func TestInFlight(t *testing.T) {
	x := newIndex(t, func(c *prefix.Config) { c.CapacityTokens = 10_000 })
	id := add(t, x, "m")
	for i := range 3 {
		answered(x, id, text(uint64(i), 8000), 0)
	}
	prompt := text(9, 8000)
	c := chain(prompt)
	var sent []prefix.Sent
	for range 6 {
		sent = append(sent, x.Send(id, c))
	}
	for _, s := range sent {
		x.Observe(s, c, prefix.Usage{PromptTokens: 2000, CachedKnown: true})
	}
	if got := holds(x, id, text(0, 8000)); got < 7900 {
		t.Errorf("%d bytes of an older prompt, want all", got)
	}
	capacity, _ := x.Capacity(id)
	if capacity != 10_000 {
		t.Errorf("capacity %d, want it unchanged", capacity)
	}
}

// TestAnswersAreCachedToo: an engine that has more than was sent to it, its own
// answers, is not taken for larger; one that has what was forgotten is.
func TestAnswersAreCachedToo(t *testing.T) {
	x := newIndex(t, func(c *prefix.Config) { c.CapacityTokens = 20_000 })
	id := add(t, x, "m")
	for i := range 20 { // conversations of two turns
		answered(x, id, text(uint64(i), 8000), 0)
		answered(x, id, text(uint64(i), 12_000), 10_000)
	}
	if got, _ := x.Capacity(id); got != 20_000 {
		t.Errorf("capacity %d after conversations, want 20,000", got)
	}
	answered(x, id, text(10, 12_000), 12_000)
	if got, _ := x.Capacity(id); got <= 20_000 {
		t.Errorf("capacity %d although the engine had what was forgotten, want more", got)
	}
}

func TestFailed(t *testing.T) {
	x := newIndex(t, nil)
	id := add(t, x, "m")
	head := text(1, 6400)
	answered(x, id, head, 0)
	whole := chain(head + text(2, 6400))
	x.Failed(x.Send(id, whole), whole)
	if got := holds(x, id, head+text(2, 6400)); got != 6400 {
		t.Errorf("%d bytes after a failure, want the 6400 from before", got)
	}
	first := x.Send(id, whole)
	x.Send(id, whole)
	x.Failed(first, whole)
	if got := holds(x, id, head+text(2, 6400)); got != 12800 {
		t.Errorf("%d bytes where another was sent since, want all", got)
	}
	x.Failed(prefix.Sent{}, whole)
	x.Failed(first, chain("")) // another chain: nothing
}

func TestClearAndRemove(t *testing.T) {
	x := newIndex(t, nil)
	a, b := add(t, x, "m"), add(t, x, "m")
	prompt := text(1, 6400)
	x.Send(a, chain(prompt))
	x.Send(b, chain(prompt))
	x.Clear(a)
	if holds(x, a, prompt) != 0 || holds(x, b, prompt) != 6400 {
		t.Error("Clear took from another or left something")
	}
	x.Send(a, chain(prompt))
	x.Remove(a)
	again := add(t, x, "m")
	if holds(x, a, prompt) != 0 || holds(x, again, prompt) != 0 || holds(x, b, prompt) != 6400 {
		t.Error("Remove took from another, or left something to who came after")
	}
	x.Send(a, chain(prompt))
	x.Observe(prefix.Sent{}, chain(prompt), prefix.Usage{PromptTokens: 1})
	if holds(x, again, prompt) != 0 {
		t.Error("an endpoint that is gone gave to who came after")
	}
}

// TestClearInFlight: a prompt that was under way when the cache was cleared is not
// there afterwards.
func TestClearInFlight(t *testing.T) {
	x := newIndex(t, nil)
	id := add(t, x, "m")
	c := chain(text(1, 6400))
	s := x.Send(id, c)
	x.Clear(id)
	x.Observe(s, c, prefix.Usage{PromptTokens: 1600, CachedKnown: true})
	x.Failed(s, c)
	if got := holds(x, id, text(1, 6400)); got != 0 {
		t.Errorf("%d bytes, want none", got)
	}
}

func TestCapacity(t *testing.T) {
	x := newIndex(t, nil)
	id := add(t, x, "m")
	for i := range 10 {
		answered(x, id, text(uint64(i), 40_000), 0)
	}
	x.SetCapacity(id, 50_000)
	capacity, held := x.Capacity(id)
	if capacity != 50_000 || held > 50_000 || held < 49_000 {
		t.Errorf("capacity %d, held %d; want 50,000 and almost as much", capacity, held)
	}
	if holds(x, id, text(4, 40_000)) != 0 || holds(x, id, text(9, 40_000)) < 39_000 {
		t.Error("not the oldest went")
	}
	x.SetCapacity(id, 0)
	x.SetCapacity(id, -1)
	if got, _ := x.Capacity(id); got != 50_000 {
		t.Errorf("capacity %d after nonsense, want it unchanged", got)
	}
	// The engine says that it took more than the index did.
	x.Evicted(id, 80_000)
	if capacity, held = x.Capacity(id); capacity > 41_000 || held > capacity {
		t.Errorf("capacity %d, held %d after evictions", capacity, held)
	}
}

// TestEvictedTwice: what the index took itself is not taken again.
func TestEvictedTwice(t *testing.T) {
	x := newIndex(t, nil)
	id := add(t, x, "m")
	x.SetCapacity(id, 50_000)
	for i := range 20 {
		answered(x, id, text(uint64(i), 40_000), 0)
		if i >= 5 {
			x.Evicted(id, 10_000) // as many as came
		}
	}
	if capacity, held := x.Capacity(id); capacity < 45_000 || held < 45_000 {
		t.Errorf("capacity %d, held %d; want about 50,000", capacity, held)
	}
}

// TestBytesPerToken: the ratio of a model is learned from answers, from text only.
func TestBytesPerToken(t *testing.T) {
	x := newIndex(t, nil)
	id, other := add(t, x, "m"), add(t, x, "n")
	for i := range 200 {
		c := chain(text(uint64(i), 20_000))
		x.Observe(x.Send(id, c), c, prefix.Usage{PromptTokens: 10_000})
	}
	if got, _ := x.BytesPerToken("m"); got < 1.99 || got > 2.1 {
		t.Errorf("%v bytes per token, want 2", got)
	}
	if got, _ := x.BytesPerToken("n"); got != 4 {
		t.Errorf("%v bytes per token of another model, want 4", got)
	}
	c := chain(text(1, 100))
	x.Observe(x.Send(other, c), c, prefix.Usage{PromptTokens: 1_000_000})
	x.Observe(x.Send(other, c), c, prefix.Usage{})
	if got, _ := x.BytesPerToken("n"); got != 4 {
		t.Errorf("%v bytes per token after nonsense, want 4", got)
	}
}

func TestTrust(t *testing.T) {
	x := newIndex(t, nil)
	good, bad := add(t, x, "m"), add(t, x, "m")
	prompt := text(1, 40_000)
	trust := func(id prefix.ID) float64 {
		var r prefix.Result
		x.Lookup(chain(prompt), &r)
		m, _ := r.Of(id)
		return m.Trust
	}
	answered(x, good, prompt, 0)
	answered(x, bad, prompt, 0)
	if trust(good) != 0.5 || trust(bad) != 0.5 {
		t.Errorf("trust %v and %v before a prediction, want 0.5", trust(good), trust(bad))
	}
	for range 5 {
		answered(x, good, prompt, 40_000)
		answered(x, bad, prompt, 0) // as without prefix caching
	}
	if trust(good) < 0.9 || trust(bad) > 0.1 {
		t.Errorf("trust %v and %v, want almost 1 and 0", trust(good), trust(bad))
	}
}

// TestMetrics: counters move, and two indexes have registries of
// their own.
func TestMetrics(t *testing.T) {
	reg := prometheus.NewRegistry()
	x, err := prefix.New(prefix.DefaultConfig(), prefix.Deps{Registerer: reg})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := prefix.New(prefix.DefaultConfig(), prefix.Deps{Registerer: reg}); err == nil {
		t.Error("a second index in one registry is no error")
	}
	id := add(t, x, "m")
	for i := range 2 {
		holds(x, id, text(1, 6400))
		answered(x, id, text(1, 6400), i*6400)
	}
	want := `
# HELP llmgw_prefix_agreed_tokens_total The smaller of the two, summed by answer.
# TYPE llmgw_prefix_agreed_tokens_total counter
llmgw_prefix_agreed_tokens_total 1600
# HELP llmgw_prefix_hits_total Lookups that found an endpoint with a beginning of the prompt.
# TYPE llmgw_prefix_hits_total counter
llmgw_prefix_hits_total 1
# HELP llmgw_prefix_lookups_total Prompts that were looked up in the approximate prefix index.
# TYPE llmgw_prefix_lookups_total counter
llmgw_prefix_lookups_total 2
# HELP llmgw_prefix_predicted_tokens_total Cached prompt tokens that were believed of the endpoints picked, where they said the real number.
# TYPE llmgw_prefix_predicted_tokens_total counter
llmgw_prefix_predicted_tokens_total 1600
# HELP llmgw_prefix_send_hits_total Prompts that were sent to an endpoint believed to hold a beginning of them.
# TYPE llmgw_prefix_send_hits_total counter
llmgw_prefix_send_hits_total 1
`
	if err := testutil.GatherAndCompare(reg, strings.NewReader(want), "llmgw_prefix_agreed_tokens_total", "llmgw_prefix_hits_total",
		"llmgw_prefix_lookups_total", "llmgw_prefix_predicted_tokens_total", "llmgw_prefix_send_hits_total"); err != nil {
		t.Error(err)
	}
	if problems, err := testutil.GatherAndLint(reg); err != nil || len(problems) > 0 {
		t.Errorf("lint: %v %v", problems, err)
	}
	if got, ok := x.Agreement().Ratio(); got != 1 || !ok {
		t.Errorf("agreement %v %v, want 1", got, ok)
	}
	if _, ok := (prefix.Agreement{}).Ratio(); ok {
		t.Error("agreement of nothing is known")
	}
}

func TestConfig(t *testing.T) {
	if err := prefix.DefaultConfig().Validate(); err != nil {
		t.Errorf("defaults: %v", err)
	}
	_, err := prefix.New(prefix.Config{}, prefix.Deps{})
	if err == nil {
		t.Fatal("the zero Config is no error")
	}
	for _, key := range []string{"max_bytes: 0", "max_endpoints: 0", "capacity_tokens: 0", "bytes_per_token: 0"} {
		if !strings.Contains(err.Error(), key) {
			t.Errorf("error %q does not say %q", err, key)
		}
	}
	if _, err := prefix.NewExact(prefix.ExactConfig{}, prefix.Deps{}); err == nil || !strings.Contains(err.Error(), "max_blocks: 0") || !strings.Contains(err.Error(), "max_endpoints: 0") {
		t.Errorf("error %v of a zero ExactConfig", err)
	}
}

// TestDeterminism: the same calls give the same results, order included.
func TestDeterminism(t *testing.T) {
	run := func() []prefix.Match {
		x := newIndex(t, func(c *prefix.Config) { c.MaxBytes = 1 << 20; c.CapacityTokens = 5000 })
		var ids []prefix.ID
		for range 20 {
			ids = append(ids, add(t, x, "m"))
		}
		rng := rand.New(rand.NewPCG(5, 5))
		var all []prefix.Match
		var r prefix.Result
		for range 500 {
			p := text(uint64(rng.IntN(5)), 2000)[:rng.IntN(2000)] + text(uint64(rng.IntN(3)), 1000)
			x.Lookup(chain(p), &r)
			all = append(all, r.Matches...)
			answered(x, ids[rng.IntN(len(ids))], p, rng.IntN(len(p)))
		}
		return all
	}
	if diff := cmp.Diff(run(), run(), cmp.AllowUnexported(prefix.ID{})); diff != "" {
		t.Errorf("two runs differ (-first +second):\n%s", diff)
	}
}
