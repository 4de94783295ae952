package sim_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/llmgw/llmgw/engines/sim"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func newCore(t testing.TB, edit func(*sim.Config)) *sim.Core {
	t.Helper()
	cfg := sim.DefaultConfig()
	if edit != nil {
		edit(&cfg)
	}
	c, err := sim.NewCore(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// run steps c until it is idle and returns the time of the end.
func run(t testing.TB, c *sim.Core, now time.Time, each func(sim.Batch)) time.Time {
	t.Helper()
	for range 10_000_000 {
		b, next := c.Step(now)
		if each != nil && !b.End.IsZero() {
			each(b)
		}
		if next.IsZero() {
			return now
		}
		now = next
	}
	t.Fatal("core does not come to rest")
	return now
}

// hashes of a prompt whose first shared tokens are common to all.
func promptHashes(own uint32, shared, total int) []uint64 {
	tokens := make([]uint32, total)
	for i := range tokens {
		tokens[i] = uint32(i)
		if i >= shared {
			tokens[i] += own * 1_000_003
		}
	}
	return sim.BlockHashes(0, tokens, 16)
}

func TestCorePrefillIsChunked(t *testing.T) {
	c := newCore(t, nil)
	s := c.Submit(epoch, sim.Request{PromptTokens: 20000, OutputTokens: 2})
	var prefills []int
	run(t, c, epoch, func(b sim.Batch) { prefills = append(prefills, b.PrefillTokens) })
	if want := []int{8192, 8192, 3616, 0}; !slices.Equal(prefills, want) {
		t.Errorf("prefilled %v, want %v", prefills, want)
	}
	// 20,000 tokens at 25,000 to 37,000 tok/s, plus attention.
	if s.TTFT() < 540*time.Millisecond || s.TTFT() > 1100*time.Millisecond {
		t.Errorf("TTFT %v", s.TTFT())
	}
}

func TestCoreDecodeSharesTheBatchWithPrefill(t *testing.T) {
	c := newCore(t, nil)
	c.Submit(epoch, sim.Request{PromptTokens: 100, OutputTokens: 500})
	_, next := c.Step(epoch)
	now := next
	for range 10 {
		_, now = c.Step(now)
	}
	c.Submit(now, sim.Request{PromptTokens: 30000, OutputTokens: 5})
	mixed := 0
	run(t, c, now, func(b sim.Batch) {
		if b.PrefillTokens > 0 && b.DecodeTokens > 0 {
			mixed++
			if b.PrefillTokens+b.DecodeTokens > 8192 {
				t.Errorf("iteration of %d + %d tokens", b.PrefillTokens, b.DecodeTokens)
			}
		}
	})
	if mixed != 4 {
		t.Errorf("%d iterations mixed prefill and decode, want 4", mixed)
	}
}

func TestCoreFIFO(t *testing.T) {
	c := newCore(t, func(cfg *sim.Config) { cfg.MaxNumSeqs = 2 })
	for i := range 6 {
		c.Submit(epoch, sim.Request{PromptTokens: 10, OutputTokens: 5, Owner: i})
	}
	if s := c.Stats(); s.Waiting != 6 || s.Running != 0 {
		t.Errorf("before: %+v", s)
	}
	var order []int
	most := 0
	run(t, c, epoch, func(b sim.Batch) {
		most = max(most, b.Running)
		for _, s := range b.Finished {
			order = append(order, s.Owner.(int))
		}
	})
	if !slices.Equal(order, []int{0, 1, 2, 3, 4, 5}) || most > 2 {
		t.Errorf("finished in order %v with %d at once", order, most)
	}
}

// With one place in the batch, requests that wait run by priority, and those of
// one priority as they came.
func TestCorePriority(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		policy := rapid.SampledFrom([]string{sim.PolicyFCFS, sim.PolicyPriority}).Draw(rt, "policy")
		c := newCore(t, func(cfg *sim.Config) { cfg.MaxNumSeqs, cfg.SchedulingPolicy = 1, policy })
		var want []int
		priorities := rapid.SliceOfN(rapid.IntRange(-3, 3), 1, 20).Draw(rt, "priorities")
		for i, p := range priorities {
			c.Submit(epoch.Add(time.Duration(i)), sim.Request{PromptTokens: 10, OutputTokens: 2, Owner: i, Priority: p})
			want = append(want, i)
		}
		if policy == sim.PolicyPriority {
			slices.SortStableFunc(want, func(a, b int) int { return priorities[a] - priorities[b] })
		}
		var got []int
		run(t, c, epoch.Add(time.Second), func(b sim.Batch) { // all are on their way by then
			for _, s := range b.Finished {
				got = append(got, s.Owner.(int))
			}
		})
		if !slices.Equal(got, want) {
			rt.Fatalf("%s ran %v; want %v of %v", policy, got, want, priorities)
		}
	})
}

// When blocks run out the least important goes, though it came first.
func TestCorePriorityPreempts(t *testing.T) {
	for _, policy := range []string{sim.PolicyFCFS, sim.PolicyPriority} {
		c := newCore(t, func(cfg *sim.Config) {
			cfg.SchedulingPolicy, cfg.MaxModelLen, cfg.NumGPUBlocks = policy, 320, 24
		})
		low := c.Submit(epoch, sim.Request{PromptTokens: 150, OutputTokens: 150, Priority: 1})
		high := c.Submit(epoch, sim.Request{PromptTokens: 150, OutputTokens: 150})
		run(t, c, epoch, func(sim.Batch) {})
		if byPriority := policy == sim.PolicyPriority; low.Preempted() != byPriority || high.Preempted() == byPriority {
			t.Errorf("%s: low preempted %t, high %t", policy, low.Preempted(), high.Preempted())
		}
	}
}

func TestCorePrefixCacheShortensPrefill(t *testing.T) {
	c := newCore(t, nil)
	ttft := func(now time.Time, own uint32) (*sim.Sequence, time.Time) {
		s := c.Submit(now, sim.Request{PromptTokens: 4000, OutputTokens: 3, Blocks: promptHashes(own, 3200, 4000)})
		return s, run(t, c, now, nil)
	}
	first, now := ttft(epoch, 1)
	second, now := ttft(now, 2)
	again, _ := ttft(now, 2)
	if first.CachedTokens() != 0 || second.CachedTokens() != 3200 {
		t.Errorf("cached %d and %d tokens, want 0 and 3200", first.CachedTokens(), second.CachedTokens())
	}
	// The whole prompt is cached, and still its last token is computed.
	if again.CachedTokens() != 4000-16 {
		t.Errorf("cached %d of 4000 tokens the third time, want 3984", again.CachedTokens())
	}
	if second.TTFT() > first.TTFT()/2 || again.TTFT() > second.TTFT() {
		t.Errorf("TTFT %v, %v, %v; want it to fall", first.TTFT(), second.TTFT(), again.TTFT())
	}
	s := c.Stats()
	if s.PrefixQueryTokens != 12000 || s.PrefixHitTokens != 3200+3984 || s.UsedBlocks != 0 {
		t.Errorf("stats %+v", s)
	}
	c.ClearPrefixCache()
	if s, _ := ttft(now, 2); s.CachedTokens() != 0 {
		t.Errorf("cached %d tokens after clearing", s.CachedTokens())
	}
}

func TestCorePrefixCacheEvictsTheLeastRecentlyUsed(t *testing.T) {
	c := newCore(t, func(cfg *sim.Config) { cfg.NumGPUBlocks, cfg.MaxModelLen = 100, 800 })
	now := epoch
	ask := func(own uint32) int {
		s := c.Submit(now, sim.Request{PromptTokens: 480, OutputTokens: 1, Blocks: promptHashes(own, 0, 480)})
		now = run(t, c, now, nil)
		return s.CachedTokens()
	}
	// Three prompts of 30 blocks fit in 100 blocks; the fourth evicts the
	// oldest, which was not used since.
	for _, step := range []struct {
		own  uint32
		want int
	}{{1, 0}, {2, 0}, {3, 0}, {1, 464}, {4, 0}, {1, 464}, {3, 464}, {2, 0}} {
		got := ask(step.own)
		if step.own == 2 && step.want == 0 && got > 240 || step.own != 2 && got != step.want {
			t.Errorf("prompt %d: %d tokens cached, want %d", step.own, got, step.want)
		}
	}
}

func TestCorePreemptsWhenBlocksRunOut(t *testing.T) {
	c := newCore(t, func(cfg *sim.Config) { cfg.NumGPUBlocks, cfg.MaxModelLen = 40, 640 })
	var seqs []*sim.Sequence
	for i := range 4 {
		seqs = append(seqs, c.Submit(epoch, sim.Request{PromptTokens: 100, OutputTokens: 200, Blocks: promptHashes(uint32(i), 0, 100)}))
	}
	run(t, c, epoch, func(sim.Batch) {
		if s := c.Stats(); s.UsedBlocks > s.Blocks {
			t.Fatalf("%d of %d blocks used", s.UsedBlocks, s.Blocks)
		}
	})
	s := c.Stats()
	if s.Preemptions == 0 || s.RecomputedPromptTokens == 0 {
		t.Errorf("4 × 19 blocks in 40: %+v", s)
	}
	for i, q := range seqs {
		if !q.Finished() || q.Generated() != 200 {
			t.Errorf("sequence %d generated %d", i, q.Generated())
		}
	}
	if seqs[0].Preempted() || s.GenerationTokens != 800 || s.UsedBlocks != 0 {
		t.Errorf("first preempted %v, %+v", seqs[0].Preempted(), s)
	}
}

func TestCoreAbort(t *testing.T) {
	c := newCore(t, func(cfg *sim.Config) { cfg.MaxNumSeqs = 1 })
	first := c.Submit(epoch, sim.Request{PromptTokens: 1000, OutputTokens: 100})
	second := c.Submit(epoch, sim.Request{PromptTokens: 1000, OutputTokens: 100})
	_, next := c.Step(epoch)
	_, next = c.Step(next)
	if s := c.Stats(); s.Running != 1 || s.Waiting != 1 || s.UsedBlocks != 63 {
		t.Fatalf("%+v", s)
	}
	if !c.Abort(second) || !c.Abort(first) || c.Abort(first) {
		t.Error("abort must work once")
	}
	if s := c.Stats(); s.Running != 0 || s.Waiting != 0 || s.UsedBlocks != 0 {
		t.Errorf("after abort: %+v", s)
	}
	run(t, c, next, func(b sim.Batch) {
		if len(b.Advanced) > 0 {
			t.Error("an aborted sequence advanced")
		}
	})
	if !c.Idle() {
		t.Error("not idle")
	}
}

func TestCoreStepEarlyAndLate(t *testing.T) {
	c := newCore(t, nil)
	c.Submit(epoch, sim.Request{PromptTokens: 10, OutputTokens: 10})
	_, ready := c.Step(epoch)
	_, end := c.Step(ready)
	if b, next := c.Step(end.Add(-1)); !b.End.IsZero() || !next.Equal(end) {
		t.Errorf("an early step gave %+v, %v", b, next)
	}
	late := end.Add(10 * time.Millisecond)
	b, next := c.Step(late)
	if !b.End.Equal(end) || next.Sub(end) > 8*time.Millisecond {
		t.Errorf("a late step: batch ended %v, next %v; want the schedule kept", b.End, next.Sub(end))
	}
	stalled := next.Add(5 * time.Second)
	if _, next = c.Step(stalled); !next.After(stalled) {
		t.Errorf("after a stall next is %v before now", stalled.Sub(next))
	}
}

func TestCoreIsDeterministic(t *testing.T) {
	trace := func() string {
		c := newCore(t, func(cfg *sim.Config) { cfg.NumGPUBlocks, cfg.MaxModelLen = 200, 3200 })
		out := ""
		for i := range 30 {
			c.Submit(epoch.Add(time.Duration(i)*time.Millisecond), sim.Request{PromptTokens: 100 + i*7, OutputTokens: 20 + i,
				Blocks: promptHashes(uint32(i%5), 64, 100+i*7)})
		}
		run(t, c, epoch, func(b sim.Batch) { out += fmt.Sprint(b.End.Sub(epoch), len(b.Advanced), len(b.Finished), ";") })
		return out
	}
	if a, b := trace(), trace(); a != b {
		t.Error("two equal runs differ")
	}
}

// TestCoreInvariants submits, aborts and steps at random: blocks are never
// lost or doubled, every sequence gets exactly its tokens, and it comes to
// rest.
func TestCoreInvariants(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		cfg := sim.DefaultConfig()
		cfg.BlockSize = rapid.SampledFrom([]int{1, 4, 16}).Draw(rt, "block size")
		cfg.MaxModelLen = 300
		cfg.NumGPUBlocks = (300+cfg.BlockSize-1)/cfg.BlockSize + rapid.IntRange(0, 60).Draw(rt, "blocks")
		cfg.MaxNumSeqs = rapid.IntRange(1, 8).Draw(rt, "seqs")
		cfg.MaxNumBatchedTokens = cfg.MaxNumSeqs + rapid.IntRange(0, 200).Draw(rt, "budget")
		cfg.PrefixCaching = rapid.Bool().Draw(rt, "caching")
		cfg.SchedulingPolicy = rapid.SampledFrom([]string{sim.PolicyFCFS, sim.PolicyPriority}).Draw(rt, "policy")
		c, err := sim.NewCore(cfg)
		if err != nil {
			rt.Fatal(err)
		}
		now := epoch
		want := map[*sim.Sequence]int{}
		got := map[*sim.Sequence]int{}
		aborted := map[*sim.Sequence]bool{}
		var live []*sim.Sequence
		look := func(b sim.Batch) {
			for _, s := range b.Advanced {
				got[s]++
				if aborted[s] {
					rt.Fatal("an aborted sequence advanced")
				}
			}
			st := c.Stats()
			if st.UsedBlocks < 0 || st.UsedBlocks > st.Blocks || st.Running > cfg.MaxNumSeqs ||
				b.PrefillTokens+b.DecodeTokens > cfg.MaxNumBatchedTokens {
				rt.Fatalf("%+v %+v", st, b)
			}
		}
		for range rapid.IntRange(1, 60).Draw(rt, "operations") {
			switch rapid.IntRange(0, 3).Draw(rt, "operation") {
			case 0:
				prompt := rapid.IntRange(1, 250).Draw(rt, "prompt")
				output := rapid.IntRange(0, 300-prompt).Draw(rt, "output")
				own := uint32(rapid.IntRange(0, 2).Draw(rt, "own"))
				tokens := make([]uint32, prompt+output)
				for i := range tokens {
					tokens[i] = uint32(i) + own*uint32(i/50)
				}
				s := c.Submit(now, sim.Request{PromptTokens: prompt, OutputTokens: output,
					Blocks: sim.BlockHashes(0, tokens, cfg.BlockSize), Priority: rapid.IntRange(-2, 2).Draw(rt, "priority")})
				want[s] = output
				live = append(live, s)
			case 1:
				if len(live) > 0 {
					s := rapid.SampledFrom(live).Draw(rt, "victim")
					if c.Abort(s) {
						aborted[s] = true
					}
				}
			default:
				b, next := c.Step(now)
				look(b)
				if !next.IsZero() {
					now = next
				}
			}
		}
		for range 100000 {
			b, next := c.Step(now)
			look(b)
			if next.IsZero() {
				break
			}
			now = next
		}
		if !c.Idle() || c.Stats().UsedBlocks != 0 {
			rt.Fatalf("not at rest: %+v", c.Stats())
		}
		for s, n := range want {
			if !aborted[s] && (got[s] != n || s.Generated() != n || !s.Finished()) {
				rt.Fatalf("sequence got %d tokens of %d", got[s], n)
			}
		}
	})
}

func TestCoreSubmitRefusesNonsense(t *testing.T) {
	c := newCore(t, nil)
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	c.Submit(epoch, sim.Request{})
}

// TestCoreStepAllocs: no allocation per token.
func TestCoreStepAllocs(t *testing.T) {
	c := newCore(t, nil)
	for range 64 {
		c.Submit(epoch, sim.Request{PromptTokens: 1600, OutputTokens: 10000})
	}
	now := epoch
	for range 100 {
		_, now = c.Step(now)
	}
	if n := testing.AllocsPerRun(500, func() { _, now = c.Step(now) }); n > 4.5 {
		t.Errorf("%v allocations in a step of 64 sequences (4 of them take a block)", n)
	}
}
