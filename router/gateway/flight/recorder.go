package flight

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/llmgw/llmgw/admission"
	"github.com/llmgw/llmgw/router/endpoint"
	"github.com/llmgw/llmgw/router/schedule"
	"github.com/llmgw/llmgw/storage/record"
)

// Appender takes records, as a *record.Log does.
type Appender interface {
	// Append takes a record of which it keeps nothing. It must not block. What
	// becomes of a record that cannot be taken is its own affair, and the error
	// for whoever wants to know.
	Append(t record.Type, at time.Time, payload []byte) error
}

// Deps are the recorder's collaborators.
type Deps struct {
	// Log gets every record; nil: no log.
	Log Appender
	// Ring keeps recent routes and outcomes; nil: none.
	Ring *record.Ring
	// Key makes the fingerprints. Required.
	Key record.Key
	// Pool returns the endpoints as they are. Required.
	Pool func() *endpoint.Snapshot
}

// Recorder writes decisions down. Its methods may be called concurrently, and
// never wait for a disk. Make one with NewRecorder.
type Recorder struct {
	deps  Deps
	setup []byte    // its record
	lines sync.Pool // of *[]byte

	told    atomic.Int64 // when setup and pool were last written, in ns since 1970
	version atomic.Uint64

	names names
}

// repeatEvery is how often the setup and the pool are written again.
const repeatEvery = time.Minute

// NewRecorder returns a Recorder for the parts that were made from setup. It
// writes nothing yet.
func NewRecorder(setup Setup, deps Deps) (*Recorder, error) {
	if deps.Key.ID() == 0 || deps.Pool == nil {
		return nil, errors.New("flight: Deps.Key and Deps.Pool are required")
	}
	r := &Recorder{deps: deps}
	var err error
	if r.setup, err = setup.append(nil); err != nil {
		return nil, err
	}
	r.lines.New = func() any { return new(append(make([]byte, 0, 1<<10), 0)) }
	return r, nil
}

// SessionHash returns what decisions are to find the session by, so that their
// records cannot be searched for it; see schedule.Request.
func (r *Recorder) SessionHash(session string) uint64 { return fingerprint(r.deps.Key, session) }

// Logs reports whether there is a log, which alone takes blocks of prompts.
func (r *Recorder) Logs() bool { return r.deps.Log != nil }

// Remembers reports whether there is a ring.
func (r *Recorder) Remembers() bool { return r.deps.Ring != nil }

// fingerprint is 0 for no text.
func fingerprint(key record.Key, text string) uint64 {
	if text == "" {
		return 0
	}
	return key.Fingerprint(text)
}

// Decided writes down a decision, one that found no endpoint included. t has its
// Attempt and Pinned; the rest is taken from id and d.
func (r *Recorder) Decided(id string, t Route, d *schedule.Decision) {
	r.prologue(d.At)
	if key := r.deps.Key; r.Logs() { // the ring has them in clear
		t.Request, t.Tenant = key.Fingerprint(id), fingerprint(key, d.Tenant)
	}
	t.Model, t.Band = d.Model, d.Band
	line := r.lines.Get().(*[]byte)
	b := appendText((*line)[:0], id)
	b = appendText(b, d.Tenant)
	head := len(b)
	b = t.append(b, d)
	r.write(TypeRoute, d.At, b, head, len(b))
	*line = b
	r.lines.Put(line)
}

// Ended writes down what became of a request. In a log its fingerprints are made of
// id, session and tenant, and of o.Blocks.
func (r *Recorder) Ended(id, session, tenant string, o *Outcome) {
	r.prologue(o.End)
	key := r.deps.Key
	if r.Logs() {
		o.Request, o.Session, o.Tenant = key.Fingerprint(id), fingerprint(key, session), fingerprint(key, tenant)
	}
	line := r.lines.Get().(*[]byte)
	b := appendText((*line)[:0], id)
	b = appendText(b, tenant)
	head := len(b)
	b = o.appendHead(b)
	recent := len(b) // the ring has no use for blocks
	if r.Logs() {
		b = o.appendBlocks(b, key.FingerprintBytes)
	}
	r.write(TypeOutcome, o.End, b, head, recent)
	*line = b
	r.lines.Put(line)
}

// write gives the ring what is before recent, and the log what is after head.
func (r *Recorder) write(t record.Type, at time.Time, b []byte, head, recent int) {
	if r.deps.Log != nil {
		_ = r.deps.Log.Append(t, at, b[head:]) // counted there
	}
	if r.deps.Ring != nil {
		_ = r.deps.Ring.Append(t, at, b[:recent]) // one that is too long for the ring is not shown
	}
}

// prologue writes what later records are to be understood by, where that has
// changed or long not been written.
func (r *Recorder) prologue(now time.Time) {
	pool := r.deps.Pool()
	told := r.told.Load()
	stale := told == 0 || now.UnixNano()-told >= int64(repeatEvery)
	if !stale && r.version.Load() == pool.Version() {
		return
	}
	if !r.told.CompareAndSwap(told, max(now.UnixNano(), 1)) {
		return // somebody else does it
	}
	r.version.Store(pool.Version())
	r.names.learn(pool)
	if r.deps.Log == nil {
		return
	}
	_ = r.deps.Log.Append(TypeSetup, now, r.setup)
	var b []byte
	for first := 0; first == 0 || first < len(pool.All()); first += poolPart {
		b = appendPool(b[:0], pool, first)
		_ = r.deps.Log.Append(TypePool, now, b)
	}
}

// Admission returns what one admission core tells its steps to; nil without a
// log, since a ring would see nothing else for them.
func (r *Recorder) Admission() admission.Recorder {
	if r.deps.Log == nil {
		return nil
	}
	return &admissions{log: r.deps.Log, key: r.deps.Key}
}

// maxNames bounds the endpoints whose names are remembered beyond those that are
// there.
const maxNames = 10_000

// names are the endpoints' by their hashes, those that have gone included.
type names struct {
	mu sync.Mutex
	by map[uint64]string // guarded by mu
}

func (n *names) learn(pool *endpoint.Snapshot) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.by == nil || len(n.by) > maxNames {
		n.by = make(map[uint64]string, len(pool.All()))
	}
	for _, e := range pool.All() {
		n.by[e.Hash()] = e.ID()
	}
}

func (n *names) of(hash uint64) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return nameOf(n.by, hash)
}

// nameOf is the endpoint's ID or, where that is not known, its hash.
func nameOf(names map[uint64]string, hash uint64) string {
	if name, ok := names[hash]; ok {
		return name
	}
	if hash == 0 {
		return ""
	}
	return fmt.Sprintf("#%016x", hash)
}

// parseLine takes a ring's payload apart.
func parseLine(payload []byte) (id, tenant string, rest []byte, ok bool) {
	r := reader{rest: payload}
	id, tenant = r.text(), r.text()
	return id, tenant, r.rest, !r.short
}

// routeModel reads no more of a route's record than its model.
func routeModel(payload []byte) string {
	r, err := open(payload)
	if err != nil {
		return ""
	}
	r.take(8)
	r.uvarint()
	r.bool()
	return r.text()
}
