package scaling

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"
)

// Report is what came of a run. What cannot be said, such as a share of nothing, is
// nil.
type Report struct {
	Policy Policy  `json:"policy"`
	Rates  string  `json:"rates"`
	Seed   uint64  `json:"seed"`
	Cards  int     `json:"cards"`
	FromS  float64 `json:"from_s"`
	Hours  float64 `json:"hours"`
	WallS  float64 `json:"wall_s"` // filled in by who measured it

	// Requests came; of these Served were answered whole, Good of them with their first
	// token in time, counted from the first try. Lost had no answer after all tries, Cut
	// were at an engine as it was ended. Refusals are the tries that were refused and
	// after which the client came again.
	Requests int `json:"requests"`
	Served   int `json:"served"`
	Good     int `json:"good"`
	Lost     int `json:"lost"`
	Cut      int `json:"cut"`
	Refusals int `json:"refusals"`
	// GoodShare is Good ÷ Requests. LeastGoodShare is that of the model that has the
	// least, LeastGoodModel; of those that were asked for at all.
	GoodShare      *float64 `json:"good_share"`
	LeastGoodShare *float64 `json:"least_good_share"`
	LeastGoodModel string   `json:"least_good_model,omitempty"`

	TTFTP50 *float64 `json:"ttft_p50_ms"`
	TTFTP90 *float64 `json:"ttft_p90_ms"`
	TTFTP99 *float64 `json:"ttft_p99_ms"`

	// CardHours is the time that engines had cards, from their start to their end,
	// PeakCards the most at once.
	CardHours float64 `json:"card_hours"`
	PeakCards int     `json:"peak_cards"`
	// Loads are engines that were started, LoadsPerHour as many an hour. Thrashed are
	// those that were started again soon after they had to make room.
	Loads        int     `json:"loads"`
	LoadsPerHour float64 `json:"loads_per_hour"`
	Thrashed     int     `json:"thrashed"`
	// Decisions is how often another number of replicas was wanted.
	Decisions int `json:"decisions"`

	Models []ModelReport `json:"models"`
}

// ModelReport is one model's part.
type ModelReport struct {
	Name      string   `json:"name"`
	Requests  int      `json:"requests"`
	Served    int      `json:"served"`
	Good      int      `json:"good"`
	Lost      int      `json:"lost"`
	GoodShare *float64 `json:"good_share"`
	CardHours float64  `json:"card_hours"`
	Loads     int      `json:"loads"`
}

// Report sums up what has happened until now.
func (t *Twin) Report() *Report {
	r := &Report{
		Policy: t.policy, Rates: t.rates, Seed: t.cfg.Seed, Cards: t.cfg.Nodes * t.cfg.CardsPerNode, FromS: t.cfg.From.Seconds(),
		Hours: min(max(t.now, 0), t.cfg.Duration).Hours(), Served: len(t.done), Cut: t.cut, PeakCards: t.peak,
	}
	for i := range t.models {
		m := &t.models[i]
		r.Models = append(r.Models, ModelReport{Name: m.Name, Requests: m.requests, Lost: m.lost, CardHours: m.cardTime.Hours(), Loads: m.loads})
		r.Requests, r.Lost, r.Refusals = r.Requests+m.requests, r.Lost+m.lost, r.Refusals+m.refusals
		r.CardHours, r.Loads, r.Thrashed = r.CardHours+m.cardTime.Hours(), r.Loads+m.loads, r.Thrashed+m.thrashed
	}
	ttft := make([]time.Duration, 0, len(t.done))
	for _, o := range t.done {
		ttft = append(ttft, o.ttft)
		m := &r.Models[o.model]
		m.Served++
		if o.ttft <= t.cfg.TTFT {
			m.Good++
			r.Good++
		}
	}
	for i := range r.Models {
		m := &r.Models[i]
		if m.GoodShare = ratio(m.Good, m.Requests); m.GoodShare != nil && (r.LeastGoodShare == nil || *m.GoodShare < *r.LeastGoodShare) {
			r.LeastGoodShare, r.LeastGoodModel = m.GoodShare, m.Name
		}
	}
	for _, d := range t.decisions {
		if d.At >= 0 {
			r.Decisions++
		}
	}
	slices.Sort(ttft)
	r.TTFTP50, r.TTFTP90, r.TTFTP99 = millis(ttft, 0.5), millis(ttft, 0.9), millis(ttft, 0.99)
	r.GoodShare = ratio(r.Good, r.Requests)
	if r.Hours > 0 {
		r.LoadsPerHour = float64(r.Loads) / r.Hours
	}
	return r
}

func ratio(a, b int) *float64 {
	if b == 0 {
		return nil
	}
	return new(float64(a) / float64(b))
}

// millis is the nearest-rank quantile of a sorted list.
func millis(sorted []time.Duration, q float64) *float64 {
	if len(sorted) == 0 {
		return nil
	}
	i := int(q*float64(len(sorted)) + 0.999999)
	return new(float64(sorted[min(max(i, 1), len(sorted))-1].Microseconds()) / 1000)
}

// WriteText prints the reports of one time as a table, a policy a line, each held
// against the first, and a second table of the models. What is not known is a dash.
// Errors are those of w.
func WriteText(w io.Writer, reports []*Report) error {
	if len(reports) == 0 {
		return nil
	}
	first := reports[0]
	if _, err := fmt.Fprintf(w, "%s from %v: %d requests in %.3g h, %d models, %d cards, seed %d\n\n", first.Rates,
		time.Duration(first.FromS*float64(time.Second)), first.Requests, first.Hours, len(first.Models), first.Cards, first.Seed); err != nil {
		return err
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "policy\tgood\tof the first\tserved\tlost\trefusals\tTTFT p50\tp90\tp99\tcard-hours\tof the first\tpeak cards\tloads/h\tleast good\twall")
	for _, r := range reports {
		fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%d\t%d\t%s\t%s\t%s\t%.1f\t%s\t%d\t%.2f\t%s %s\t%.1fs\n", r.Policy, share(r.GoodShare), share(ratio(r.Good, first.Good)),
			r.Served, r.Lost, r.Refusals, span(r.TTFTP50), span(r.TTFTP90), span(r.TTFTP99), r.CardHours, share(over(r.CardHours, first.CardHours)), r.PeakCards,
			r.LoadsPerHour, share(r.LeastGoodShare), r.LeastGoodModel, r.WallS)
	}
	fmt.Fprint(t, "\nmodel\trequests")
	for _, r := range reports {
		fmt.Fprintf(t, "\t%s: good\tcard-hours\tloads", r.Policy)
	}
	fmt.Fprintln(t)
	for i, m := range first.Models {
		fmt.Fprintf(t, "%s\t%d", m.Name, m.Requests)
		for _, r := range reports {
			fmt.Fprintf(t, "\t%s\t%.1f\t%d", share(r.Models[i].GoodShare), r.Models[i].CardHours, r.Models[i].Loads)
		}
		fmt.Fprintln(t)
	}
	return t.Flush()
}

func over(a, b float64) *float64 {
	if b == 0 {
		return nil
	}
	return new(a / b)
}

func share(v *float64) string {
	if v == nil {
		return "-"
	}
	return fmt.Sprintf("%.1f %%", 100**v)
}

func span(ms *float64) string {
	switch {
	case ms == nil:
		return "-"
	case *ms < 1000:
		return fmt.Sprintf("%.0fms", *ms)
	}
	return time.Duration(*ms * float64(time.Millisecond)).Round(10 * time.Millisecond).String()
}
