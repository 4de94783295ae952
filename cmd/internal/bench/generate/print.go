package generate

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/llmgw/llmgw/cmd/internal/bench/measure"
)

// WriteText writes the report for people: Markdown that reads well as it is.
func (r *Report) WriteText(w io.Writer) error {
	var b strings.Builder
	r.writeHead(&b)
	r.writeCounts(&b)
	b.WriteByte('\n')
	b.WriteString(r.latencyTable())
	if len(r.Errors) > 0 {
		b.WriteByte('\n')
		b.WriteString(r.errorTable())
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (r *Report) writeHead(b *strings.Builder) {
	kind := "unstreamed"
	if r.Stream {
		kind = "streamed"
	}
	fmt.Fprintf(b, "%s: model %s, %s, %s\n", r.Target, r.Model, r.API, kind)
	fmt.Fprintf(b, "workload %s (%s): %d requests, mean %.0f prompt and %.0f output tokens",
		r.Workload.Name, r.Workload.Format, r.Workload.Requests, r.Workload.PromptMean, r.Workload.OutputMean)
	switch {
	case r.Concurrency != nil:
		fmt.Fprintf(b, "; closed loop of %d", *r.Concurrency)
	case r.Workload.OfferedPerS != nil:
		fmt.Fprintf(b, "; open loop, %.2f requests/s over %.1f s", *r.Workload.OfferedPerS, *r.Workload.SpanS)
	default:
		b.WriteString("; open loop, all at once")
	}
	fmt.Fprintf(b, "; seed %d\n\n", r.Seed)
	if r.Interrupted {
		b.WriteString("INTERRUPTED: figures of what was measured until then.\n\n")
	}
}

// writeCounts writes one figure a line, its name in front.
func (r *Report) writeCounts(b *strings.Builder) {
	line := func(name, format string, args ...any) {
		fmt.Fprintf(b, "%-15s %s\n", name, fmt.Sprintf(format, args...))
	}
	q := r.Requests
	counts := []string{fmt.Sprintf("%d complete, %d failed", q.Complete, q.Failed)}
	for _, c := range []struct {
		n    int64
		what string
	}{{q.Cancelled, "left on purpose"}, {q.Unfinished, "unfinished"}, {q.Unsent, "unsent"}} {
		if c.n > 0 {
			counts = append(counts, fmt.Sprintf("%d %s", c.n, c.what))
		}
	}
	if q.WarmUp > 0 {
		counts = append(counts, fmt.Sprintf("%d in the warm-up (%d failed)", q.WarmUp, q.WarmUpBad))
	}
	line("requests", "%s; %d planned", strings.Join(counts, ", "), q.Planned)
	line("measured", "%.1f s: %.2f requests/s", r.DurationS, r.RequestsPerS)
	if g := r.Goodput; g != nil {
		met := []string{fmt.Sprintf("%.2f requests/s met %s (%s)", g.RequestsPerS, g.SLO, percent(g.Share))}
		for _, name := range slices.Sorted(maps.Keys(g.Missed)) {
			met = append(met, fmt.Sprintf("%d missed %s", g.Missed[name], name))
		}
		line("goodput", "%s", strings.Join(met, "; "))
	}
	if q.Complete > 0 {
		r.writeTokens(line)
	}
	if s := r.Streams; s != nil {
		long := "length not checked"
		if s.LengthAsAsked != nil {
			long = fmt.Sprintf("as long as asked %d", *s.LengthAsAsked)
		}
		line("streams", "%d begun; with content %d, finish_reason %d, [DONE] %d, usage %d, %s; complete %d",
			s.Begun, s.Content, s.FinishReason, s.Done, s.Usage, long, s.Complete)
	}
	if q.Late != nil && *q.Late > 0 {
		line("late", "%d were sent more than 100 ms after they were due", *q.Late)
	}
	for _, warning := range r.Warnings {
		line("warning", "%s", warning)
	}
}

// writeTokens writes the tokens of complete answers, one or more.
func (r *Report) writeTokens(line func(name, format string, args ...any)) {
	t := r.Tokens
	line("prompt tokens", "%s of %d planned, %s/s", reported(t.Prompt), t.PromptPlanned, rate(r.PromptTokensPerS))
	line("output tokens", "%s of %d asked, %s/s%s", reported(t.Output), t.OutputAsked, rate(r.OutputTokensPerS), inEvents(t))
	best := "; at best " + percent(r.Workload.BestHitShare) + " of the whole workload"
	if t.Cached == nil {
		line("cached tokens", "not reported%s", best)
	} else {
		line("cached tokens", "%d, %s of the prompts of %d answers%s", *t.Cached, percent(t.CachedShare), t.CachedAnswers, best)
	}
}

func (r *Report) latencyTable() string {
	table := measure.NewTable("milliseconds", "count", "mean", "p50", "p90", "p95", "p99", "max")
	row := func(name string, l *Latency) {
		if l == nil {
			return
		}
		ms := func(v float64) string { return measure.Number(v, 1) }
		table.Row(name, strconv.FormatUint(l.Count, 10), ms(l.MeanMS), ms(l.P50MS), ms(l.P90MS), ms(l.P95MS), ms(l.P99MS), ms(l.MaxMS))
	}
	row("TTFT", r.TTFT)
	row("TTFT from due", r.TTFTFromDue)
	row("ITL", r.ITL)
	row("TPOT", r.TPOT)
	row("E2E", r.E2E)
	row("E2E from due", r.E2EFromDue)
	row("lag (due to sent)", r.Lag)
	switch {
	case table.Rows() > 0:
		return table.String()
	case r.NothingMeasured():
		return "nothing was measured: all requests fell in the warm-up\n"
	default:
		return "no answer was complete: no times and no tokens\n"
	}
}

func (r *Report) errorTable() string {
	table := measure.NewTable("failure", "count", "first message")
	for _, e := range r.Errors {
		name := string(e.Kind)
		if e.Status != 0 {
			name += " " + strconv.Itoa(e.Status)
		}
		if e.Code != "" {
			name += " " + e.Code
		}
		table.Row(name, strconv.FormatInt(e.Count, 10), e.Example)
	}
	return table.String()
}

func percent(share *float64) string {
	if share == nil {
		return "share unknown"
	}
	return strconv.FormatFloat(*share*100, 'f', 1, 64) + " %"
}

func reported(n *int64) string {
	if n == nil {
		return "not reported"
	}
	return strconv.FormatInt(*n, 10)
}

func rate(v *float64) string {
	if v == nil {
		return measure.Missing
	}
	return measure.Number(*v, 0)
}

func inEvents(t Tokens) string {
	if t.ContentEvents == nil {
		return ""
	}
	return fmt.Sprintf(", in %d events", *t.ContentEvents)
}
