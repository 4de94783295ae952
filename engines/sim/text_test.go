package sim_test

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/llmgw/llmgw/engines/sim"
)

func TestTextAndCheckText(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		key := rapid.Uint64().Draw(rt, "key")
		n := rapid.IntRange(1, 200).Draw(rt, "n")
		text := sim.Text(key, n)
		if got, whole := sim.CheckText(text); got != n || !whole {
			rt.Fatalf("%q: %d tokens, whole %v; want %d", text, got, whole, n)
		}
		if got := sim.CountTokens(text); got != n {
			rt.Fatalf("%q has %d tokens, want %d", text, got, n)
		}
		words := strings.Split(text, " ")
		if n < 3 {
			return
		}
		i := rapid.IntRange(1, n-2).Draw(rt, "word")
		for name, broken := range map[string][]string{
			"lost":    slices.Delete(slices.Clone(words), i, i+1),
			"doubled": slices.Insert(slices.Clone(words), i, words[i]),
		} {
			if _, whole := sim.CheckText(strings.Join(broken, " ")); whole {
				rt.Fatalf("word %d %s in %q is not noticed", i, name, text)
			}
		}
	})
	for _, bad := range []string{" ", "hello", "ba", "baba ", " baba", "baba  baba"} {
		if _, whole := sim.CheckText(bad); whole {
			t.Errorf("%q passes", bad)
		}
	}
}

func TestTokenize(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		want       int
	}{
		{"nothing", "", 0},
		{"a word", "hello", 1},
		{"two words", "hello world", 2},
		{"digits by threes", "1234567", 3},
		{"indent", "\n        x", 2},
		{"punctuation", "a, b!", 4},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := sim.CountTokens(tt.text); got != tt.want {
				t.Errorf("%q has %d tokens, want %d", tt.text, got, tt.want)
			}
		})
	}
	prose := "It was the best of times, it was the worst of times, it was the age of wisdom, it was the age of " +
		"foolishness, it was the epoch of belief, it was the epoch of incredulity, it was the season of Light."
	if r := float64(len(prose)) / float64(sim.CountTokens(prose)); r < 3.5 || r > 5.5 {
		t.Errorf("%.2f bytes a token", r)
	}
	long := strings.Repeat("a", 1<<20) // one word: must not cost its square
	if n := sim.CountTokens(long); n < 1<<17 {
		t.Errorf("%d tokens", n)
	}
}

// TestTokenizePrefix: text that goes on keeps the tokens it had, up to the
// last word, so that a conversation that grows hits the prefix cache.
func TestTokenizePrefix(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		a := rapid.StringMatching(`[a-z0-9 ,.é\n]{0,80}`).Draw(rt, "a")
		b := rapid.StringMatching(`[a-z0-9 ,.é\n]{0,80}`).Draw(rt, "b")
		x, y := sim.Tokenize(nil, a+"\nX"), sim.Tokenize(nil, a+"\nX "+b)
		if len(x) > len(y)+1 || !slices.Equal(x[:len(x)-1], y[:len(x)-1]) {
			rt.Fatalf("%q and %q: %v, %v", a, b, x, y)
		}
	})
}

func TestBlockHashes(t *testing.T) {
	tokens := sim.Tokenize(nil, strings.Repeat("one two three four ", 20))
	a := sim.BlockHashes(0, tokens, 16)
	if len(a) != len(tokens)/16 {
		t.Fatalf("%d hashes of %d tokens", len(a), len(tokens))
	}
	changed := slices.Clone(tokens)
	changed[20]++
	b := sim.BlockHashes(0, changed, 16)
	if a[0] != b[0] || a[1] == b[1] || a[len(a)-1] == b[len(b)-1] {
		t.Error("a change must alter its block and all after it, and none before")
	}
	if c := sim.BlockHashes(1, tokens, 16); c[0] == a[0] {
		t.Error("the salt has no effect")
	}
}
