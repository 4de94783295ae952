package proxy

import (
	"bytes"
	"math"
)

const (
	maxHead = 64 << 10 // bytes of an answer's head
	max1xx  = 16       // interim answers before the final one
)

// field is one header line, as offsets into the buffer that holds the head.
type field struct{ name, nameEnd, value, valueEnd int }

// framing says where a body ends.
type framing uint8

const (
	bodyNone framing = iota
	bodyLength
	bodyChunked
	bodyUntilClose
)

// head is the parsed head of an answer.
type head struct {
	status   int
	fields   []field
	framing  framing
	length   int64 // bodyLength only
	keep     bool  // the connection may serve another exchange
	encoding string
}

// headEnd returns the length of the head at the front of b, its empty line
// included, or 0 if b does not hold all of it. from is where an earlier look at
// a shorter b ended.
func headEnd(b []byte, from int) int {
	for i := max(from-3, 0); ; {
		j := bytes.IndexByte(b[i:], '\n')
		if j < 0 {
			return 0
		}
		i += j + 1
		switch {
		case i < len(b) && b[i] == '\n':
			return i + 1
		case i+1 < len(b) && b[i] == '\r' && b[i+1] == '\n':
			return i + 2
		}
	}
}

// parse reads the head in b, which ends with its empty line, for an answer to a
// request of the given method. What two parsers could understand differently is
// an error.
func (h *head) parse(b []byte, method string) error {
	h.fields = h.fields[:0]
	h.framing, h.length, h.encoding = bodyUntilClose, -1, ""
	line, at := nextLine(b, 0)
	minor, status, ok := statusLine(line)
	if !ok {
		return errStatusLine
	}
	h.status, h.keep = status, minor >= 1
	var chunkedTE bool
	for {
		from := at
		line, at = nextLine(b, at)
		if len(line) == 0 {
			break
		}
		if line[0] == ' ' || line[0] == '\t' {
			return errObsFold
		}
		colon := bytes.IndexByte(line, ':')
		if colon <= 0 || !isToken(line[:colon]) {
			return errHeaderLine
		}
		v, vEnd := colon+1, len(line)
		for v < vEnd && (line[v] == ' ' || line[v] == '\t') {
			v++
		}
		for vEnd > v && (line[vEnd-1] == ' ' || line[vEnd-1] == '\t') {
			vEnd--
		}
		name, value := line[:colon], line[v:vEnd]
		if !isFieldValue(value) {
			return errHeaderLine
		}
		switch {
		case fold(name, "content-length"):
			if h.length >= 0 {
				return errTwoLengths
			}
			n, ok := decimal(value)
			if !ok {
				return errLength
			}
			h.length = n
		case fold(name, "transfer-encoding"):
			// HTTP/1.0 knows no codings: some read a body until its end there.
			if chunkedTE || minor == 0 || !fold(value, "chunked") {
				return errTE
			}
			chunkedTE = true
		case fold(name, "connection"):
			if hasToken(value, "close") {
				h.keep = false
			} else if minor == 0 && hasToken(value, "keep-alive") {
				h.keep = true
			}
		case fold(name, "content-encoding"):
			if !fold(value, "identity") {
				h.encoding = string(value)
			}
		}
		h.fields = append(h.fields, field{from, from + colon, from + v, from + vEnd})
	}
	switch {
	case chunkedTE && h.length >= 0:
		return errTEAndCL
	case method == "HEAD" || status == 204 || status == 304 || status < 200:
		h.framing = bodyNone
	case chunkedTE:
		h.framing = bodyChunked
	case h.length >= 0:
		h.framing = bodyLength
		if h.length == 0 {
			h.framing = bodyNone
		}
	default:
		h.keep = false
	}
	return nil
}

// nextLine returns the line of b that begins at from, without its end, and where
// the next one begins.
func nextLine(b []byte, from int) (line []byte, next int) {
	i := bytes.IndexByte(b[from:], '\n')
	if i < 0 {
		return b[from:], len(b)
	}
	line = b[from : from+i]
	if n := len(line); n > 0 && line[n-1] == '\r' {
		line = line[:n-1]
	}
	return line, from + i + 1
}

// statusLine reads "HTTP/1.x NNN reason".
func statusLine(l []byte) (minor, status int, ok bool) {
	if len(l) < 12 || string(l[:7]) != "HTTP/1." || (l[7] != '0' && l[7] != '1') || l[8] != ' ' {
		return 0, 0, false
	}
	if len(l) > 12 && l[12] != ' ' {
		return 0, 0, false
	}
	for _, c := range l[9:12] {
		if c < '0' || c > '9' {
			return 0, 0, false
		}
		status = status*10 + int(c-'0')
	}
	return int(l[7] - '0'), status, status >= 100
}

// decimal reads a Content-Length: digits only, no sign, no list.
func decimal(b []byte) (int64, bool) {
	if len(b) == 0 || len(b) > 18 {
		return 0, false
	}
	var n int64
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int64(c-'0')
	}
	return n, n <= math.MaxInt64/2
}

// fold reports whether b equals lower, an all-lower-case ASCII string, in any
// letter case.
func fold(b []byte, lower string) bool {
	if len(b) != len(lower) {
		return false
	}
	for i := range b {
		c := b[i]
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		if c != lower[i] {
			return false
		}
	}
	return true
}

// foldEqual reports whether b equals name but for letter case.
func foldEqual(b []byte, name string) bool {
	if len(b) != len(name) {
		return false
	}
	for i := range b {
		if b[i] != name[i] && lower(b[i]) != lower(name[i]) {
			return false
		}
	}
	return true
}

func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}

// hasToken reports whether the comma-separated list holds token (lower case).
func hasToken(list []byte, token string) bool {
	for len(list) > 0 {
		var e []byte
		e, list, _ = bytes.Cut(list, []byte(","))
		if fold(bytes.TrimSpace(e), token) {
			return true
		}
	}
	return false
}

// isToken reports whether b is a header name (RFC 9110 §5.6.2).
func isToken(b []byte) bool {
	for _, c := range b {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		case c == '-', c == '_', c == '.', c == '!', c == '#', c == '$', c == '%', c == '&', c == '\'',
			c == '*', c == '+', c == '^', c == '`', c == '|', c == '~':
		default:
			return false
		}
	}
	return true
}

// isFieldValue reports whether b holds no control character but tabs.
func isFieldValue(b []byte) bool {
	for _, c := range b {
		if c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}
