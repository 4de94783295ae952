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
	// holds. Default 1 MiB; at least 64 KiB. A payload may have up to a
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
	last := len(r.chunks) - 1
	if last < 0 || len(r.chunks[last])+need > r.chunkSize {
		r.nextChunk()
		last = len(r.chunks) - 1
	}
	r.chunks[last] = appendEntry(r.chunks[last], t, ns, payload)
	return nil
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
// wait for longer than the copy of sixteen slices takes.
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
	r.shown = len(r.chunks)
	return append([][]byte(nil), r.chunks...)
}
