package gateway

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/router/endpoint"
	"github.com/llmgw/llmgw/router/openai"
	"github.com/llmgw/llmgw/router/prefix"
	"github.com/llmgw/llmgw/router/schedule"
	"github.com/llmgw/llmgw/router/scrape"
)

// stage is a prefixes with endpoints, and requests without a router.
type stage struct {
	t   testing.TB
	x   *prefixes
	set *endpoint.Set
}

func newStage(t testing.TB, ids ...string) *stage {
	t.Helper()
	cfg := DefaultConfig()
	x, err := newPrefixes(cfg.Prefix, cfg.Router.Scrape.Interval, nobody, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		t.Fatal(err)
	}
	set, err := endpoint.NewSet(cfg.Router.Breaker, endpoint.Deps{})
	if err != nil {
		t.Fatal(err)
	}
	s := &stage{t, x, set}
	s.replace(1, ids...)
	return s
}

// nobody is a client that reaches no engine.
func nobody(*endpoint.Endpoint) (scrape.Doer, func()) { return http.DefaultClient, func() {} }

// replace makes the endpoints those; another weight makes others of them.
func (s *stage) replace(weight float64, ids ...string) {
	s.t.Helper()
	specs := make([]endpoint.Spec, len(ids))
	for i, id := range ids {
		specs[i] = endpoint.Spec{ID: id, URL: "http://127.0.0.1:1", Weight: weight, Models: []endpoint.Model{{Name: "m"}, {Name: "n"}}}
	}
	if err := s.set.Replace(specs); err != nil {
		s.t.Fatal(err)
	}
	s.x.sync(s.set.Snapshot().All())
}

// request is one for the model m with that text.
func (s *stage) request(text string) *schedule.Request {
	s.t.Helper()
	body := []byte(`{"model":"m","messages":[{"role":"user","content":"` + text + `"}]}`)
	var peek openai.Peek
	if err := openai.PeekBody(body, &peek); err != nil {
		s.t.Fatal(err)
	}
	return &schedule.Request{
		Model: "m", Now: time.Unix(1_800_000_000, 0), Prompt: s.x.Prompt("/v1/chat/completions", &peek, body),
	}
}

// holders are the IDs of those that hold some of the request's prompt, in order.
func (s *stage) holders(req *schedule.Request) string {
	s.t.Helper()
	var ids []string
	for _, h := range s.look(req) {
		ids = append(ids, h.Endpoint.ID())
	}
	return strings.Join(ids, " ")
}

func (s *stage) look(req *schedule.Request) []schedule.Holder {
	out := make([]schedule.Holder, 64)
	n, size := s.x.Holders(req, out)
	for _, h := range out[:n] {
		if h.Bytes < 1 || h.Bytes > size {
			s.t.Errorf("%s holds %d of %d", h.Endpoint.ID(), h.Bytes, size)
		}
	}
	return out[:n]
}

func text(i int) string { return strings.Repeat(fmt.Sprintf("%d is another number. ", i), 40) }

func said(prompt, cached int64) openai.Usage {
	return openai.Usage{PromptTokens: openai.CountOf(prompt), CachedTokens: openai.CountOf(cached)}
}

// What the index has is where requests went, whatever the scorers said: here a
// picker draws among all.
func TestIndexHasThePicks(t *testing.T) {
	s := newStage(t, "a", "b", "c", "d")
	anyone := schedule.Profile{
		Name:    "anyone",
		Scorers: []schedule.Weighted{{Scorer: schedule.PrefixAffinity{TargetBytes: 1024, MaxGap: 16, MaxRatio: 1.5}, Weight: 1}},
		Picker:  schedule.WeightedRandom{},
	}
	sched, err := schedule.New(DefaultConfig().scoring(), schedule.Deps{Profiles: []schedule.Profile{anyone}, Prefixes: s.x})
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	const prompts = 12
	var picks [prompts]map[*endpoint.Endpoint]bool
	for range 60 {
		i := rng.IntN(prompts)
		req := s.request(text(i))
		e, place, err := sched.Decide("anyone", req, s.set.Snapshot().All(), rng, nil)
		if err != nil {
			t.Fatal(err)
		}
		place.Release()
		if picks[i] == nil {
			picks[i] = map[*endpoint.Endpoint]bool{}
		}
		cached := int64(0)
		if picks[i][e] {
			cached = 240
		}
		req.Prompt.(*prompt).Answered(said(240, cached))
		picks[i][e] = true
	}
	for i, want := range picks {
		got := s.look(s.request(text(i)))
		for _, h := range got {
			if !want[h.Endpoint] {
				t.Errorf("prompt %d: %s is said to hold it and was never picked", i, h.Endpoint.ID())
			}
		}
		if len(got) != len(want) {
			t.Errorf("prompt %d: %d hold it, %d were picked", i, len(got), len(want))
		}
	}
}

// Who begins to hold a prompt, and who no more.
func TestPrefixLife(t *testing.T) {
	s := newStage(t, "a", "b")
	all := s.set.Snapshot().All()
	agreement := func() uint64 { return s.x.index.Agreement().Answers }

	// A first engine fails, another answers: the answer counts once, and for the
	// second alone.
	req := s.request(text(1))
	p := req.Prompt.(*prompt)
	s.x.Picked(req, all[0])
	p.Lost()
	if got := s.holders(req); got != "" {
		t.Errorf("after a failure %q hold it", got)
	}
	s.x.Picked(req, all[1])
	p.Answered(said(200, 0))
	p.Answered(said(200, 0))
	p.Lost()
	if got := agreement(); got != 1 {
		t.Errorf("%d answers were taken for true", got)
	}
	if got := s.holders(req); got != "b" {
		t.Errorf("%q hold it", got)
	}
	p.Release()

	// A pick that follows another without a word takes it back.
	req = s.request(text(2))
	s.x.Picked(req, all[0])
	s.x.Picked(req, all[1])
	if got := s.holders(req); got != "b" {
		t.Errorf("%q hold it", got)
	}

	// Another model shares nothing, and the same request asks for it as a fallback.
	req = s.request(text(1))
	req.Model = "n"
	if got := s.holders(req); got != "" {
		t.Errorf("of another model %q hold it", got)
	}
	req.Model = "m"
	if got := s.holders(req); got != "b" {
		t.Errorf("%q hold it", got)
	}

	// An instance takes all it held with it, and what comes back is another.
	s.replace(2, "a", "b")
	if got := s.holders(req); got != "" {
		t.Errorf("after a replacement %q hold it", got)
	}
	s.x.Picked(req, all[1]) // chosen before it left
	req.Prompt.(*prompt).Answered(said(200, 0))
	if got := s.holders(req); got != "" {
		t.Errorf("of an instance that is gone, %q hold it", got)
	}
	if got := s.x.index.Stats(); got.Endpoints != 2 || got.Nodes != 0 {
		t.Errorf("%+v", got)
	}
}

// What is too short to share is not looked up.
func TestShortPromptIsNotLookedUp(t *testing.T) {
	s := newStage(t, "a")
	req := s.request("hi")
	s.x.Picked(req, s.set.Snapshot().All()[0])
	if got := s.look(req); len(got) > 0 || s.x.index.Stats().Nodes > 0 {
		t.Errorf("%v", got)
	}
	req.Prompt.(*prompt).Answered(said(2, 0))
}

// Of a prompt that is too long the beginning is known; its usage says nothing about
// that.
func TestLongPrompt(t *testing.T) {
	s := newStage(t, "a")
	long := strings.Repeat("0123456789abcde ", 1<<16/16)
	long = long + strings.Repeat(`"},{"role":"user","content":"`+long, 5<<20/len(long))
	req := s.request(long)
	p := req.Prompt.(*prompt)
	s.x.Picked(req, s.set.Snapshot().All()[0])
	p.Answered(said(1_500_000, 0))
	p.Release()
	if got := s.x.index.Agreement().Answers; got != 0 {
		t.Error("its usage was taken for that of its beginning")
	}
	if got := s.look(s.request(long + "and more")); len(got) != 1 || got[0].Bytes < maxPromptBytes {
		t.Errorf("%v", got)
	}
}

// Engines that leave the number of cached tokens out where it is 0 mean 0 once they
// have told another, on that path.
func TestSilenceAboutCachedTokens(t *testing.T) {
	s := newStage(t, "a")
	silent := openai.Usage{PromptTokens: openai.CountOf(200)}
	ask := func(u openai.Usage) uint64 {
		req := s.request(text(1))
		s.x.Picked(req, s.set.Snapshot().All()[0])
		req.Prompt.(*prompt).Answered(u)
		return s.x.index.Agreement().Answers
	}
	if got := ask(silent); got != 0 {
		t.Error("silence of an engine that never spoke is taken for 0")
	}
	if got := ask(said(200, 100)); got != 1 {
		t.Errorf("%d answers", got)
	}
	if got := ask(silent); got != 2 {
		t.Error("silence of one that spoke is not taken for 0")
	}
	m := s.x.members.Load().by[s.set.Snapshot().All()[0]]
	if m.tellsCached(pathBit("/v1/messages"), false) {
		t.Error("what was told on one path counts for another")
	}
}

// How often each was sent prompts that begin so is told, for the scorer to prefer
// the one that it was most often.
func TestHoldersTellHowOften(t *testing.T) {
	s := newStage(t, "a", "b", "c")
	all := s.set.Snapshot().All()
	want := map[*endpoint.Endpoint]int{}
	for _, i := range []int{0, 1, 1, 2, 1, 0, 1} {
		req := s.request(text(1))
		s.x.Picked(req, all[i])
		req.Prompt.(*prompt).Answered(said(240, 0))
		want[all[i]]++
	}
	got := s.look(s.request(text(1)))
	if len(got) != len(want) {
		t.Errorf("%v", got)
	}
	for _, h := range got {
		if h.Seen != want[h.Endpoint] {
			t.Errorf("%s was sent it %d times, not %d", h.Endpoint.ID(), want[h.Endpoint], h.Seen)
		}
	}
}

// Of many that hold the same, each look sees others, and those that hold more always.
func TestPage(t *testing.T) {
	var turn atomic.Uint32
	bytes := func(m *prefix.Match) int { return m.Bytes }
	ms := []prefix.Match{{Bytes: 640}, {Bytes: 128}, {Bytes: 128}, {Bytes: 128}, {Bytes: 128}, {Bytes: 128}, {Bytes: 64}}
	for i := range ms {
		ms[i].Seen = i
	}
	seen := map[int]int{}
	for range 100 {
		page := page(ms, 3, bytes, &turn)
		got := append(append([]prefix.Match{}, page[0]...), page[1]...)
		if len(got) != 3 || got[0].Bytes != 640 {
			t.Fatalf("%v", got)
		}
		for _, m := range got {
			seen[m.Seen]++
		}
	}
	for i := range 6 {
		if seen[i] == 0 {
			t.Errorf("match %d is never seen", i)
		}
	}
	if seen[6] > 0 {
		t.Error("one that holds less is seen instead of one that holds more")
	}
	for n := range 10 {
		page := page(ms, n, bytes, &turn)
		if got := len(page[0]) + len(page[1]); got != min(n, len(ms)) {
			t.Errorf("%d of %d for %d places", got, len(ms), n)
		}
	}
	turn.Store(1<<32 - 1) // which wraps
	page(ms, 3, bytes, &turn)
}

// A counter of the engine's that goes down says that it was started again.
func TestRestartClears(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, "a", "b")
		all := s.set.Snapshot().All()
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- s.x.watch(ctx) }()
		for _, e := range all {
			req := s.request(text(1))
			s.x.Picked(req, e)
			req.Prompt.(*prompt).Answered(said(200, 0))
		}
		measure := func(tokens float64) {
			load := &endpoint.LoadState{At: time.Now()}
			load.PrefixQueryTokens = engines.Read(tokens)
			all[0].SetLoad(load)
			time.Sleep(s.x.every)
			synctest.Wait()
		}
		measure(1000)
		measure(1200)
		all[0].SetLoad(&endpoint.LoadState{At: time.Now()}) // says nothing
		time.Sleep(s.x.every)
		measure(1300)
		if got := s.holders(s.request(text(1))); got != "a b" {
			t.Errorf("%q hold it", got)
		}
		measure(200)
		if got := s.holders(s.request(text(1))); got != "b" {
			t.Errorf("after a restart of a, %q hold it", got)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// What an engine says its cache has room for is what it is taken to hold, until it
// says otherwise.
func TestCapacityIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, "a", "b")
		all := s.set.Snapshot().All()
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- s.x.watch(ctx) }()
		for _, tt := range []struct {
			said engines.Reading
			want int64
		}{{engines.Read(147_456), 147_456}, {engines.Reading{}, 147_456}, {engines.Read(0), 147_456}, {engines.Read(20_000), 20_000}, {engines.Read(1e300), 1 << 40}} {
			load := &endpoint.LoadState{At: time.Now()}
			load.KVCapacityTokens = tt.said
			all[0].SetLoad(load)
			time.Sleep(s.x.every)
			synctest.Wait()
			if got, _ := s.x.index.Capacity(s.x.members.Load().by[all[0]].id); got != tt.want {
				t.Errorf("%v was said: the capacity is %d, want %d", tt.said, got, tt.want)
			}
		}
		if got, _ := s.x.index.Capacity(s.x.members.Load().by[all[1]].id); got != DefaultConfig().Prefix.Index.CapacityTokens {
			t.Errorf("an engine that says nothing has a capacity of %d", got)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// More endpoints than the index takes work without it.
func TestMoreEndpointsThanTheIndexTakes(t *testing.T) {
	cfg := DefaultConfig().Prefix
	cfg.Index.MaxEndpoints = 2
	x, err := newPrefixes(cfg, time.Second, nobody, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		t.Fatal(err)
	}
	s := newStage(t)
	s.x = x
	s.replace(1, "a", "b", "c")
	all := s.set.Snapshot().All()
	req := s.request(text(1))
	s.x.Picked(req, all[2])
	req.Prompt.(*prompt).Answered(said(200, 0))
	if got := s.holders(req); got != "" {
		t.Errorf("%q hold it", got)
	}
	s.replace(1, "c") // now there is room
	s.x.Picked(req, all[2])
	if got := s.holders(req); got != "c" {
		t.Errorf("%q hold it", got)
	}
}

// What a request costs here, from the body to what its answer corrects.
func BenchmarkPrefixes(b *testing.B) {
	for _, size := range []int{1 << 10, 32 << 10} {
		b.Run(fmt.Sprintf("bytes=%d", size), func(b *testing.B) {
			once := newCycle(newStage(b, "a", "b", "c"), size)
			b.ReportAllocs()
			b.SetBytes(int64(size))
			for b.Loop() {
				once()
			}
		})
	}
}

// newCycle is one request's way through the index.
func newCycle(s *stage, size int) (once func()) {
	s.t.Helper()
	all := s.set.Snapshot().All()
	words := strings.Repeat("The quick brown fox jumps over the lazy dog. ", size/45+1)[:size]
	body := fmt.Appendf(nil, `{"model":"m","messages":[{"role":"user","content":%q}],"max_tokens":8}`, words)
	var peek openai.Peek
	if err := openai.PeekBody(body, &peek); err != nil {
		s.t.Fatal(err)
	}
	out := make([]schedule.Holder, 64)
	req := &schedule.Request{Model: "m"}
	return func() {
		p := s.x.Prompt("/v1/chat/completions", &peek, body)
		req.Prompt = p
		s.x.Holders(req, out)
		s.x.Picked(req, all[0])
		p.Answered(said(int64(size/4), int64(size/4-16)))
		p.Release()
	}
}

// A request allocates nothing.
func TestPrefixesAllocateNothing(t *testing.T) {
	s := newStage(t, "a", "b", "c")
	same := new(prompt)
	s.x.prompts.New = func() any { return same } // under the race detector a pool forgets
	once := newCycle(s, 4<<10)
	once()
	if n := testing.AllocsPerRun(200, once); n != 0 {
		t.Errorf("%v allocations a request", n)
	}
}
