package twin

import (
	"slices"
	"time"
)

// Report is what came of a run. What cannot be said, such as a percentile of
// nothing, is nil.
type Report struct {
	Policy  Policy  `json:"policy"`
	Trace   string  `json:"trace"`
	Engines int     `json:"engines"`
	Seed    uint64  `json:"seed"`
	Speedup float64 `json:"speedup,omitempty"` // of the trace; filled in by who knows it

	// Requests have arrived: those that Completed, were Refused or are still
	// under way.
	Requests  int     `json:"requests"`
	Completed int     `json:"completed"`
	Refused   Refused `json:"refused"`
	// SimulatedS is the virtual time from the first arrival to the last end,
	// WallS the time it took to compute, filled in by who measured it.
	SimulatedS float64 `json:"simulated_s"`
	WallS      float64 `json:"wall_s"`

	// Times are from arrival, the wait for admission included; percentiles
	// are nearest-rank. TPOT is the mean time per token after the first of one
	// request.
	TTFTP50 *float64 `json:"ttft_p50_ms"`
	TTFTP90 *float64 `json:"ttft_p90_ms"`
	TTFTP99 *float64 `json:"ttft_p99_ms"`
	TPOTP50 *float64 `json:"tpot_p50_ms"`
	TPOTP90 *float64 `json:"tpot_p90_ms"`
	E2EP50  *float64 `json:"e2e_p50_ms"`
	E2EP90  *float64 `json:"e2e_p90_ms"`

	// HitShare is cached ÷ all prompt tokens, as the engines counted.
	HitShare *float64 `json:"hit_share"`
	// Agreement is how well the policy's index knew what engines had cached.
	Agreement *float64 `json:"agreement"`

	// GoodputRPS is requests per second that kept the SLO, GoodShare their
	// share of all that arrived.
	GoodputRPS *float64 `json:"goodput_rps"`
	GoodShare  *float64 `json:"good_share"`

	// TenantFairness is Jain's index over the tenants' good shares, BandFairness
	// over those of bands: 1 is equal, 1/n is one of n has all. Nil for fewer
	// than two.
	TenantFairness *float64 `json:"tenant_fairness"`
	BandFairness   *float64 `json:"band_fairness"`
	Tenants        []Part   `json:"tenants,omitempty"`
	Bands          []Part   `json:"bands,omitempty"`

	// LoadFairness is Jain's index over the engines' busy time, LoadPeak the
	// busiest one's ÷ the mean.
	LoadFairness *float64     `json:"load_fairness"`
	LoadPeak     *float64     `json:"load_peak"`
	PerEngine    []EngineLoad `json:"per_engine"`
	Preemptions  int64        `json:"preemptions"`

	ttft []time.Duration // sorted
}

// Refused counts the requests that no engine got.
type Refused struct {
	TooLong   int `json:"too_long"`   // beyond the engines' context length
	QueueFull int `json:"queue_full"` // by admission, at once
	Expired   int `json:"expired"`    // by admission, after its queue_ttl
}

// Total is all that were refused.
func (r Refused) Total() int { return r.TooLong + r.QueueFull + r.Expired }

// Part is the requests of one tenant or band.
type Part struct {
	Name      string   `json:"name"`
	Completed int      `json:"completed"`
	Refused   int      `json:"refused"` // by admission
	Tokens    int64    `json:"tokens"`  // of what completed, prompt and output
	TTFTP50   *float64 `json:"ttft_p50_ms"`
	TTFTP90   *float64 `json:"ttft_p90_ms"`
	GoodShare *float64 `json:"good_share"`
}

// EngineLoad is one engine's part.
type EngineLoad struct {
	ID        string   `json:"id"`
	Requests  int      `json:"requests"`
	BusyShare float64  `json:"busy_share"` // of the simulated time
	HitShare  *float64 `json:"hit_share"`
}

// Agreement compares what an index predicted with what engines had.
type Agreement struct{ least, most int64 }

func (a *Agreement) add(predicted, real int) {
	a.least += int64(min(predicted, real))
	a.most += int64(max(predicted, real))
}

// Ratio is the tokens that both predicted and found ÷ those that either did;
// false if there were none.
func (a Agreement) Ratio() (float64, bool) {
	if a.most == 0 {
		return 0, false
	}
	return float64(a.least) / float64(a.most), true
}

// TTFT returns the q-th quantile of the time to the first token of all that
// completed, q in [0,1], by nearest rank; false if none did.
func (r *Report) TTFT(q float64) (time.Duration, bool) {
	if len(r.ttft) == 0 {
		return 0, false
	}
	return rank(r.ttft, q), true
}

// Report sums up what has happened until now.
func (t *Twin) Report() *Report {
	r := &Report{
		Policy: t.policy, Trace: t.trace.Name, Engines: len(t.cores), Seed: t.cfg.Seed,
		Requests: t.next, Completed: len(t.ended), Refused: t.refused, SimulatedS: t.now.Seconds(),
	}
	var tpot, e2e []time.Duration
	good := 0
	for _, o := range t.ended {
		r.ttft, e2e = append(r.ttft, o.ttft), append(e2e, o.e2e)
		if o.tpot > 0 {
			tpot = append(tpot, o.tpot)
		}
		if o.good {
			good++
		}
	}
	slices.Sort(r.ttft)
	slices.Sort(tpot)
	slices.Sort(e2e)
	r.TTFTP50, r.TTFTP90, r.TTFTP99 = millis(r.ttft, 0.5), millis(r.ttft, 0.9), millis(r.ttft, 0.99)
	r.TPOTP50, r.TPOTP90 = millis(tpot, 0.5), millis(tpot, 0.9)
	r.E2EP50, r.E2EP90 = millis(e2e, 0.5), millis(e2e, 0.9)
	r.GoodputRPS, r.GoodShare = ratio(float64(good), t.now.Seconds()), ratio(float64(good), float64(t.next))
	if v, ok := t.agreed.Ratio(); ok && t.index != nil {
		r.Agreement = &v
	}
	t.reportEngines(r)
	t.reportParts(r)
	return r
}

func (t *Twin) reportEngines(r *Report) {
	var cached, prompt int64
	var busy []float64
	for i, c := range t.cores {
		s := c.Stats()
		cached, prompt = cached+s.CachedPromptTokens, prompt+s.PromptTokens
		r.Preemptions += s.Preemptions
		e := EngineLoad{
			ID: t.pool[i].ID(), Requests: t.spent[i].requests,
			HitShare: ratio(float64(s.CachedPromptTokens), float64(s.PromptTokens)),
		}
		if t.now > 0 {
			e.BusyShare = t.spent[i].busy.Seconds() / t.now.Seconds()
		}
		busy = append(busy, t.spent[i].busy.Seconds())
		r.PerEngine = append(r.PerEngine, e)
	}
	r.HitShare = ratio(float64(cached), float64(prompt))
	r.LoadFairness = jain(busy)
	total := 0.0
	for _, b := range busy {
		total += b
	}
	r.LoadPeak = ratio(slices.Max(busy)*float64(len(busy)), total)
}

func (t *Twin) reportParts(r *Report) {
	if len(t.cfg.Tenants) == 0 {
		return
	}
	bandOf := make([]int, len(t.cfg.Tenants))
	var tenants, bands []string
	for i, tenant := range t.cfg.Tenants {
		band := tenant.Band
		if band == "" {
			band = t.cfg.Admission.DefaultBand
		}
		tenants = append(tenants, tenant.Name)
		if bandOf[i] = slices.Index(bands, band); bandOf[i] < 0 {
			bandOf[i] = len(bands)
			bands = append(bands, band)
		}
	}
	r.Tenants, r.TenantFairness = t.parts(tenants, func(tenant int32) int { return int(tenant) })
	r.Bands, r.BandFairness = t.parts(bands, func(tenant int32) int { return bandOf[tenant] })
}

// parts divides what has ended by what of gives for its tenant.
func (t *Twin) parts(names []string, of func(tenant int32) int) ([]Part, *float64) {
	parts, ttft, good := make([]Part, len(names)), make([][]time.Duration, len(names)), make([]int, len(names))
	for i, name := range names {
		parts[i].Name = name
	}
	for _, o := range t.ended {
		i := of(o.tenant)
		parts[i].Completed++
		parts[i].Tokens += int64(o.tokens)
		ttft[i] = append(ttft[i], o.ttft)
		if o.good {
			good[i]++
		}
	}
	for _, tenant := range t.denied {
		parts[of(tenant)].Refused++
	}
	var shares []float64
	for i := range parts {
		p := &parts[i]
		slices.Sort(ttft[i])
		p.TTFTP50, p.TTFTP90 = millis(ttft[i], 0.5), millis(ttft[i], 0.9)
		if p.GoodShare = ratio(float64(good[i]), float64(p.Completed+p.Refused)); p.GoodShare != nil {
			shares = append(shares, *p.GoodShare)
		}
	}
	return parts, jain(shares)
}

// jain is the fairness index of Jain, Chiu and Hawe (DEC TR-301, 1984): the
// square of the sum ÷ n times the sum of squares. Nil for fewer than two values
// or none above 0.
func jain(values []float64) *float64 {
	var total, squares float64
	for _, v := range values {
		total += v
		squares += v * v
	}
	if len(values) < 2 {
		return nil
	}
	return ratio(total*total, float64(len(values))*squares)
}

func ratio(a, b float64) *float64 {
	if b == 0 {
		return nil
	}
	return new(a / b)
}

// rank is the nearest-rank quantile of a sorted list that is not empty.
func rank(sorted []time.Duration, q float64) time.Duration {
	i := int(q*float64(len(sorted)) + 0.999999)
	return sorted[min(max(i, 1), len(sorted))-1]
}

func millis(sorted []time.Duration, q float64) *float64 {
	if len(sorted) == 0 {
		return nil
	}
	return new(float64(rank(sorted, q).Microseconds()) / 1000)
}
