package enginetest

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/engines/exposition"
)

// field is one number of a load, with where it stands on a page.
type field struct {
	name   string
	metric engines.Metric
	of     func(engines.Load) engines.Reading
}

func fields(c engines.MetricContract) []field {
	return []field{
		{"running", c.Running, func(l engines.Load) engines.Reading { return l.Running }},
		{"waiting", c.Waiting, func(l engines.Load) engines.Reading { return l.Waiting }},
		{"max_running", c.MaxRunning, func(l engines.Load) engines.Reading { return l.MaxRunning }},
		{"kv_used_ratio", c.KVUsed, func(l engines.Load) engines.Reading { return l.KVUsedRatio }},
		{"prefix_query_tokens", c.PrefixQueryTokens, func(l engines.Load) engines.Reading { return l.PrefixQueryTokens }},
		{"prefix_hit_tokens", c.PrefixHitTokens, func(l engines.Load) engines.Reading { return l.PrefixHitTokens }},
		{"preemptions", c.Preemptions, func(l engines.Load) engines.Reading { return l.Preemptions }},
		{"kv_capacity_tokens", c.KVCapacityTokens, func(l engines.Load) engines.Reading { return l.KVCapacityTokens }},
	}
}

// metricPages: the engine's own pages are read as the contract says; what is
// not on a page is unknown, never 0.
func metricPages(s *subject) (fs findings) {
	pages, err := readPages(s.path("metrics"))
	if err != nil {
		fs.add("pages can be read", err.Error(), "mend the file")
	}
	switch {
	case s.d.Metrics == nil && len(pages) > 0:
		fs.add("an engine whose pages are known has a metric contract", s.path("metrics")+" has pages, and Description.Metrics is nil", "return the contract")
	case s.d.Metrics != nil && len(pages) == 0:
		s.skip = "no page in " + s.path("metrics") + ": save the engine's as VERSION.txt"
	}
	if s.d.Metrics == nil || len(pages) == 0 {
		return fs
	}
	known := make(map[string]bool)
	for _, version := range slices.Sorted(maps.Keys(pages)) {
		s.metricPage(&fs, version, pages[version], known)
	}
	for _, f := range fields(*s.d.Metrics) {
		if f.metric.Exported() && !known[f.name] {
			fs.add("every metric of the contract is on a page of the engine's", f.name+" is on none", "save a page that has it, or take it out of the contract")
		}
	}
	return fs
}

func (s *subject) metricPage(fs *findings, version, page string, known map[string]bool) {
	contract := *s.d.Metrics
	load, err := exposition.Read([]byte(page), contract)
	if err != nil && !errors.Is(err, exposition.ErrNoMetrics) {
		fs.add("a page of the engine's can be read", s.path("metrics", version+".txt")+": "+err.Error(), "save the text that the engine serves at Metrics.Path")
		return
	}
	var b strings.Builder
	for _, f := range fields(contract) {
		reading := f.of(load)
		fmt.Fprintf(&b, "%s: %s\n", f.name, reading)
		if _, ok := reading.Get(); !ok {
			continue
		}
		known[f.name] = true
		without, _ := exposition.Read([]byte(withoutSeries(page, f.metric.Names)), contract)
		if v, ok := f.of(without).Get(); ok {
			fs.add("what is not on a page is unknown, never 0", fmt.Sprintf("%s: without its series %s is %v", version, f.name, v), "name in Metric.Names the series that make the reading")
		}
	}
	s.compare(fs, "a page gives the load of its .want file", s.path("metrics", version+".want"), b.String())
}

// withoutSeries returns a page without the series of some names.
func withoutSeries(page string, names []string) string {
	var b strings.Builder
	for line := range strings.Lines(page) {
		name := line[:len(line)-len(strings.TrimLeft(line, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_:"))]
		if !slices.Contains(names, name) {
			b.WriteString(line)
		}
	}
	return b.String()
}
