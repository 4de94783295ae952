package limit

import "time"

// Window is the time over which rates are counted.
const Window = time.Minute

const (
	// grain is how finely a window is kept: what came within a second of the
	// first is kept together and leaves together, a minute after the last of it.
	grain = int64(time.Second)
	// ring is how many buckets there are place for. Buckets begin a grain apart
	// at least, and those that count began within the last 61 grains.
	ring = 64
	// slack is how far a caller's time may lie behind another's that was faster
	// to the lock. More than that is a clock that was set back.
	slack = int64(10 * time.Second)
	// mostDebt bounds, in windows, for how long a subject pays for what it used
	// beyond its estimates.
	mostDebt = 60
)

// bucket is what was charged within a grain.
type bucket struct {
	first, last      int64 // when, in ns of the limiter's clock
	requests, tokens int64
}

// window is an exact sliding log but for one thing: what is charged within a
// grain leaves together, with the last of it. So it never counts less than what
// was charged in the last minute, and at most a grain more. Times never go
// back: see advance.
type window struct {
	// Bucket i, for oldest <= i < next, is at buckets[i%ring].
	oldest, next     uint64
	requests, tokens int64 // sums over buckets
	// debt is what was used beyond estimates and found no room in the window. It
	// takes the place of what leaves, so that over time no more than the limit is
	// used.
	debt int64
	// tokenLimit is the limit of the last request; debts are repaid at its rate.
	tokenLimit int64
	now        int64
	buckets    [ring]bucket
}

func (w *window) at(i uint64) *bucket { return &w.buckets[i%ring] }

// advance moves the window to now and forgets what left it.
func (w *window) advance(now int64) {
	switch {
	case now >= w.now:
		w.now = now
	case w.now-now > slack:
		// The clock was set back. Everything keeps the age that it had: nobody
		// gains anything, and nobody is locked out until the clock is back where
		// it was.
		for i := w.oldest; i < w.next; i++ {
			b := w.at(i)
			b.first += now - w.now
			b.last += now - w.now
		}
		w.now = now
	}
	for w.oldest < w.next {
		b := w.at(w.oldest)
		leaves := b.last + int64(Window)
		if leaves > w.now {
			break
		}
		w.requests -= b.requests
		w.tokens -= b.tokens
		w.oldest++
		w.repay(leaves)
	}
	w.repay(w.now)
}

// repay lets debt take the room that there is in the window at a time, which is
// not before any in it.
func (w *window) repay(at int64) {
	if w.debt == 0 {
		return
	}
	if w.tokenLimit == 0 {
		w.debt = 0
		return
	}
	w.debt = min(w.debt, w.tokenLimit*mostDebt)
	if room := w.tokenLimit - w.tokens; room > 0 {
		n := min(w.debt, room)
		w.debt -= n
		w.charge(at, 0, n)
	}
}

// charge puts something into the window at a time, which is not before any in
// it, and returns in which bucket it is.
func (w *window) charge(at, requests, tokens int64) uint64 {
	if w.oldest == w.next || at-w.at(w.next-1).first >= grain {
		*w.at(w.next) = bucket{first: at}
		w.next++
	}
	b := w.at(w.next - 1)
	b.last = at
	b.requests += requests
	b.tokens += tokens
	w.requests += requests
	w.tokens += tokens
	return w.next - 1
}

// giveBack takes something out again, if it has not left by itself.
func (w *window) giveBack(i uint64, requests, tokens int64) {
	if i < w.oldest || i >= w.next {
		return
	}
	b := w.at(i)
	b.requests -= requests
	b.tokens -= tokens
	w.requests -= requests
	w.tokens -= tokens
}

// owe charges tokens that were used beyond an estimate: what finds room now, the
// rest later.
func (w *window) owe(tokens int64) {
	if w.tokenLimit == 0 {
		w.charge(w.now, 0, tokens)
		return
	}
	w.debt = add(w.debt, tokens)
	w.repay(w.now)
}

// untilRequests returns after how long one more request fits.
func (w *window) untilRequests(limit int64) time.Duration {
	return w.until(w.requests+1-limit, w.requests, func(b *bucket) int64 { return b.requests })
}

// untilTokens returns after how long that many more tokens fit.
func (w *window) untilTokens(n, limit int64) time.Duration {
	return w.until(add(w.tokens, w.debt)+n-limit, w.tokens, func(b *bucket) int64 { return b.tokens })
}

// until returns after how long that much will have left, of sum that is in the
// window. More than sum is debt, which leaves as it enters: a window later.
func (w *window) until(excess, sum int64, of func(*bucket) int64) time.Duration {
	if excess <= 0 || sum <= 0 {
		return 0
	}
	turns := (excess - 1) / sum
	excess -= turns * sum
	wait := time.Duration(turns) * Window
	for i := w.oldest; i < w.next; i++ {
		b := w.at(i)
		if excess -= of(b); excess <= 0 {
			return wait + time.Duration(b.last-w.now) + Window
		}
	}
	return wait + Window
}

// resets returns after how long nothing of the window is left, for requests and
// for tokens.
func (w *window) resets() (requests, tokens time.Duration) {
	for i := w.next; i > w.oldest && (requests == 0 || tokens == 0); i-- {
		b := w.at(i - 1)
		left := time.Duration(b.last-w.now) + Window
		if requests == 0 && b.requests > 0 {
			requests = left
		}
		if tokens == 0 && b.tokens > 0 {
			tokens = left
		}
	}
	if w.debt > 0 && w.tokenLimit > 0 {
		tokens += time.Duration((w.debt+w.tokenLimit-1)/w.tokenLimit) * Window
	}
	return requests, tokens
}

// asNew reports whether the window holds nothing.
func (w *window) asNew() bool { return w.requests == 0 && w.tokens == 0 && w.debt == 0 }
