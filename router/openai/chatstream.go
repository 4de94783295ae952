package openai

import "bytes"

// chatEvent looks at an event of a stream of completions; true if it is to be
// cut.
func (s *Stream) chatEvent(e *event) (cutAll bool) {
	start := skipSpace(e.data, 0)
	data := e.data[start:]
	switch {
	case isDone(e):
		s.done = true
		return false
	case chunkStart(data) && plainChoices(data):
		s.choices.see(0, false) // and no error
	case isError(e):
		s.fail(e.data)
		return false
	default:
		s.choices.read(data)
	}
	if !s.content {
		s.content = hasContent(data)
	}
	at := usageValue(data, 0)
	if at < 0 || data[at] == 'n' && !s.opts.StripContinuous && usageValue(data, at) < 0 {
		return false
	}
	if cut, ok := s.tailUsage(data, at); ok {
		if s.opts.StripContinuous && e.n <= maxDataLines {
			s.spans = e.cut(s.spans, start+cut.Start, start+cut.End)
		}
		return false
	}
	c, ok := readChunk(data)
	if !ok || c.usage == (Span{}) {
		s.lastUsage(data)
		return false
	}
	object := data[c.usage.Start] == '{'
	if object {
		s.used.merge(data, c.usage.Start)
	}
	switch {
	case c.noChoices && object:
		return s.opts.StripUsage
	case s.opts.StripContinuous && c.hasChoices && !c.noChoices && e.n <= maxDataLines:
		s.spans = e.cut(s.spans, start+c.cut.Start, start+c.cut.End)
	}
	return false
}

// isDone is whether e is the [DONE] after a complete answer. Clients look at
// the beginning only, so more may follow.
func isDone(e *event) bool {
	return bytes.HasPrefix(e.data[skipSpace(e.data, 0):], []byte("[DONE]"))
}

// isError is whether e is an error event: by its name, or because its JSON has
// an error that is not null, or says that it is one.
func isError(e *event) bool {
	if string(e.name) == "error" {
		return true
	}
	data := e.data[skipSpace(e.data, 0):]
	// Quotes within text are escaped, so few events have to be walked over. The
	// first bytes of what is searched for make it quick.
	if len(data) == 0 || data[0] != '{' || !bytes.Contains(data, []byte(`rror"`)) {
		return false
	}
	var key [32]byte
	m := members{s: scanner{b: data}}
	for m.next() {
		value := data[m.value.Start:m.value.End]
		switch string(m.name(key[:])) {
		case "error":
			if value[0] != 'n' && value[0] != 'f' {
				return true
			}
		case "object", "type":
			if string(value) == `"error"` {
				return true
			}
		}
	}
	return false
}

// chunk is what a chunk's top level says.
type chunk struct {
	usage      Span // value of the last "usage"
	cut        Span // the member with its comma
	hasChoices bool
	noChoices  bool // "choices" is an empty list
}

// tailUsage reads the usual chunk with cumulative usage, which has choices and
// after them, as its last member, the usage whose value starts at data[at]. It
// returns where that member stands; false, and nothing read, for any other
// chunk.
func (s *Stream) tailUsage(data []byte, at int) (member Span, ok bool) {
	const key, choices = `,"usage":`, `"choices":`
	before := at - len(key)
	if before < 0 || string(data[before:at]) != key {
		return Span{}, false
	}
	list := bytes.Index(data[:before], []byte("[{")) // usually the only one
	if list < len(choices) || string(data[list-len(choices):list]) != choices {
		return Span{}, false
	}
	used, end := s.used, at+len("null")
	if data[at] == '{' {
		end = used.merge(data, at)
	} else if !bytes.HasPrefix(data[at:], []byte("null")) {
		return Span{}, false
	}
	if end < 0 || end >= len(data) || data[end] != '}' || skipSpace(data, end+1) != len(data) {
		return Span{}, false
	}
	s.used = used
	return Span{before, end}, true
}

// readChunk walks over the top-level members of data; false if that is no
// JSON object.
func readChunk(data []byte) (c chunk, ok bool) {
	if data[0] != '{' {
		return c, false
	}
	var key [32]byte
	m := members{s: scanner{b: data}}
	before := 0 // the brace or comma before the member
	for m.next() {
		switch string(m.name(key[:])) {
		case "usage":
			c.usage = m.value
			c.cut = Span{before, m.value.End}
			if data[before] == '{' {
				c.cut.Start++
				c.cut.End = m.value.End
				if data[m.at] == ',' {
					c.cut.End = m.at + 1
				}
			}
		case "choices":
			c.hasChoices = true
			c.noChoices = data[m.value.Start] == '[' && data[skipSpace(data, m.value.Start+1)] == ']'
		}
		before = m.at
	}
	return c, m.s.err == nil
}

// hasContent is whether a chunk carries output: any member that names some is
// neither empty nor null. Strings are stepped over, so what the output says
// does not matter.
func hasContent(data []byte) bool {
	s := scanner{b: data}
	for i := 0; ; {
		q := bytes.IndexByte(data[i:], '"')
		if q < 0 {
			return false
		}
		start := i + q
		end, _ := s.str(start)
		if end < 0 {
			return false
		}
		i = skipSpace(data, end)
		if i >= len(data) || data[i] != ':' {
			continue
		}
		i = skipSpace(data, i+1)
		switch string(data[start+1 : end-1]) {
		case "content", "text", "reasoning", "reasoning_content", "thinking", "refusal",
			"tool_calls", "function_call", "arguments", "audio":
			if filled(data, i) {
				return true
			}
		}
	}
}

// filled is whether a string, list or object with something in it starts at
// b[i].
func filled(b []byte, i int) bool {
	if i+1 >= len(b) {
		return false
	}
	switch b[i] {
	case '"':
		return b[i+1] != '"'
	case '[', '{':
		next := skipSpace(b, i+1)
		return next < len(b) && b[next] != ']' && b[next] != '}'
	}
	return false
}
