package workload

import (
	"slices"
	"strings"
	"testing"

	"github.com/llmgw/llmgw/engines/sim"
)

// TestCommonWords: what the prompts' exactness rests on.
func TestCommonWords(t *testing.T) {
	words := strings.Fields(commonWords)
	if len(words) != 256 || len(slices.Compact(slices.Sorted(slices.Values(words)))) != 256 {
		t.Errorf("%d words, some of them twice or not 256", len(words))
	}
	for _, w := range words {
		// Six letters spell an id.
		if len(w) > 5 || strings.Trim(w, "abcdefghijklmnopqrstuvwxyz") != "" || sim.CountTokens(w) != 1 || sim.CountTokens(" "+w) != 1 {
			t.Errorf("%q", w)
		}
	}
}

// TestIdentitiesAreDistinct: the spelling of ids is a bijection.
func TestIdentitiesAreDistinct(t *testing.T) {
	a, m := uint64(scatter), uint64(identities)
	for m != 0 {
		a, m = m, a%m
	}
	if a != 1 {
		t.Errorf("scatter and identities have the divisor %d in common", a)
	}
	for _, capital := range []byte("aA") {
		for _, v := range []uint64{0, 1, identities - 1} {
			if w := appendIdentity(nil, v, capital); len(w) != 6 || sim.CountTokens(" "+string(w)) != 1 {
				t.Errorf("%d is %q", v, w)
			}
		}
	}
}
