package openai

import "bytes"

// finishTail is how much of a stream's end is searched for a finish reason: the
// last chunk, and one with usage behind it.
const finishTail = 2 << 10

// keepTail returns the last n bytes of tail and p together, in tail's memory.
func keepTail(tail, p []byte, n int) []byte {
	if len(p) >= n {
		return append(tail[:0], p[len(p)-n:]...)
	}
	if over := len(tail) + len(p) - n; over > 0 {
		tail = tail[:copy(tail, tail[over:])]
	}
	return append(tail, p...)
}

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
