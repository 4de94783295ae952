package prefix

import (
	"sync"
	"time"
)

const (
	// fineChunks is how far into a prompt an Underway knows it by fineStep chunks,
	// 256 bytes; beyond by coarseStep, 1 KiB. What lies between is not known.
	fineChunks, fineStep, coarseStep = 64, 4, 16
	// maxUnderway is after how long a prompt that was begun counts no more: its
	// engine has long told of it, or its end was never told.
	maxUnderway = 10 * time.Minute
)

// Underway knows which prompts endpoints are computing. An engine tells of a
// prompt's blocks when it has computed them, which an [Exact] hears a little later
// still; of a burst of prompts that begin alike only this knows where the first
// went. It is bounded in memory and keeps hashes only. Its methods are safe for
// concurrent use. The zero Underway is not ready; use NewUnderway.
type Underway struct {
	linger time.Duration
	max    int

	mu    sync.RWMutex
	first map[uint64]int32 // by hash, the head of its list in all; guarded by mu
	all   []beginning      // from 1; guarded by mu
	free  int32            // the head of the list of free ones; guarded by mu
	used  int              // guarded by mu
	slots int              // more than the greatest slot so far; guarded by mu
	ended []ending         // by time, from head on; guarded by mu
	head  int              // guarded by mu
	lost  uint64           // beginnings there was no room for; guarded by mu
}

// beginning is the beginning of prompts that an endpoint computes.
type beginning struct {
	hash  uint64
	id    ID
	runs  int32     // prompts that have not ended
	until time.Time // that it counts
	next  int32     // with the same hash, or free
}

// ending is when a beginning may be over.
type ending struct {
	hash uint64
	id   ID
	at   time.Time
}

// NewUnderway returns an Underway of at most so many beginnings (of a prompt of 8 KB
// there are 20), in which a prompt that was computed counts for linger after its end.
// Both must be positive.
func NewUnderway(beginnings int, linger time.Duration) *Underway {
	return &Underway{linger: linger, max: beginnings, first: make(map[uint64]int32), all: make([]beginning, 1)}
}

// beginnings calls each with the places at which c is known, as the numbers of their
// chunks, the longest last.
func beginnings(c *Chain, each func(chunk int)) {
	for i := fineStep; i <= len(c.hashes); {
		each(i - 1)
		if i < fineChunks {
			i += fineStep
		} else {
			i += coarseStep
		}
	}
}

// find returns the beginning of id with that hash, 0 if there is none. It holds mu.
func (u *Underway) find(hash uint64, id ID) int32 {
	i := u.first[hash]
	for i != 0 && u.all[i].id != id {
		i = u.all[i].next
	}
	return i
}

// Begin says that the endpoint is about to compute c. End must follow.
func (u *Underway) Begin(now time.Time, id ID, c *Chain) {
	if id == (ID{}) {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.sweep(now)
	u.slots = max(u.slots, id.Slot()+1)
	beginnings(c, func(chunk int) {
		hash := c.hashes[chunk]
		i := u.find(hash, id)
		if i == 0 {
			if u.used >= u.max {
				u.lost++
				return
			}
			i = u.add(beginning{hash: hash, id: id, next: u.first[hash]})
			u.first[hash] = i
		}
		b := &u.all[i]
		b.runs++
		b.until = now.Add(maxUnderway)
	})
}

// add puts b into a free place. It holds mu.
func (u *Underway) add(b beginning) int32 {
	u.used++
	if i := u.free; i != 0 {
		u.free = u.all[i].next
		u.all[i] = b
		return i
	}
	u.all = append(u.all, b)
	return int32(len(u.all) - 1)
}

// End says that what was begun with the same arguments has ended, and whether the
// endpoint has computed c as far as is known.
func (u *Underway) End(now time.Time, id ID, c *Chain, computed bool) {
	if id == (ID{}) {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	beginnings(c, func(chunk int) {
		hash := c.hashes[chunk]
		i := u.find(hash, id)
		if i == 0 {
			return // there was no room for it
		}
		b := &u.all[i]
		b.runs = max(b.runs-1, 0)
		if b.runs > 0 {
			return
		}
		if !computed || len(u.ended)-u.head >= u.max {
			u.remove(hash, id)
			return
		}
		b.until = now.Add(u.linger)
		u.ended = append(u.ended, ending{hash, id, b.until})
	})
	u.sweep(now)
}

// sweep forgets what counts no more. It holds mu.
func (u *Underway) sweep(now time.Time) {
	for u.head < len(u.ended) && !u.ended[u.head].at.After(now) {
		e := u.ended[u.head]
		u.head++
		if i := u.find(e.hash, e.id); i != 0 && u.all[i].runs == 0 && !u.all[i].until.After(now) {
			u.remove(e.hash, e.id)
		}
	}
	if u.head > 64 && u.head*2 > len(u.ended) {
		u.ended = u.ended[:copy(u.ended, u.ended[u.head:])]
		u.head = 0
	}
}

// remove forgets a beginning that is there. It holds mu.
func (u *Underway) remove(hash uint64, id ID) {
	i := u.find(hash, id)
	if before := u.first[hash]; before == i {
		if u.all[i].next == 0 {
			delete(u.first, hash)
		} else {
			u.first[hash] = u.all[i].next
		}
	} else {
		for u.all[before].next != i {
			before = u.all[before].next
		}
		u.all[before].next = u.all[i].next
	}
	u.all[i] = beginning{next: u.free}
	u.free = i
	u.used--
}

// Lookup finds the endpoints that compute a beginning of c, or did until just now,
// and puts them into r, those with the longest first; Match.Bytes is the longest
// that is known, Seen and Trust are 1 and Tokens 0. It allocates only to grow r.
func (u *Underway) Lookup(now time.Time, c *Chain, r *Result) {
	u.mu.RLock()
	defer u.mu.RUnlock()
	r.reset(c.bytes, u.slots)
	if u.used == 0 {
		return
	}
	for i := len(c.hashes) / fineStep * fineStep; i > 0; i-- {
		if i%fineStep != 0 || i > fineChunks && i%coarseStep != 0 {
			continue
		}
		for at := u.first[c.hashes[i-1]]; at != 0; at = u.all[at].next {
			b := &u.all[at]
			if r.at[b.id.slot] != 0 || !b.until.After(now) {
				continue
			}
			r.Matches = append(r.Matches, Match{ID: b.id, Bytes: i * ChunkBytes, Seen: 1, Trust: 1})
			r.at[b.id.slot] = int32(len(r.Matches))
		}
	}
}

// Stats returns how many beginnings are known, and how many there was no room for so
// far.
func (u *Underway) Stats() (beginnings int, lost uint64) {
	u.mu.RLock()
	defer u.mu.RUnlock()
	return u.used, u.lost
}
