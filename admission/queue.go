package admission

import "time"

type entryState uint8

const (
	entryFree entryState = iota
	entryWaiting
	entryGranted
)

// entry is one request inside a core, from its offer to the end of its lease
// or its wait. Entries are used again; gen tells the uses apart.
type entry struct {
	core *Core
	gen  uint64
	id   uint64

	state  entryState
	pool   *pool
	band   int
	tenant *tenant // while it waits
	since  time.Time

	// While it waits, its neighbours among the tenant's requests and among all
	// that wait; next also links free entries.
	prev, next   *entry
	older, newer *entry

	// outcome gets one value when the wait ends; the shell's, nil without one.
	outcome chan error
}

// tenant is one tenant's place in a band's rotation. It exists while the
// tenant has a request waiting there.
type tenant struct {
	name        string
	first, last *entry
	left, right *tenant
}

// fairQueue is what waits in one band of one pool: tenants take turns, and each
// tenant's requests go in the order in which they came. Every operation is
// O(1).
type fairQueue struct {
	tenants map[string]*tenant
	turn    *tenant // whose turn it is; the ring's last is turn.left
	n       int
}

func (q *fairQueue) push(e *entry, name string) {
	t := q.tenants[name]
	if t == nil {
		t = &tenant{name: name}
		q.join(t)
	}
	e.tenant, e.prev, e.next = t, t.last, nil
	if t.last != nil {
		t.last.next = e
	} else {
		t.first = e
	}
	t.last = e
	q.n++
}

// join gives t the last place of the rotation.
func (q *fairQueue) join(t *tenant) {
	if q.tenants == nil {
		q.tenants = make(map[string]*tenant)
	}
	q.tenants[t.name] = t
	if q.turn == nil {
		t.left, t.right = t, t
		q.turn = t
		return
	}
	t.left, t.right = q.turn.left, q.turn
	t.left.right, t.right.left = t, t
}

// pop takes the first request of the tenant whose turn it is. The queue must
// not be empty.
func (q *fairQueue) pop() *entry {
	e := q.turn.first
	q.turn = q.turn.right
	q.remove(e)
	return e
}

// remove takes e out, and with its last request the tenant.
func (q *fairQueue) remove(e *entry) {
	t := e.tenant
	if e.prev != nil {
		e.prev.next = e.next
	} else {
		t.first = e.next
	}
	if e.next != nil {
		e.next.prev = e.prev
	} else {
		t.last = e.prev
	}
	e.tenant, e.prev, e.next = nil, nil, nil
	q.n--
	if t.first == nil {
		q.leave(t)
	}
}

func (q *fairQueue) leave(t *tenant) {
	delete(q.tenants, t.name)
	if len(q.tenants) == 0 {
		*q = fairQueue{} // a map keeps the room it once needed
		return
	}
	t.left.right, t.right.left = t.right, t.left
	if q.turn == t {
		q.turn = t.right
	}
}

// arrivals are all requests that wait, the oldest first.
type arrivals struct{ oldest, newest *entry }

func (a *arrivals) push(e *entry) {
	e.older, e.newer = a.newest, nil
	if a.newest != nil {
		a.newest.newer = e
	} else {
		a.oldest = e
	}
	a.newest = e
}

func (a *arrivals) remove(e *entry) {
	if e.older != nil {
		e.older.newer = e.newer
	} else {
		a.oldest = e.newer
	}
	if e.newer != nil {
		e.newer.older = e.older
	} else {
		a.newest = e.older
	}
	e.older, e.newer = nil, nil
}
