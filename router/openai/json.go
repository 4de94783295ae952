package openai

import (
	"bytes"
	"encoding/binary"
	"math/bits"
)

// MaxDepth is how deep objects and arrays of a request may nest. Engines'
// parsers stop between 128 and some 1,000 levels; tool schemas stay below 50.
const MaxDepth = 512

// The steps of scanString: dense escapes are found faster by eight bytes at a
// time in registers, plain text by the vector search of package bytes. Blocks
// are small enough for the first-level cache, since two searches pass over
// them.
const (
	denseWindow = 64
	textBlock   = 8 << 10
)

// scanner walks over JSON text without recursion and without allocating. It
// is strict on grammar outside strings and on escapes inside them; control
// characters and invalid UTF-8 within strings are not looked for.
type scanner struct {
	b   []byte
	at  int   // where err was found
	err error // one of the sentinels in errors_peek.go, nil while all is well
	why string
}

func (s *scanner) fail(at int, err error, why string) int {
	if s.err == nil {
		s.at, s.err, s.why = at, err, why
	}
	return -1
}

// unexpected says that the byte at i cannot stand there, or that the text
// ended.
func (s *scanner) unexpected(i int, why string) int {
	if i >= len(s.b) {
		return s.fail(len(s.b), ErrTruncated, why)
	}
	return s.fail(i, ErrNotJSON, why)
}

// skipSpace returns the index of the first byte at or after i that is not
// JSON white space, or len(b).
func skipSpace(b []byte, i int) int {
	for i < len(b) {
		switch b[i] {
		case ' ', '\n', '\t', '\r':
			i++
		default:
			return i
		}
	}
	return i
}

// zeroBytes marks with the high bit the zero bytes of w. Marks above the
// lowest one may be false; the lowest is exact.
func zeroBytes(w uint64) uint64 {
	return (w - 0x0101010101010101) &^ w & 0x8080808080808080
}

// str returns the index after the string whose opening quote is b[i], and
// whether it holds an escape.
func (s *scanner) str(i int) (end int, escaped bool) {
	const quotes, slashes = 0x2222222222222222, 0x5c5c5c5c5c5c5c5c
	b := s.b
	start := i
	i++
	quote, known := i, false // no quote in b[i:quote], one at quote if known
	for {
		stop := min(i+denseWindow, len(b)-7)
		for i < stop {
			w := binary.LittleEndian.Uint64(b[i:])
			m := zeroBytes(w^quotes) | zeroBytes(w^slashes)
			if m == 0 {
				i += 8
				continue
			}
			i += bits.TrailingZeros64(m) >> 3
			if b[i] == '"' {
				return i + 1, escaped
			}
			if i = s.escape(i); i < 0 {
				return -1, true
			}
			escaped = true
			stop = min(i+denseWindow, len(b)-7)
		}
		for {
			if i >= len(b) {
				return s.fail(start, ErrTruncated, "a string does not end"), escaped
			}
			if quote < i || quote == i && !known {
				block := b[i:min(i+textBlock, len(b))]
				q := bytes.IndexByte(block, '"')
				known = q >= 0
				if quote = i + q; !known {
					quote = i + len(block)
				}
			}
			e := bytes.IndexByte(b[i:quote], '\\')
			if e < 0 {
				if known {
					return quote + 1, escaped
				}
				i = quote
				continue
			}
			i += e
			if i = s.escape(i); i < 0 {
				return -1, true
			}
			escaped = true
			break
		}
	}
}

// escape returns the index after the escape whose backslash is b[i].
func (s *scanner) escape(i int) int {
	b := s.b
	if i+1 >= len(b) {
		return s.fail(len(b), ErrTruncated, "an escape does not end")
	}
	switch b[i+1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return i + 2
	case 'u':
		if i+6 > len(b) {
			return s.fail(len(b), ErrTruncated, "an escape does not end")
		}
		for _, c := range b[i+2 : i+6] {
			if hexDigit(c) < 0 {
				return s.fail(i, ErrNotJSON, `\u needs four hexadecimal digits`)
			}
		}
		return i + 6
	}
	return s.fail(i, ErrNotJSON, "unknown escape in a string")
}

func hexDigit(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c >= 'a' && c <= 'f':
		return int(c-'a') + 10
	case c >= 'A' && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}

// number returns the index after the number that starts at b[i].
func (s *scanner) number(i int) int {
	b := s.b
	start := i
	if i < len(b) && b[i] == '-' {
		i++
	}
	switch {
	case i < len(b) && b[i] == '0':
		i++
	case i < len(b) && b[i] >= '1' && b[i] <= '9':
		i = digits(b, i)
	case i >= len(b):
		return s.fail(len(b), ErrTruncated, "a value is missing")
	default:
		return s.fail(start, ErrNotJSON, "a value is expected")
	}
	if i < len(b) && b[i] == '.' {
		frac := i + 1
		if i = digits(b, frac); i == frac {
			return s.unexpected(i, "a digit is expected after the decimal point")
		}
	}
	if i < len(b) && b[i]|0x20 == 'e' {
		i++
		if i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		exp := i
		if i = digits(b, exp); i == exp {
			return s.unexpected(i, "a digit is expected in the exponent")
		}
	}
	return i
}

func digits(b []byte, i int) int {
	for i < len(b) && b[i]-'0' <= 9 {
		i++
	}
	return i
}

// plainInts steps over integers of one to seven digits that are followed by a
// comma and preceded by at most one space, as in arrays of token ids, and
// returns the index of the first thing that is something else. It expects to
// stand where a value is expected, and returns such an index.
func plainInts(b []byte, i int) int {
	for i+9 <= len(b) {
		j := i
		if b[j] == ' ' {
			j++
		}
		x := binary.LittleEndian.Uint64(b[j:]) ^ 0x3030303030303030
		// A byte of x is a digit when it is below 10: adding 0x76 then leaves
		// the high bit clear. The high bit is masked before, so nothing carries.
		other := ((x&0x7f7f7f7f7f7f7f7f + 0x7676767676767676) | x) & 0x8080808080808080
		n := bits.TrailingZeros64(other) >> 3 // 8 when all are digits
		if n == 0 || n == 8 || b[j+n] != ',' || (x&0xff == 0 && n > 1) {
			return i
		}
		i = j + n + 1
	}
	return i
}

// literal returns the index after word, which must stand at b[i].
func (s *scanner) literal(i int, word string) int {
	b := s.b
	n := min(len(word), len(b)-i)
	if string(b[i:i+n]) != word[:n] {
		return s.fail(i, ErrNotJSON, "a value is expected")
	}
	if n < len(word) {
		return s.fail(len(b), ErrTruncated, "a value does not end")
	}
	return i + n
}

// key returns the index where the value of the member starts whose key is
// expected at b[i], and the key's span with its quotes.
func (s *scanner) key(i int) (value int, key Span, escaped bool) {
	if i >= len(s.b) || s.b[i] != '"' {
		return s.unexpected(i, "a key in double quotes is expected"), Span{}, false
	}
	end, escaped := s.str(i)
	if end < 0 {
		return -1, Span{}, false
	}
	colon := skipSpace(s.b, end)
	if colon >= len(s.b) || s.b[colon] != ':' {
		return s.unexpected(colon, "a colon is expected after a key"), Span{}, false
	}
	return skipSpace(s.b, colon+1), Span{i, end}, escaped
}

// value returns the index after the value that starts at b[i], which stands
// below depth open containers; -1 when s.err is set.
func (s *scanner) value(i, depth int) int {
	var objects [MaxDepth / 64]uint64 // one bit a level: object or array
	b := s.b
	base := depth
	for {
		if i = skipSpace(b, i); i >= len(b) {
			return s.fail(len(b), ErrTruncated, "a value is missing")
		}
		switch b[i] {
		case '"':
			i, _ = s.str(i)
		case '{', '[':
			if depth >= MaxDepth {
				return s.fail(i, ErrTooDeep, "")
			}
			object := b[i] == '{'
			if object {
				objects[depth>>6] |= 1 << (depth & 63)
			} else {
				objects[depth>>6] &^= 1 << (depth & 63)
			}
			depth++
			i = skipSpace(b, i+1)
			switch {
			case object && i < len(b) && b[i] == '}', !object && i < len(b) && b[i] == ']':
				// Closed below.
			case object:
				if i, _, _ = s.key(i); i < 0 {
					return -1
				}
				continue
			default:
				i = plainInts(b, i)
				continue
			}
		case 't':
			i = s.literal(i, "true")
		case 'f':
			i = s.literal(i, "false")
		case 'n':
			i = s.literal(i, "null")
		default:
			i = s.number(i)
		}
		if i < 0 {
			return -1
		}
		// A value ended, or an empty container stands before its closer.
		for {
			if depth == base {
				return i
			}
			if i = skipSpace(b, i); i >= len(b) {
				return s.fail(len(b), ErrTruncated, "an object or array does not end")
			}
			object := objects[(depth-1)>>6]>>((depth-1)&63)&1 == 1
			if c := b[i]; c == ',' {
				i++
				if object {
					if i, _, _ = s.key(skipSpace(b, i)); i < 0 {
						return -1
					}
				} else {
					i = plainInts(b, i)
				}
				break
			} else if object && c == '}' || !object && c == ']' {
				i++
				depth--
				continue
			}
			return s.fail(i, ErrNotJSON, "a comma or the end of the object or array is expected")
		}
	}
}
