package generate

import (
	"errors"
	"fmt"
	"sync/atomic"
)

// A target may answer without end, and many answers are under way at once. So
// what is kept of one is bounded, and what all keep together.
const (
	// maxEventBytes bounds one event of a stream.
	maxEventBytes = 1 << 20
	// maxDocumentBytes bounds an unstreamed answer, beside documentBytesPerToken
	// for each token asked for, which is enough for the probabilities of 20
	// alternatives.
	maxDocumentBytes      = 1 << 20
	documentBytesPerToken = 4 << 10
	// maxHeadBytes bounds an answer's head.
	maxHeadBytes = 256 << 10
	// eventsPerToken and moreEvents bound the events of one stream.
	eventsPerToken = 4
	moreEvents     = 1024
	// maxKeptBytes bounds what all answers keep beyond freeBytes each.
	maxKeptBytes = 256 << 20
	freeBytes    = 64 << 10
)

// errTooLong says that an answer has more than is read of it.
var errTooLong = errors.New("too long")

// budget is what all answers under way may keep. It may be used concurrently.
type budget struct{ left atomic.Int64 }

func newBudget(bytes int64) *budget {
	b := new(budget)
	b.left.Store(bytes)
	return b
}

// kept is what one answer keeps of a budget. The zero value has no budget and
// is always enough.
type kept struct {
	of    *budget
	taken int64
}

// hold says that the answer now keeps so many bytes. The error wraps
// errTooLong.
func (k *kept) hold(bytes int) error {
	more := int64(max(bytes-freeBytes, 0)) - k.taken
	if k.of == nil || more <= 0 {
		return nil
	}
	if k.of.left.Add(-more) < 0 {
		k.of.left.Add(more)
		return fmt.Errorf("%w: the answers under way keep more than %d MiB; want shorter ones, or fewer at a time", errTooLong, maxKeptBytes>>20)
	}
	k.taken += more
	return nil
}

// release gives back what hold took.
func (k *kept) release() {
	if k.of != nil {
		k.of.left.Add(k.taken)
		k.taken = 0
	}
}

// saturated is a + b, neither of them negative, or the most an int64 holds.
func saturated(a, b int64) int64 {
	if sum := a + b; sum >= 0 {
		return sum
	}
	return 1<<63 - 1
}
