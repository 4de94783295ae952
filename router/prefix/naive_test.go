package prefix_test

import (
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"github.com/llmgw/llmgw/router/prefix"
)

// naive is the index as one would write it without a thought of cost: for each
// endpoint the chunks it holds, by the text up to their end.
type naive struct {
	capacity int // in chunks
	clock    int
	held     []map[string]*naiveChunk // by endpoint
}

type naiveChunk struct {
	depth, used, seen int
}

func (n *naive) send(e int, text string) {
	n.clock++
	for end := prefix.ChunkBytes; end <= len(text); end += prefix.ChunkBytes {
		c := n.held[e][text[:end]]
		if c == nil {
			c = &naiveChunk{depth: end}
			n.held[e][text[:end]] = c
		}
		c.used = n.clock
		c.seen++
	}
	for len(n.held[e]) > n.capacity {
		n.evict(e)
	}
}

// evict takes the chunk that was longest not used, of one prompt the last.
func (n *naive) evict(e int) {
	worst := ""
	for k, c := range n.held[e] {
		w := n.held[e][worst]
		if w == nil || c.used < w.used || c.used == w.used && c.depth > w.depth {
			worst = k
		}
	}
	delete(n.held[e], worst)
}

func (n *naive) lookup(e int, text string) (bytes, seen int) {
	for end := prefix.ChunkBytes; end <= len(text); end += prefix.ChunkBytes {
		c := n.held[e][text[:end]]
		if c == nil {
			break
		}
		bytes, seen = end, c.seen
	}
	return bytes, seen
}

func newIndex(tb testing.TB, change func(*prefix.Config)) *prefix.Index {
	tb.Helper()
	cfg := prefix.DefaultConfig()
	if change != nil {
		change(&cfg)
	}
	x, err := prefix.New(cfg, prefix.Deps{})
	if err != nil {
		tb.Fatal(err)
	}
	return x
}

func add(tb testing.TB, x *prefix.Index, model string) prefix.ID {
	tb.Helper()
	id, err := x.Add(model)
	if err != nil {
		tb.Fatal(err)
	}
	return id
}

func chain(text string) *prefix.Chain {
	c := &prefix.Chain{}
	c.Reset(prefix.Root("m"))
	_, _ = c.WriteString(text)
	return c
}

// TestLikeNaive: the tree holds what a longest common prefix over all that was
// sent, forgotten by LRU, would hold; chunk for chunk.
func TestLikeNaive(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		const endpoints = 3
		tokens := rapid.SampledFrom([]int64{1000, 2000, 1 << 30}).Draw(rt, "capacity")
		x := newIndex(t, func(c *prefix.Config) { c.CapacityTokens = tokens; c.BytesPerToken = 1 })
		n := &naive{capacity: int(min(tokens/prefix.ChunkBytes, 1<<20))}
		var ids []prefix.ID
		for range endpoints {
			ids = append(ids, add(t, x, "m"))
			n.held = append(n.held, map[string]*naiveChunk{})
		}
		// Texts of a few blocks over three letters share many beginnings.
		text := rapid.Custom(func(rt *rapid.T) string {
			b := []byte{}
			for _, l := range rapid.SliceOfN(rapid.SampledFrom([]byte("abc")), 1, 12).Draw(rt, "letters") {
				for range 56 { // no multiple of a chunk
					b = append(b, l)
				}
			}
			return string(b)
		})
		var r prefix.Result
		check := func(text string) {
			x.Lookup(chain(text), &r)
			got := 0
			for e, id := range ids {
				bytes, seen := n.lookup(e, text)
				m, ok := r.Of(id)
				if m.Bytes != bytes || ok != (bytes > 0) {
					rt.Fatalf("endpoint %d holds %d bytes of %q, want %d", e, m.Bytes, text, bytes)
				}
				if ok {
					got++
				}
				if ok && tokens == 1<<30 && m.Seen != seen { // what came back after eviction counts anew there
					rt.Fatalf("endpoint %d saw %q %d times, want %d", e, text[:bytes], m.Seen, seen)
				}
			}
			if got != len(r.Matches) {
				rt.Fatalf("%d matches, want %d", len(r.Matches), got)
			}
		}
		rt.Repeat(map[string]func(*rapid.T){
			"send": func(rt *rapid.T) {
				e := rapid.IntRange(0, endpoints-1).Draw(rt, "endpoint")
				text := text.Draw(rt, "text")
				x.Send(ids[e], chain(text))
				n.send(e, text)
			},
			"clear": func(rt *rapid.T) {
				e := rapid.IntRange(0, endpoints*4).Draw(rt, "endpoint")
				if e < endpoints {
					x.Clear(ids[e])
					clear(n.held[e])
				}
			},
			"renew": func(rt *rapid.T) {
				e := rapid.IntRange(0, endpoints*4).Draw(rt, "endpoint")
				if e < endpoints {
					x.Remove(ids[e])
					old := ids[e]
					ids[e] = add(t, x, "m")
					x.Send(old, chain("aaaa")) // does nothing
					clear(n.held[e])
				}
			},
			"": func(rt *rapid.T) { check(text.Draw(rt, "text")) },
		})
		for _, id := range ids {
			x.Remove(id)
		}
		if s := x.Stats(); s != (prefix.Stats{}) {
			rt.Fatalf("after all endpoints left: %+v", s)
		}
	})
}

// words is random text.
func words(rng *rand.Rand, n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte('a' + rng.IntN(26))
	}
	return string(b)
}
