package openai

import "bytes"

// finishTail is how much of a stream's end is searched for a finish reason: the
// last chunk, and one with usage behind it.
const finishTail = 1 << 10

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

// finished is whether b has a chunk with a reason why a choice finished. Quotes
// within text are escaped, so that no output looks like one.
func finished(b []byte) bool {
	key := []byte(`"finish_reason":`)
	for {
		i := bytes.Index(b, key)
		if i < 0 {
			return false
		}
		b = b[i+len(key):]
		if at := skipSpace(b, 0); at < len(b) && b[at] == '"' {
			return true
		}
	}
}
