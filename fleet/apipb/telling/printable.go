package telling

import (
	"fmt"
	"unicode"
	"unicode/utf8"
)

// Printable appends b to dst without what a terminal would obey and what makes text
// read other than it is: of control characters only line feeds and tabs remain; the
// others, marks that change the direction of writing, and broken UTF-8 are shown as
// escapes. b ends between two characters.
func Printable(dst, b []byte) []byte {
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		switch {
		case r == utf8.RuneError && n == 1:
			dst = fmt.Appendf(dst, `\x%02x`, b[0])
		case r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)):
			dst = fmt.Appendf(dst, `\u%04x`, r)
		default:
			dst = append(dst, b[:n]...)
		}
		b = b[n:]
	}
	return dst
}
