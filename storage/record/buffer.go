package record

import (
	"sync"
	"time"
)

// buffer holds entries between Append and Run. It never grows; what finds no
// room is counted, and a gap entry takes its place before the next one that does.
type buffer struct {
	room     int // bytes for entries; the slice has a gap entry's more
	wakeAt   int
	maxEntry int
	wake     chan struct{} // has a value once the buffer is half full

	mu     sync.Mutex
	buf    []byte // guarded by mu
	drops  drops  // since the last gap entry; guarded by mu
	stats  Stats  // guarded by mu
	closed bool   // guarded by mu
}

// Stats are a log's counts since it was made.
type Stats struct {
	Appended uint64 // records taken
	// Full are records dropped since the buffer was full.
	Full uint64
	// Invalid are records dropped since they broke a rule.
	Invalid uint64
	// Closed are records dropped since the log had ended. No Gap tells of them.
	Closed uint64
	// Lost are records that were taken and could not be written when the log
	// ended. No Gap tells of them.
	Lost uint64
}

// Dropped is the number of all records that did not get into the log.
func (s Stats) Dropped() uint64 { return s.Full + s.Invalid + s.Closed + s.Lost }

func newBuffer(room, maxEntry int64) *buffer {
	return &buffer{
		room:     int(room),
		wakeAt:   int(room / 2),
		maxEntry: int(maxEntry),
		wake:     make(chan struct{}, 1),
		buf:      make([]byte, 0, room+gapEntry),
	}
}

// append takes a record or counts it as dropped. It holds the lock for a copy
// of the payload and no longer.
func (b *buffer) append(t Type, at time.Time, payload []byte) error {
	ns, fault := check(t, at)
	if fault == nil && len(payload) > b.maxEntry {
		fault = errTooLong
	}
	b.mu.Lock()
	before := len(b.buf)
	err := b.take(t, ns, payload, fault)
	half := before < b.wakeAt && len(b.buf) >= b.wakeAt
	b.mu.Unlock()
	if half {
		select {
		case b.wake <- struct{}{}:
		default: // it is awake
		}
	}
	return err
}

// check returns the record's time as it is kept, and what is wrong with the
// record. If it is the time, that is the system's: a gap must have some.
func check(t Type, at time.Time) (ns int64, err error) {
	ns, ok := unixNanos(at)
	switch {
	case !ok:
		return time.Now().UnixNano(), errTime
	case t == 0 || t > MaxType:
		return ns, errType
	}
	return ns, nil
}

// take is append under b.mu.
func (b *buffer) take(t Type, at int64, payload []byte, fault error) error {
	switch {
	case b.closed:
		b.stats.Closed++
		return ErrClosed
	case fault != nil:
		b.stats.Invalid++
		b.drops.add(at)
		return fault
	}
	need := entryHeader + len(payload)
	if b.drops.count > 0 {
		need += gapEntry
	}
	if len(b.buf)+need > b.room {
		b.stats.Full++
		b.drops.add(at)
		return ErrFull
	}
	b.putGap()
	b.buf = appendEntry(b.buf, t, at, payload)
	b.stats.Appended++
	return nil
}

// putGap writes down what was dropped, if anything. The caller holds b.mu.
func (b *buffer) putGap() {
	if b.drops.count > 0 {
		b.buf = appendGap(b.buf, b.drops)
		b.drops = drops{}
	}
}

// swap returns what is buffered and goes on with spare, or a new slice if that is
// too small.
func (b *buffer) swap(spare []byte) []byte {
	if cap(spare) < b.room+gapEntry {
		spare = make([]byte, 0, b.room+gapEntry)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.putGap() // there is always room for this one
	full := b.buf
	b.buf = spare[:0]
	return full
}

// close makes every further record a dropped one.
func (b *buffer) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
}

// lose counts taken records that will not be written.
func (b *buffer) lose(n uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stats.Lost += n
}

func (b *buffer) counts() Stats {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.stats
}
