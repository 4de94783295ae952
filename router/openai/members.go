package openai

// members walks over the members of one JSON object.
//
//	m := members{s: scanner{b: b}, at: start}
//	for m.next() { … m.name(buf[:]), m.value … }
type members struct {
	s  scanner
	at int // of the opening brace, then of the comma before the next member

	key     Span // with quotes
	escaped bool // the key holds an escape
	value   Span
	begun   bool
}

// name is the key of the member as plainKey has it. The buffer belongs to the
// caller, so that m need not escape to the heap.
func (m *members) name(buf []byte) []byte { return plainKey(m.s.b, m.key, m.escaped, buf) }

// next steps to the next member; false at the end and at the first error,
// which m.s.err then holds.
func (m *members) next() bool {
	b := m.s.b
	i := skipSpace(b, m.at+1)
	if !m.begun {
		m.begun = true
		if i < len(b) && b[i] == '}' {
			m.at = i
			return false
		}
	} else if b[m.at] != ',' {
		return false
	}
	start, key, escaped := m.s.key(i)
	if start < 0 {
		return false
	}
	end := m.s.value(start, 1)
	if end < 0 {
		return false
	}
	after := skipSpace(b, end)
	if after >= len(b) || b[after] != ',' && b[after] != '}' {
		m.s.unexpected(after, "a comma or the end of the object is expected")
		return false
	}
	m.at = after
	m.key, m.escaped, m.value = key, escaped, Span{start, end}
	return true
}

// plainKey returns the key whose span with quotes is given, its escapes
// decoded into buf. Since the keys looked for are short and ASCII, a decoded
// key is cut where buf ends, and an escape beyond ASCII is a 0xff.
func plainKey(b []byte, key Span, escaped bool, buf []byte) []byte {
	raw := b[key.Start+1 : key.End-1]
	if !escaped {
		return raw
	}
	n := 0
	for i := 0; i < len(raw) && n < len(buf); n++ {
		if raw[i] != '\\' {
			buf[n] = raw[i]
			i++
			continue
		}
		if raw[i+1] == 'u' {
			r := 0
			for _, c := range raw[i+2 : i+6] {
				r = r<<4 | hexDigit(c)
			}
			if r > 0x7f {
				r = 0xff
			}
			buf[n] = byte(r)
			i += 6
			continue
		}
		buf[n] = 0xff // none of \n, \", … is part of a key looked for
		i += 2
	}
	return buf[:n]
}
