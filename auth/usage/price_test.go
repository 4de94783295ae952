package usage_test

import (
	"math"
	"math/big"
	"testing"

	"pgregory.net/rapid"

	"github.com/llmgw/llmgw/auth/usage"
	"github.com/llmgw/llmgw/storage"
)

func TestCost(t *testing.T) {
	n := func(n int64) *int64 { return &n }
	// 0.15, 0.075 and 0.60 for a million tokens.
	p := usage.Price{Input: 150_000_000, CachedInput: 75_000_000, Output: 600_000_000}
	for _, tt := range []struct {
		name   string
		price  usage.Price
		tokens storage.Tokens
		want   int64
	}{
		{"nothing known", p, storage.Tokens{}, 0},
		{"a million of each", p, storage.Tokens{Input: n(1_000_000), Output: n(1_000_000)}, 750_000_000},
		{"half of it cached", p, storage.Tokens{Input: n(1_000_000), CachedInput: n(500_000)}, 112_500_000},
		{"one token", p, storage.Tokens{Input: n(1)}, 150},
		{"rounded up", usage.Price{Input: 1}, storage.Tokens{Input: n(1)}, 1},
		{"more cached than there is", p, storage.Tokens{Input: n(10), CachedInput: n(1_000_000)}, 750},
		{"cached without input", p, storage.Tokens{CachedInput: n(1_000_000)}, 0},
		{"nonsense", p, storage.Tokens{Input: n(-5), Output: n(-1)}, 0},
		{"beyond all money", usage.Price{Input: math.MaxInt64, Output: math.MaxInt64}, storage.Tokens{Input: n(math.MaxInt64), Output: n(math.MaxInt64)}, math.MaxInt64},
	} {
		if got := tt.price.Cost(tt.tokens); got != tt.want {
			t.Errorf("%s: %d, want %d", tt.name, got, tt.want)
		}
	}
}

// The cost is that of exact arithmetic, rounded up once, and no request costs
// more than its worst case.
func TestCostIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		number := rapid.OneOf(rapid.Int64Range(0, 1000), rapid.Int64Range(0, 1<<40), rapid.Int64Range(0, math.MaxInt64))
		p := usage.Price{Input: number.Draw(t, "input price"), CachedInput: number.Draw(t, "cached price"), Output: number.Draw(t, "output price")}
		input, output := number.Draw(t, "input"), number.Draw(t, "output")
		cached := rapid.Int64Range(0, input).Draw(t, "cached")
		got := p.Cost(storage.Tokens{Input: &input, CachedInput: &cached, Output: &output})

		product := func(a, b int64) *big.Int { return new(big.Int).Mul(big.NewInt(a), big.NewInt(b)) }
		sum := product(input-cached, p.Input)
		sum.Add(sum, product(cached, p.CachedInput)).Add(sum, product(output, p.Output))
		sum.Add(sum, big.NewInt(999_999)).Div(sum, big.NewInt(1_000_000))
		want := int64(math.MaxInt64)
		if sum.IsInt64() {
			want = sum.Int64()
		}
		if got != want {
			t.Fatalf("%d, want %d", got, want)
		}
		if worst := p.WorstCost(input, output); worst < got {
			t.Fatalf("costs %d, at worst %d", got, worst)
		}
	})
}
