package limit

import "time"

// ledger counts what is spent of one period of a budget. All of it is guarded by
// its shard's lock.
type ledger struct {
	id    BudgetID
	shape Budget    // Nanos is the limit as it was used last
	end   time.Time // zero: never

	// What may be spent. If whole, the limit less what was spent before; else the
	// slices, which are spent in the order in which they came.
	whole    bool
	before   int64
	slices   []slice
	granted  int64 // sum of slices
	spent    int64 // if whole, all of this process; else of slices, and what was beyond them
	closed   int64 // spent of slices that were given back
	reserved int64

	// retired ledgers reserve nothing more. Their slices are given back once
	// nothing is reserved.
	retired bool
	used    time.Time // last reserved or settled

	asking  *flight   // nil if nobody is asked
	waiting int64     // what those need who wait for it, or just have
	claimed int64     // what those need who have just been answered
	unsure  string    // GrantID of an Ask without an answer; empty if there is none
	pause   time.Time // nobody is asked before
	failed  error     // why there is a pause
	// tooMuch was refused as more than is left, which holds until spentUntil.
	tooMuch    int64
	spentUntil time.Time
	// scarceUntil: the end of the budget is near. No more is asked for than one
	// request needs, so that the last of it can be had by whoever asks.
	scarceUntil time.Time

	pace pace
}

// slice is a part of a budget that this limiter may spend.
type slice struct {
	id    string
	nanos int64
}

// pace is what was spent lately: in the running span and in the one before it.
type pace struct {
	begin         time.Time
	running, last int64
}

func (p *pace) add(now time.Time, span time.Duration, n int64) {
	p.turn(now, span)
	p.running = add(p.running, n)
}

func (p *pace) turn(now time.Time, span time.Duration) {
	switch d := now.Sub(p.begin); {
	case d >= 0 && d < span:
		return
	case d >= span && d < 2*span:
		p.last = p.running
	default:
		p.last = 0
	}
	p.begin, p.running = now, 0
}

func (p *pace) lately(now time.Time, span time.Duration) int64 {
	p.turn(now, span)
	return max(p.running, p.last)
}

// holds reports whether the ledger's period holds a time. One who was slower to
// the lock than another at midnight goes with the new day.
func (g *ledger) holds(now time.Time) bool {
	return (g.id.Period == PeriodTotal || now.Add(time.Duration(slack)).After(g.id.Start)) && (g.end.IsZero() || now.Before(g.end))
}

// free is what may be reserved. It is negative after something cost more than
// its reservation.
func (g *ledger) free(limit int64) int64 {
	if g.whole {
		return limit - g.before - g.spent - g.reserved
	}
	// What others spend is not known here; but a limit that was lowered below
	// what was spent here alone is.
	return min(g.granted, limit-g.closed) - g.spent - g.reserved
}

// check reports whether cost can be reserved. short says that a slice must be
// asked for first. waited is what the request has waited for, if it has. Who has
// not takes nothing that others have waited for. Who was told that there is not
// enough does not ask again.
func (g *ledger) check(now time.Time, limit, cost int64, waited *flight) (short bool, refusal *LimitedError) {
	free := g.free(limit) - g.claimed
	queue := int64(0)
	if waited == nil && !g.whole && g.asking == nil {
		queue = g.waiting
	}
	if cost == 0 || cost <= free-queue {
		// What costs nothing passes: no budget is touched by it.
		return false, nil
	}
	switch {
	case cost > limit, g.whole, limit-g.closed-g.spent-g.reserved-g.claimed < cost:
	case waited != nil && waited.spent && cost >= waited.cost:
	case g.tooMuch > 0 && cost-free >= g.tooMuch && now.Before(g.spentUntil):
	default:
		return true, nil
	}
	e := &LimitedError{Reason: ReasonBudget, Limit: limit, Need: cost, Remaining: max(0, free)}
	if cost <= free+g.reserved+g.claimed {
		e.Reason, e.RetryAfter = ReasonBudgetHeld, time.Second
	}
	if !g.end.IsZero() {
		e.Reset = g.end.Sub(now)
	}
	return false, e
}

func (g *ledger) reserve(now time.Time, cost int64) {
	g.reserved += cost
	g.used = now
}

// settle turns what was reserved into what was spent.
func (g *ledger) settle(now time.Time, span time.Duration, reserved, cost int64) {
	g.reserved -= reserved
	g.spent = min(add(g.spent, cost), mostSpent)
	g.used = now
	if !g.whole {
		g.pace.add(now, span, cost)
	}
}

// extra is how much more than needed should be at hand, by what was spent
// lately; little of a small rest.
func (g *ledger) extra(now time.Time, cfg *Config) int64 {
	if g.retired || now.Before(g.scarceUntil) {
		return 0
	}
	left := max(0, g.shape.Nanos-g.closed-g.granted)
	return min(left/cfg.SliceParts, g.pace.lately(now, cfg.SliceLasts))
}

// grant adds a slice.
func (g *ledger) grant(id string, nanos int64) {
	g.slices = append(g.slices, slice{id, nanos})
	g.granted += nanos
}

// usedUp gives back the slices of which nothing is left.
func (g *ledger) usedUp(now time.Time, to []Return) []Return {
	for len(g.slices) > 0 && g.spent >= g.slices[0].nanos {
		first := g.slices[0]
		g.slices = g.slices[1:]
		g.spent -= first.nanos
		g.granted -= first.nanos
		g.closed += first.nanos
		to = append(to, Return{GrantID: first.id, Budget: g.id, At: now})
	}
	return to
}

// giveBack gives back the newest slices of which nothing is spent or reserved,
// as long as keep stays free.
func (g *ledger) giveBack(now time.Time, keep int64, to []Return) []Return {
	for len(g.slices) > 0 {
		newest := g.slices[len(g.slices)-1]
		if g.granted-g.spent-g.reserved-newest.nanos < keep {
			return to
		}
		g.slices = g.slices[:len(g.slices)-1]
		g.granted -= newest.nanos
		to = append(to, Return{GrantID: newest.id, Budget: g.id, UnspentNanos: newest.nanos, At: now})
	}
	return to
}

// giveAllBack gives back all slices with what is left of them. Nothing is
// reserved.
func (g *ledger) giveAllBack(now time.Time, to []Return) []Return {
	to = g.giveBack(now, 0, g.usedUp(now, to))
	// At most one is left, of which something is spent.
	for _, s := range g.slices {
		to = append(to, Return{GrantID: s.id, Budget: g.id, UnspentNanos: s.nanos - g.spent, At: now})
		g.closed += g.spent
		g.granted -= s.nanos
		g.spent = 0
	}
	g.slices = nil
	return to
}

// tidy gives back what is done with.
func (g *ledger) tidy(now time.Time, to []Return) []Return {
	if len(g.slices) == 0 {
		return to
	}
	if g.retired && g.reserved == 0 {
		return g.giveAllBack(now, to)
	}
	return g.usedUp(now, to)
}

// ledger returns the ledger of the subject's budget at now.
func (l *Limiter) ledger(sh *shard, sub *subject, now time.Time, s *Subject) *ledger {
	for i, g := range sub.ledgers {
		if !g.shape.sameShape(s.Budget) || !g.holds(now) {
			continue
		}
		if s.Budget.Nanos < g.shape.Nanos && !g.whole {
			// Slices of the larger budget are not to be spent: they go back, and
			// what the smaller one still has is asked for.
			break
		}
		if i > 0 {
			sub.ledgers[0], sub.ledgers[i] = g, sub.ledgers[0]
			sh.retire(sub, now)
		}
		if s.Budget.Nanos > g.shape.Nanos {
			g.tooMuch, g.scarceUntil = 0, time.Time{}
		}
		g.shape.Nanos = s.Budget.Nanos
		return g
	}
	start, end := s.Budget.Around(now)
	g := &ledger{id: BudgetID{Subject: s.ID, Period: s.Budget.Period, Start: start}, shape: s.Budget, end: end}
	// Nobody else spent of it before now if it began while this limiter was alone
	// with the budget.
	g.whole = l.deps.Source == nil || (!sub.alone.IsZero() && s.Budget.Period != PeriodTotal && !start.Before(sub.alone))
	sub.ledgers = append([]*ledger{g}, sub.ledgers...)
	sh.retire(sub, now)
	return g
}

// retire retires ledgers but the first, and one more of those that are whole.
// Nothing is given back of these, so one can be gone on with if the clock is
// set back.
func (sh *shard) retire(sub *subject, now time.Time) {
	kept := sub.ledgers[:1]
	for _, g := range sub.ledgers[1:] {
		if g.whole && len(kept) < 2 {
			kept = append(kept, g)
			continue
		}
		g.retired = true
		sh.returns = g.tidy(now, sh.returns)
		if g.unsure != "" && g.asking == nil {
			sh.unsure = append(sh.unsure, g)
		}
	}
	clear(sub.ledgers[len(kept):])
	sub.ledgers = kept
}

// asNew reports whether what is known of the subject's budgets is of no use any
// more: periods that have ended, or of which nothing was spent and nothing is at
// hand.
func (s *subject) asNew(now time.Time) bool {
	for _, g := range s.ledgers {
		if g.reserved != 0 || g.asking != nil || g.unsure != "" || len(g.slices) > 0 {
			return false
		}
		if ended := !g.end.IsZero() && now.After(g.end.Add(Window)); !ended && (g.whole || g.spent > 0) {
			return false
		}
	}
	return true
}
