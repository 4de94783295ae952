package openai

// typeName is the event's name, or without one the "type" of its data.
func (e *event) typeName() []byte {
	if len(e.name) > 0 {
		return e.name
	}
	value := e.member("type")
	if len(value) < 2 || value[0] != '"' {
		return nil
	}
	return value[1 : len(value)-1]
}

// member is the value of a top-level member of the event's data, nil if there
// is none.
func (e *event) member(name string) []byte { return member(e.data, name) }

func member(data []byte, name string) []byte {
	start := skipSpace(data, 0)
	if start >= len(data) || data[start] != '{' {
		return nil
	}
	var key [32]byte
	m := members{s: scanner{b: data}, at: start}
	for m.next() {
		if string(m.name(key[:])) == name {
			return data[m.value.Start:m.value.End]
		}
	}
	return nil
}

// typedEvent looks at an event of an API whose events have types. One that has
// none may still say what completions would: engines share the code.
func (s *Stream) typedEvent(e *event) {
	name := e.typeName()
	if len(name) == 0 && s.opts.Dialect == DialectMedia {
		s.chatEvent(e)
		return
	}
	if len(name) == 0 {
		// A [DONE] is no end here: these APIs' clients wait for their own.
		if isError(e) {
			s.fail(e.data)
		}
		return
	}
	switch s.opts.Dialect.kindOf(name) {
	case kindError:
		s.fail(e.data)
	case kindTerminal:
		s.done = true
		if s.opts.Dialect == DialectMedia {
			s.content = true
			s.used.merge(e.member("usage"), 0)
			return
		}
		s.response(e)
		s.used.merge(member(e.member("response"), "usage"), 0)
	case kindFailed:
		s.done = true
		s.fail(errorOnly(e.member("response")))
		s.used.merge(member(e.member("response"), "usage"), 0)
	case kindUsage:
		s.used.merge(e.member("usage"), 0)
		s.used.merge(member(e.member("message"), "usage"), 0)
	case kindContent:
		s.content = s.content || s.opts.Dialect == DialectMedia || typedContent(e)
	case kindOther:
		s.response(e)
	}
}

// errorOnly is an object with the member "error" of another one and nothing else.
func errorOnly(object []byte) []byte {
	if e := member(object, "error"); e != nil {
		return append(append([]byte(`{"error":`), e...), '}')
	}
	return nil
}

// response takes note of the ID of the response that an event describes.
func (s *Stream) response(e *event) {
	if s.responseID == "" && s.opts.Dialect == DialectResponses {
		s.responseID = idOf(e.member("response"))
	}
}

// maxIDBytes bounds the ID of a response; engines use some 40 bytes, and what
// they take over of a request's ID.
const maxIDBytes = 256

// idOf is the plain string that the member "id" of an object is, else empty.
func idOf(object []byte) string {
	id := member(object, "id")
	if len(id) < 2 || len(id) > maxIDBytes+2 || id[0] != '"' {
		return ""
	}
	for _, c := range id[1 : len(id)-1] {
		if c <= ' ' || c > '~' || c == '\\' {
			return ""
		}
	}
	return string(id[1 : len(id)-1])
}

// typedContent is whether a delta, or the start of a block, brings output.
func typedContent(e *event) bool {
	if delta := e.member("delta"); len(delta) > 0 {
		return delta[0] == '"' && filled(delta, 0) || hasText(delta)
	}
	if block := e.member("content_block"); len(block) > 0 {
		return hasText(block) || string(member(block, "type")) != `"text"` && string(member(block, "type")) != `"thinking"`
	}
	return len(e.member("item")) > 0 || filled(e.member("text"), 0)
}

// hasText is whether an object has a member, other than its type, that is a
// string with something in it.
func hasText(object []byte) bool {
	if len(object) == 0 || object[0] != '{' {
		return false
	}
	var key [32]byte
	m := members{s: scanner{b: object}}
	for m.next() {
		if string(m.name(key[:])) != "type" && object[m.value.Start] == '"' && m.value.Len() > 2 {
			return true
		}
	}
	return false
}
