package openai

// MaxDepth is how deep objects and arrays of a request may nest. Engines'
// parsers stop between 128 and some 1,000 levels; tool schemas stay below 50.
const MaxDepth = 512

// scanner walks over JSON text without recursion and without allocating. It
// is strict on grammar outside strings and on escapes inside them; control
// characters and invalid UTF-8 within strings are not looked for.
type scanner struct {
	b   []byte
	at  int   // where err was found
	err error // one of the sentinels in peekerror.go, nil while all is well
	why string

	odd   bool         // an escape was met that WritePrompt writes in another way
	long  *longStrings // nil: none are known or to be noted
	notes bool         // note them in long, instead of looking them up
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
