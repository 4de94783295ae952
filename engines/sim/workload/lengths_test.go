package workload_test

import (
	"encoding"
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/llmgw/llmgw/engines/sim/workload"
)

var (
	_ encoding.TextMarshaler   = workload.Lengths{}
	_ encoding.TextUnmarshaler = (*workload.Lengths)(nil)
	_ encoding.TextMarshaler   = workload.Arrivals{}
	_ encoding.TextUnmarshaler = (*workload.Arrivals)(nil)
)

func TestLengths(t *testing.T) {
	for _, tt := range []struct {
		text, canonical string
		min, max        int
		mean            float64 // ± 2 %
	}{
		{"512", "512", 512, 512, 512},
		{"0512", "512", 512, 512, 512},
		{"1", "1", 1, 1, 1},
		{"16777216", "16777216", 1 << 24, 1 << 24, 1 << 24},
		{"100-2000", "100-2000", 100, 2000, 1050},
		{"7-7", "7-7", 7, 7, 7},
		// The mean of a log-normal is median × exp(σ²/2).
		{"lognormal:120:0.8", "lognormal:120:0.8", 1, 1 << 24, 120 * math.Exp(0.32)},
		{"lognormal:120:8e-1:2048", "lognormal:120:0.8:2048", 1, 2048, 165},
		{"lognormal:120:0:2048", "lognormal:120:0:2048", 120, 120, 120},
		{"lognormal:120:-0", "lognormal:120:0", 120, 120, 120},
	} {
		t.Run(tt.text, func(t *testing.T) {
			l, err := workload.ParseLengths(tt.text)
			if err != nil {
				t.Fatal(err)
			}
			if l.String() != tt.canonical || l.IsZero() {
				t.Errorf("%q", l)
			}
			if again, err := workload.ParseLengths(l.String()); err != nil || again != l {
				t.Errorf("%v reads as %v, %v", l, again, err)
			}
			rng := rand.New(rand.NewPCG(1, 1))
			sum := 0.0
			const draws = 100_000
			for range draws {
				n := l.Draw(rng)
				if n < tt.min || n > tt.max || n > l.Max() {
					t.Fatalf("draws %d", n)
				}
				sum += float64(n)
			}
			if got := sum / draws; math.Abs(got/tt.mean-1) > 0.02 {
				t.Errorf("mean %.1f, want %.1f", got, tt.mean)
			}
		})
	}
}

func TestLengthsRefuse(t *testing.T) {
	for text, want := range map[string]string{
		"":                        "empty",
		"0":                       "0 is below 1",
		"-5":                      "a number is missing",
		"+5":                      `"+5" is not a whole number`,
		"5 ":                      `"5 " is not a whole number`,
		"1e3":                     `"1e3" is not a whole number`,
		"16777217":                "16777217 is above 16777216",
		"99999999999999999999":    `"99999999999999999999" is not a whole number in range`,
		"0-5":                     "0 is below 1",
		"5-":                      "a number is missing",
		"5-4":                     "5 is above 4",
		"5-4-3":                   `"4-3" is not a whole number`,
		"1-16777217":              "16777217 is above 16777216",
		"normal:1:2":              `"normal:1:2" is not a whole number`,
		"lognormal:":              "1 numbers after lognormal",
		"lognormal:120":           "1 numbers after lognormal",
		"lognormal:1:2:3:4":       "4 numbers after lognormal",
		"lognormal:x:1":           `"x" is not a whole number`,
		"lognormal:0:1":           "0 is below 1",
		"lognormal:120:x":         `"x" is not a number`,
		"lognormal:120:NaN":       "the deviation NaN is not from 0 to 16",
		"lognormal:120:-1":        "the deviation -1 is not from 0 to 16",
		"lognormal:120:17":        "the deviation 17 is not from 0 to 16",
		"lognormal:120:1:119":     "120 is above 119",
		"lognormal:120:1:":        "a number is missing",
		"lognormal:1:1:999999999": "999999999 is above 16777216",
	} {
		l, err := workload.ParseLengths(text)
		e, ok := errors.AsType[*workload.LengthsError](err)
		if !ok || e.Text != text || e.Why != want || !l.IsZero() || !errors.Is(err, workload.ErrInvalid) {
			t.Errorf("%q: %v, %v; want %s", text, l, err, want)
			continue
		}
		if !strings.Contains(err.Error(), "want such as 512") {
			t.Errorf("%q: %v does not show what is accepted", text, err)
		}
	}
}

func TestLengthsConstructors(t *testing.T) {
	for want, make := range map[string]func() (workload.Lengths, error){
		"5":                    func() (workload.Lengths, error) { return workload.Fixed(5) },
		"5-6":                  func() (workload.Lengths, error) { return workload.Between(5, 6) },
		"lognormal:5:0.5:50":   func() (workload.Lengths, error) { return workload.LogNormal(5, 0.5, 50) },
		"lognormal:5:0.5":      func() (workload.Lengths, error) { return workload.LogNormal(5, 0.5, workload.MaxTokens) },
		"! 0 is below 1":       func() (workload.Lengths, error) { return workload.Fixed(0) },
		"! 6 is above 5":       func() (workload.Lengths, error) { return workload.Between(6, 5) },
		"! the deviation +Inf": func() (workload.Lengths, error) { return workload.LogNormal(5, math.Inf(1), 50) },
	} {
		l, err := make()
		if bad, is := strings.CutPrefix(want, "! "); is {
			if !errors.Is(err, workload.ErrInvalid) || !strings.Contains(err.Error(), bad) {
				t.Errorf("%v, want %s", err, bad)
			}
			continue
		}
		parsed, errParse := workload.ParseLengths(want)
		if err != nil || errParse != nil || l != parsed || l.String() != want {
			t.Errorf("%v, %v; want %s", l, err, want)
		}
	}
}

func TestLengthsText(t *testing.T) {
	l, err := workload.Fixed(3)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.UnmarshalText([]byte("x")); err == nil || l.String() != "3" {
		t.Errorf("%v, %v", l, err)
	}
	if err := l.UnmarshalText([]byte("4-5")); err != nil || l.String() != "4-5" {
		t.Errorf("%v, %v", l, err)
	}
	if text, err := l.MarshalText(); err != nil || string(text) != "4-5" {
		t.Errorf("%s, %v", text, err)
	}
	var unset workload.Lengths
	if unset.String() != "" || !unset.IsZero() || unset.Draw(nil) != 0 || unset.Max() != 0 {
		t.Errorf("%v", unset)
	}
}

func TestArrivals(t *testing.T) {
	for _, text := range []string{"", "poisson:5", "uniform:0.25", "poisson:1e-06", "uniform:1e+06"} {
		a, err := workload.ParseArrivals(text)
		if err != nil || a.String() != text || a.Validate() != nil {
			t.Errorf("%q: %v, %v", text, a, err)
		}
	}
	for text, want := range map[string]string{
		"5":           `arrivals "5"; want such as poisson:5`,
		":5":          `process "?"; want poisson or uniform`,
		"gamma:5":     `process "gamma"; want poisson or uniform`,
		"poisson":     "want such as poisson:5",
		"poisson:":    "want such as poisson:5",
		"poisson:x":   "want such as poisson:5",
		"poisson:0":   "0 requests per second; want 1e-06 to 1e+06",
		"uniform:1e9": "1e+09 requests per second; want 1e-06 to 1e+06",
		"poisson:-1":  "-1 requests per second",
		"poisson:NaN": "NaN requests per second",
		"uniform:inf": "+Inf requests per second",
	} {
		a, err := workload.ParseArrivals(text)
		if (a != workload.Arrivals{}) || !errors.Is(err, workload.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, %v; want %s", text, a, err, want)
		}
	}
	a := workload.Arrivals{Process: workload.Uniform, Rate: 1}
	if err := a.UnmarshalText([]byte("x")); err == nil || a.Rate != 1 {
		t.Errorf("%v, %v", a, err)
	}
	if err := a.UnmarshalText([]byte("poisson:2")); err != nil || a.Rate != 2 {
		t.Errorf("%v, %v", a, err)
	}
	if text, err := a.MarshalText(); err != nil || string(text) != "poisson:2" {
		t.Errorf("%s, %v", text, err)
	}
}
