package openai

import (
	"bytes"
	"encoding/binary"
	"math/bits"
)

// MaxDepth is how deep objects and arrays of a request may nest. Engines'
// parsers stop between 128 and some 1,000 levels; tool schemas stay below 50.
const MaxDepth = 512

// textBlock is the step of the search in plain text. Two searches pass over a
// block, so it fits the first-level cache.
const textBlock = 8 << 10

// A byte repeated eight times.
const (
	ones   = 0x0101010101010101
	highs  = 0x8080808080808080
	quotes = '"' * ones
	slants = '\\' * ones
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
func zeroBytes(w uint64) uint64 { return (w - ones) &^ w & highs }

// equalBytes has a bit for each of the 64 bytes that is the one repeated in c.
func equalBytes(b *[64]byte, c uint64) uint64 {
	le := binary.LittleEndian
	return ^(differ(le.Uint64(b[0:])^c) | differ(le.Uint64(b[8:])^c)<<8 |
		differ(le.Uint64(b[16:])^c)<<16 | differ(le.Uint64(b[24:])^c)<<24 |
		differ(le.Uint64(b[32:])^c)<<32 | differ(le.Uint64(b[40:])^c)<<40 |
		differ(le.Uint64(b[48:])^c)<<48 | differ(le.Uint64(b[56:])^c)<<56)
}

// differ has a bit for each byte of x that is not zero: the sum sets its high
// bit, and the product collects the high bits in the highest byte.
func differ(x uint64) uint64 {
	return ((x&^highs + 0x7f*ones) | x) & highs * 0x0002040810204081 >> 56
}

// str returns the index after the string whose opening quote is b[i], and
// whether it holds an escape. Three ways take turns: eight bytes at a time for
// short strings, 64 with bit masks where escapes are dense, since the branches
// of a search would be mispredicted there, and the vector search of package
// bytes in plain text.
func (s *scanner) str(i int) (end int, escaped bool) {
	b := s.b
	start := i
	i++
	for stop := min(i+16, len(b)-7); i < stop; i += 8 {
		w := binary.LittleEndian.Uint64(b[i:])
		if m := zeroBytes(w^quotes) | zeroBytes(w^slants); m != 0 {
			if i += bits.TrailingZeros64(m) >> 3; b[i] == '"' {
				return i + 1, false
			}
			break
		}
	}
	quote, known := i, false // no quote in b[i:quote], one at quote if known
	for {
		next, closed, any := s.blocks(i)
		escaped = escaped || any
		if next < 0 || closed {
			return next, escaped
		}
		i = next
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
			if i = s.escape(i + e); i < 0 {
				return -1, true
			}
			escaped = true
			break
		}
	}
}

// blocks steps over the inside of a string by 64 bytes as long as escapes come
// often. It returns the index after the closing quote, or where it stopped.
func (s *scanner) blocks(i int) (next int, closed, escaped bool) {
	b := s.b
	for plain := 0; plain < 2 && i+64 <= len(b); {
		block := (*[64]byte)(b[i:])
		quote, slant := equalBytes(block, quotes), equalBytes(block, slants)
		if slant == 0 {
			if quote != 0 {
				return i + bits.TrailingZeros64(quote) + 1, true, escaped
			}
			plain++
			i += 64
			continue
		}
		plain = 0
		after := i + 64
		for slant != 0 {
			first := slant & -slant
			if before := quote & (first - 1); before != 0 {
				return i + bits.TrailingZeros64(before) + 1, true, escaped
			}
			escaped = true
			quote &^= first << 1 // the escaped byte
			slant &^= first | first<<1
			k := i + bits.TrailingZeros64(first)
			if k+1 >= len(b) || simpleEscape(b[k+1]) == 0 {
				if s.escape(k) < 0 {
					return -1, false, true
				}
			}
			if first == 1<<63 {
				after++
			}
		}
		if quote != 0 {
			return i + bits.TrailingZeros64(quote) + 1, true, escaped
		}
		i = after
	}
	return i, false, escaped
}

// simpleEscape is 1 if c may follow a backslash and is not the u of \u, else 0.
// It has no branch, since what follows a backslash is hard to predict.
func simpleEscape(c byte) byte {
	const set = "\x00\x00\x00\x00\x04\x80\x00\x00\x00\x00\x00\x10\x44\x40\x14\x00" + // a bit for each of " / \ b f n r t
		"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
	return set[c>>3] >> (c & 7) & 1
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

// plainInts steps over integers that are separated by a comma and at most one
// space, as in arrays of token ids, eight bytes at a time. It must stand where
// a value is expected, and returns such an index: the start of the first value
// that it did not step over.
func plainInts(b []byte, start int) int {
	i := start
	// A mark is the high bit of a byte; the other bits mean nothing. Shifting
	// gives each byte the mark of the one before it.
	var lastNotDigit, lastNotComma, lastZero uint64 = highs, 0, 0
	for ; i+8 <= len(b); i += 8 {
		x := binary.LittleEndian.Uint64(b[i:]) ^ '0'*ones
		low := x &^ highs // so that no sum carries into the next byte
		notDigit := low + (0x80-10)*ones
		notZero := low + 0x7f*ones
		notComma := low ^ ('0'^',')*ones + 0x7f*ones
		notSpace := low ^ ('0'^' ')*ones + 0x7f*ones
		afterNoDigit := notDigit<<8 | lastNotDigit>>56
		afterNoComma := notComma<<8 | lastNotComma>>56
		// A zero that begins a number; no digit may follow it.
		zero := afterNoDigit &^ notZero
		afterZero := zero<<8 | lastZero>>56
		bad := x | notDigit&notComma&notSpace | afterNoDigit&^notComma |
			afterNoComma&^notSpace | afterZero&^notDigit
		if bad&highs != 0 {
			break
		}
		lastNotDigit, lastNotComma, lastZero = notDigit, notComma, zero
	}
	for i > start && b[i-1] != ',' {
		i--
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
