package calibrate

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/llmgw/llmgw/engines/sim"
)

// WriteYAML writes the configuration of the simulated engine, with comments
// that say how good each value is. What could not be told is left to the
// default, except costs: a default would be another machine's, so they are 0.
func (r *Report) WriteYAML(w io.Writer) error {
	m := r.Model
	cfg := m.Apply(sim.DefaultConfig())
	var b bytes.Buffer
	comment := func(format string, args ...any) { fmt.Fprintf(&b, "# "+format+"\n", args...) }
	for _, p := range r.Poor {
		comment("DO NOT USE THIS: %s.", line(p))
	}
	if len(r.Poor) > 0 {
		comment("At most %s is wanted: %s.", percent(r.ToleranceRatio), advice)
		comment("")
	}
	comment("A simulated engine that behaves like %s at %s (%s),", line(m.Name), line(r.URL), r.API)
	comment("measured by %d requests in %.0f s. Prompts count in simulated tokens; one of the", r.Sent, r.Seconds)
	comment("probe's is %.3f of the engine's, and text with another ratio is off by the quotient.", m.TokenRatio)
	comment("")
	comment("The fit is off by, median and worst: TTFT %s of %d lengths, time between tokens %s of %d points.",
		m.TTFT, m.TTFT.Points, m.Interval, m.Interval.Points)
	if c := r.Check; c != nil {
		comment("A check with %d other requests, %.1f in flight: TTFT %s;", c.Requests, c.MeanInFlight, c.TTFT)
		comment("time between tokens %s. Medians.", c.Interval)
	}
	comment("Fit ± is by the scatter of the samples alone: what all of them contain, such as the")
	comment("network, this program and late timers, is in the value and not in its ±.")
	for _, w := range m.Warnings {
		comment("Keep in mind: %s.", line(w))
	}
	for _, u := range m.Unknown {
		comment("Not known: %s.", line(u))
	}
	for _, n := range r.Notes {
		comment("Left out: %s.", line(n))
	}
	key := func(name, value string) { fmt.Fprintf(&b, "%s: %s\n", name, value) }
	key("model", strconv.Quote(m.Name))
	for _, k := range []struct {
		name  string
		known bool
		value any
	}{
		{"max_model_len", m.MaxModelLen != nil, cfg.MaxModelLen},
		{"max_num_seqs", m.MaxNumSeqs != nil, cfg.MaxNumSeqs},
		{"max_num_batched_tokens", m.MaxNumBatchedTokens != nil, cfg.MaxNumBatchedTokens},
		{"block_size", m.BlockSize != nil, cfg.BlockSize},
		{"num_gpu_blocks", m.NumGPUBlocks != nil, cfg.NumGPUBlocks},
		{"enable_prefix_caching", m.PrefixCaching != nil, cfg.PrefixCaching},
	} {
		if k.known {
			key(k.name, fmt.Sprint(k.value))
		}
	}
	b.WriteString("timing:\n")
	t := cfg.Timing
	values := map[string]string{
		"request": duration(t.Request), "step": duration(t.Step), "per_sequence": duration(t.PerSequence),
		"prefill_tokens_per_second":  number(t.PrefillTokensPerSecond),
		"attention_pairs_per_second": number(t.AttentionPairsPerSecond),
		"kv_read_tokens_per_second":  number(t.KVReadTokensPerSecond),
	}
	for _, c := range m.Costs {
		fmt.Fprintf(&b, "  %s: %s # %s\n", c.Key, values[c.Key], c.quality())
	}
	_, err := w.Write(b.Bytes())
	return err
}

// quality says how well a cost is known.
func (c Cost) quality() string {
	if c.ErrorSeconds == nil || c.Seconds == 0 {
		return "not told apart: costs nothing of its own"
	}
	return fmt.Sprintf("fit ± %.0f %%", min(999, 100**c.ErrorSeconds/c.Seconds))
}

func (m Misfit) String() string {
	return percent(m.MedianRatio) + " and " + percent(m.WorstRatio)
}

func millis(s float64) string { return fmt.Sprintf("%.1f ms", 1e3*s) }

// duration writes d in a unit that YAML's reader of configurations takes.
func duration(d time.Duration) string { return strings.ReplaceAll(d.String(), "µ", "u") }

// number writes v without an exponent.
func number(v float64) string {
	if math.Abs(v) >= 1000 || v == 0 {
		return strconv.FormatFloat(math.Round(v), 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'f', -1, 64)
}

// line keeps foreign text inside its comment.
func line(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == 0x85 || r == 0x2028 || r == 0x2029 {
			return ' '
		}
		return r
	}, s)
}
