package kvevents

import "math"

// message is a batch on its way; it does not change.
type message struct {
	seq     int64
	payload []byte
}

// ring keeps the last batches within two bounds.
type ring struct {
	steps, bytes int
	kept         []*message // from head on
	head         int
	size         int // payload bytes kept
}

func (r *ring) add(m *message) {
	r.kept = append(r.kept, m)
	r.size += len(m.payload)
	for r.head < len(r.kept) && (len(r.kept)-r.head > r.steps || r.size > r.bytes) {
		r.size -= len(r.kept[r.head].payload)
		r.kept[r.head] = nil
		r.head++
	}
	if r.head > 64 && r.head*2 > len(r.kept) {
		n := copy(r.kept, r.kept[r.head:])
		clear(r.kept[n:])
		r.kept, r.head = r.kept[:n], 0
	}
}

// from copies the kept batches with the number first and later.
func (r *ring) from(first uint64) []*message {
	kept := r.kept[r.head:]
	if len(kept) == 0 || first > math.MaxInt64 {
		return nil
	}
	skip := max(0, int64(first)-kept[0].seq)
	if skip >= int64(len(kept)) {
		return nil
	}
	return append([]*message(nil), kept[skip:]...)
}
