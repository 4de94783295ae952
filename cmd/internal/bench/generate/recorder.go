package generate

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/llmgw/llmgw/cmd/internal/bench/measure"
)

const (
	// lateAfter is the lag beyond which a request counts as late.
	lateAfter = 100 * time.Millisecond
	// maxErrorRows bounds the rows of failures: codes are a stranger's words.
	maxErrorRows = 64
)

// errorKey is one row of failures.
type errorKey struct {
	kind   Kind
	status int
	code   string
}

// recorder adds samples up. Its methods may be called concurrently.
type recorder struct {
	open bool // the loop: times count from due too
	slo  SLO
	warm time.Time // requests before do not count

	mu sync.Mutex // guards all below

	sent, inFlight                               int64
	complete, failed, cancelled, unfinished      int64
	warmSent, warmFailed                         int64
	late                                         int64
	met                                          int64
	misses                                       map[string]int64
	ttft, ttftDue, e2e, e2eDue, itl, tpot, lag   measure.Histogram
	streams                                      Streams
	promptSaid, outputSaid, cachedSaid, cachedOf int64
	prompts, outputs, cacheds                    int64 // answers that said so
	planned, asked, contents                     int64
	cachedPlanned, cachedBest                    int64 // of the answers that reported cached tokens
	lengthAsAsked                                int64
	errors                                       map[errorKey]*ErrorCount
	lastEnd                                      time.Time
}

func newRecorder(open bool, slo SLO, warm time.Time) *recorder {
	return &recorder{open: open, slo: slo, warm: warm, misses: map[string]int64{}, errors: map[errorKey]*ErrorCount{}}
}

// begin counts a request that is about to be sent.
func (r *recorder) begin() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.inFlight++
	r.sent++
}

// add takes what came of a request. due is when it was to be sent, zero in a
// closed loop; interrupted says that the run ended under it.
func (r *recorder) add(s *sample, due time.Time, interrupted bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.inFlight--
	from := s.sent
	if r.open {
		from = due
	}
	switch {
	case interrupted && s.failure != nil:
		r.unfinished++
		return
	case from.Before(r.warm):
		r.warmSent++
		if s.failure != nil {
			r.warmFailed++
			r.fail(s.failure)
		}
		return
	}
	if s.end.After(r.lastEnd) {
		r.lastEnd = s.end
	}
	if r.open {
		lag := s.sent.Sub(due)
		r.lag.Record(lag)
		if lag > lateAfter {
			r.late++
		}
	}
	r.stream(s)
	switch {
	case s.failure != nil:
		r.failed++
		r.fail(s.failure)
	case s.cancelled:
		r.cancelled++
	default:
		r.complete++
		r.planned += int64(s.planned)
		r.good(s, from)
	}
}

// stream counts how far streams came.
func (r *recorder) stream(s *sample) {
	if !s.streamed || s.cancelled {
		return
	}
	completion, known := s.usage.CompletionTokens.Get()
	r.streams.Begun++
	for _, c := range []struct {
		is bool
		n  *int64
	}{
		{s.contents > 0, &r.streams.Content},
		{s.finish, &r.streams.FinishReason},
		{s.done, &r.streams.Done},
		{known, &r.streams.Usage},
		{known && completion == int64(s.asked), &r.lengthAsAsked},
		{s.failure == nil, &r.streams.Complete},
	} {
		if c.is {
			*c.n++
		}
	}
}

// good records the times and tokens of a complete answer; the caller holds mu.
func (r *recorder) good(s *sample, from time.Time) {
	t := times{e2e: s.end.Sub(from)}
	r.e2e.Record(s.end.Sub(s.sent))
	r.e2eDue.Record(t.e2e)
	r.asked += int64(s.asked)
	r.contents += int64(s.contents)
	if s.streamed {
		t.ttft, t.hasTTFT = s.first.Sub(from), true
		r.ttft.Record(s.first.Sub(s.sent))
		r.ttftDue.Record(t.ttft)
		s.gaps.addTo(&r.itl)
		t.longestGap, t.hasGap = s.gaps.longest, s.gaps.any
		if tpot, ok := s.tpot(); ok {
			t.tpot, t.hasTPOT = tpot, true
			r.tpot.Record(tpot)
		}
	}
	missed := r.slo.misses(t)
	if len(missed) == 0 {
		r.met++
	}
	for _, name := range missed {
		r.misses[name]++
	}
	r.usage(s)
}

func (r *recorder) usage(s *sample) {
	u := &s.usage
	prompt, hasPrompt := u.PromptTokens.Get()
	if hasPrompt {
		r.prompts++
		r.promptSaid = saturated(r.promptSaid, prompt)
	}
	if n, ok := u.CompletionTokens.Get(); ok {
		r.outputs++
		r.outputSaid = saturated(r.outputSaid, n)
	}
	if n, ok := u.CachedTokens.Get(); ok && hasPrompt {
		r.cacheds++
		r.cachedSaid = saturated(r.cachedSaid, n)
		r.cachedOf = saturated(r.cachedOf, prompt)
		r.cachedPlanned += int64(s.planned)
		r.cachedBest += int64(s.seen)
	}
}

// tpot is the mean time per token after the first; false for answers of one
// token. Without usage each content counts for a token.
func (s *sample) tpot() (time.Duration, bool) {
	n, known := s.usage.CompletionTokens.Get()
	if !known {
		n = int64(s.contents)
	}
	if n < 2 {
		return 0, false
	}
	return s.last.Sub(s.first) / time.Duration(n-1), true
}

// fail counts a failure by kind; the caller holds mu.
func (r *recorder) fail(f *RequestError) {
	key := errorKey{f.Kind, f.Status, f.Code}
	row := r.errors[key]
	if row == nil {
		if len(r.errors) >= maxErrorRows {
			key = errorKey{kind: KindOther}
		}
		if row = r.errors[key]; row == nil {
			row = &ErrorCount{Kind: key.kind, Status: key.status, Code: key.code, Example: f.Message}
			r.errors[key] = row
		}
	}
	row.Count++
}

// errorRows returns the failures, the most frequent first.
func (r *recorder) errorRows() []ErrorCount {
	rows := make([]ErrorCount, 0, len(r.errors))
	for _, row := range r.errors {
		rows = append(rows, *row)
	}
	slices.SortFunc(rows, func(a, b ErrorCount) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Status, b.Status), cmp.Compare(a.Code, b.Code))
	})
	return rows
}

// progress is a look at the counts.
func (r *recorder) progress() Progress {
	r.mu.Lock()
	defer r.mu.Unlock()
	return Progress{Sent: r.sent, InFlight: r.inFlight, Failed: r.failed + r.warmFailed}
}
