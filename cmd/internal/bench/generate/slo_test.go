package generate_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/llmgw/llmgw/cmd/internal/bench/generate"
)

func TestParseSLO(t *testing.T) {
	tests := []struct {
		in   string
		want generate.SLO
		err  string // substring; "" for none
	}{
		{in: "", want: generate.SLO{}},
		{in: "ttft=2s,itl=50ms,e2e=30s", want: generate.SLO{TTFT: 2 * time.Second, ITL: 50 * time.Millisecond, E2E: 30 * time.Second}},
		{in: " TPOT = 30ms ", want: generate.SLO{TPOT: 30 * time.Millisecond}},
		{in: "ttft", err: `"ttft" has no bound; want e.g.`},
		{in: "ttft=2s,", err: `"" has no bound`},
		{in: "ttft=2", err: `ttft="2" is no positive duration`},
		{in: "e2e=-1s", err: `e2e="-1s" is no positive duration`},
		{in: "itl=0s", err: `itl="0s" is no positive duration`},
		{in: "p99=2s", err: `"p99" is unknown; want ttft, tpot, itl or e2e`},
		{in: "ttft=1s,ttft=2s", err: "ttft stands twice"},
	}
	for _, tt := range tests {
		t.Run(tt.in, func(t *testing.T) {
			got, err := generate.ParseSLO(tt.in)
			switch {
			case tt.err == "" && (err != nil || got != tt.want):
				t.Errorf("got %v, %v; want %v", got, err, tt.want)
			case tt.err != "" && (!errors.Is(err, generate.ErrSLO) || !strings.Contains(err.Error(), tt.err)):
				t.Errorf("error %v, want an ErrSLO with %q", err, tt.err)
			}
		})
	}
}

func FuzzParseSLO(f *testing.F) {
	for _, seed := range []string{"", "ttft=2s,itl=50ms,e2e=30s", "tpot=1h", "ttft", "=,=", "ttft=1s,ttft=1s", "e2e=1e9s", "itl=9223372036854775807ns"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := generate.ParseSLO(text)
		if err != nil {
			if !errors.Is(err, generate.ErrSLO) || s != (generate.SLO{}) {
				t.Errorf("%q: %v with %v", text, err, s)
			}
			return
		}
		again, err := generate.ParseSLO(s.String())
		if err != nil || again != s {
			t.Errorf("%q: %v written as %q is %v, %v", text, s, s.String(), again, err)
		}
		for _, d := range []time.Duration{s.TTFT, s.TPOT, s.ITL, s.E2E} {
			if d < 0 {
				t.Errorf("%q: negative bound in %v", text, s)
			}
		}
	})
}
