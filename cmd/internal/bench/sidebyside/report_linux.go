package main

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"

	"github.com/llmgw/llmgw/cmd/internal/bench/load"
	"github.com/llmgw/llmgw/cmd/internal/bench/measure"
)

// report is everything that a run of this program found.
type report struct {
	Machine  machine   `json:"machine"`
	Command  string    `json:"command"`
	Gateways []string  `json:"gateways"` // the peers that goals are for
	Verdicts []verdict `json:"verdicts"`
	Samples  []sample  `json:"samples"`
}

// machine says where figures come from.
type machine struct {
	CPU      string            `json:"cpu"`
	Cores    int               `json:"cores"`
	Kernel   string            `json:"kernel"`
	Go       string            `json:"go"`
	Revision string            `json:"revision,omitempty"` // of llmgw
	Versions map[string]string `json:"versions"`           // of the peers
}

// readMachine looks at this machine; peers are the names of what is measured.
func readMachine(peers []string) machine {
	m := machine{Cores: runtime.NumCPU(), Go: runtime.Version(), Versions: map[string]string{}}
	info, _ := os.ReadFile("/proc/cpuinfo")
	_, rest, _ := strings.Cut(string(info), "model name")
	line, _, _ := strings.Cut(rest, "\n")
	m.CPU = strings.TrimLeft(line, "\t :")
	kernel, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	m.Kernel = strings.TrimSpace(string(kernel))
	output := func(args ...string) string {
		out, err := exec.Command(args[0], args[1:]...).CombinedOutput()
		if err != nil {
			return ""
		}
		first, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
		return first
	}
	m.Revision = output("git", "describe", "--always", "--dirty")
	for _, name := range []string{nginx, haproxy} {
		if slices.Contains(peers, name) {
			m.Versions[name] = output(name, "-v")
		}
	}
	return m
}

// verdict is a goal with what was measured.
type verdict struct {
	Scenario string  `json:"scenario"`
	Gateway  string  `json:"gateway"`
	Goal     string  `json:"goal"`
	AtMost   float64 `json:"at_most"`
	Rounds   int     `json:"rounds"` // that both sides were measured in; 0: not measured
	Measured float64 `json:"measured"`
	Min      float64 `json:"min"`
	Max      float64 `json:"max"`
	Met      bool    `json:"met"`
}

// of returns a figure of every round of a peer under a scenario.
func of(samples []sample, key, name string, f func(sample) float64) measure.Rounds {
	out := measure.Rounds{}
	for _, s := range samples {
		if s.Scenario == key && s.Peer == name {
			out[s.Round] = f(s)
		}
	}
	return out
}

func p50(s sample) float64 { return s.Load.Latency.P50MS }
func p99(s sample) float64 { return s.Load.Latency.P99MS }

// judge compares the samples with the goals of their scenarios.
func judge(samples []sample, gateways []string) []verdict {
	var out []verdict
	for _, s := range scenarios() {
		for _, gw := range gateways {
			for _, g := range s.goals {
				var sp measure.Spread
				switch g.figure {
				case cpuRatio:
					sp = of(samples, s.key, gw, sample.cpuPerAnswer).Ratio(of(samples, s.key, g.peer, sample.cpuPerAnswer))
				case p50Added:
					sp = of(samples, s.key, gw, p50).Minus(of(samples, s.key, g.peer, p50))
				case p99Added:
					sp = of(samples, s.key, gw, p99).Minus(of(samples, s.key, g.peer, p99))
				}
				v := verdict{Scenario: s.key, Gateway: gw, Goal: g.String(), AtMost: g.atMost, Rounds: sp.N}
				if sp.N > 0 { // JSON has no NaN
					v.Measured, v.Min, v.Max, v.Met = sp.Median, sp.Min, sp.Max, sp.Median <= g.atMost
				}
				if len(of(samples, s.key, gw, p50)) > 0 {
					out = append(out, v)
				}
			}
		}
	}
	return out
}

// markdown renders the report.
func (r *report) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, %d cores, Linux %s, %s", r.Machine.CPU, r.Machine.Cores, r.Machine.Kernel, r.Machine.Go)
	for _, name := range slices.Sorted(maps.Keys(r.Machine.Versions)) {
		fmt.Fprintf(&b, ", %s", r.Machine.Versions[name])
	}
	if r.Machine.Revision != "" {
		fmt.Fprintf(&b, ", llmgw at %s", r.Machine.Revision)
	}
	b.WriteString("\n")
	for _, s := range scenarios() {
		if t := scenarioTable(r.Samples, s); t.Rows() > 0 {
			fmt.Fprintf(&b, "\n### (%s) %s\n\n%s", s.key, s.what, t)
		}
	}
	if len(r.Verdicts) > 0 {
		t := measure.NewTable("scenario", "gateway", "figure", "at most", "measured (min to max)", "rounds", "")
		for _, v := range r.Verdicts {
			word, figure := "missed", fmt.Sprintf("%.2f (%.2f to %.2f)", v.Measured, v.Min, v.Max)
			switch {
			case v.Rounds == 0:
				word, figure = "not measured", measure.Missing
			case v.Met:
				word = "met"
			}
			t.Row("("+v.Scenario+")", v.Gateway, v.Goal, measure.Number(v.AtMost, 2), figure, fmt.Sprint(v.Rounds), word)
		}
		fmt.Fprintf(&b, "\n### Goals\n\n%s", t)
	}
	return b.String()
}

// scenarioTable has a row for each peer with medians over its rounds.
func scenarioTable(samples []sample, s scenario) *measure.Table {
	t := measure.NewTable("peer", "rounds", "answers/s", "CPU µs/answer", "÷ reverseproxy", "÷ nginx",
		"p50 / p99 / p99.9 ms", "added p50 / p99 ms", "first event p50 / p99 ms", "gap p99 ms", "peak RSS MiB", "redials", "failed", "of them altered")
	var names []string
	for _, sm := range samples {
		if sm.Scenario == s.key && !slices.Contains(names, sm.Peer) {
			names = append(names, sm.Peer)
		}
	}
	// Samples stand in the order they were taken; tables shall not depend on it.
	slices.SortFunc(names, func(a, b string) int { return rank(a) - rank(b) })
	for _, name := range names {
		median := func(f func(sample) float64) float64 { return measure.Median(of(samples, s.key, name, f).Values()) }
		cpu := of(samples, s.key, name, sample.cpuPerAnswer)
		ratio := func(base string) string {
			if name == direct {
				return measure.Missing
			}
			return measure.Number(cpu.Ratio(of(samples, s.key, base, sample.cpuPerAnswer)).Median, 2)
		}
		added := func(f func(sample) float64) string {
			if name == direct {
				return measure.Missing
			}
			return measure.Signed(of(samples, s.key, name, f).Minus(of(samples, s.key, direct, f)).Median, 2)
		}
		first, gap := measure.Missing, measure.Missing
		if s.load.Mix[0].Stream {
			first = pair(median(func(s sample) float64 { return s.Load.FirstEvent.P50MS }), median(func(s sample) float64 { return s.Load.FirstEvent.P99MS }))
			gap = measure.Number(median(func(s sample) float64 { return s.Load.Gap.P99MS }), 2)
		}
		var whole, redials int64
		failed := map[load.Failure]int64{}
		for _, sm := range samples {
			if sm.Scenario == s.key && sm.Peer == name {
				whole += sm.Load.Whole
				redials += sm.Load.Redials
				for why, n := range sm.Load.Failed {
					failed[why] += n
				}
			}
		}
		t.Row(name, fmt.Sprint(len(cpu)), measure.Number(median(func(s sample) float64 { return s.Load.AnswersPerSecond() }), 0),
			measure.Number(measure.Median(cpu.Values()), 1), ratio(reverseProxy), ratio(nginx),
			pair(median(p50), median(p99))+" / "+measure.Number(median(func(s sample) float64 { return s.Load.Latency.P999MS }), 2),
			added(p50)+" / "+added(p99), first, gap,
			measure.Number(median(func(s sample) float64 { return float64(s.PeakRSSBytes) / (1 << 20) }), 0),
			fmt.Sprint(redials), failures(failed, whole), fmt.Sprint(failed[load.Altered]))
	}
	return t
}

// pair renders two figures in milliseconds.
func pair(a, b float64) string { return measure.Number(a, 2) + " / " + measure.Number(b, 2) }

// failures renders what went wrong, by reason, and its share of all answers.
func failures(failed map[load.Failure]int64, whole int64) string {
	var parts []string
	var total int64
	for _, why := range slices.Sorted(maps.Keys(failed)) {
		total += failed[why]
		parts = append(parts, fmt.Sprintf("%d %s", failed[why], why))
	}
	if total == 0 {
		return "0"
	}
	return fmt.Sprintf("%s (%.3f %%)", strings.Join(parts, ", "), 100*float64(total)/float64(total+whole))
}

// rank orders the rows of a table: the engines, the peers, then llmgw.
func rank(name string) int {
	if i := slices.Index([]string{direct, nginx, haproxy, reverseProxy}, name); i >= 0 {
		return i
	}
	return 9
}
