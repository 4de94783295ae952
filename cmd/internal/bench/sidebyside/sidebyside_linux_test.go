package main

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/llmgw/llmgw/cmd/internal/bench/load"
	"github.com/llmgw/llmgw/cmd/internal/bench/measure"
)

func TestScenariosAreValid(t *testing.T) {
	list, err := choose("a,b,c,h,g,d,e,f")
	if err != nil || len(list) != len(scenarios()) {
		t.Fatalf("%d of %d scenarios, %v", len(list), len(scenarios()), err)
	}
	for _, s := range list {
		cfg := s.load
		cfg.Addrs, cfg.Window, cfg.Timeout = []string{"127.0.0.1:1"}, time.Second, time.Second
		if err := cfg.Validate(); err != nil {
			t.Errorf("%s: %v", s.key, err)
		}
		if len(s.goals) == 0 && s.key != "g" {
			t.Errorf("%s has no goal", s.key)
		}
	}
	if _, err := choose("a,x"); err == nil {
		t.Error("x is taken for a scenario")
	}
}

func TestOrderRotates(t *testing.T) {
	const n = 5
	first := map[int]bool{}
	for round := range 2 * n {
		got := order(n, round)
		first[got[0]] = true
		slices.Sort(got)
		if diff := cmp.Diff([]int{0, 1, 2, 3, 4}, got); diff != "" {
			t.Errorf("round %d: %s", round, diff)
		}
	}
	if len(first) != n {
		t.Errorf("%d of %d peers ever begin", len(first), n)
	}
}

// fixture has three rounds of scenario a with round 1 disturbed for everybody.
func fixture() []sample {
	add := func(out []sample, name string, cpu ...float64) []sample {
		for round, us := range cpu {
			out = append(out, sample{
				Scenario: "a", Peer: name, Round: round, PeerCPU: us * 1000 / 1e6, PeakRSSBytes: 10 << 20,
				Load: &load.Result{Config: load.Config{Window: time.Second}, Whole: 1000, Window: 900, Latency: measure.Summary{Count: 900, P50MS: us / 10, P99MS: us}},
			})
		}
		return out
	}
	var out []sample
	out = add(out, "llmgw", 60, 200, 62)
	out = add(out, reverseProxy, 100, 400, 100)
	out = add(out, direct, 10, 10, 10)
	out[2].Load.Failed = map[load.Failure]int64{load.Altered: 3, load.Cut: 1}
	return out
}

func TestJudge(t *testing.T) {
	got := judge(fixture(), []string{"llmgw"})
	want := []verdict{
		{Scenario: "a", Gateway: "llmgw", Goal: "CPU per answer ÷ reverseproxy", AtMost: .65, Rounds: 3, Measured: .6, Min: .5, Max: .62, Met: true},
		{Scenario: "a", Gateway: "llmgw", Goal: "CPU per answer ÷ nginx", AtMost: 2.2},
	}
	near := cmp.Comparer(func(a, b float64) bool { return a-b < 1e-9 && b-a < 1e-9 })
	if diff := cmp.Diff(want, got, near); diff != "" {
		t.Error(diff)
	}
	if _, err := json.Marshal(report{Verdicts: got, Samples: fixture()}); err != nil {
		t.Error(err)
	}
}

func TestMarkdown(t *testing.T) {
	r := report{Machine: machine{CPU: "A processor", Cores: 2, Kernel: "6.1", Go: "go1.26", Versions: map[string]string{nginx: "nginx/1"}}, Samples: fixture()}
	r.Verdicts = judge(r.Samples, []string{"llmgw"})
	got := r.markdown()
	var lines []string
	for line := range strings.Lines(got) {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	for _, want := range []string{
		"A processor, 2 cores, Linux 6.1, go1.26, nginx/1",
		"### (a) 1 KiB prompt and answer, unstreamed, 64 callers",
		"| direct | 3 | 900 | 10.0 | – | – | 1.00 / 10.00 / 0.00 | – / – | – | – | 10 | 0 | 0 | 0 |",
		"| llmgw | 3 | 900 | 62.0 | 0.60 | – | 6.20 / 62.00 / 0.00 | +5.20 / +52.00 | – | – | 10 | 0 | 3 altered, 1 cut (0.133 %) | 3 |",
		"| (a) | llmgw | CPU per answer ÷ reverseproxy | 0.65 | 0.60 (0.50 to 0.62) | 3 | met |",
		"| (a) | llmgw | CPU per answer ÷ nginx | 2.20 | – | 0 | not measured |",
	} {
		if !slices.Contains(lines, want) {
			t.Errorf("no line %q in\n%s", want, got)
		}
	}
	if strings.Contains(got, "(b)") {
		t.Error("a table of a scenario that did not run")
	}
}

func TestFlags(t *testing.T) {
	o, err := parseFlags([]string{"-llmgw", "old=/tmp/a", "-llmgw", "new=/tmp/b", "-rounds", "3"})
	if err != nil || len(o.gateways) != 2 || o.gateways[1].path != "/tmp/b" || o.rounds != 3 {
		t.Errorf("%+v, %v", o, err)
	}
	for _, args := range [][]string{{"-rounds", "0"}, {"-d", "0s"}, {"stray"}} {
		if _, err := parseFlags(args); err == nil {
			t.Errorf("%v is taken", args)
		}
	}
}
