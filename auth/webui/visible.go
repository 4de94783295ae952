package webui

import (
	"fmt"
	"unicode"
	"unicode/utf8"
)

// visible returns page with what would make its text read other than it is shown as
// escapes: control characters and marks that change the direction of writing, which
// only strangers' words have. Templates have made of the rest what HTML needs. Where
// there is none of it, which is nearly always, page is returned as it is.
func visible(page []byte) []byte {
	for i := 0; i < len(page); {
		if c := page[i]; c < utf8.RuneSelf && (c >= ' ' && c != 0x7f || c == '\n' || c == '\t') {
			i++
			continue
		}
		r, n := utf8.DecodeRune(page[i:])
		if hides(r, n) {
			return escaped(page, i)
		}
		i += n
	}
	return page
}

// escaped is page with escapes from i on.
func escaped(page []byte, i int) []byte {
	out := append(make([]byte, 0, len(page)+64), page[:i]...)
	for i < len(page) {
		r, n := utf8.DecodeRune(page[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			out = fmt.Appendf(out, `\x%02x`, page[i])
		case hides(r, n):
			out = fmt.Appendf(out, `\u%04x`, r)
		default:
			out = append(out, page[i:i+n]...)
		}
		i += n
	}
	return out
}

// hides reports whether a rune of n bytes is not to be seen, or no rune at all.
func hides(r rune, n int) bool {
	return r == utf8.RuneError && n == 1 || r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r))
}
