package generate

import (
	"fmt"
	"time"

	"github.com/llmgw/llmgw/cmd/internal/bench/measure"
	"github.com/llmgw/llmgw/engines/sim/workload"
)

// Report is what a run saw. Its JSON names are stable. What was not measured is
// null, never 0.
type Report struct {
	Target   string   `json:"target"` // base URL
	API      API      `json:"api"`
	Model    string   `json:"model"`
	Stream   bool     `json:"stream"`
	Workload Workload `json:"workload"`
	// Seed sends the same again: see [Config].
	Seed uint64 `json:"seed"`
	// Loop is "open" or "closed".
	Loop        string `json:"loop"`
	Concurrency *int   `json:"concurrency"` // closed loop

	StartedAt time.Time `json:"started_at"`
	// WarmupS came before what is measured; DurationS is from there to the end
	// of the last answer.
	WarmupS   float64 `json:"warmup_s"`
	DurationS float64 `json:"duration_s"`
	// Interrupted says that the run was ended before its time.
	Interrupted bool `json:"interrupted"`

	Requests Requests `json:"requests"`
	// RequestsPerS counts complete answers.
	RequestsPerS     float64  `json:"requests_per_s"`
	PromptTokensPerS *float64 `json:"prompt_tokens_per_s"` // as the target counts, of complete answers
	OutputTokensPerS *float64 `json:"output_tokens_per_s"`
	Goodput          *Goodput `json:"goodput"` // null without SLO

	TTFT        *Latency `json:"ttft"`
	TTFTFromDue *Latency `json:"ttft_from_due"` // open loop
	ITL         *Latency `json:"itl"`
	TPOT        *Latency `json:"tpot"`
	E2E         *Latency `json:"e2e"`
	E2EFromDue  *Latency `json:"e2e_from_due"` // open loop
	Lag         *Latency `json:"lag"`          // open loop: due to sent

	Tokens  Tokens       `json:"tokens"`
	Streams *Streams     `json:"streams"` // null without streams
	Errors  []ErrorCount `json:"errors"`  // the most frequent first; warm-up included
	// Warnings are sentences about what makes the figures doubtful.
	Warnings []string `json:"warnings"`
}

// NothingMeasured is whether every request that was sent fell in the warm-up.
func (r *Report) NothingMeasured() bool {
	return r.Requests.WarmUp > 0 && r.Requests.Measured() == 0
}

// Workload is what was sent.
type Workload struct {
	Name     string          `json:"name"`
	Format   workload.Format `json:"format"`
	Requests int             `json:"requests"`
	// SpanS is from the first request due to the last; OfferedPerS the mean
	// rate in it. Null in a closed loop.
	SpanS       *float64 `json:"span_s"`
	OfferedPerS *float64 `json:"offered_requests_per_s"`
	PromptMean  float64  `json:"prompt_tokens_mean"`
	OutputMean  float64  `json:"output_tokens_mean"`
	// BestHitShare is the share of the prompt tokens that one cache without
	// limit, empty before, would hold; null: no prompts.
	BestHitShare *float64 `json:"best_cached_share"`
}

// Requests counts. Planned = WarmUp + Complete + Failed + Cancelled +
// Unfinished + Unsent.
type Requests struct {
	Planned   int64 `json:"planned"`
	WarmUp    int64 `json:"warm_up"`        // not in the figures, whatever became of them
	WarmUpBad int64 `json:"warm_up_failed"` // of these
	Complete  int64 `json:"complete"`
	Failed    int64 `json:"failed"`
	Cancelled int64 `json:"cancelled"` // left on purpose
	// Unfinished were under way when the run was interrupted.
	Unfinished int64 `json:"unfinished"`
	// Unsent were not sent: the duration was over, or the run interrupted.
	Unsent int64 `json:"unsent"`
	// Late were sent more than 100 ms after they were due; null in a closed
	// loop.
	Late *int64 `json:"late"`
}

// Measured is the number of requests that the figures are of.
func (r Requests) Measured() int64 { return r.Complete + r.Failed + r.Cancelled }

// Bad is the number of requests that failed, warm-up included.
func (r Requests) Bad() int64 { return r.Failed + r.WarmUpBad }

// Goodput is what met the SLO.
type Goodput struct {
	SLO          string           `json:"slo"`
	RequestsPerS float64          `json:"requests_per_s"`
	Met          int64            `json:"met"`
	Share        *float64         `json:"share"`  // of complete and failed; null: there were none
	Missed       map[string]int64 `json:"missed"` // complete answers by bound; one may miss several
}

// Latency is the distribution of one time, in milliseconds.
type Latency struct {
	Count  uint64  `json:"count"`
	MeanMS float64 `json:"mean_ms"`
	P50MS  float64 `json:"p50_ms"`
	P90MS  float64 `json:"p90_ms"`
	P95MS  float64 `json:"p95_ms"`
	P99MS  float64 `json:"p99_ms"`
	MaxMS  float64 `json:"max_ms"`
}

// Tokens are sums over complete answers. What the target reports is null if no
// answer has it.
type Tokens struct {
	PromptPlanned int64  `json:"prompt_planned"` // by the workload
	Prompt        *int64 `json:"prompt"`         // as reported: with the chat template, by the target's tokenizer
	OutputAsked   int64  `json:"output_asked"`
	Output        *int64 `json:"output"`
	// ContentEvents is the number of events that brought output. Equal to
	// Output where the target sends an event a token.
	ContentEvents *int64 `json:"content_events"` // null without streams
	Cached        *int64 `json:"cached"`
	// CachedShare is Cached ÷ the prompt tokens of the answers that reported
	// it, which are CachedAnswers. CachedBest is how many of their tokens, by
	// the workload's count, one cache without limit, empty before, would hold.
	CachedShare   *float64 `json:"cached_share"`
	CachedAnswers int64    `json:"cached_answers"`
	CachedBest    *int64   `json:"cached_best"`
}

// Streams counts how far the streams came that began with status 200, those
// left on purpose not counted.
type Streams struct {
	Begun        int64 `json:"begun"`
	Content      int64 `json:"content"`
	FinishReason int64 `json:"finish_reason"`
	Done         int64 `json:"done"`
	Usage        int64 `json:"usage"`
	// LengthAsAsked had as many tokens as were asked for, as usage says; null
	// if none had usage.
	LengthAsAsked *int64 `json:"length_as_asked"`
	Complete      int64  `json:"complete"`
}

// ErrorCount is one kind of failure.
type ErrorCount struct {
	Kind    Kind   `json:"kind"`
	Status  int    `json:"status,omitempty"` // of HTTP, with kind "status"
	Code    string `json:"code,omitempty"`   // as the target named it
	Count   int64  `json:"count"`
	Example string `json:"example"` // the first one's message
}

// Progress is a look at a run under way.
type Progress struct {
	Planned  int64 // 0: as many as there is time for
	Sent     int64
	InFlight int64
	Failed   int64
	Elapsed  time.Duration
	Share    float64 // of the run that is done, 0 to 1
}

// latency returns h's figures, nil for none.
func latency(h *measure.Histogram) *Latency {
	if h.Count() == 0 {
		return nil
	}
	ms := func(q float64) float64 {
		d, _ := h.Quantile(q)
		return float64(d) / 1e6
	}
	s := h.Summary()
	return &Latency{Count: s.Count, MeanMS: s.MeanMS, P50MS: s.P50MS, P90MS: s.P90MS, P95MS: ms(.95), P99MS: s.P99MS, MaxMS: s.MaxMS}
}

// newWorkload describes a trace.
func newWorkload(t *workload.Trace, open bool) Workload {
	stats := t.Stats()
	w := Workload{
		Name: t.Name, Format: t.Format, Requests: len(t.Requests),
		PromptMean: stats.Prompt.Mean, OutputMean: stats.Output.Mean,
	}
	if open {
		span := stats.Duration.Seconds()
		w.SpanS = &span
		if span > 0 { // n requests have n-1 gaps
			w.OfferedPerS = new(float64(len(t.Requests)-1) / span)
		}
	}
	if stats.Prompt.Total > 0 {
		// A trace that does not tell gets prompts that share nothing: 0.
		share, _ := stats.HitShare()
		w.BestHitShare = &share
	}
	return w
}

// fill writes what r saw into a report; end is when the run ended.
func (r *recorder) fill(rep *Report, end time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.lastEnd.IsZero() && !rep.Interrupted {
		end = r.lastEnd
	}
	rep.DurationS = max(end.Sub(r.warm).Seconds(), 0)
	perSecond := func(n int64) float64 {
		if rep.DurationS == 0 {
			return 0
		}
		return float64(n) / rep.DurationS
	}
	rep.Requests = Requests{
		Planned: rep.Requests.Planned, WarmUp: r.warmSent, WarmUpBad: r.warmFailed, Complete: r.complete, Failed: r.failed,
		Cancelled: r.cancelled, Unfinished: r.unfinished, Unsent: rep.Requests.Planned - r.sent,
	}
	rep.RequestsPerS = perSecond(r.complete)
	rep.TTFT, rep.ITL, rep.TPOT, rep.E2E = latency(&r.ttft), latency(&r.itl), latency(&r.tpot), latency(&r.e2e)
	if r.open {
		rep.Requests.Late = &r.late
		rep.TTFTFromDue, rep.E2EFromDue, rep.Lag = latency(&r.ttftDue), latency(&r.e2eDue), latency(&r.lag)
	}
	rep.Tokens = Tokens{PromptPlanned: r.planned, OutputAsked: r.asked, CachedAnswers: r.cacheds}
	if r.prompts > 0 {
		rep.Tokens.Prompt, rep.PromptTokensPerS = &r.promptSaid, new(perSecond(r.promptSaid))
	}
	if r.outputs > 0 {
		rep.Tokens.Output, rep.OutputTokensPerS = &r.outputSaid, new(perSecond(r.outputSaid))
	}
	if r.cacheds > 0 {
		rep.Tokens.Cached, rep.Tokens.CachedBest = &r.cachedSaid, &r.cachedBest
		if r.cachedOf > 0 {
			rep.Tokens.CachedShare = new(float64(r.cachedSaid) / float64(r.cachedOf))
		}
	}
	if rep.Stream {
		rep.Streams, rep.Tokens.ContentEvents = &r.streams, &r.contents
		if r.streams.Usage > 0 {
			rep.Streams.LengthAsAsked = &r.lengthAsAsked
		}
	}
	if r.slo != (SLO{}) {
		rep.Goodput = &Goodput{SLO: r.slo.String(), RequestsPerS: perSecond(r.met), Met: r.met, Missed: r.misses}
		if all := r.complete + r.failed; all > 0 {
			rep.Goodput.Share = new(float64(r.met) / float64(all))
		}
	}
	rep.Errors = r.errorRows()
	rep.Warnings = r.warnings()
}

// warnings says what makes the figures doubtful; the caller holds mu.
func (r *recorder) warnings() []string {
	out := []string{}
	if n := r.cachedSaid - r.explained(); n > 0 {
		out = append(out, fmt.Sprintf("%d cached tokens are more than this workload explains, so the target seems to have had its prompts from before: the same seed, or a trace with texts of its own, sends the same prompts again; the times are those of a warm cache", n))
	}
	return out
}

// explained is how many cached tokens need no warning: those that the workload
// repeats, what was counted beyond the plan, which may be a chat template that
// all prompts begin with, and 2 % for requests that overtake each other.
func (r *recorder) explained() int64 {
	return saturated(saturated(r.cachedBest, max(r.cachedOf-r.cachedPlanned, 0)), r.cachedOf/50)
}
