// Package secret finds keys of llmgw in texts that clients chose, such as the ID of
// a request or the name of a model, before they are shown or kept. People put keys
// where none belongs.
package secret

import "strings"

const (
	// prefix begins every key. Package auth has the whole form.
	prefix = "llmgw_"
	// A key has so many letters and digits after it, and most of one is a secret too.
	most, least = 49, 32
	// shown stands where one was.
	shown = prefix + "…"
)

// Holds reports whether there is something like a key in a text.
func Holds(text string) bool {
	_, _, ok := find(text)
	return ok
}

// Without returns a text with everything in it that is like a key replaced.
func Without(text string) string {
	begin, end, ok := find(text)
	if !ok {
		return text
	}
	var b strings.Builder
	for ; ok; begin, end, ok = find(text) {
		b.WriteString(text[:begin])
		b.WriteString(shown)
		text = text[end:]
	}
	b.WriteString(text)
	return b.String()
}

// find returns where the first one stands.
func find(text string) (begin, end int, ok bool) {
	for from := 0; ; from = end {
		i := strings.Index(text[from:], prefix)
		if i < 0 {
			return 0, 0, false
		}
		begin = from + i
		end = begin + len(prefix)
		for end < min(len(text), begin+len(prefix)+most) && base62(text[end]) {
			end++
		}
		if end-begin >= len(prefix)+least {
			return begin, end, true
		}
	}
}

func base62(c byte) bool { return c-'0' < 10 || c|0x20-'a' < 26 }
