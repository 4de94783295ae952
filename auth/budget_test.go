package auth_test

import (
	"errors"
	"math"
	"math/big"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/llmgw/llmgw/auth"
	"github.com/llmgw/llmgw/storage"
)

func TestParseBudget(t *testing.T) {
	for _, test := range []struct {
		text, back string
		want       storage.Budget
	}{
		{"1.50/day", "", storage.Budget{Nanos: 1_500_000_000, Period: storage.PeriodDay}},
		{"1.50/day@Europe/Berlin", "", storage.Budget{Nanos: 1_500_000_000, Period: storage.PeriodDay, Zone: "Europe/Berlin"}},
		{"100/month", "100.00/month", storage.Budget{Nanos: 100_000_000_000, Period: storage.PeriodMonth}},
		{"0.000000001/week", "", storage.Budget{Nanos: 1, Period: storage.PeriodWeek}},
		{"0.1/week@America/New_York", "0.10/week@America/New_York", storage.Budget{Nanos: 100_000_000, Period: storage.PeriodWeek, Zone: "America/New_York"}},
		{"007.5/total", "7.50/total", storage.Budget{Nanos: 7_500_000_000, Period: storage.PeriodTotal}},
		{"1000000000/total", "1000000000.00/total", storage.Budget{Nanos: 1e18, Period: storage.PeriodTotal}},
		{"3/day@UTC", "3.00/day", storage.Budget{Nanos: 3_000_000_000, Period: storage.PeriodDay}},
	} {
		b, err := auth.ParseBudget(test.text)
		if err != nil || *b != test.want {
			t.Errorf("%s: %+v, %v", test.text, b, err)
			continue
		}
		back := test.back
		if back == "" {
			back = test.text
		}
		if got := auth.FormatBudget(*b); got != back {
			t.Errorf("%s is written %s, want %s", test.text, got, back)
		}
	}
}

func TestParseBudgetRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"":                             "no period",
		"1.50":                         "no period",
		"/day":                         "not a number",
		"1.50/":                        `period ""`,
		"1.50/fortnight":               `period "fortnight"`,
		"1.50/Day":                     `period "Day"`,
		"1.50/day@":                    `time zone ""`,
		"1.50/day@Local":               `time zone "Local"`,
		"1.50/day@Europe/Nowhere":      `no time zone "Europe/Nowhere"`,
		"1.50/day@../../etc/passwd":    "no time zone",
		"1.50/total@UTC":               "begins no day",
		"0/day":                        "is nothing",
		"0.000000000/day":              "is nothing",
		"-1/day":                       "not a number",
		"+1/day":                       "not a number",
		"1e3/day":                      "not a number",
		"1,50/day":                     "not a number",
		"$1/day":                       "not a number",
		"1./day":                       "not a number",
		".5/day":                       "not a number",
		"1.2.3/day":                    "not a number",
		" 1/day":                       "not a number",
		"٣/day":                        "not a number",
		"1.0000000001/day":             "nine digits",
		"1000000000.000000001/day":     "more than 1000000000",
		"1000000001/day":               "more than 1000000000",
		"9999999999/day":               "more than 1000000000",
		"99999999999999999999999/day":  "more than 1000000000",
		strings.Repeat("9", 1e6) + "/": "more than 1000000000",
		canary(t).Reveal() + "/day":    "[redacted]",
	} {
		b, err := auth.ParseBudget(text)
		if b != nil || !errors.Is(err, auth.ErrInvalid) || !strings.Contains(err.Error(), want) || len(err.Error()) > 300 {
			t.Errorf("%.40q: %v, %v; want %s", text, b, err, want)
		}
	}
}

func TestAmountsAreExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Int64Range(0, 1e18).Draw(t, "nanos")
		text := auth.FormatAmount(n)
		if back, err := auth.ParseAmount(text); err != nil || back != n {
			t.Fatalf("%d became %s, %d, %v", n, text, back, err)
		}
		if r, ok := new(big.Rat).SetString(text); !ok || r.Cmp(big.NewRat(n, 1e9)) != 0 {
			t.Fatalf("%d is not %s", n, text)
		}
	})
	for n, want := range map[int64]string{0: "0.00", -1: "-0.000000001", math.MinInt64: "-9223372036.854775808", math.MaxInt64: "9223372036.854775807", -1_500_000_000: "-1.50"} {
		if got := auth.FormatAmount(n); got != want {
			t.Errorf("%d is written %s, want %s", n, got, want)
		}
	}
}

func FuzzParseBudget(f *testing.F) {
	for _, s := range []string{"1.50/day", "1.50/day@Europe/Berlin", "0.000000001/total", "1e9/day", "/", "1/day@UTC", "9999999999.999999999/week"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		b, err := auth.ParseBudget(s)
		if err != nil {
			if !errors.Is(err, auth.ErrInvalid) || b != nil {
				t.Errorf("%q: %v, %v", s, b, err)
			}
			return
		}
		if b.Nanos < 1 || b.Nanos > 1e18 {
			t.Fatalf("%q became %d", s, b.Nanos)
		}
		amount, _, _ := strings.Cut(s, "/")
		if r, ok := new(big.Rat).SetString(amount); !ok || r.Cmp(big.NewRat(b.Nanos, 1e9)) != 0 {
			t.Errorf("%q became %d", s, b.Nanos)
		}
		back, err := auth.ParseBudget(auth.FormatBudget(*b))
		if err != nil || *back != *b {
			t.Errorf("%q became %+v, and then %+v, %v", s, b, back, err)
		}
	})
}
