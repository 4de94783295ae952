package portal

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/llmgw/llmgw/auth/account"
	"github.com/llmgw/llmgw/auth/limit"
	"github.com/llmgw/llmgw/auth/webui"
	"github.com/llmgw/llmgw/storage"
)

const (
	usageDays   = 30
	modelsShown = 20
)

// sums are what was used of something.
type sums struct {
	Name                            string
	Requests, Failed, Input, Output int64
	CostNanos                       int64
}

func (s *sums) add(r storage.Rollup) {
	s.Requests += r.Requests
	s.Failed += r.Failed
	s.Input += r.Input
	s.Output += r.Output
	s.CostNanos += r.CostNanos
}

type usagePage struct {
	Days                   int
	Total                  sums
	Requests, Tokens, Cost webui.Columns
	Priced                 bool // something cost something
	Models, Keys           []sums
	MoreModels, MoreKeys   int
	Budget                 *budgetView
	Limits                 []limitView
	Allowed                string
	KeyBar                 webui.Bar
}

type budgetView struct {
	Bar    *webui.Bar // nil: what is spent is not known
	Amount string
	Period string
	Ends   time.Time // zero: it does not begin anew
}

type limitView struct{ Label, Text string }

func (p *Portal) usage(w http.ResponseWriter, r *http.Request, v webui.Visit) error {
	who, err := visitorOf(v)
	if err != nil {
		return err
	}
	now := p.deps.Now().UTC()
	today := time.Date(now.Year(), now.Month(), now.Day(), 0, 0, 0, 0, time.UTC)
	var begin time.Time
	var rollups []storage.Rollup
	shown := 0
	for _, shown = range []int{usageDays, 7, 1} {
		begin = today.AddDate(0, 0, 1-shown)
		rollups, err = p.deps.Accounts.Usage(r.Context(), who, begin, today.AddDate(0, 0, 1), storage.GrainDay)
		if !errors.Is(err, account.ErrInvalid) {
			break // else there is too much to add up at once
		}
	}
	if err != nil {
		return unavailable(err)
	}
	keys, err := p.deps.Accounts.Keys(r.Context(), who)
	if err != nil {
		return unavailable(err)
	}
	names := make(map[string]string, len(keys))
	usable := 0
	for i := range keys {
		k := &keys[i]
		names[k.ID] = cmp.Or(k.Name, k.Hint)
		if k.Usable(now) {
			usable++
		}
	}
	data := usagePage{Days: shown, Allowed: clip(modelText(who.Account.Allowance.Models), mostTyped), Limits: limits(who.Account.Allowance.Limits)}
	data.KeyBar = webui.Bar{Label: "Keys", Used: float64(usable), Of: float64(who.Account.Allowance.Keys), Text: fmt.Sprintf("%d of %d", usable, who.Account.Allowance.Keys)}
	days := make([]sums, shown)
	byModel, byKey := make(map[string]*sums), make(map[string]*sums)
	for _, u := range rollups {
		day := int(u.Start.Sub(begin) / (24 * time.Hour))
		if u.Start.Before(begin) || day >= shown {
			continue
		}
		days[day].add(u)
		data.Total.add(u)
		in(byModel, cmp.Or(u.Model, "unknown")).add(u)
		of := in(byKey, u.KeyID) // two keys may have one name
		of.Name = cmp.Or(names[u.KeyID], u.KeyID)
		of.add(u)
	}
	data.Priced = data.Total.CostNanos > 0
	data.Models, data.MoreModels = most(byModel)
	data.Keys, data.MoreKeys = most(byKey)
	data.Requests = columns("requests", "Requests a day", "Requests", begin, days, func(s sums) (float64, string) { return float64(s.Requests), webui.Number(s.Requests) })
	data.Tokens = columns("tokens", "Tokens a day", "Tokens", begin, days, func(s sums) (float64, string) {
		return float64(s.Input) + float64(s.Output), webui.Number(s.Input + s.Output)
	})
	data.Cost = columns("cost", "Cost a day", "Cost", begin, days, func(s sums) (float64, string) { return float64(s.CostNanos), webui.Amount(s.CostNanos) })
	if data.Budget, err = p.budget(r, who, now); err != nil {
		return unavailable(err)
	}
	return p.page(w, r, http.StatusOK, "Your usage", "usage.html", data)
}

func in(m map[string]*sums, name string) *sums {
	s := m[name]
	if s == nil {
		s = &sums{Name: name}
		m[name] = s
	}
	return s
}

// most returns those of which most was used, and how many are left out.
func most(m map[string]*sums) (list []sums, more int) {
	for _, s := range m {
		s.Name = clip(s.Name, mostList)
		list = append(list, *s)
	}
	slices.SortFunc(list, func(a, b sums) int {
		return cmp.Or(cmp.Compare(b.CostNanos, a.CostNanos), cmp.Compare(b.Requests, a.Requests), cmp.Compare(a.Name, b.Name))
	})
	more = max(0, len(list)-modelsShown)
	return list[:len(list)-more], more
}

// columns makes the chart of one number of every day.
func columns(id, title, head string, begin time.Time, days []sums, of func(sums) (float64, string)) webui.Columns {
	c := webui.Columns{ID: id, Title: title, Head: [2]string{"Day", head}}
	var highest webui.Point
	for i, day := range days {
		value, text := of(day)
		point := webui.Point{Label: begin.AddDate(0, 0, i).Format("2 Jan"), Value: value, Text: text}
		c.Points = append(c.Points, point)
		if value > highest.Value {
			highest = point
		}
	}
	c.Summary = "Nothing in these days."
	if highest.Value > 0 {
		c.Summary = "Most on " + highest.Label + ": " + highest.Text + "."
	}
	return c
}

// limits lists what bounds an account's keys together.
func limits(l storage.Limits) []limitView {
	var list []limitView
	for _, one := range []struct {
		label string
		v     *int64
	}{{"Requests a minute", l.RequestsPerMinute}, {"Tokens a minute", l.TokensPerMinute}, {"Requests at once", l.Concurrency}} {
		text := "no limit"
		if one.v != nil {
			text = webui.Number(*one.v)
		}
		list = append(list, limitView{one.label, text})
	}
	return list
}

// budget says where the account's budget stands; nil if there is none.
func (p *Portal) budget(r *http.Request, who *account.Visitor, now time.Time) (*budgetView, error) {
	b := who.Account.Allowance.Budget
	if b == nil {
		return nil, nil //nolint:nilnil // no budget is no bound
	}
	view := &budgetView{Amount: webui.Amount(b.Nanos), Period: periodText(b.Period)}
	bounded, err := p.zones.NewBudget(b.Nanos, limit.Period(b.Period), b.Zone)
	if err != nil {
		// This machine does not know its time zone, so it cannot say when it began.
		return view, nil //nolint:nilerr // the page says that it is not known
	}
	var start time.Time
	start, view.Ends = bounded.Around(now)
	if p.deps.Budgets == nil {
		return view, nil
	}
	state, err := p.deps.Budgets.Budget(r.Context(), storage.BudgetPeriod{KeyID: who.Account.ID, Period: b.Period, Start: start})
	if err != nil {
		return nil, err
	}
	view.Bar = &webui.Bar{Label: "Budget", Used: float64(state.SpentNanos), Of: float64(b.Nanos), Text: webui.Amount(state.SpentNanos) + " of " + view.Amount}
	return view, nil
}

func periodText(p storage.Period) string {
	switch p {
	case storage.PeriodDay:
		return "a day"
	case storage.PeriodWeek:
		return "a week"
	case storage.PeriodMonth:
		return "a month"
	default:
		return "in all"
	}
}
