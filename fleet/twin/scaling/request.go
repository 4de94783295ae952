package scaling

import (
	"cmp"
	"container/heap"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/llmgw/llmgw/admission"
	"github.com/llmgw/llmgw/engines/sim/workload"
	"github.com/llmgw/llmgw/router/endpoint"
)

// maxRequests bounds the requests of a run.
const maxRequests = 20_000_000

// arrival is when a request of a model comes, and how long it is.
type arrival struct {
	at             time.Duration
	model          int32
	prompt, output int32
}

// draw returns all arrivals in order. Each model has streams of random numbers of
// its own, so that another one beside it changes nothing.
func draw(cfg *Config, rates *Rates) ([]arrival, error) {
	var all []arrival
	for i := range cfg.Models {
		m := &cfg.Models[i]
		if _, known := rates.clients[m.Client]; !known {
			return nil, fmt.Errorf("%w: models[%d].client: %s has no rates of %q", ErrNoRates, i, rates.Name, m.Client)
		}
		at := rates.arrivals(nil, m.Client, cfg.From, cfg.From+cfg.Duration, cfg.Scale, cfg.KeepBursts, rand.New(rand.NewPCG(cfg.Seed, uint64(2*i))))
		lengths := rand.New(rand.NewPCG(cfg.Seed, uint64(2*i+1)))
		for _, t := range at {
			all = append(all, arrival{
				at: t, model: int32(i), //nolint:gosec // at most MaxModels
				prompt: tokens(cfg.Prompt, lengths), output: tokens(cfg.Output, lengths),
			})
		}
		if len(all) > maxRequests {
			return nil, fmt.Errorf("scaling: more than %d requests; want a lower scale or a shorter duration", maxRequests)
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%w: nobody asks for anything from %v on, for %v", ErrNoRates, cfg.From, cfg.Duration)
	}
	slices.SortStableFunc(all, func(a, b arrival) int { return cmp.Compare(a.at, b.at) })
	return all, nil
}

func tokens(l workload.Lengths, rng *rand.Rand) int32 {
	return int32(min(l.Draw(rng), math.MaxInt32)) //nolint:gosec // bounded
}

// request is one that has come and not ended.
type request struct {
	arrival
	tries  int
	sentAt time.Duration // to an engine
	waits  bool          // for its model to have an endpoint
	leased bool
	ticket admission.Ticket
	held   endpoint.Reservation
	engine *engine
}

// event is something that was put off.
type event struct {
	at  time.Duration
	seq uint64 // those at one moment stand as they were put off
	r   *request
	try int // of r that it is about
	// comes: the client comes again. Else its wait is over.
	comes bool
}

// events are a heap, the next one first.
type events []event

func (e events) Len() int      { return len(e) }
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e events) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(e[i].at, e[j].at), cmp.Compare(e[i].seq, e[j].seq)) < 0
}
func (e *events) Push(x any) { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

// put puts something off until later.
func (t *Twin) put(at time.Duration, r *request, comes bool) {
	t.seq++
	heap.Push(&t.later, event{at: at, seq: t.seq, r: r, try: r.tries, comes: comes})
}

// happen does what was put off.
func (t *Twin) happen() error {
	e := heap.Pop(&t.later).(event)
	switch {
	case e.comes:
		return t.try(e.r)
	case e.r.waits && e.r.tries == e.try:
		m := &t.models[e.r.model]
		m.waiting = slices.DeleteFunc(m.waiting, func(r *request) bool { return r == e.r })
		e.r.waits = false
		t.refuse(e.r, t.retryAfter(m))
	}
	return nil
}

// try is a client's request, the first time or again.
func (t *Twin) try(r *request) error {
	m := &t.models[r.model]
	m.asked, m.everAsked = t.now, true
	if len(m.pool) == 0 {
		t.wait(m, r)
		return nil
	}
	return t.admit(m, r)
}

// wait has r wait until its model has an endpoint, if one more may.
func (t *Twin) wait(m *model, r *request) {
	if len(m.waiting) >= t.cfg.MaxWaiting || t.cfg.Wait == 0 {
		t.refuse(r, t.retryAfter(m))
		return
	}
	if len(m.waiting) == 0 { // a router says so at once
		t.tickAt = min(t.tickAt, t.now+hurry)
	}
	r.waits = true
	m.waiting = append(m.waiting, r)
	t.put(t.now+t.cfg.Wait, r, false)
}

// Clients are told to come again between one second and eight; overdue is when a model
// should serve already.
const (
	soonest = time.Second
	latest  = 8 * time.Second
	overdue = 2 * time.Second
)

// retryAfter is when a client that found no endpoint is told to come again, as a
// gateway says it.
func (t *Twin) retryAfter(m *model) time.Duration {
	left, known := m.status.Ready.Get()
	if left -= t.now - m.toldAt; known && left <= 0 {
		return overdue
	}
	if !known {
		return latest
	}
	return min(max(left, soonest), latest)
}

// refuse ends a try: the client comes again, or has had enough.
func (t *Twin) refuse(r *request, after time.Duration) {
	r.tries++
	if r.tries > t.cfg.Retries {
		t.live--
		t.models[r.model].lost++
		return
	}
	t.models[r.model].refusals++
	t.put(t.now+after, r, true)
}

// admit asks for r to run.
func (t *Twin) admit(m *model, r *request) error {
	ticket, granted, err := t.admission.Offer(t.clock(), admission.Request{Pool: m.Name})
	var rejected *admission.RejectedError
	switch {
	case errors.As(err, &rejected):
		t.refuse(r, rejected.RetryAfter)
		return nil
	case err != nil:
		return fmt.Errorf("scaling: %w", err)
	case !granted:
		t.queued[ticket.ID()] = r
		r.ticket = ticket
		m.queued++
		return nil
	}
	r.ticket, r.leased = ticket, true
	return t.dispatch(m, r)
}

// grant does what admission has decided about those that waited for room.
func (t *Twin) grant(decisions []admission.Decision) error {
	// dispatch may step an engine, whose finished requests step admission again; then
	// these decisions would be overwritten.
	t.granted = append(t.granted, decisions...)
	if t.granting {
		return nil
	}
	t.granting = true
	defer func() { t.granting = false }()
	for i := 0; i < len(t.granted); i++ {
		d := t.granted[i]
		r := t.queued[d.ID]
		if r == nil {
			return fmt.Errorf("scaling: admission decided about request %d, which does not wait", d.ID)
		}
		delete(t.queued, d.ID)
		m := &t.models[r.model]
		m.queued--
		var rejected *admission.RejectedError
		if errors.As(d.Err, &rejected) {
			t.refuse(r, rejected.RetryAfter)
			continue
		}
		r.ticket, r.leased = d.Ticket, true
		if err := t.dispatch(m, r); err != nil {
			return err
		}
	}
	t.granted = t.granted[:0]
	return nil
}
