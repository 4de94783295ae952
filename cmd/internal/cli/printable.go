package cli

import (
	"fmt"
	"io"
	"unicode"
	"unicode/utf8"
)

// printable passes text on without what a terminal would obey: of control
// characters only line feeds and tabs remain, the others and broken UTF-8 are
// shown as escapes. It is for text that comes out of a file somebody else wrote.
type printable struct{ w io.Writer }

// Write writes all of b, which ends between two characters.
func (p printable) Write(b []byte) (int, error) {
	out := make([]byte, 0, len(b))
	for rest := b; len(rest) > 0; {
		r, n := utf8.DecodeRune(rest)
		switch {
		case r == utf8.RuneError && n == 1:
			out = fmt.Appendf(out, `\x%02x`, rest[0])
		case r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)):
			out = fmt.Appendf(out, `\u%04x`, r)
		default:
			out = append(out, rest[:n]...)
		}
		rest = rest[n:]
	}
	if _, err := p.w.Write(out); err != nil {
		return 0, err
	}
	return len(b), nil
}
