package openai

import (
	"bytes"
	"encoding/binary"
	"math/bits"
)

// textBlock is the step of the search in plain text. Two searches pass over a
// block, so it fits the first-level cache.
const textBlock = 8 << 10

// sparse is how many plain bytes before an escape keep the vector search at
// work: a line break at the end of each line of prose does not repay masks.
const sparse = 64

// A byte repeated eight times.
const (
	ones   = 0x0101010101010101
	highs  = 0x8080808080808080
	quotes = '"' * ones
	slants = '\\' * ones
)

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
// whether it holds an escape. Short strings are read eight bytes at a time.
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
	if s.long == nil {
		return s.rest(start, i)
	}
	if !s.notes {
		if l := s.long.at(start); l != nil {
			return l.end, l.escaped
		}
		return s.rest(start, i)
	}
	before := s.odd
	s.odd = false
	end, escaped = s.rest(start, i)
	s.long.note(longString{start, end, escaped, s.odd})
	s.odd = s.odd || before
	return end, escaped
}

// rest is str from b[i] on, the quote being b[start]. Two ways take turns: 64 bytes
// at a time with bit masks where escapes are dense, since the branches of a search
// would be mispredicted there, and the vector search of package bytes in plain text.
func (s *scanner) rest(start, i int) (end int, escaped bool) {
	b := s.b
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
			if e < sparse {
				break
			}
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

// simpleEscape is 1 if c may follow a backslash and makes no odd escape, else 0.
// It has no branch, since what follows a backslash is hard to predict.
func simpleEscape(c byte) byte {
	const set = "\x00\x00\x00\x00\x04\x00\x00\x00\x00\x00\x00\x10\x44\x40\x14\x00" + // a bit for each of " \ b f n r t
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
	case '"', '\\', 'b', 'f', 'n', 'r', 't':
		return i + 2
	case '/':
		s.odd = true
		return i + 2
	case 'u':
		s.odd = true
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
