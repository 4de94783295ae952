package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/llmgw/llmgw/cmd/internal/bench/generate"
)

func TestBenchLine(t *testing.T) {
	p := generate.Progress{Planned: 200, Sent: 60, InFlight: 10, Failed: 2, Elapsed: 63200 * time.Millisecond, Share: .25}
	const text = " 50 of 200 answered, 10 under way, 2 failed, 1m3s"
	tests := []struct {
		name  string
		p     generate.Progress
		width int
		want  string
	}{
		{"wide", p, 120, "[#######-----------------------]" + text},
		{"narrow", p, 65, "[###-----------]" + text},
		{"no room for a bar", p, 55, text[1:]},
		{"hardly any room", p, 5, "50 of"},
		{"none", p, -1, ""},
		{"nothing yet", generate.Progress{}, 60, "[" + strings.Repeat("-", 20) + "] 0 answered, 0 under way, 0 failed, 0s"},
		{"all", generate.Progress{Planned: 5, Sent: 5, Share: 1}, 55, "[##########] 5 of 5 answered, 0 under way, 0 failed, 0s"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := benchLine(tt.p, tt.width)
			if got != tt.want {
				t.Errorf("got  %q\nwant %q", got, tt.want)
			}
		})
	}
}

// What is no terminal gets nothing.
func TestProgressIsForTerminals(t *testing.T) {
	var w strings.Builder
	showProgress(&w, func() generate.Progress { t.Error("asked for the state"); return generate.Progress{} })()
	if w.Len() > 0 {
		t.Errorf("wrote %q", w.String())
	}
}

func TestTolerance(t *testing.T) {
	tests := []struct {
		text        string
		failed, all int64
		want        bool
	}{
		{"0", 0, 10, true},
		{"0", 1, 10, false},
		{"3", 3, 10, true},
		{"3", 4, 10, false},
		{"1%", 1, 100, true},
		{"1%", 2, 100, false},
		{"0.5 %", 0, 0, true},
		{"100%", 7, 7, true},
	}
	for _, tt := range tests {
		var tol tolerance
		if err := tol.UnmarshalText([]byte(tt.text)); err != nil {
			t.Fatal(err)
		}
		if got := tol.allows(tt.failed, tt.all); got != tt.want || tol.String() != tt.text {
			t.Errorf("%s allows %d of %d: %v", tol, tt.failed, tt.all, got)
		}
	}
	for _, text := range []string{"", "-1", "1.5", "101%", "NaN%", "%", "x%"} {
		if err := new(tolerance).UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q is accepted", text)
		}
	}
}
