package openai

// keepTail adds p to tail, in tail's memory, and keeps the last n bytes at least.
// It keeps up to twice as many, so that a small p does not move all of them.
func keepTail(tail, p []byte, n int) []byte {
	if len(p) >= n {
		return append(tail[:0], p[len(p)-n:]...)
	}
	if len(tail)+len(p) > 2*n {
		tail = tail[:copy(tail, tail[len(tail)+len(p)-n:])]
	}
	return append(tail, p...)
}

// lastBytes returns the last n bytes of b.
func lastBytes(b []byte, n int) []byte { return b[max(0, len(b)-n):] }
