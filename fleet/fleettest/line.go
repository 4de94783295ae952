package fleettest

import (
	"container/heap"
	"context"
	"sync"
	"time"
)

// lineOf passes messages on when they are due, one at a time; of two that are due at
// one time the first put comes first.
type lineOf[M any] struct {
	pass func(M) error

	mu    sync.Mutex
	queue dueHeap[M] // guarded by mu
	puts  uint64     // guarded by mu
	more  chan struct{}
}

func newLine[M any](pass func(M) error) *lineOf[M] {
	return &lineOf[M]{pass: pass, more: make(chan struct{}, 1)}
}

// put hands a message over. It does not block.
func (l *lineOf[M]) put(m M, due time.Time) {
	l.mu.Lock()
	l.puts++
	heap.Push(&l.queue, dueMessage[M]{m, due, l.puts})
	l.mu.Unlock()
	select {
	case l.more <- struct{}{}:
	default:
	}
}

// next returns a message that is due, or how long the first one has to wait; 0:
// there is none.
func (l *lineOf[M]) next() (m M, there bool, pause time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.queue) == 0 {
		return m, false, 0
	}
	if pause := time.Until(l.queue[0].due); pause > 0 {
		return m, false, pause
	}
	return heap.Pop(&l.queue).(dueMessage[M]).message, true, 0 //nolint:forcetypeassert // its own
}

// run passes messages on until ctx is done or one cannot be.
func (l *lineOf[M]) run(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		m, there, pause := l.next()
		if there {
			if err := l.pass(m); err != nil {
				return err
			}
			continue
		}
		var due <-chan time.Time
		if pause > 0 {
			timer.Reset(pause)
			due = timer.C
		}
		select {
		case <-ctx.Done():
			return nil
		case <-l.more:
		case <-due:
		}
	}
}

type dueMessage[M any] struct {
	message M
	due     time.Time
	put     uint64
}

// dueHeap is a heap by due, then by the order of being put.
type dueHeap[M any] []dueMessage[M]

func (h dueHeap[M]) Len() int      { return len(h) }
func (h dueHeap[M]) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h dueHeap[M]) Less(i, j int) bool {
	if h[i].due.Equal(h[j].due) {
		return h[i].put < h[j].put
	}
	return h[i].due.Before(h[j].due)
}
func (h *dueHeap[M]) Push(x any) { *h = append(*h, x.(dueMessage[M])) } //nolint:forcetypeassert // its own
func (h *dueHeap[M]) Pop() any {
	old := *h
	last := old[len(old)-1]
	*h = old[:len(old)-1]
	return last
}
