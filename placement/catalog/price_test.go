package catalog_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/llmgw/llmgw/placement/catalog"
)

func instant(t testing.TB, s string) (i catalog.Instant) {
	t.Helper()
	if err := i.UnmarshalText([]byte(s)); err != nil {
		t.Fatal(err)
	}
	return i
}

func money(t testing.TB, s string) (m catalog.Money) {
	t.Helper()
	if err := m.UnmarshalText([]byte(s)); err != nil {
		t.Fatal(err)
	}
	return m
}

func TestPriceAt(t *testing.T) {
	cheap := money(t, "0.5")
	m := catalog.Model{Name: "m", Prices: []catalog.Price{
		{From: instant(t, "2026-01-01"), Input: money(t, "1"), Output: new(catalog.Money(0))},
		{From: instant(t, "2026-03-01T08:00:00+01:00"), Input: money(t, "2"), CachedInput: &cheap, Output: new(money(t, "4"))},
	}}
	for _, tt := range []struct {
		at    string
		input string
		known bool
	}{
		{"2025-12-31T23:59:59Z", "0", false},
		{"2026-01-01T00:00:00Z", "1", true},
		{"2026-03-01T06:59:59Z", "1", true},
		{"2026-03-01T07:00:00Z", "2", true},
	} {
		at, err := time.Parse(time.RFC3339, tt.at)
		if err != nil {
			t.Fatal(err)
		}
		p, known := m.PriceAt(at)
		if known != tt.known || p.Input.String() != tt.input {
			t.Errorf("%s: %v, %v", tt.at, p.Input, known)
		}
	}
	if got := m.Prices[0].Cached(); got != m.Prices[0].Input {
		t.Errorf("without a price of their own cached tokens cost %v", got)
	}
	if got := m.Prices[1].Cached(); got != cheap {
		t.Errorf("cached tokens cost %v", got)
	}
	if got := m.Prices[1].Answers(); got != money(t, "4") {
		t.Errorf("answers cost %v", got)
	}
	if _, known := (&catalog.Model{}).PriceAt(time.Now()); known {
		t.Error("a price of nothing")
	}
}

func TestValidateCost(t *testing.T) {
	price := func(from string) catalog.Price {
		return catalog.Price{From: instant(t, from), Output: new(catalog.Money(0))}
	}
	negative, many := catalog.Money(-1), make([]catalog.Price, catalog.MaxPrices+1)
	for i := range many {
		many[i] = catalog.Price{From: catalog.Instant(i), Output: new(catalog.Money(0))}
	}
	for _, tt := range []struct {
		name  string
		model catalog.Model
		want  string
	}{
		{"nothing", catalog.Model{}, ""},
		{"all", catalog.Model{Prices: []catalog.Price{price(""), price("2026-01-01")}, MaxOutputTokens: 10, ContextTokens: 10}, ""},
		{"order", catalog.Model{Prices: []catalog.Price{price("2026-02-01"), price("2026-01-01")}},
			`models[0].prices[1].from: "2026-01-01" is not after that of prices[0], "2026-02-01"; list the oldest first`},
		{"the same", catalog.Model{Prices: []catalog.Price{price(""), price("")}}, "models[0].prices[1].from"},
		{"too many", catalog.Model{Prices: many}, "models[0].prices: 65 entries; at most 64 are accepted"},
		{"too dear", catalog.Model{Prices: []catalog.Price{{Output: new(catalog.Money(math.MaxInt64))}}},
			"models[0].prices[0].output: 9223372036.854775807 for a million tokens is out of range; want 0 to 1000000"},
		{"negative", catalog.Model{Prices: []catalog.Price{{CachedInput: &negative, Output: new(catalog.Money(0))}}}, "models[0].prices[0].cached_input: -0.000000001"},
		{"no price of answers", catalog.Model{Prices: []catalog.Price{price(""), {From: instant(t, "2026-01-01"), Input: 1}}},
			"models[0].prices[1].output: is missing; want what a million tokens of answer cost, as 0.60, or 0 if they are free"},
		{"output", catalog.Model{MaxOutputTokens: -1}, "models[0].max_output_tokens: -1 is out of range"},
		{"context", catalog.Model{MaxOutputTokens: 11, ContextTokens: 10}, "models[0].max_output_tokens: 11 is more than context_tokens, 10"},
	} {
		tt.model.Name = "m"
		err := catalog.Validate([]catalog.Model{tt.model})
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
}

func TestMoneyRefused(t *testing.T) {
	for _, s := range []string{"", ".", ".5", "1.", "-1", "+1", "1e3", "1,5", "0x1", " 1", "1 ", "0.0000000001", "9223372036.9", "99999999999999999999", "1.2.3", "NaN", "٣"} {
		var m catalog.Money
		if err := m.UnmarshalText([]byte(s)); err == nil || m != 0 {
			t.Errorf("%q is %v", s, m)
		}
	}
}

// What is written is read back as the same, and as little as it takes.
func TestMoneyRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := catalog.Money(rapid.Int64Range(0, 1e18).Draw(t, "m"))
		var back catalog.Money
		if err := back.UnmarshalText([]byte(m.String())); err != nil || back != m {
			t.Fatalf("%d is %s, read as %d, %v", m, m, back, err)
		}
		if s := m.String(); strings.Contains(s, ".") && strings.HasSuffix(s, "0") {
			t.Fatalf("%s", s)
		}
	})
}

func TestInstant(t *testing.T) {
	for in, want := range map[string]string{
		"": "", "2026-03-01": "2026-03-01", "2026-03-01T00:00:00Z": "2026-03-01", "2026-03-01T08:00:00+01:00": "2026-03-01T07:00:00Z",
		"1969-12-31": "1969-12-31",
	} {
		if got := instant(t, in).String(); got != want {
			t.Errorf("%q is %q, want %q", in, got, want)
		}
	}
	for _, s := range []string{"2026-02-30", "2026-3-1", "yesterday", "2026-03-01 08:00", "1970-01-01", "2026-03-01T08:00:00.5Z", "1772352000"} {
		var i catalog.Instant
		if err := i.UnmarshalText([]byte(s)); err == nil {
			t.Errorf("%q is %v", s, i)
		}
	}
}

func TestPriced(t *testing.T) {
	c, err := catalog.New([]catalog.Model{
		{Name: "paid", Aliases: []string{"p"}, Prices: []catalog.Price{{Output: new(catalog.Money(0))}, {From: instant(t, "2026-01-01"), Output: new(money(t, "1"))}}},
		{Name: "free", Prices: []catalog.Price{{Output: new(catalog.Money(0))}}}, {Name: "none"},
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"paid": true, "p": true, "free": false, "none": false, "gone": false} {
		if got := c.Priced(name); got != want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
