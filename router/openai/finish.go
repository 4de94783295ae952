package openai

import "bytes"

// maxChoices is how many choices are told apart; those beyond count as one.
const maxChoices = 64

// choices is which choices of an answer were seen, and which have finished.
type choices struct {
	seen, ended uint64 // a bit for each index
}

func (c *choices) see(index int, ended bool) {
	bit := uint64(1) << min(index, maxChoices-1)
	c.seen |= bit
	if ended {
		c.ended |= bit
	}
}

// finished is whether choices were seen, all of which have finished.
func (c *choices) finished() bool { return c.seen != 0 && c.seen == c.ended }

// read takes note of the choices of a chunk.
func (c *choices) read(chunk []byte) {
	list := member(chunk, "choices")
	if len(list) == 0 || list[0] != '[' {
		return
	}
	var key [32]byte
	for at := skipSpace(list, 1); at < len(list) && list[at] == '{'; {
		index, ended := 0, false
		m := members{s: scanner{b: list}, at: at}
		for m.next() {
			value := list[m.value.Start:m.value.End]
			switch string(m.name(key[:])) {
			case "index":
				if n, ok := count(value); ok {
					index = int(min(n, maxChoices-1))
				}
			case "finish_reason":
				ended = isReason(value)
			}
		}
		c.see(index, ended)
		if at = skipSpace(list, m.at+1); at >= len(list) || list[at] != ',' {
			return
		}
		at = skipSpace(list, at+1)
	}
}

// isReason is whether a value is a reason why a choice finished: engines send
// null, and some an empty string or "null", as long as there is none.
func isReason(value []byte) bool {
	return len(value) > 2 && value[0] == '"' && string(value) != `"null"`
}

// plainChoices is whether a chunk has the first choice, no other, and no reason
// why it finished, as far as two byte searches tell. Quotes within text are
// escaped, so that no output looks like a member; a second tool call has an index
// as well, and costs no more than a closer look.
// Such a chunk is not looked at for an error: engines that send one with choices
// give "error" as the reason.
func plainChoices(chunk []byte) bool {
	const index, reason = `"index":`, `"finish_reason":`
	first := false
	// The letter x and the underscore are the bytes that are seldom elsewhere.
	for i := 0; ; i++ {
		n := bytes.IndexByte(chunk[i:], 'x')
		if n < 0 {
			break
		}
		i += n
		start := i - len(`"inde`)
		at := start + len(index)
		if start < 0 || at+1 >= len(chunk) || string(chunk[start:i+2]) != index[:len(index)-1] {
			continue
		}
		if chunk[at-1] != ':' || chunk[at] != '0' || chunk[at+1]-'0' <= 9 {
			return false
		}
		first = true
	}
	for i := 0; first; i++ {
		n := bytes.IndexByte(chunk[i:], '_')
		if n < 0 {
			break
		}
		i += n
		start := i - len(`"finish`)
		at := start + len(reason)
		if start < 0 || at >= len(chunk) || string(chunk[start:at-1]) != reason[:len(reason)-1] {
			continue
		}
		if chunk[at-1] != ':' || chunk[at] != 'n' {
			return false
		}
	}
	return first
}

// lastFinish is whether the end of a long chunk has a reason why a choice
// finished.
func lastFinish(tail []byte) bool {
	key := []byte(`"finish_reason"`)
	i := bytes.LastIndex(tail, key)
	if i < 0 {
		return false
	}
	reason := stringAfter(tail, i+len(key))
	return len(reason) > 0 && string(reason) != "null"
}
