package twin

import "time"

// never is when an engine is due that has nothing to do.
const never = time.Duration(1<<63 - 1)

// due orders engines by when their next iteration ends: a binary heap in which
// each engine has its place, of equal times the lower number first.
type due struct {
	at    []time.Duration // by engine
	heap  []int32         // engines
	place []int32         // by engine, its index in heap
}

func newDue(engines int) *due {
	d := &due{at: make([]time.Duration, engines), heap: make([]int32, engines), place: make([]int32, engines)}
	for i := range engines {
		d.at[i], d.heap[i], d.place[i] = never, int32(i), int32(i)
	}
	return d
}

// first returns the engine that is due first, and when.
func (d *due) first() (int, time.Duration) { return int(d.heap[0]), d.at[d.heap[0]] }

// set makes an engine due at a time.
func (d *due) set(engine int, at time.Duration) {
	d.at[engine] = at
	i := d.place[engine]
	for i > 0 {
		parent := (i - 1) / 2
		if !d.before(d.heap[i], d.heap[parent]) {
			break
		}
		d.swap(i, parent)
		i = parent
	}
	for n := int32(len(d.heap)); ; {
		child := 2*i + 1
		if child >= n {
			return
		}
		if child+1 < n && d.before(d.heap[child+1], d.heap[child]) {
			child++
		}
		if !d.before(d.heap[child], d.heap[i]) {
			return
		}
		d.swap(i, child)
		i = child
	}
}

func (d *due) before(a, b int32) bool {
	return d.at[a] < d.at[b] || (d.at[a] == d.at[b] && a < b)
}

func (d *due) swap(i, j int32) {
	d.heap[i], d.heap[j] = d.heap[j], d.heap[i]
	d.place[d.heap[i]], d.place[d.heap[j]] = i, j
}
