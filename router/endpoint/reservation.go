package endpoint

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

var (
	// ErrNotAdmitted: the endpoint's breaker lets no request through now.
	ErrNotAdmitted = errors.New("endpoint: not admitted by the breaker")
	// ErrBusier: more requests are in flight than the decision was made on.
	ErrBusier = errors.New("endpoint: busier than it was when chosen")
)

// ticket is what a reservation stands for. Tickets are used again; gen tells
// the uses apart, and moving it on is the one act that gives a ticket back.
type ticket struct {
	gen      atomic.Uint64
	endpoint *Endpoint // owned by who moved gen
	probe    uint64    // owned by who moved gen; 0 is none
}

type ticketPool struct{ pool sync.Pool }

func (p *ticketPool) take(e *Endpoint, probe uint64) Reservation {
	t, ok := p.pool.Get().(*ticket)
	if !ok {
		t = new(ticket)
	}
	t.endpoint, t.probe = e, probe
	return Reservation{ticket: t, gen: t.gen.Load()}
}

// Reservation is one request's place in flight on one instance. The zero value
// reserves nothing. Copies stand for the same place.
type Reservation struct {
	ticket *ticket
	gen    uint64
}

// Release gives the place back, and the probe if the request was one whose
// outcome nobody reported. Only the first call on any copy does anything.
func (r Reservation) Release() {
	t := r.ticket
	if t == nil || !t.gen.CompareAndSwap(r.gen, r.gen+1) {
		return
	}
	e, probe := t.endpoint, t.probe
	t.endpoint = nil
	e.inflight.Add(-1)
	if probe != 0 {
		e.breaker.endProbe(probe)
	}
	e.tickets.pool.Put(t)
}

// InFlight returns how many reservations of the instance are held.
func (e *Endpoint) InFlight() int64 { return e.inflight.Load() }

// Begun returns how many reservations of the instance there ever were. With
// InFlight at the begin of a span it bounds how many were held at any moment in
// it.
func (e *Endpoint) Begun() int64 { return e.begun.Load() }

func (e *Endpoint) count() {
	e.inflight.Add(1)
	e.begun.Add(1)
}

// Reserve takes a place in flight without asking the breaker.
func (e *Endpoint) Reserve() Reservation {
	e.count()
	return e.tickets.take(e, 0)
}

// Begin takes a place in flight if the breaker admits a request, and the probe
// if the endpoint owes one. Otherwise the error is ErrNotAdmitted.
func (e *Endpoint) Begin(now time.Time) (Reservation, error) {
	probe, ok := e.breaker.begin(now)
	if !ok {
		return Reservation{}, ErrNotAdmitted
	}
	e.count()
	return e.tickets.take(e, probe), nil
}

// BeginAt is Begin for a decision that was made while seen requests were in
// flight. If there are more the error is ErrBusier, so that of many decisions
// made at the same moment on the same numbers only one goes through and the
// others look again.
func (e *Endpoint) BeginAt(now time.Time, seen int64) (Reservation, error) {
	for {
		current := e.inflight.Load()
		if current > seen {
			return Reservation{}, ErrBusier
		}
		if e.inflight.CompareAndSwap(current, current+1) {
			e.begun.Add(1)
			break
		}
	}
	probe, ok := e.breaker.begin(now)
	if !ok {
		e.inflight.Add(-1)
		return Reservation{}, ErrNotAdmitted
	}
	return e.tickets.take(e, probe), nil
}
