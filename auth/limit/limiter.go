package limit

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Config is the limiter's tunable data. Start from DefaultConfig.
type Config struct {
	// FundTimeout is how long a request waits for who keeps the budgets, and how
	// long giving a slice back may take. Default 2s; positive.
	FundTimeout time.Duration `yaml:"fund_timeout"`
	// FundPause is for how long nobody is asked again after that failed, and
	// requests that need it are refused at once. Default 1s; positive.
	FundPause time.Duration `yaml:"fund_pause"`
	// SliceParts bounds slices: where routers share a budget each takes a part of
	// what is left that is at most one in so many, unless one request needs more.
	// Default 100; at least 1.
	SliceParts int64 `yaml:"slice_parts"`
	// SliceLasts is for how long a slice should last, by what was spent lately.
	// Default 10s; positive.
	SliceLasts time.Duration `yaml:"slice_lasts"`
	// SliceIdle is after how long without a request what is left of a slice is
	// given back. Default 10s; positive.
	SliceIdle time.Duration `yaml:"slice_idle"`
}

// DefaultConfig returns the defaults.
func DefaultConfig() Config {
	return Config{FundTimeout: 2 * time.Second, FundPause: time.Second, SliceParts: 100, SliceLasts: 10 * time.Second, SliceIdle: 10 * time.Second}
}

// Validate returns every problem.
func (c Config) Validate() error {
	var faults []error
	for _, d := range []struct {
		key string
		d   time.Duration
	}{{"fund_timeout", c.FundTimeout}, {"fund_pause", c.FundPause}, {"slice_lasts", c.SliceLasts}, {"slice_idle", c.SliceIdle}} {
		if d.d <= 0 {
			faults = append(faults, fmt.Errorf("%s: %v; want a positive duration", d.key, d.d))
		}
	}
	if c.SliceParts < 1 {
		faults = append(faults, fmt.Errorf("slice_parts: %d; want at least 1", c.SliceParts))
	}
	return errors.Join(faults...)
}

// Deps are the limiter's collaborators.
type Deps struct {
	// Source keeps the budgets. nil: every period begins with nothing spent, also
	// after a restart.
	Source     Source
	Registerer prometheus.Registerer // nil leaves metrics unregistered
}

// Limiter counts what subjects use. Make it with New. Its methods may be called
// concurrently.
//
// Times are passed in. They should come from [time.Now], whose monotonic reading
// keeps windows right while the clock is set; one that has none may be set back
// and forth, see [Window]. Calls that overlap may be up to 10s apart.
type Limiter struct {
	cfg  Config
	deps Deps

	seed   maphash.Seed
	shards [64]shard
	base   atomic.Pointer[time.Time] // what windows count from: the first time seen

	refused     [reasons]atomic.Uint64
	unavailable atomic.Uint64 // requests refused because nobody could be asked
}

// shard holds some of the subjects. Its lock is held for well under a
// microsecond, never while somebody is asked.
type shard struct {
	mu       sync.Mutex
	subjects map[string]*subject // guarded by mu, as all that they point to
	sweepAt  int                 // size at which it is swept
	changes  uint64              // of anybody's inflight
	returns  []Return            // slices to give back, of which nobody spends any more
	unsure   []*ledger           // retired, with an Ask that has no answer
}

// subject is what is kept of one.
type subject struct {
	window   *window // nil until a rate was limited
	inflight int64
	limits   Limits // of the last request
	// ledgers are the budget's periods, the one used last in front. The one that
	// was used before stays, for a clock that is set back.
	ledgers []*ledger
	// alone is since when this limiter alone is known to spend of the subject's
	// budgets; zero if it is not.
	alone time.Time
}

// New validates cfg and returns a Limiter that knows nothing yet. It starts no
// goroutine.
func New(cfg Config, deps Deps) (*Limiter, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("limit: %w", err)
	}
	l := &Limiter{cfg: cfg, deps: deps, seed: maphash.MakeSeed()}
	for i := range l.shards {
		l.shards[i].subjects = make(map[string]*subject)
		l.shards[i].sweepAt = sweepLeast
	}
	if err := registerMetrics(deps.Registerer, l); err != nil {
		return nil, err
	}
	return l, nil
}

// Reservation is what one request was charged. Settle it, whatever became of the
// request.
type Reservation struct {
	l       *Limiter
	sh      *shard
	subject *subject
	ledger  *ledger // nil without a budget

	windowed bool   // the request is in the subject's window
	bucket   uint64 // where
	tokens   int64
	cost     int64
	rates    Rates
	place    Place
	also     func(End) // nil, or told of the end

	done bool // guarded by sh.mu
}

// Place is how many requests of a subject are under way here, after one of them
// began or ended. Of two places of one subject that with the larger Order is the
// later one.
type Place struct {
	Inflight int64
	Order    uint64
}

// End is how a reservation ended.
type End struct {
	At     time.Time
	Actual Actual
	// Undone says that it was given back as if it had never been.
	Undone bool
	Place  Place
}

// Rates returns where the windows stood once the request was charged.
func (r *Reservation) Rates() Rates { return r.rates }

// Place returns how many requests of the subject were under way once this one
// was, itself among them.
func (r *Reservation) Place() Place { return r.place }

// Also is for who counts requests elsewhere too, before it hands the reservation
// on: Rates returns rates from then on, and end is called once, when the
// reservation has ended, under no lock.
func (r *Reservation) Also(rates Rates, end func(End)) { r.rates, r.also = rates, end }

// Budget returns the budget that the request is charged to; ok is false if it
// has none.
func (r *Reservation) Budget() (id BudgetID, ok bool) {
	if r.ledger == nil {
		return BudgetID{}, false
	}
	return r.ledger.id, true
}

// Acquire charges a request to all limits of its subject, or to none: then the
// error is a [*LimitedError], or wraps ErrUnavailable, or the cause of ctx's
// end. It takes well under a microsecond, unless it is not known what may be
// spent of the budget: then it asks the Source, once for all that wait for the
// same budget, and waits until it answers or ctx is done.
func (l *Limiter) Acquire(ctx context.Context, now time.Time, s *Subject, r Request) (*Reservation, error) {
	r.Tokens, r.CostNanos = bounded(r.Tokens, MostTokens), bounded(r.CostNanos, mostNanos)
	res, f, mine, err := l.try(now, s, r, nil, false, true)
	if f == nil {
		return res, err
	}
	begin := time.Now() // to know how long it waited; what time it is comes from now
	// Each turn has learned something: at first what an Ask of before had
	// granted, then what is granted now. Near the end of a budget it may be little
	// each time, and others faster. The count is for a Source that grants less than
	// it says.
	for turn := 0; turn < mostTurns && time.Since(begin) < l.cfg.FundTimeout; turn++ {
		if mine {
			if err = l.fund(ctx, f); errors.Is(err, ErrSpent) {
				err = nil
			}
		} else {
			select {
			case <-f.done:
				err = f.err
			case <-ctx.Done():
			}
		}
		if err != nil || ctx.Err() != nil {
			f.leave(mine, r.CostNanos)
			if ctx.Err() != nil {
				return nil, fmt.Errorf("limit: waiting for the budget of %s: %w", s.ID, context.Cause(ctx))
			}
			l.unavailable.Add(1)
			return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
		}
		res, f, mine, err = l.try(now.Add(time.Since(begin)), s, r, f, mine, true)
		if f == nil {
			return res, err
		}
	}
	if mine {
		_ = l.abandon([]*flight{f}, errOvertaken)
	} else {
		f.leave(false, r.CostNanos)
	}
	l.unavailable.Add(1)
	return nil, fmt.Errorf("%w: %w", ErrUnavailable, errOvertaken)
}

const mostTurns = 1000

var errOvertaken = errors.New("others were faster each time")

// TryAcquire is Acquire without the wait: where it would ask, the error wraps
// ErrUnavailable.
func (l *Limiter) TryAcquire(now time.Time, s *Subject, r Request) (*Reservation, error) {
	r.Tokens, r.CostNanos = bounded(r.Tokens, MostTokens), bounded(r.CostNanos, mostNanos)
	res, _, _, err := l.try(now, s, r, nil, false, false)
	return res, err
}

// Settle replaces the estimate by what came of the request and ends its place
// among those under way. Only the first call of Settle and Undo counts. Tokens
// beyond the estimate are charged now; those that find no room in the window
// are a debt, which takes the place of what leaves it. The cost is charged to
// the budget's period in which it was reserved.
func (r *Reservation) Settle(now time.Time, a Actual) {
	r.finish(End{At: now, Actual: Actual{Tokens: bounded(a.Tokens, MostTokens), CostNanos: bounded(a.CostNanos, mostNanos)}})
}

// Undo gives everything back, as if the request had never been: for one that was
// refused by somebody else and never ran. Only the first call of Settle and Undo
// counts.
func (r *Reservation) Undo(now time.Time) { r.finish(End{At: now, Undone: true}) }

func (r *Reservation) finish(e End) {
	if r.end(&e) && r.also != nil {
		r.also(e)
	}
}

func (r *Reservation) end(e *End) bool {
	r.sh.mu.Lock()
	defer r.sh.mu.Unlock()
	if r.done {
		return false
	}
	r.done = true
	r.subject.inflight--
	e.Place = r.sh.place(r.subject)
	if r.windowed {
		w := r.subject.window
		w.advance(r.l.clock(e.At))
		switch {
		case e.Undone:
			w.giveBack(r.bucket, 1, r.tokens)
		case e.Actual.Tokens > r.tokens:
			w.owe(e.Actual.Tokens - r.tokens)
		default:
			w.giveBack(r.bucket, 0, r.tokens-e.Actual.Tokens)
		}
	}
	if r.ledger != nil {
		r.ledger.settle(e.At, r.l.cfg.SliceLasts, r.cost, e.Actual.CostNanos)
		r.sh.returns = r.ledger.tidy(e.At, r.sh.returns)
	}
	return true
}

// Underway is a subject with requests under way.
type Underway struct {
	Limits Limits // of the last request
	Place  Place
}

// Underway returns the subjects, by ID, that have requests under way and a bound
// on how many.
func (l *Limiter) Underway() map[string]Underway {
	out := make(map[string]Underway)
	for i := range l.shards {
		sh := &l.shards[i]
		sh.mu.Lock()
		for id, s := range sh.subjects {
			if s.inflight > 0 && s.limits.Concurrency > 0 {
				out[id] = Underway{Limits: s.limits, Place: sh.place(s)}
			}
		}
		sh.mu.Unlock()
	}
	return out
}

// try is Acquire under the lock. A flight says that somebody must be asked: by
// the caller, if it is mine, else by another whom it has joined. waited is the
// flight that the caller has waited for, which was its own or not.
func (l *Limiter) try(now time.Time, s *Subject, r Request, waited *flight, own, ask bool) (res *Reservation, f *flight, mine bool, err error) {
	sh := l.shard(s.ID)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if waited != nil {
		waited.arrive(own, r.CostNanos)
	}
	sub := sh.subjects[s.ID]
	if sub == nil {
		sh.sweep(l, now)
		sub = &subject{}
		sh.subjects[s.ID] = sub
	}

	var refusal *LimitedError
	refuse := func(e *LimitedError) {
		// The one that takes longest, so that who waits for it does not wait for
		// the next.
		if refusal == nil || (refusal.Reason.Retriable() && (!e.Reason.Retriable() || e.RetryAfter > refusal.RetryAfter)) {
			refusal = e
		}
	}
	windowed := s.Limits.RequestsPerMinute > 0 || s.Limits.TokensPerMinute > 0
	if windowed {
		if sub.window == nil {
			sub.window = &window{}
		}
		w := sub.window
		w.tokenLimit = s.Limits.TokensPerMinute
		w.advance(l.clock(now))
		if n := s.Limits.RequestsPerMinute; n > 0 && w.requests >= n {
			requests, _ := w.resets()
			refuse(&LimitedError{Reason: ReasonRequests, Limit: n, Need: 1, Reset: requests, RetryAfter: w.untilRequests(n)})
		}
		switch n := s.Limits.TokensPerMinute; {
		case n == 0:
		case r.Tokens > n:
			_, tokens := w.resets()
			refuse(&LimitedError{Reason: ReasonTooLarge, Limit: n, Need: r.Tokens, Remaining: max(0, n-w.tokens), Reset: tokens})
		case r.Tokens > n-w.tokens || w.debt > 0:
			_, tokens := w.resets()
			refuse(&LimitedError{Reason: ReasonTokens, Limit: n, Need: r.Tokens, Remaining: max(0, n-w.tokens), Reset: tokens, RetryAfter: w.untilTokens(r.Tokens, n)})
		}
	}
	if n := s.Limits.Concurrency; n > 0 && sub.inflight >= n {
		refuse(&LimitedError{Reason: ReasonConcurrency, Limit: n, Need: 1, RetryAfter: time.Second})
	}
	var g *ledger
	if s.Budget.Bounded() {
		g = l.ledger(sh, sub, now, s)
		switch short, e := g.check(now, s.Budget.Nanos, r.CostNanos, waited); {
		case e != nil:
			refuse(e)
		case !short || refusal != nil:
		case g.asking != nil && ask:
			g.waiting = add(g.waiting, r.CostNanos)
			return nil, g.asking, false, nil
		case g.failed != nil && now.Before(g.pause):
			l.unavailable.Add(1)
			return nil, nil, false, fmt.Errorf("%w: %w", ErrUnavailable, g.failed)
		case !ask:
			l.unavailable.Add(1)
			return nil, nil, false, fmt.Errorf("%w: the budget of %s was not asked for yet", ErrUnavailable, s.ID)
		default:
			return nil, l.depart(sh, sub, g, now, r.CostNanos), true, nil
		}
	}
	if refusal != nil {
		refusal.Subject = s.ID
		refusal.Rates = sub.rates(now, s.Limits)
		l.refused[refusal.Reason].Add(1)
		return nil, nil, false, refusal
	}

	sub.inflight++
	sub.limits = s.Limits
	res = &Reservation{
		l: l, sh: sh, subject: sub, ledger: g, windowed: windowed,
		tokens: r.Tokens, cost: r.CostNanos, place: sh.place(sub),
	}
	if windowed {
		res.bucket = sub.window.charge(sub.window.now, 1, r.Tokens)
		res.rates = sub.rates(now, s.Limits)
	}
	if g != nil {
		g.reserve(now, r.CostNanos)
	}
	return res, nil, false, nil
}

// rates returns where the windows stand.
func (s *subject) rates(now time.Time, lim Limits) Rates {
	r := Rates{At: now}
	if s.window == nil {
		r.Requests = Rate{Limit: lim.RequestsPerMinute, Remaining: lim.RequestsPerMinute}
		r.Tokens = Rate{Limit: lim.TokensPerMinute, Remaining: lim.TokensPerMinute}
		return r
	}
	requests, tokens := s.window.resets()
	if lim.RequestsPerMinute > 0 {
		r.Requests = Rate{Limit: lim.RequestsPerMinute, Remaining: max(0, lim.RequestsPerMinute-s.window.requests), Reset: requests}
	}
	if lim.TokensPerMinute > 0 {
		r.Tokens = Rate{Limit: lim.TokensPerMinute, Remaining: max(0, lim.TokensPerMinute-s.window.tokens), Reset: tokens}
	}
	return r
}

// clock returns a time as windows count it.
func (l *Limiter) clock(now time.Time) int64 {
	base := l.base.Load()
	if base == nil {
		first := now // so that now itself stays on the stack
		l.base.CompareAndSwap(nil, &first)
		base = l.base.Load()
	}
	return int64(now.Sub(*base))
}

// place says where a subject stands, now. The count of changes outlives
// subjects that are forgotten, so that one that comes back goes on from there.
func (sh *shard) place(s *subject) Place {
	sh.changes++
	return Place{Inflight: s.inflight, Order: sh.changes}
}

func (l *Limiter) shard(id string) *shard {
	return &l.shards[maphash.String(l.seed, id)%uint64(len(l.shards))]
}

// sweepLeast is the number of subjects of a shard below which none is
// forgotten.
const sweepLeast = 64

// sweep forgets subjects that are as if they had never been seen. It looks at
// all of the shard each time that it has doubled.
func (sh *shard) sweep(l *Limiter, now time.Time) {
	if len(sh.subjects) < sh.sweepAt {
		return
	}
	at := l.clock(now)
	for id, s := range sh.subjects {
		if s.window != nil && s.inflight == 0 {
			if s.window.advance(at); s.window.asNew() {
				s.window = nil
			}
		}
		if s.inflight == 0 && s.window == nil && s.asNew(now) {
			delete(sh.subjects, id)
		}
	}
	sh.sweepAt = max(sweepLeast, 2*len(sh.subjects))
}
