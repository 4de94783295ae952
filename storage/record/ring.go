package record

import (
	"fmt"
	"iter"
	"sync"
	"time"
)

// RingConfig is a ring's tunable data. Start from DefaultRingConfig.
type RingConfig struct {
	// MaxBytes bounds the memory of the ring, not counting what an iteration
	// holds, and 8 KiB. Default 1 MiB; at least 64 KiB. A payload may have up to a
	// sixteenth of it.
	MaxBytes int64 `yaml:"max_bytes"`
}

// DefaultRingConfig returns the defaults.
func DefaultRingConfig() RingConfig { return RingConfig{MaxBytes: 1 << 20} }

// Validate reports what is wrong with the configuration. The error wraps
// ErrInvalid.
func (c RingConfig) Validate() error {
	if c.MaxBytes < 64<<10 {
		return fmt.Errorf("%w: max_bytes: %d; want at least 64 KiB (%d)", ErrInvalid, c.MaxBytes, 64<<10)
	}
	return nil
}

// ringChunks is how many chunks a ring is divided into; the oldest goes as a
// whole.
const ringChunks = 16

// ringFront is how much is gathered before it is moved to a chunk. What is written
// goes to memory that the processor has at hand, where a chunk's has long left its
// caches: the end of the lock would wait for each of its lines.
const ringFront = 8 << 10

// Ring keeps the newest records in memory. Its methods may be called
// concurrently.
type Ring struct {
	segment   Segment
	chunkSize int

	mu sync.Mutex
	// chunks hold entries, the oldest first. A byte that a reader may see never
	// changes, so that one needs the lock only to copy this slice.
	chunks [][]byte // guarded by mu
	shown  int      // how many of the oldest a reader may see; guarded by mu
	front  []byte   // what is to follow in the last chunk, which has room for it; guarded by mu
}

// NewRing returns an empty ring. The key is the one that fingerprints in the
// records are made with; the zero Key if there are none.
func NewRing(cfg RingConfig, key Key) (*Ring, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return &Ring{
		segment:   Segment{Key: key.ID()},
		chunkSize: int(cfg.MaxBytes / ringChunks),
		chunks:    make([][]byte, 0, ringChunks),
		front:     make([]byte, 0, ringFront),
	}, nil
}

// Append takes a record as [Log.Append] does, and forgets the oldest ones for it.
// The error wraps ErrInvalid.
func (r *Ring) Append(t Type, at time.Time, payload []byte) error {
	ns, err := check(t, at)
	if err != nil {
		return err
	}
	need := entryHeader + len(payload)
	if need > r.chunkSize {
		return errTooLong
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if last := len(r.chunks) - 1; last < 0 || len(r.chunks[last])+len(r.front)+need > r.chunkSize {
		r.move()
		r.nextChunk()
	}
	if len(r.front)+need > ringFront {
		r.move()
	}
	if need > ringFront {
		last := &r.chunks[len(r.chunks)-1]
		*last = appendEntry(*last, t, ns, payload)
		return nil
	}
	r.front = appendEntry(r.front, t, ns, payload)
	return nil
}

// move moves what was gathered to the last chunk. The caller holds r.mu.
func (r *Ring) move() {
	if len(r.front) > 0 {
		last := &r.chunks[len(r.chunks)-1]
		*last = append(*last, r.front...)
		r.front = r.front[:0]
	}
}

// nextChunk begins a chunk in the memory of the oldest, or in new memory if a reader
// may still hold that. The caller holds r.mu.
func (r *Ring) nextChunk() {
	var next []byte
	if len(r.chunks) == ringChunks {
		if r.shown > 0 {
			r.shown--
		} else {
			next = r.chunks[0][:0]
		}
		copy(r.chunks, r.chunks[1:])
		r.chunks = r.chunks[:ringChunks-1]
	}
	if next == nil {
		next = make([]byte, 0, r.chunkSize)
	}
	r.chunks = append(r.chunks, next)
}

// Entries returns the entries with from <= Time < to that are there when the
// iteration begins, the oldest first; a zero from or to is no bound. The error is
// always nil. Payloads stay valid, and must not be changed. It never makes Append
// wait for longer than the copy of 8 KiB takes.
func (r *Ring) Entries(from, to time.Time) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		w := newWindow(from, to)
		for _, chunk := range r.snapshot() {
			for len(chunk) > 0 {
				n := entrySize(chunk)
				h := parseHead(chunk)
				e := Entry{Type: h.typ, Time: unixTime(h.at), Payload: chunk[entryHeader:n:n], Segment: &r.segment}
				if w.shows(e) && !yield(e, nil) {
					return
				}
				chunk = chunk[n:]
			}
		}
	}
}

func (r *Ring) snapshot() [][]byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.move()
	r.shown = len(r.chunks)
	return append([][]byte(nil), r.chunks...)
}
