package prefix_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"pgregory.net/rapid"

	"github.com/llmgw/llmgw/router/prefix"
)

func newExact(tb testing.TB, change func(*prefix.ExactConfig)) *prefix.Exact {
	tb.Helper()
	cfg := prefix.DefaultExactConfig()
	if change != nil {
		change(&cfg)
	}
	x, err := prefix.NewExact(cfg, prefix.Deps{})
	if err != nil {
		tb.Fatal(err)
	}
	return x
}

func addExact(tb testing.TB, x *prefix.Exact, root uint64) prefix.ID {
	tb.Helper()
	id, err := x.Add(root)
	if err != nil {
		tb.Fatal(err)
	}
	return id
}

// held is how many tokens of the prompt an endpoint holds.
func held(x *prefix.Exact, id prefix.ID, p prefix.Prompt) int {
	var r prefix.Result
	x.Lookup(p, &r)
	m, _ := r.Of(id)
	return m.Tokens
}

// TestExactLikeNaive: the index holds what sets of token sequences would hold,
// whatever the engines call their blocks.
func TestExactLikeNaive(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		const endpoints = 70 // more than a word of slots
		sizes := []int{2, 4}
		x := newExact(t, nil)
		var ids []prefix.ID
		// What each holds: the tokens up to a block's end, and the media of it.
		stored := make([]map[string][2]int, endpoints)
		for i := range endpoints {
			ids = append(ids, addExact(t, x, 1))
			stored[i] = map[string][2]int{}
		}
		size := func(e int) int { return sizes[e%2] }
		name := func(e int, content string) uint64 { return prefix.Root(fmt.Sprint(e), content) }
		tokens := rapid.SliceOfN(rapid.Uint32Range(0, 1), 4, 12)
		endpoint := rapid.Custom(func(rt *rapid.T) int {
			return rapid.SampledFrom([]int{0, 1, 2, 3, 4, 64, 65, 69}).Draw(rt, "endpoint")
		})
		var r prefix.Result
		rt.Repeat(map[string]func(*rapid.T){
			"store": func(rt *rapid.T) {
				e, p, medium := endpoint.Draw(rt, "e"), tokens.Draw(rt, "tokens"), rapid.IntRange(0, 1).Draw(rt, "medium")
				s := prefix.Stored{BlockTokens: size(e), Offloaded: medium == 1}
				for end := size(e); end <= len(p); end += size(e) {
					content := fmt.Sprint(p[:end])
					if _, ok := stored[e][content]; ok && s.Blocks == nil { // as engines: from the first new one
						s.Parent, s.HasParent = name(e, content), true
						continue
					}
					s.Blocks = append(s.Blocks, name(e, content))
					s.Tokens = append(s.Tokens, p[end-size(e):end]...)
					m := stored[e][content]
					m[medium]++
					stored[e][content] = m
				}
				if err := x.Stored(ids[e], s); err != nil {
					rt.Fatal(err)
				}
			},
			"remove": func(rt *rapid.T) {
				e, p, medium := endpoint.Draw(rt, "e"), tokens.Draw(rt, "tokens"), rapid.IntRange(0, 1).Draw(rt, "medium")
				content := fmt.Sprint(p[:len(p)/size(e)*size(e)])
				if err := x.Removed(ids[e], prefix.Removed{Blocks: []uint64{name(e, content)}, Offloaded: medium == 1}); err != nil {
					rt.Fatal(err)
				}
				if m, ok := stored[e][content]; ok && m[medium] > 0 {
					if m[medium]--; m == [2]int{} {
						delete(stored[e], content)
					} else {
						stored[e][content] = m
					}
				}
			},
			"clear": func(rt *rapid.T) {
				e := endpoint.Draw(rt, "e")
				x.Clear(ids[e])
				clear(stored[e])
			},
			"": func(rt *rapid.T) {
				p := tokens.Draw(rt, "tokens")
				x.Lookup(prefix.Prompt{Root: 1, Tokens: p}, &r)
				matches, last := 0, -1
				for e := range endpoints {
					want := 0
					for end := size(e); end <= len(p); end += size(e) {
						if _, ok := stored[e][fmt.Sprint(p[:end])]; !ok {
							break
						}
						want = end
					}
					m, ok := r.Of(ids[e])
					if m.Tokens != want || ok != (want > 0) {
						rt.Fatalf("endpoint %d holds %d tokens of %v, want %d", e, m.Tokens, p, want)
					}
					if ok {
						matches++
					}
				}
				for _, m := range r.Matches {
					if m.Tokens < last {
						rt.Fatalf("matches are out of order: %+v", r.Matches)
					}
					last = m.Tokens
				}
				if matches != len(r.Matches) {
					rt.Fatalf("%d matches, want %d", len(r.Matches), matches)
				}
				for e := range endpoints {
					if got := x.Blocks(ids[e]); got != len(stored[e]) {
						rt.Fatalf("endpoint %d has %d blocks, want %d", e, got, len(stored[e]))
					}
				}
			},
		})
	})
}

// TestExactExtra: salt, LoRA and images are part of a block.
func TestExactExtra(t *testing.T) {
	x := newExact(t, nil)
	id := addExact(t, x, 1)
	tokens := []uint32{1, 2, 3, 4, 5, 6, 7, 8}
	if err := x.Stored(id, prefix.Stored{
		Blocks: []uint64{10, 11}, Tokens: tokens, BlockTokens: 4, Extra: []string{"salt", "image"},
	}); err != nil {
		t.Fatal(err)
	}
	extra := func(keys ...string) func(int, int) string { return func(first, _ int) string { return keys[first/4] } }
	for _, tc := range []struct {
		name   string
		prompt prefix.Prompt
		want   int
	}{
		{"the same", prefix.Prompt{Root: 1, Tokens: tokens, Extra: extra("salt", "image")}, 8},
		{"and more", prefix.Prompt{Root: 1, Tokens: append(tokens[:8:8], 9), Extra: extra("salt", "image")}, 8},
		{"less than the second block", prefix.Prompt{Root: 1, Tokens: tokens[:7], Extra: extra("salt", "image")}, 4},
		{"another image", prefix.Prompt{Root: 1, Tokens: tokens, Extra: extra("salt", "picture")}, 4},
		{"another salt", prefix.Prompt{Root: 1, Tokens: tokens, Extra: extra("pepper", "image")}, 0},
		{"no salt", prefix.Prompt{Root: 1, Tokens: tokens}, 0},
		{"another model", prefix.Prompt{Root: 2, Tokens: tokens, Extra: extra("salt", "image")}, 0},
		{"nothing", prefix.Prompt{Root: 1}, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := held(x, id, tc.prompt); got != tc.want {
				t.Errorf("%d tokens, want %d", got, tc.want)
			}
		})
	}
}

func TestExactErrors(t *testing.T) {
	x := newExact(t, func(c *prefix.ExactConfig) { c.MaxBlocks = 1024; c.MaxEndpoints = 2 })
	id := addExact(t, x, 1)
	other := addExact(t, x, 1)
	if _, err := x.Add(1); !errors.Is(err, prefix.ErrTooManyEndpoints) {
		t.Errorf("error %v, want ErrTooManyEndpoints", err)
	}
	many := make([]uint64, 1025)
	for i := range many {
		many[i] = uint64(i) + 100
	}
	for _, tc := range []struct {
		name   string
		id     prefix.ID
		stored prefix.Stored
		want   error
	}{
		{"fine", id, prefix.Stored{Blocks: []uint64{1}, Tokens: []uint32{1, 2}, BlockTokens: 2}, nil},
		{"no size", id, prefix.Stored{Blocks: []uint64{1}, Tokens: []uint32{1, 2}}, prefix.ErrBadEvent},
		{"a huge size", id, prefix.Stored{BlockTokens: 1 << 20}, prefix.ErrBadEvent},
		{"too few tokens", id, prefix.Stored{Blocks: []uint64{1, 2}, Tokens: []uint32{1, 2}, BlockTokens: 2}, prefix.ErrBadEvent},
		{"too few extra keys", id, prefix.Stored{Blocks: []uint64{1}, Tokens: []uint32{1, 2}, BlockTokens: 2, Extra: []string{}}, prefix.ErrBadEvent},
		{"another size than before", id, prefix.Stored{Blocks: []uint64{1}, Tokens: []uint32{1}, BlockTokens: 1}, prefix.ErrBadEvent},
		{"a parent nobody has heard of", id, prefix.Stored{Blocks: []uint64{5}, Tokens: []uint32{1, 2}, BlockTokens: 2, Parent: 77, HasParent: true}, prefix.ErrUnknownParent},
		{"the parent of another", other, prefix.Stored{Blocks: []uint64{5}, Tokens: []uint32{1, 2}, BlockTokens: 2, Parent: 1, HasParent: true}, prefix.ErrUnknownParent},
		{"no endpoint", prefix.ID{}, prefix.Stored{Blocks: []uint64{1}, Tokens: []uint32{1, 2}, BlockTokens: 2}, prefix.ErrUnknownEndpoint},
		{"too many blocks", id, prefix.Stored{Blocks: many, Tokens: make([]uint32, 2*len(many)), BlockTokens: 2}, prefix.ErrFull},
	} {
		if err := x.Stored(tc.id, tc.stored); !errors.Is(err, tc.want) || tc.want == nil && err != nil {
			t.Errorf("%s: error %v, want %v", tc.name, err, tc.want)
		}
	}
	if got := x.Blocks(id); got != 1024 {
		t.Errorf("%d blocks, want as many as may be", got)
	}
	if err := x.Removed(id, prefix.Removed{Blocks: append(many, 1, 12345)}); err != nil {
		t.Error(err)
	}
	if got := x.Blocks(id); got != 0 {
		t.Errorf("%d blocks after all were removed", got)
	}
	x.Remove(id)
	if err := x.Removed(id, prefix.Removed{Blocks: many}); !errors.Is(err, prefix.ErrUnknownEndpoint) {
		t.Errorf("error %v, want ErrUnknownEndpoint", err)
	}
}

// TestExactRemove: an endpoint that is gone leaves nothing, not to who gets its
// slot either.
func TestExactRemove(t *testing.T) {
	x := newExact(t, nil)
	var ids []prefix.ID
	s := prefix.Stored{Blocks: []uint64{1, 2}, Tokens: []uint32{1, 2, 3, 4}, BlockTokens: 2}
	p := prefix.Prompt{Root: 1, Tokens: s.Tokens}
	for range 10 {
		id := addExact(t, x, 1)
		if err := x.Stored(id, s); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	for i := range 9 {
		x.Remove(ids[i])
	}
	again := addExact(t, x, 1)
	if held(x, again, p) != 0 || held(x, ids[8], p) != 0 || held(x, ids[9], p) != 4 {
		t.Error("something is held that is not, or the other way round")
	}
	x.Clear(ids[9])
	if held(x, ids[9], p) != 0 || x.Blocks(ids[9]) != 0 {
		t.Error("Clear left something")
	}
	// A size of blocks may change after that.
	if err := x.Stored(ids[9], prefix.Stored{Blocks: []uint64{1}, Tokens: s.Tokens, BlockTokens: 4}); err != nil {
		t.Error(err)
	}
	if got := held(x, ids[9], p); got != 4 {
		t.Errorf("%d tokens, want 4", got)
	}
}

// TestExactTwoNames: an engine can have the same content under two names, as
// where it does not say the LoRA.
func TestExactTwoNames(t *testing.T) {
	x := newExact(t, nil)
	id := addExact(t, x, 1)
	p := prefix.Prompt{Root: 1, Tokens: []uint32{1, 2}}
	for _, name := range []uint64{7, 8, 9} {
		if err := x.Stored(id, prefix.Stored{Blocks: []uint64{name}, Tokens: p.Tokens, BlockTokens: 2}); err != nil {
			t.Fatal(err)
		}
	}
	for i, name := range []uint64{8, 7, 9} {
		if held(x, id, p) != 2 {
			t.Fatalf("not held with %d names left", 3-i)
		}
		if err := x.Removed(id, prefix.Removed{Blocks: []uint64{name}}); err != nil {
			t.Fatal(err)
		}
	}
	if held(x, id, p) != 0 {
		t.Error("still held under no name")
	}
}

// TestExactMemory holds what ExactConfig says of a block.
func TestExactMemory(t *testing.T) {
	const blocks = 60_000
	for _, endpoints := range []int{1, 3, 30} {
		t.Run(fmt.Sprintf("endpoints=%d", endpoints), func(t *testing.T) {
			before := heap()
			x := newExact(t, nil)
			for range endpoints {
				id := addExact(t, x, 1)
				s := prefix.Stored{BlockTokens: 1}
				for i := range blocks / endpoints {
					s.Blocks, s.Tokens = append(s.Blocks, uint64(i)), append(s.Tokens, uint32(i))
				}
				if err := x.Stored(id, s); err != nil {
					t.Fatal(err)
				}
			}
			if got := x.Stats(); got != (prefix.ExactStats{Endpoints: endpoints, Blocks: blocks, Contents: blocks / endpoints}) {
				t.Errorf("%+v", got)
			}
			if each := (heap() - before) / blocks; each > 150 {
				t.Errorf("%d bytes a block, want at most 150", each)
			} else {
				t.Logf("%d bytes a block", each)
			}
			runtime.KeepAlive(x)
		})
	}
}

func TestExactMetrics(t *testing.T) {
	reg := prometheus.NewRegistry()
	x, err := prefix.NewExact(prefix.DefaultExactConfig(), prefix.Deps{Registerer: reg})
	if err != nil {
		t.Fatal(err)
	}
	id := addExact(t, x, 1)
	_ = x.Stored(id, prefix.Stored{Blocks: []uint64{1}, Tokens: []uint32{1}, BlockTokens: 1})
	_ = x.Stored(id, prefix.Stored{Blocks: []uint64{2}, Tokens: []uint32{1}, BlockTokens: 1, HasParent: true, Parent: 9})
	held(x, id, prefix.Prompt{Root: 1, Tokens: []uint32{1}})
	held(x, id, prefix.Prompt{Root: 1, Tokens: []uint32{2}})
	want := `
# HELP llmgw_prefix_exact_blocks Blocks in the exact prefix index, of all endpoints together.
# TYPE llmgw_prefix_exact_blocks gauge
llmgw_prefix_exact_blocks 1
# HELP llmgw_prefix_exact_hits_total Lookups that found an endpoint with a beginning of the prompt.
# TYPE llmgw_prefix_exact_hits_total counter
llmgw_prefix_exact_hits_total 1
# HELP llmgw_prefix_exact_lookups_total Prompts that were looked up in the exact prefix index.
# TYPE llmgw_prefix_exact_lookups_total counter
llmgw_prefix_exact_lookups_total 2
# HELP llmgw_prefix_exact_orphans_total Blocks that were not recorded because the block before them was unknown.
# TYPE llmgw_prefix_exact_orphans_total counter
llmgw_prefix_exact_orphans_total 1
`
	if err := testutil.GatherAndCompare(reg, strings.NewReader(want), "llmgw_prefix_exact_blocks", "llmgw_prefix_exact_hits_total",
		"llmgw_prefix_exact_lookups_total", "llmgw_prefix_exact_orphans_total"); err != nil {
		t.Error(err)
	}
	if problems, err := testutil.GatherAndLint(reg); err != nil || len(problems) > 0 {
		t.Errorf("lint: %v %v", problems, err)
	}
}

// BenchmarkExactLookup: a prompt of 8,000 tokens, whose first quarter all of
// 1,000 endpoints hold and the rest one.
func BenchmarkExactLookup(b *testing.B) {
	x := newExact(b, nil)
	rng := rand.New(rand.NewPCG(1, 1))
	s := prefix.Stored{BlockTokens: 16}
	for i := range 500 {
		s.Blocks = append(s.Blocks, uint64(i))
		for range 16 {
			s.Tokens = append(s.Tokens, rng.Uint32N(150_000))
		}
	}
	for i := range 1000 {
		part := s
		if i > 0 {
			part.Blocks, part.Tokens = s.Blocks[:125], s.Tokens[:125*16]
		}
		if err := x.Stored(addExact(b, x, 1), part); err != nil {
			b.Fatal(err)
		}
	}
	var r prefix.Result
	b.ReportAllocs()
	for b.Loop() {
		x.Lookup(prefix.Prompt{Root: 1, Tokens: s.Tokens}, &r)
		if len(r.Matches) != 1000 {
			b.Fatal(len(r.Matches))
		}
	}
}
