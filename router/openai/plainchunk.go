package openai

import "bytes"

// plainEvents returns the index after the events from p[i] on that need no
// closer look: chunks on one line whose content is not the first, without
// usage, of a first choice that goes on, complete in p, with LF. It is what
// nearly all events of a stream are.
func (s *Stream) plainEvents(p []byte, i int) int {
	if !s.content || s.opts.Dialect > DialectChat {
		return i
	}
	for {
		n := s.form.match(p[i:])
		if n == 0 {
			if n = s.plainEvent(p[i:]); n == 0 {
				return i
			}
			s.form.learn(p[i : i+n])
		}
		s.events++
		s.choices.see(0, false)
		i += n
	}
}

// countedEvents cuts the usage out of the events from p[i] on that are plain but for
// cumulative counts as their last member, and of the form of the one before; it
// returns the index after them. It is what nearly all events are where an engine was
// asked for continuous usage.
func (s *Stream) countedEvents(p []byte, i int) int {
	if !s.content || !s.opts.StripContinuous || s.opts.Dialect > DialectChat {
		return i
	}
	for {
		cut, counts, n := s.form.matchCounted(p[i:])
		if n == 0 {
			return i
		}
		s.used.setPlain(counts)
		s.events++
		s.choices.see(0, false)
		s.keep(p, i, i+cut.Start)
		s.keep(p, i+cut.End, i+n)
		i += n
	}
}

// learnCounted takes the form of an event of which usage was cut out, if the rest
// of it is plain.
func (s *Stream) learnCounted(event []byte, cut Span) {
	if cut.End != len(event)-len(eventTail) || s.form.credit == 0 || len(event) > maxFormBytes {
		return
	}
	s.joined = append(append(s.joined[:0], event[:cut.Start]...), event[cut.End:]...)
	if s.plainEvent(s.joined) == len(s.joined) {
		s.form.learn(s.joined)
	}
}

const (
	dataField = "data: "
	eventTail = "}\n\n" // of a chunk
)

// plainEvent returns the length of the plain event that p begins with, 0 if
// there is none.
func (s *Stream) plainEvent(p []byte) int {
	if len(p) < len(dataField) || string(p[:len(dataField)]) != dataField {
		return 0
	}
	lf := bytes.IndexByte(p, '\n')
	if lf < 0 || lf+1 >= len(p) || p[lf+1] != '\n' {
		return 0
	}
	line := p[len(dataField):lf]
	if !chunkStart(line) || bytes.IndexByte(line, '\r') >= 0 {
		return 0
	}
	for at := usageValue(line, 0); at >= 0; at = usageValue(line, at) {
		if s.opts.StripContinuous || line[at] != 'n' {
			return 0
		}
	}
	if !plainChoices(line) {
		return 0
	}
	return lf + 2
}

// chunkStart is whether data starts like a chunk: engines begin with the id,
// llama.cpp with the choices, TGI with the object.
func chunkStart(data []byte) bool {
	if len(data) < 16 || data[0] != '{' || data[1] != '"' {
		return false
	}
	switch data[2] {
	case 'i':
		return data[3] == 'd' && data[4] == '"'
	case 'c':
		return data[3] == 'h'
	case 'o':
		return string(data[2:11]) == `object":"` && (data[11] == 'c' || data[11] == 't')
	}
	return false
}

const (
	// maxFormBytes bounds the events that a chunkForm remembers.
	maxFormBytes = 1 << 10
	// maxFormText is the longest text that is stepped over byte by byte; beyond
	// it searching is faster.
	maxFormText = 64
	// formCredit is how often in a row a form may be learnt for nothing.
	formCredit = 8
)

// chunkForm is a plain event that passed, and where in it the text stands. Most
// events of a stream differ from the one before in nothing else, and then two
// comparisons show that they are plain, too.
type chunkForm struct {
	event      []byte // empty: none is known
	text, rest int    // where in it the text starts, and the quote after it
	credit     int8   // how often one may be learnt before one is met again
}

// match returns the length of the event at the start of p if it has the form,
// else 0.
func (f *chunkForm) match(p []byte) int {
	n := f.matchUntil(p, len(f.event))
	if n > 0 {
		f.credit = formCredit
	}
	return n
}

// matchCounted is match for an event that has the counts of tokens as one member
// more, which stands at cut.
func (f *chunkForm) matchCounted(p []byte) (cut Span, counts [3]int64, n int) {
	const key = `,"usage":`
	cut.Start = f.matchUntil(p, len(f.event)-len(eventTail))
	if cut.Start == 0 || !bytes.HasPrefix(p[cut.Start:], []byte(key)) {
		return cut, counts, 0
	}
	counts, cut.End = plainCounts(p, cut.Start+len(key))
	if cut.End < 0 || !bytes.HasPrefix(p[cut.End:], []byte(eventTail)) {
		return cut, counts, 0
	}
	f.credit = formCredit
	return cut, counts, cut.End + len(eventTail)
}

// matchUntil returns how far p has the form up to where it has end bytes, else 0.
func (f *chunkForm) matchUntil(p []byte, end int) int {
	if f.text == 0 || end < f.rest {
		return 0
	}
	head, rest := f.event[:f.text], f.event[f.rest:end]
	if len(p) < len(head)+len(rest) || !bytes.Equal(p[:len(head)], head) {
		return 0
	}
	for i, end := f.text, min(f.text+maxFormText, len(p)); i < end; i++ {
		switch c := p[i]; {
		case c == '"':
			if !bytes.HasPrefix(p[i:], rest) {
				return 0
			}
			return i + len(rest)
		case c == '\\':
			i++
		case c < ' ':
			return 0
		}
	}
	return 0
}

// learn takes the form of a plain event.
func (f *chunkForm) learn(event []byte) {
	if f.credit == 0 || len(event) > maxFormBytes {
		return
	}
	f.credit--
	f.event, f.text, f.rest = f.event[:0], 0, 0
	for _, key := range [...]string{`"content":"`, `"text":"`, `"reasoning_content":"`, `"reasoning":"`} {
		i := bytes.Index(event, []byte(key))
		if i < 0 {
			continue
		}
		i += len(key)
		s := scanner{b: event}
		end, _ := s.str(i - 1)
		if end < 0 {
			return
		}
		f.event, f.text, f.rest = append(f.event, event...), i, end-1
		return
	}
}
