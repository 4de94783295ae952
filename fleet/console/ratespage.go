package console

import (
	"cmp"
	"fmt"
	"html/template"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/llmgw/llmgw/auth/webui"
	"github.com/llmgw/llmgw/fleet/apipb/telling"
)

const (
	shortly = 10 * time.Second
	// mostColumns is how many columns a chart has: it says each twice, once as a table.
	mostColumns = 60
	// reload is how often a page loads itself again where that is asked for.
	reload = 10
)

// window is a stretch of time that a rate is over.
type window struct {
	label string
	span  time.Duration
}

func windows() []window { return []window{{"10 s", shortly}, {"1 min", time.Minute}} }

// rateRow is a model's rates.
type rateRow struct {
	Name     string
	Spark    template.HTML
	Ten, Min rate
	InFlight string
	Ended    uint64
}

// ratesView is all rates.
type ratesView struct {
	Windows []struct {
		Label string
		rate
	}
	Charts  []webui.Columns
	Models  []rateRow
	List    list
	Reach   string
	Reloads bool
	Reload  string // leads to the page that loads itself, or to that which does not
	Every   int
}

// rates shows how often requests end, and how, the most failures first.
func (c *Console) rates(w http.ResponseWriter, r *http.Request, _ webui.Visit) error {
	now := c.deps.Now()
	reading := c.deps.Traffic.Traffic()
	reloads := r.URL.Query().Get("reload") != ""
	var keep param
	if reloads {
		keep = param{"reload", "1"}
		w.Header().Set("Refresh", strconv.Itoa(reload))
	}
	l, page := asked(r, "models", keep)
	v := ratesView{Reach: telling.Lasting(c.cfg.History), Reloads: reloads, Every: reload}
	for _, win := range windows() {
		v.Windows = append(v.Windows, struct {
			Label string
			rate
		}{win.label, c.history.over(now, win.span, ofAll)})
	}
	course := c.history.course(ofAll)
	if chart := requestChart(course, "Requests that ended"); chart != nil {
		v.Charts = append(v.Charts, *chart)
	}
	if chart := tokenChart(course); chart != nil {
		v.Charts = append(v.Charts, *chart)
	}
	rows := make([]rateRow, 0, len(reading.Models))
	for i := range reading.Models {
		m := &reading.Models[i]
		row := rateRow{Name: m.Model, Ten: c.history.over(now, shortly, ofModel(m.Model)), Min: c.history.over(now, time.Minute, ofModel(m.Model)), InFlight: "-", Ended: m.Requests}
		if m.HasInFlight {
			row.InFlight = fmt.Sprint(m.InFlight)
		}
		rows = append(rows, row)
	}
	slices.SortFunc(rows, func(a, b rateRow) int {
		return cmp.Or(cmp.Compare(b.Min.Failed, a.Min.Failed), cmp.Compare(b.Min.Requests, a.Min.Requests), strings.Compare(a.Name, b.Name))
	})
	for _, row := range cut(&l, page, c.cfg.Rows, rows, func(b *strings.Builder, r rateRow) { words(b, r.Name) }) {
		row.Spark = spark(thinned(c.history.course(ofModel(row.Name))), func(r rate) float64 { return r.Requests }, "requests a second")
		v.Models = append(v.Models, row)
	}
	v.List = l
	v.Reload = l.link(param{"reload", "1"})
	if reloads {
		plain := l
		plain.Keep = nil
		v.Reload = plain.link()
	}
	return c.show(w, r, "rates.html", "Rates", nil, v)
}

// thinned leaves the newest points that a chart has room for, each of as many that
// follow each other as it takes for all to fit.
func thinned(course []point) []point {
	by := (len(course) + mostColumns - 1) / mostColumns
	if by <= 1 {
		return course
	}
	out := make([]point, 0, mostColumns)
	for i := len(course) % by; i+by <= len(course); i += by {
		sum := point{at: course[i+by-1].at}
		n := 0.0
		for _, p := range course[i : i+by] {
			if p.Known {
				n++
				sum.Known = true
				sum.Requests, sum.Failed, sum.Refused, sum.Tokens = sum.Requests+p.Requests, sum.Failed+p.Failed, sum.Refused+p.Refused, sum.Tokens+p.Tokens
				sum.HasTokens = sum.HasTokens || p.HasTokens
			}
		}
		if n > 0 {
			sum.Requests, sum.Failed, sum.Refused, sum.Tokens = sum.Requests/n, sum.Failed/n, sum.Refused/n, sum.Tokens/n
		}
		out = append(out, sum)
	}
	return out
}

// requestChart draws requests a second; nil: nothing is known of them yet.
func requestChart(course []point, title string) *webui.Columns {
	return chart(course, "requests", title, "Requests a second", perSecond, func(r rate) (float64, bool) { return r.Requests, r.Known })
}

// tokenChart draws tokens a second; nil: nobody counts any.
func tokenChart(course []point) *webui.Columns {
	return chart(course, "tokens", "Tokens that engines wrote", "Tokens a second", tokensPerSecond, func(r rate) (float64, bool) { return r.Tokens, r.Known && r.HasTokens })
}

func chart(course []point, id, title, head string, text func(rate) string, value func(rate) (float64, bool)) *webui.Columns {
	points := thinned(course)
	out := &webui.Columns{ID: id, Title: title, Head: [2]string{"Until (UTC)", head}}
	most, last, known := 0.0, "-", false
	for _, p := range points {
		v, ok := value(p.rate)
		col := webui.Point{Label: p.at.UTC().Format(time.TimeOnly), Value: -1, Text: "-"}
		if ok {
			known = true
			most = max(most, v)
			col.Value, col.Text = v, text(p.rate)
			last = col.Text
		}
		out.Points = append(out.Points, col)
	}
	if !known {
		return nil
	}
	out.Summary = fmt.Sprintf("%s: %s now, at most %s since %s UTC.", head, last, figure(most), out.Points[0].Label)
	return out
}

// figure writes a rate to what matters of it.
func figure(v float64) string {
	switch {
	case v == 0:
		return "0"
	case v < 0.01:
		return "<0.01"
	case v < 10:
		return strconv.FormatFloat(v, 'f', 2, 64)
	case v < 100:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return webui.Number(int64(v + 0.5))
}

func known(r rate, v float64) string {
	if !r.Known {
		return "-"
	}
	return figure(v)
}

func perSecond(r rate) string        { return known(r, r.Requests) }
func failedPerSecond(r rate) string  { return known(r, r.Failed) }
func refusedPerSecond(r rate) string { return known(r, r.Refused) }

func tokensPerSecond(r rate) string {
	if !r.HasTokens {
		return "-"
	}
	return known(r, r.Tokens)
}

// Requested, Failures, Refusals and Written are the rates as people read them.
func (r rate) Requested() string { return perSecond(r) }

// Failures are requests that got no whole answer, a second.
func (r rate) Failures() string { return failedPerSecond(r) }

// Refusals are requests that were turned away, a second.
func (r rate) Refusals() string { return refusedPerSecond(r) }

// Written are output tokens a second.
func (r rate) Written() string { return tokensPerSecond(r) }
