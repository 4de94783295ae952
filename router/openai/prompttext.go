package openai

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// elements walks over the elements of one JSON array without looking at them:
// who reads an element says where it ends, by take or whole, before the next.
type elements struct {
	s     scanner
	at    int // of the opening bracket, then of the element
	end   int // of the element, once done
	begun bool
	done  bool
}

// next steps to the next element; false at the end and at the first error.
func (l *elements) next() bool {
	b := l.s.b
	if l.s.err != nil {
		return false
	}
	i := l.at + 1
	if l.begun {
		if !l.done && !l.whole() {
			return false
		}
		if i = skipSpace(b, l.end); i >= len(b) || b[i] != ',' {
			if i >= len(b) || b[i] != ']' {
				l.s.unexpected(i, "a comma or the end of the array is expected")
			}
			return false
		}
		i++
	}
	i = skipSpace(b, i)
	if i >= len(b) {
		l.s.unexpected(i, "a value is missing")
		return false
	}
	if !l.begun && b[i] == ']' {
		return false
	}
	l.at, l.begun, l.done = i, true, false
	return true
}

// take says that the element ends before b[end].
func (l *elements) take(end int) { l.end, l.done = end, true }

// whole finds the end of the element.
func (l *elements) whole() bool {
	end := l.s.value(l.at, 1)
	if end < 0 {
		return false
	}
	l.take(end)
	return true
}

// value writes any value: of a string what is in it, else its compact form.
func (p *promptWriter) value(s Span) {
	if s.Len() > 1 && p.b[s.Start] == '"' {
		p.text(s)
		return
	}
	p.compact(s)
}

// compact writes JSON text without space between tokens, and without
// cache_control, which clients move through a conversation.
func (p *promptWriter) compact(s Span) {
	sc := p.scanner()
	comma := false // one stands before what comes, if anything does
	for i := s.Start; i < s.End; {
		c := p.b[i]
		switch c {
		case ' ', '\n', '\t', '\r':
			i++
			continue
		case ',':
			comma = true
			i++
			continue
		case '}', ']':
			comma = false // that of a member left out
		case '"':
			end, _ := sc.str(i)
			if end < 0 || end > s.End {
				p.broken(&sc)
				return
			}
			if next := p.skipControl(&sc, i, end, s.End); next > 0 {
				i = next
				continue
			}
			if comma {
				p.byte(',')
				comma = false
			}
			p.byte('"')
			p.text(Span{i, end})
			p.byte('"')
			i = end
			continue
		}
		if comma {
			p.byte(',')
			comma = false
		}
		n := 1
		for !structural(c) && i+n < s.End && p.b[i+n] > ',' && !structural(p.b[i+n]) {
			n++
		}
		p.write(p.b[i : i+n])
		i += n
	}
}

// structural is whether c is a brace, a bracket or a colon.
func structural(c byte) bool { return c == ':' || c|0x20 == '{' || c|0x20 == '}' }

// skipControl returns the index after the member cache_control whose key is
// b[i:end], its comma included; 0 if it is something else.
func (p *promptWriter) skipControl(sc *scanner, i, end, limit int) int {
	if string(p.b[i:end]) != `"cache_control"` {
		return 0
	}
	colon := skipSpace(p.b, end)
	if colon >= limit || p.b[colon] != ':' {
		return 0
	}
	after := sc.value(colon+1, 1)
	if after < 0 || after > limit {
		return 0
	}
	if comma := skipSpace(p.b, after); comma < limit && p.b[comma] == ',' {
		return comma + 1
	}
	return after
}

// text writes what is in the string s, in one way of escaping: the letter after
// the backslash where there is one, \u00xx for other control characters, the
// character itself for all else.
func (p *promptWriter) text(s Span) {
	raw := p.b[s.Start+1 : s.End-1]
	if p.long != nil && s.Len() >= longBytes {
		if l := p.long.at(s.Start); l != nil && l.end == s.End {
			if l.odd {
				p.rewrite(raw)
			} else {
				p.plainText(raw)
			}
			return
		}
	}
	// By pieces, so that a writer which has had enough of a long text ends the work.
	for len(raw) > 0 && p.werr == nil {
		n := textPiece(raw)
		if !canonical(raw[:n]) {
			p.rewrite(raw)
			return
		}
		p.write(raw[:n])
		raw = raw[n:]
	}
}

// textPiece returns how much of raw, which is not empty, is written at once: no
// piece ends between a backslash and its letter.
func textPiece(raw []byte) int {
	n := min(len(raw), textBlock)
	for n < len(raw) && raw[n-1] == '\\' {
		n++
	}
	return n
}

// plainText writes the inside of a string as it is, in pieces.
func (p *promptWriter) plainText(raw []byte) {
	for len(raw) > 0 && p.werr == nil {
		n := textPiece(raw)
		p.write(raw[:n])
		raw = raw[n:]
	}
}

// rewrite writes raw, the inside of a string, with its odd escapes written in
// another way. All goes through buf, eight bytes at a time: escapes stand too close
// for searches, and for pieces, to be worth their calls.
func (p *promptWriter) rewrite(raw []byte) {
	const (
		step   = 8
		most   = step + 3 // that a turn of the loop may need
		pair   = 0xd800 >> 11
		slantU = '\\' | 'u'<<8
	)
	le := binary.LittleEndian
	buf, n := p.buf[:cap(p.buf)], len(p.buf)
	i := 0
	for i+step <= len(raw) {
		if n+most > len(buf) {
			p.buf = buf[:n]
			if p.flush(); p.werr != nil {
				return
			}
			n = 0
		}
		word := le.Uint64(raw[i:])
		le.PutUint64(buf[n:], word)
		slant := zeroBytes(word ^ slants)
		k := bits.TrailingZeros64(slant) >> 3 // 8 for none
		i += k
		n += k
		if slant == 0 {
			continue
		}
		before := i
		for i+6 <= len(raw) && n+3 <= len(buf) && le.Uint16(raw[i:]) == slantU { // side by side in such text
			r := hex4(raw[i+2:])
			if r < utf8.RuneSelf || r>>11 == pair {
				break
			}
			if r < 0x800 {
				buf[n], buf[n+1] = byte(0xc0|r>>6), byte(0x80|r&0x3f)
				n += 2
			} else {
				buf[n], buf[n+1], buf[n+2] = byte(0xe0|r>>12), byte(0x80|r>>6&0x3f), byte(0x80|r&0x3f)
				n += 3
			}
			i += 6
		}
		if i > before {
			continue
		}
		p.buf = buf[:n]
		i = p.escape(raw, i)
		n = len(p.buf)
	}
	p.buf = buf[:n]
	for i < len(raw) && p.werr == nil {
		if raw[i] == '\\' {
			i = p.escape(raw, i)
			continue
		}
		p.byte(raw[i])
		i++
	}
}

// escape writes the escape at raw[i:], and returns the index after it.
func (p *promptWriter) escape(raw []byte, i int) int {
	switch {
	case i+1 >= len(raw):
		p.byte(raw[i])
		return i + 1
	case raw[i+1] == 'u':
		return p.unicode(raw, i)
	case raw[i+1] == '/':
		p.byte('/')
	default:
		p.room(2)
		p.buf = append(p.buf, '\\', raw[i+1])
	}
	return i + 2
}

// unicode writes the \u escape at raw[i:], with its other half if it is one of
// a pair, and returns the index after it.
func (p *promptWriter) unicode(raw []byte, i int) int {
	if i+6 > len(raw) {
		return len(raw)
	}
	r := hex4(raw[i+2:])
	i += 6
	if utf16.IsSurrogate(r) && i+6 <= len(raw) && raw[i] == '\\' && raw[i+1] == 'u' {
		if pair := utf16.DecodeRune(r, hex4(raw[i+2:])); pair != utf8.RuneError {
			r = pair
			i += 6
		}
	}
	p.room(6)
	switch {
	case r == '"' || r == '\\':
		p.buf = append(p.buf, '\\', byte(r))
	case r < ' ':
		const digits = "0123456789abcdef"
		if k := strings.IndexByte("\b\t\n\f\r", byte(r)); k >= 0 {
			p.buf = append(p.buf, '\\', "btnfr"[k])
		} else {
			p.buf = append(p.buf, '\\', 'u', '0', '0', digits[r>>4], digits[r&15])
		}
	default:
		p.buf = utf8.AppendRune(p.buf, r) // a lone surrogate: U+FFFD, as Go has it
	}
	return i
}

// canonical is whether raw, the inside of a string, surely has no escape that
// text writes in another way. It looks for a backslash before u or / without
// counting backslashes, so it may be wrong the other way.
func canonical(raw []byte) bool {
	const steps, us, strokes = 63, 'u' * ones, '/' * ones // blocks overlap by one byte
	i := 0
	if few := len(raw) / 128; bytes.Count(raw, []byte{'\\'}) < few { // the vector search finds them sooner
		for i+1 < len(raw) {
			k := bytes.IndexByte(raw[i:len(raw)-1], '\\')
			if k < 0 {
				return true
			}
			if i += k + 1; raw[i] == 'u' || raw[i] == '/' {
				return false
			}
		}
		return true
	}
	for ; i+64 <= len(raw); i += steps {
		block := (*[64]byte)(raw[i:])
		if slant := equalBytes(block, slants); slant != 0 {
			if slant<<1&(equalBytes(block, us)|equalBytes(block, strokes)) != 0 {
				return false
			}
		}
	}
	for ; i+1 < len(raw); i++ {
		if raw[i] == '\\' && (raw[i+1] == 'u' || raw[i+1] == '/') {
			return false
		}
	}
	return true
}

// hex4 is the value of the four digits that b begins with, which the scanner has
// seen to be digits: each as a number in a byte, then two by two.
func hex4(b []byte) rune {
	x := binary.LittleEndian.Uint32(b)
	x = x&0x0f0f0f0f + x>>6&0x01010101*9
	x = (x<<4 | x>>8) & 0x00ff00ff
	return rune(x<<8&0xff00 | x>>16)
}

// room makes room for n more bytes in buf, n at most its size.
func (p *promptWriter) room(n int) {
	if len(p.buf)+n > cap(p.buf) {
		p.flush()
	}
}

// put writes a short constant.
func (p *promptWriter) put(s string) {
	p.room(len(s))
	p.buf = append(p.buf, s...)
}

func (p *promptWriter) byte(c byte) {
	p.room(1)
	p.buf = append(p.buf, c)
}

// write writes piece, a long one without copying it.
func (p *promptWriter) write(piece []byte) {
	if len(piece) < pieceBytes/2 {
		p.room(len(piece))
		p.buf = append(p.buf, piece...)
		return
	}
	p.flush()
	if p.werr == nil && p.fault.err == nil {
		_, p.werr = p.w.Write(piece)
	}
}

func (p *promptWriter) flush() {
	if len(p.buf) > 0 && p.werr == nil && p.fault.err == nil {
		_, p.werr = p.w.Write(p.buf)
	}
	p.buf = p.buf[:0]
}
