package console

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/llmgw/llmgw/auth/webui"
	"github.com/llmgw/llmgw/fleet/apipb"
	"github.com/llmgw/llmgw/fleet/apipb/telling"
)

// option is one of what a page can show.
type option struct {
	Label, Link string
	Current     bool
}

// usageView is what was used.
type usageView struct {
	Spans, By []option
	Coming    bool // sums are being added up
	Known     bool
	At        time.Time
	Stale     string // why they are older than they should be
	Cut       bool
	Total     used
	Charts    []webui.Columns
	ByTime    bool
	Hours     bool
	Rows      []used
	List      list
	Keys      string
}

// usage shows what was used, by time, by owner or by model.
func (c *Console) usage(w http.ResponseWriter, r *http.Request, _ webui.Visit) error {
	query := r.URL.Query()
	all := spans()
	p := all[0]
	for _, s := range all {
		if s.Name == query.Get("of") {
			p = s
		}
	}
	by := query.Get("by")
	if by != "owner" && by != "model" {
		by = "day"
	}
	what := by + "s"
	if by == "day" && p.grain == apipb.UsageGrain_USAGE_GRAIN_HOUR {
		what = "hours"
	}
	l, page := asked(r, what, param{"of", p.Name}, param{"by", by})
	v := usageView{ByTime: by == "day", Hours: p.grain == apipb.UsageGrain_USAGE_GRAIN_HOUR}
	for _, s := range all {
		v.Spans = append(v.Spans, option{s.Label, l.Path + "?of=" + s.Name + "&by=" + by, s.Name == p.Name})
	}
	for _, b := range []string{"day", "owner", "model"} {
		label := b
		if b == "day" && v.Hours {
			label = "hour"
		}
		v.By = append(v.By, option{"By " + label, l.Path + "?of=" + p.Name + "&by=" + b, b == by})
	}
	var missing []string
	a, coming := c.sums.get(r.Context(), p)
	v.Coming = coming
	if coming && a == nil {
		w.Header().Set("Refresh", "2")
	}
	if a != nil && a.err != nil {
		missing = append(missing, "usage could not be read: "+c.reason(r.Context(), "usage", a.err))
	}
	if a != nil && a.byTime != nil {
		v.fill(a, by)
		v.Rows = cut(&l, page, c.cfg.Rows, a.rows(by), func(b *strings.Builder, u used) { words(b, u.Name) })
	}
	v.List = l
	return c.show(w, r, "usage.html", "Usage", missing, v)
}

// rows are what a table shows of sums: of times the newest is first.
func (a *added) rows(by string) []used {
	switch by {
	case "owner":
		return a.byOwner
	case "model":
		return a.byModel
	}
	out := make([]used, 0, len(a.byTime))
	for _, u := range slices.Backward(a.byTime) {
		out = append(out, u)
	}
	return out
}

// fill is what is shown beside the table.
func (v *usageView) fill(a *added, by string) {
	v.Known, v.At, v.Cut, v.Total = true, a.at, a.cut, a.total
	if a.keys != nil {
		v.Keys = fmt.Sprintf("%d usable, %d expired, %d revoked", a.keys[apipb.KeyState_KEY_STATE_USABLE], a.keys[apipb.KeyState_KEY_STATE_EXPIRED], a.keys[apipb.KeyState_KEY_STATE_REVOKED])
		if other := a.keys[apipb.KeyState_KEY_STATE_UNSPECIFIED]; other > 0 {
			v.Keys += fmt.Sprintf(", %d of which that is not known", other)
		}
	}
	if by == "day" {
		v.Charts = []webui.Columns{
			usageChart(a, "u-requests", "Requests", func(u *used) int64 { return u.Requests }, webui.Number),
			usageChart(a, "u-tokens", "Tokens, read and written", func(u *used) int64 { return u.Input + u.Output }, webui.Number),
		}
		if a.total.Nanos > 0 {
			v.Charts = append(v.Charts, usageChart(a, "u-cost", "Cost", func(u *used) int64 { return u.Nanos }, webui.Amount))
		}
	}
}

func usageChart(a *added, id, title string, value func(*used) int64, text func(int64) string) webui.Columns {
	out := webui.Columns{ID: id, Title: title, Head: [2]string{"From (UTC)", title}, Summary: title + ": " + text(value(&a.total)) + " in all."}
	format := "01-02"
	if len(a.byTime) > 1 && a.byTime[1].At.Sub(a.byTime[0].At) < 24*time.Hour {
		format = "01-02 15:04"
	}
	for i := range a.byTime {
		u := &a.byTime[i]
		out.Points = append(out.Points, webui.Point{Label: u.At.UTC().Format(format), Value: float64(value(u)), Text: text(value(u))})
	}
	return out
}

// accountRow is somebody who signs in.
type accountRow struct {
	Address  string
	State    webui.Status
	Admin    bool
	Approved bool // now or ever; else it has no keys, nor a number that it may have
	Keys     uint32
	Allowed  uint32
	Created  time.Time
	SignedIn time.Time // zero: never
}

// accountsView is everybody who signs in.
type accountsView struct {
	States  []option
	Pending []accountRow // who waits for approval, on the first page
	More    bool         // more do
	Rows    []accountRow
	List    list
	Looked  int // how many were looked at for what is looked for
	Known   bool
	Next    string
}

const (
	// pageOfUsers is how many are asked for at once while one is looked for, and
	// mostLooked how many are looked at for one page.
	pageOfUsers = 500
	mostLooked  = 10_000
	// lookTime bounds looking: what was found until then is shown, with a link to go on.
	lookTime = 25 * time.Millisecond
)

// accounts shows who signs in: those who wait for approval first.
func (c *Console) accounts(w http.ResponseWriter, r *http.Request, _ webui.Visit) error {
	var missing []string
	query := r.URL.Query()
	state, named := apipb.UserState_USER_STATE_UNSPECIFIED, query.Get("state")
	states := []struct {
		name  string
		state apipb.UserState
	}{{"", state}, {"pending", apipb.UserState_USER_STATE_PENDING}, {"approved", apipb.UserState_USER_STATE_APPROVED}, {"suspended", apipb.UserState_USER_STATE_SUSPENDED}}
	found := false
	for _, s := range states {
		if s.name == named {
			state, found = s.state, true
		}
	}
	if !found {
		named = ""
	}
	l, _ := asked(r, "accounts", param{"state", named})
	l.Uncounted = true
	v := accountsView{}
	for _, s := range states {
		o := option{Label: s.name, Link: l.Path + "?state=" + s.name, Current: s.name == named}
		if s.name == "" {
			o = option{Label: "All", Link: l.Path, Current: named == ""}
		}
		v.States = append(v.States, o)
	}
	after := query.Get("after")
	if len(after) > 4*maxFilter {
		after = ""
	}
	if named == "" && l.Q == "" && after == "" {
		answer, ok := ask(r.Context(), c, &missing, "who waits for approval", c.deps.Users.ListUsers,
			&apipb.ListUsersRequest{State: apipb.UserState_USER_STATE_PENDING, PageSize: mostTroubles})
		if ok {
			for _, u := range answer.GetUsers() {
				v.Pending = append(v.Pending, accountOf(u))
			}
			v.More = answer.GetNextPageToken() != ""
		}
	}
	c.look(r, &v, &l, state, after, &missing)
	v.List = l
	return c.show(w, r, "accounts.html", "Accounts", missing, v)
}

// look reads accounts until a page is full of those that are looked for, all are read,
// or it has taken long enough.
func (c *Console) look(r *http.Request, v *accountsView, l *list, state apipb.UserState, after string, missing *[]string) {
	until := c.deps.Now().Add(lookTime)
	rows := uint32(c.cfg.Rows)
	size := rows
	needle := strings.ToLower(l.Q)
	for {
		answer, ok := ask(r.Context(), c, missing, "the accounts", c.deps.Users.ListUsers, &apipb.ListUsersRequest{State: state, PageToken: after, PageSize: size})
		if !ok {
			return
		}
		v.Known = true
		var found []accountRow
		for _, u := range answer.GetUsers() {
			if strings.Contains(strings.ToLower(u.GetAddress()), needle) {
				found = append(found, accountOf(u))
			}
		}
		if len(v.Rows)+len(found) > 2*c.cfg.Rows && size > rows {
			size = rows // a page goes on only where an answer ends: ask for less
			continue
		}
		v.Looked += len(answer.GetUsers())
		v.Rows = append(v.Rows, found...)
		after = answer.GetNextPageToken()
		if after == "" || l.Q == "" || len(v.Rows) >= c.cfg.Rows || v.Looked >= mostLooked || c.deps.Now().After(until) {
			break
		}
		size = pageOfUsers
	}
	if after != "" {
		v.Next = l.link(param{"after", after})
	}
}

func accountOf(u *apipb.User) accountRow {
	row := accountRow{Address: u.GetAddress(), Admin: u.GetAdmin(), Approved: u.GetApprovedAt() != nil, Keys: u.GetKeys(), Allowed: u.GetAllowance().GetKeys()}
	switch u.GetState() {
	case apipb.UserState_USER_STATE_PENDING:
		row.State = webui.Status{Kind: webui.Busy, Text: "pending"}
	case apipb.UserState_USER_STATE_APPROVED:
		row.State = webui.Status{Kind: webui.Good, Text: "approved"}
	case apipb.UserState_USER_STATE_SUSPENDED:
		row.State = webui.Status{Kind: webui.Warn, Text: "suspended"}
	case apipb.UserState_USER_STATE_UNSPECIFIED:
		row.State = webui.Status{Text: "not known"}
	}
	if u.GetCreatedAt() != nil {
		row.Created = u.GetCreatedAt().AsTime()
	}
	if u.GetSignedInAt() != nil {
		row.SignedIn = u.GetSignedInAt().AsTime()
	}
	return row
}

// elsewhereView is where operators find what is not here.
type elsewhereView struct{ Admin, Metrics string }

// elsewhere says where metrics and profiles are, and why they are not here.
func (c *Console) elsewhere(w http.ResponseWriter, r *http.Request, _ webui.Visit) error {
	e := c.deps.Extras.Elsewhere
	return c.show(w, r, "elsewhere.html", "Elsewhere", nil, elsewhereView{Admin: telling.OrDash(e.Admin), Metrics: telling.OrDash(e.Metrics)})
}
