package prefix_test

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"github.com/cespare/xxhash/v2"

	"github.com/llmgw/llmgw/router/prefix"
)

// BenchmarkLookup: a prompt of 32 KB in an index of 1,000 endpoints with 20
// prompts each: that it is fingerprinted and found; where all endpoints hold its
// system prompt, and where only few do.
func BenchmarkLookup(b *testing.B) {
	for _, tc := range []struct {
		name   string
		shared bool
	}{{"few", false}, {"all", true}} {
		b.Run(fmt.Sprintf("holders=%s/endpoints=1000", tc.name), func(b *testing.B) {
			x, ids, texts := filled(b, tc.shared)
			var c prefix.Chain
			var r prefix.Result
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				c.Reset(1)
				_, _ = c.Write(texts[i%len(texts)])
				x.Lookup(&c, &r)
				if len(r.Matches) == 0 {
					b.Fatal("nothing is found")
				}
				for _, id := range ids[:100] {
					_, _ = r.Of(id)
				}
				i++
			}
			b.ReportMetric(float64(len(r.Matches)), "holders")
		})
	}
}

// BenchmarkConversation: a conversation of 200 turns of 160 bytes, each of which
// was sent before, is looked up, sent and answered once more.
func BenchmarkConversation(b *testing.B) {
	x := newIndex(b, nil)
	id := add(b, x, "m")
	text := []byte(words(rand.New(rand.NewPCG(1, 2)), 32_000))
	var c prefix.Chain
	for end := 160; end <= len(text); end += 160 {
		c.Reset(1)
		_, _ = c.Write(text[:end])
		x.Send(id, &c)
	}
	var r prefix.Result
	b.ReportAllocs()
	for b.Loop() {
		c.Reset(1)
		_, _ = c.Write(text)
		x.Lookup(&c, &r)
		s := x.Send(id, &c)
		x.Observe(s, &c, prefix.Usage{PromptTokens: 8000, CachedTokens: int64(s.Predicted), CachedKnown: true})
	}
}

func BenchmarkSend(b *testing.B) {
	x, ids, _ := filled(b, true)
	rng := rand.New(rand.NewPCG(3, 4))
	text := []byte(words(rng, 32<<10))
	var c prefix.Chain
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		i++
		text[8<<10], text[8<<10+1], text[8<<10+2] = byte(i), byte(i>>8), byte(i>>16) // 8 KB shared
		c.Reset(1)
		_, _ = c.Write(text)
		x.Send(ids[i%len(ids)], &c)
	}
}

// BenchmarkMixed: lookups, sends and answers from all processors at once.
func BenchmarkMixed(b *testing.B) {
	x, ids, texts := filled(b, true)
	var n atomic.Uint64
	b.ResetTimer()
	b.RunParallel(func(p *testing.PB) {
		var c prefix.Chain
		var r prefix.Result
		for p.Next() {
			i := int(n.Add(1))
			c.Reset(1)
			_, _ = c.Write(texts[i%len(texts)])
			x.Lookup(&c, &r)
			s := x.Send(ids[i%len(ids)], &c)
			x.Observe(s, &c, prefix.Usage{PromptTokens: 8000, CachedTokens: int64(s.Predicted), CachedKnown: true})
		}
	})
}

func BenchmarkObserve(b *testing.B) {
	x, ids, texts := filled(b, true)
	var c prefix.Chain
	c.Reset(1)
	_, _ = c.Write(texts[0])
	s := x.Send(ids[0], &c)
	b.ReportAllocs()
	for b.Loop() {
		x.Observe(s, &c, prefix.Usage{PromptTokens: 8000, CachedTokens: int64(s.Predicted), CachedKnown: true})
	}
}

// BenchmarkHash compares a chain with what hashes text without a hash per chunk.
func BenchmarkHash(b *testing.B) {
	text := []byte(words(rand.New(rand.NewPCG(1, 1)), 32<<10))
	b.Run("chain/bytes=32768", func(b *testing.B) {
		b.SetBytes(int64(len(text)))
		var c prefix.Chain
		for b.Loop() {
			c.Reset(1)
			_, _ = c.Write(text)
		}
	})
	b.Run("xxhash/bytes=32768", func(b *testing.B) {
		b.SetBytes(int64(len(text)))
		for b.Loop() {
			xxhash.Sum64(text)
		}
	})
	b.Run("fnv/bytes=32768", func(b *testing.B) {
		b.SetBytes(int64(len(text)))
		h := fnv.New64a()
		for b.Loop() {
			h.Reset()
			_, _ = h.Write(text)
		}
	})
}

// filled is 1,000 endpoints with 20 prompts of 32 KB each, whose first 4 KB all
// share or none.
func filled(b *testing.B, shared bool) (*prefix.Index, []prefix.ID, [][]byte) {
	b.Helper()
	x := newIndex(b, func(c *prefix.Config) { c.MaxBytes = 1 << 30 })
	rng := rand.New(rand.NewPCG(1, 2))
	text := []byte(words(rng, 32<<10))
	var ids []prefix.ID
	var texts [][]byte
	var c prefix.Chain
	for range 1000 {
		ids = append(ids, add(b, x, "m"))
	}
	for i := range 20_000 {
		from := 0
		if shared {
			from = 4 << 10
		}
		copy(text[from:], fmt.Sprintf("prompt %d", i))
		c.Reset(1)
		_, _ = c.Write(text)
		x.Send(ids[i%len(ids)], &c)
		if i%200 == 0 {
			texts = append(texts, []byte(string(text)))
		}
	}
	return x, ids, texts
}
