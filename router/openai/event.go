package openai

import "bytes"

// maxDataLines bounds the data lines of one event that is cut; engines send
// one.
const maxDataLines = 16

// event is one event, taken apart.
type event struct {
	name []byte
	data []byte // several lines joined by LF
	// Where the data lines stand in the event's bytes.
	lines [maxDataLines]Span
	n     int // data lines, also those that lines has no room for
}

// parse takes ev apart. Data of several lines is joined in s.joined.
func (s *Stream) parse(ev []byte) (e event) {
	for i := 0; i < len(ev); {
		end := lineEnd(ev, i)
		stop := end - 1
		if end < 0 {
			end, stop = len(ev), len(ev)
		}
		line := ev[i:stop]
		switch {
		case bytes.HasPrefix(line, []byte("data")):
			if at := fieldValue(line, len("data")); at >= 0 {
				e.add(s, ev, Span{i + at, stop})
			}
		case bytes.HasPrefix(line, []byte("event")):
			if at := fieldValue(line, len("event")); at >= 0 {
				e.name = line[at:]
			}
		}
		i = end
	}
	return e
}

// fieldValue returns where the value starts in a line whose field name has n
// bytes, -1 if the name is longer.
func fieldValue(line []byte, n int) int {
	switch {
	case len(line) == n:
		return n
	case line[n] != ':':
		return -1
	case len(line) > n+1 && line[n+1] == ' ':
		return n + 2
	}
	return n + 1
}

func (e *event) add(s *Stream, ev []byte, line Span) {
	switch e.n {
	case 0:
		e.data = ev[line.Start:line.End]
	case 1:
		s.joined = append(append(s.joined[:0], e.data...), '\n')
		s.joined = append(s.joined, ev[line.Start:line.End]...)
		e.data = s.joined
	default:
		s.joined = append(append(s.joined, '\n'), ev[line.Start:line.End]...)
		e.data = s.joined
	}
	if e.n < maxDataLines {
		e.lines[e.n] = line
	}
	e.n++
}

// cut appends to cuts the ranges of the event's bytes that hold e.data[a:b];
// the ends of lines between stay.
func (e *event) cut(cuts []Span, a, b int) []Span {
	at := 0 // of the line in e.data
	for _, line := range e.lines[:e.n] {
		from, to := max(a-at, 0), min(b-at, line.Len())
		if from < to {
			cuts = append(cuts, Span{line.Start + from, line.Start + to})
		}
		at += line.Len() + 1
	}
	return cuts
}

// finish looks at a whole event, of which ev is the end only if s.big. It
// returns whether to cut all of it; smaller cuts are in s.spans.
func (s *Stream) finish(ev []byte) (cutAll bool) {
	if s.big {
		s.finishBig(ev[max(0, len(ev)-bigTail):])
		return false
	}
	e := s.parse(ev)
	if e.n == 0 {
		return false
	}
	s.events++
	if s.opts.Dialect <= DialectChat {
		cutAll = s.chatEvent(&e)
	} else {
		s.typedEvent(&e)
	}
	return cutAll || s.withheld
}

// wholeData is whether ev, which its blank line does not end, has all of its
// data: the end of a stream, or one JSON document.
func (s *Stream) wholeData(ev []byte) bool {
	e := s.parse(ev)
	if isDone(&e) {
		return true
	}
	start := skipSpace(e.data, 0)
	if start >= len(e.data) || e.data[start] != '{' {
		return false
	}
	d := scanner{b: e.data}
	end := d.value(start, 0)
	return end >= 0 && skipSpace(e.data, end) == len(e.data)
}

// fail takes note of an error event with this data.
func (s *Stream) fail(data []byte) {
	if s.failed {
		return
	}
	s.failed = true
	s.errorData = bytes.Clone(data)
	s.withheld = s.lead
}

// finishBig looks for usage at the end of an event that was too long to keep.
func (s *Stream) finishBig(tail []byte) {
	s.events++
	if s.bigKind == kindOther {
		s.bigKind = s.tailKind(tail)
	}
	if s.opts.Dialect <= DialectChat && lastFinish(tail) {
		s.choices.see(0, true)
	}
	switch s.bigKind {
	case kindError:
		s.failed = true
	case kindTerminal, kindFailed:
		s.done, s.failed = true, s.failed || s.bigKind == kindFailed
		s.lastUsage(tail)
	case kindContent:
		s.content = true
		if s.opts.Dialect <= DialectChat {
			s.lastUsage(tail)
		}
	case kindUsage:
		s.lastUsage(tail)
	}
}

// headKind is the kind of a long event by its first bytes.
func (s *Stream) headKind(ev []byte) eventKind {
	e := s.parse(ev[:bigHead])
	if s.opts.Dialect > DialectChat {
		return s.opts.Dialect.kindOf(e.typeName())
	}
	if isError(&e) {
		return kindError
	}
	return kindContent // nothing else is that long
}

// tailKind is the kind of a long event by its last bytes, for one that ends a
// stream and whose type does not stand at its head. Quotes within text are
// escaped, so that no output looks like a member.
func (s *Stream) tailKind(tail []byte) eventKind {
	if s.opts.Dialect <= DialectChat {
		return kindOther
	}
	key := []byte(`"type"`)
	for {
		i := bytes.LastIndex(tail, key)
		if i < 0 {
			return kindOther
		}
		if name := stringAfter(tail, i+len(key)); name != nil {
			if k := s.opts.Dialect.kindOf(name); k == kindTerminal || k == kindFailed {
				return k
			}
		}
		tail = tail[:i]
	}
}

// stringAfter is what the string holds that follows a key which ends before
// b[i]; nil if no whole string does.
func stringAfter(b []byte, i int) []byte {
	if i = skipSpace(b, i); i >= len(b) || b[i] != ':' {
		return nil
	}
	if i = skipSpace(b, i+1); i >= len(b) || b[i] != '"' {
		return nil
	}
	n := bytes.IndexByte(b[i+1:], '"')
	if n < 0 {
		return nil
	}
	return b[i+1 : i+1+n]
}

// lastUsage reads the last usage object that starts in b.
func (s *Stream) lastUsage(b []byte) {
	last := -1
	for at := 0; ; {
		if at = usageValue(b, at); at < 0 {
			break
		}
		if b[at] == '{' {
			last = at
		}
	}
	if last >= 0 {
		s.used.merge(b, last)
	}
}

// usageValue returns the index of the first byte of the value of a member
// "usage" whose key starts at or after from, at any depth; -1 if none. It
// looks for the letter g, which is rarer than the others and the quotes; an
// escaped quote cannot stand inside, so text about usage is not found.
func usageValue(b []byte, from int) int {
	const key, g = `"usage"`, 4
	for i := from + g; i < len(b); {
		n := bytes.IndexByte(b[i:], 'g')
		if n < 0 {
			return -1
		}
		i += n
		if start := i - g; b[i-1] == 'a' && i+2 < len(b) && string(b[start:start+len(key)]) == key {
			if at := skipSpace(b, start+len(key)); at < len(b) && b[at] == ':' {
				if at = skipSpace(b, at+1); at < len(b) {
					return at
				}
			}
		}
		i++
	}
	return -1
}
