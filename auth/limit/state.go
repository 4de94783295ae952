package limit

import "time"

// State is where a subject stands: exactly what the next request is checked
// against.
type State struct {
	Rates Rates
	// Debt is what was used beyond estimates and has not found room in the
	// window of tokens. No request passes while there is any.
	Debt int64
	// Inflight is how many requests are under way, of Concurrency; which is 0 if
	// that is not bounded.
	Inflight, Concurrency int64
	// Budget is nil if there is none.
	Budget *BudgetState
}

// BudgetState is where a budget stands.
type BudgetState struct {
	ID  BudgetID
	End time.Time // of the period; zero: never
	// LimitNanos is the budget.
	LimitNanos int64
	// Known says that this limiter has asked what it may spend. The next fields
	// mean nothing before that.
	Known bool
	// Whole says that this limiter alone spends of the budget. Otherwise others
	// may, and SpentNanos is of this one.
	Whole bool
	// SpentNanos is what was spent in the period, ReservedNanos what requests
	// under way may cost at most.
	SpentNanos, ReservedNanos int64
	// FreeNanos is what may be reserved at once: of what is left, if Whole, else
	// of the slices at hand. It is negative after something cost more than was
	// reserved for it.
	FreeNanos int64
}

// State returns where a subject stands, and takes nothing.
func (l *Limiter) State(now time.Time, s *Subject) State {
	sh := l.shard(s.ID)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	var copied subject
	if sub := sh.subjects[s.ID]; sub != nil {
		copied = *sub
	}
	st := State{Inflight: copied.inflight, Concurrency: s.Limits.Concurrency}
	if copied.window != nil {
		w := *copied.window
		w.tokenLimit = s.Limits.TokensPerMinute
		w.advance(l.clock(now))
		copied.window = &w
		st.Debt = w.debt
	}
	st.Rates = copied.rates(now, s.Limits)
	if !s.Budget.Bounded() {
		return st
	}
	b := &BudgetState{LimitNanos: s.Budget.Nanos, FreeNanos: s.Budget.Nanos}
	st.Budget = b
	for _, g := range copied.ledgers {
		if !g.shape.sameShape(s.Budget) || !g.holds(now) || (!g.whole && s.Budget.Nanos < g.shape.Nanos) {
			continue
		}
		b.ID, b.End, b.Whole = g.id, g.end, g.whole
		b.Known = g.whole || len(g.slices) > 0 || g.closed > 0 || g.tooMuch > 0
		b.SpentNanos, b.ReservedNanos, b.FreeNanos = g.before+g.closed+g.spent, g.reserved, g.free(s.Budget.Nanos)
		return st
	}
	start, end := s.Budget.Around(now)
	b.ID, b.End = BudgetID{Subject: s.ID, Period: s.Budget.Period, Start: start}, end
	if b.Known = l.deps.Source == nil; !b.Known {
		b.FreeNanos = 0
	}
	return st
}
