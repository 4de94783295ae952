package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/llmgw/llmgw/storage"
)

// evidence is what is known after a run, from everybody who knows something.
type evidence struct {
	accounts []*account
	calls    []call              // of the clients
	rows     []storage.Usage     // of the store
	truths   map[string]truth    // of the engine
	budgets  map[string]standing // of the store, by key ID
	// bufferFor is how long a row may wait in a process that is about to be killed:
	// the flush interval, and what a write may take.
	bufferFor time.Duration
	// redisDown is when Redis was killed, ratesUntil when all routers were, who then
	// begin with empty windows, too. Zero: they were not.
	redisDown, ratesUntil time.Time
	darkness              []darkness
}

// darkness is a time in which the store was away.
type darkness struct {
	from, to time.Time
	// known says that all routers knew all keys before; else they knew none.
	known bool
}

// standing is where a budget stands after all routers have ended.
type standing struct {
	storage.BudgetState
	grants []storage.Grant // not given back
	most   int64           // that was granted at any time
}

// verdict is the figures, and what should not be.
type verdict struct {
	problems []string
	// Of all calls.
	calls, answered, unanswered int
	rows                        int
	lost                        int           // whole answers without a row, of killed processes
	oldest                      time.Duration // of the lost, at its process's end
	nameless                    int           // rows of requests of which no client knows the ID
	dark, blind                 int           // answered without the store, by routers that knew the keys and by those that did not
	codes                       map[string]int
	budgets                     []spending
	windows                     []window
}

// spending is what became of one budget.
type spending struct {
	name                 string
	limit, granted, rows int64 // 10^-9
	truth                int64 // what the engine did for it
	lost                 int64 // of that, without a row
	stranded             int64 // granted to killed routers and not spent
	killed               int   // routers that took something along
	refused              int   // requests, as the budget was spent
	bound                int64 // of stranded, for each of the killed
}

// window is the most that a rate let through in a minute.
type window struct {
	name       string
	limit      int64
	before, at int64 // before Redis was killed, and before all routers were
}

func (v *verdict) problem(format string, args ...any) {
	v.problems = append(v.problems, fmt.Sprintf(format, args...))
}

// judge looks for what was promised and is not so.
func judge(e *evidence) *verdict {
	v := &verdict{rows: len(e.rows), codes: map[string]int{}}
	v.judgeRows(e)
	v.judgeDarkness(e)
	for _, a := range e.accounts {
		if a.budget > 0 {
			v.judgeBudget(e, a)
		}
		if a.requests > 0 || a.tokens > 0 {
			v.judgeRate(e, a)
		}
	}
	return v
}

// judgeRows looks whether each request has one row.
func (v *verdict) judgeRows(e *evidence) {
	byID := make(map[string]int, len(e.rows))
	for _, r := range e.rows {
		id := askedAs(&r)
		byID[id]++
	}
	unknown := 0 // requests of which nobody told their client the name
	for _, c := range e.calls {
		v.calls++
		id := cmp.Or(c.chosen, c.told)
		n := byID[id]
		delete(byID, id)
		switch {
		case c.status == 0:
			v.unanswered++
			v.codes["none"]++
		default:
			v.answered++
			v.codes[strings.TrimSuffix(fmt.Sprintf("%d %s", c.status, c.code), " ")]++
		}
		if c.status == 401 {
			v.problem("%s was told that its key is none", c.account.name)
		}
		if id == "" {
			unknown++
			continue
		}
		if n > 1 {
			v.problem("request %s has %d rows", id, n)
		}
		// Whose key nobody knew is nobody's request.
		if n == 1 || !c.whole || c.code == "keys_unavailable" {
			continue
		}
		v.lost++
		killed := c.router.killed.Load()
		if killed == nil {
			v.problem("request %s was answered (%d) by a router that was not killed, and has no row", id, c.status)
			continue
		}
		age := killed.Sub(c.end)
		v.oldest = max(v.oldest, age)
		if age > e.bufferFor {
			v.problem("request %s was answered %v before its router was killed, and has no row", id, age)
		}
	}
	for id, n := range byID {
		v.nameless += n
		if n > 1 {
			v.problem("request %s has %d rows", id, n)
		}
	}
	if v.nameless > unknown {
		v.problem("%d rows are of no request: %d were sent of which no client knows the ID", v.nameless, unknown)
	}
}

// judgeDarkness looks at what was answered without the store: to keys that are known
// everything but what needs more of a budget, to others that nobody knows.
func (v *verdict) judgeDarkness(e *evidence) {
	for _, d := range e.darkness {
		for _, c := range e.calls {
			if c.begin.Before(d.from) || c.end.After(d.to) || c.status == 0 {
				continue
			}
			switch unknown := c.code == "keys_unavailable"; {
			case d.known && unknown:
				v.problem("%s was not known while the store was away, and had been", c.account.name)
			case d.known:
				v.dark++
			case !unknown:
				v.problem("%s was told %d %s by a router that was started without its store", c.account.name, c.status, c.code)
			default:
				v.blind++
			}
		}
	}
}

func (v *verdict) judgeBudget(e *evidence, a *account) {
	at := e.budgets[a.id]
	s := spending{name: a.name, limit: a.budget, granted: at.GrantedNanos}
	kept := map[string]bool{}
	for _, r := range e.rows {
		if r.Charged != nil && *r.Charged == a.period() {
			s.rows += *r.CostNanos
			id := askedAs(&r)
			kept[id] = true
		}
	}
	for id, t := range e.truths {
		if t.key == a.name {
			s.truth += t.tokens * price
			if !kept[id] {
				s.lost += t.tokens * price
			}
		}
	}
	for _, c := range e.calls {
		if c.account == a && c.code == "insufficient_quota" {
			s.refused++
		}
	}
	holders := map[string]bool{}
	for _, g := range at.grants {
		holders[g.Router] = true
	}
	s.killed = len(holders)
	s.stranded = s.granted - s.rows - s.lost
	// Up to twice what is asked for ahead, and what its requests could have cost.
	s.bound = 2*a.budget/100 + int64(a.workers)*worst
	v.budgets = append(v.budgets, s)
	if at.most > a.budget || s.granted > a.budget {
		v.problem("%s: %d were granted of %d", a.name, max(at.most, s.granted), a.budget)
	}
	if s.rows > a.budget {
		v.problem("%s: the rows cost %d, of a budget of %d", a.name, s.rows, a.budget)
	}
	if s.rows != at.SpentNanos {
		v.problem("%s: the rows cost %d, and the store has %d as spent", a.name, s.rows, at.SpentNanos)
	}
	if s.truth > a.budget {
		v.problem("%s: the engine did work for %d, of a budget of %d", a.name, s.truth, a.budget)
	}
	if s.rows+s.lost > s.granted {
		v.problem("%s: %d were spent and %d granted", a.name, s.rows+s.lost, s.granted)
	}
	if s.stranded > int64(s.killed)*s.bound {
		v.problem("%s: %d are stranded with %d killed routers, more than %d each", a.name, s.stranded, s.killed, s.bound)
	}
}

// minute is the window that is looked at. The limiter's has seconds of the clock,
// and a request comes to the engine a little after it was counted.
const minute = 58 * time.Second

func (v *verdict) judgeRate(e *evidence, a *account) {
	type pass struct {
		at time.Time
		n  int64
	}
	var all []pass
	for _, t := range e.truths {
		if t.key == a.name && (e.ratesUntil.IsZero() || t.at.Before(e.ratesUntil)) {
			n := int64(1)
			if a.tokens > 0 {
				n = t.tokens
			}
			all = append(all, pass{t.at, n})
		}
	}
	slices.SortFunc(all, func(a, b pass) int { return a.at.Compare(b.at) })
	w := window{name: a.name, limit: max(a.requests, a.tokens)}
	first, sum := 0, int64(0)
	for _, p := range all {
		for sum += p.n; p.at.Sub(all[first].at) >= minute; first++ {
			sum -= all[first].n
		}
		w.at = max(w.at, sum)
		if e.redisDown.IsZero() || p.at.Before(e.redisDown) {
			w.before = w.at
		}
	}
	v.windows = append(v.windows, w)
	if w.before > w.limit {
		v.problem("%s: %d passed in a minute, of %d, and Redis was there", a.name, w.before, w.limit)
	}
	if w.at > 2*w.limit {
		v.problem("%s: %d passed in a minute, of %d: more than twice as many", a.name, w.at, w.limit)
	}
}

// askedAs is the ID that the request of a row had: the client's, if it chose one,
// stands behind one of the router's own and a point.
func askedAs(r *storage.Usage) string {
	if _, chosen, ok := strings.Cut(r.RequestID, "."); ok {
		return chosen
	}
	return r.RequestID
}
