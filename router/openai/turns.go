package openai

import "slices"

// promptMembers are the members of a body that a prompt is made from. Of those that
// stand twice the last one holds.
type promptMembers struct {
	system, tools, messages, input, prompt Span

	settings [len(settingNames)]Span
	set      bool // there is one of settings
}

// settingNames are the members that change a prompt from its beginning.
var settingNames = [...]string{ //nolint:gochecknoglobals // a constant that Go has no form for
	"cache_salt", "chat_template", "chat_template_kwargs", "documents", "mm_processor_kwargs", "reasoning",
	"reasoning_effort",
}

// member takes note of a top-level member; false if it is none of them.
func (m *promptMembers) member(name []byte, v Span) bool {
	switch string(name) {
	case "system", "instructions":
		m.system = v
	case "tools", "functions":
		m.tools = v
	case "messages":
		m.messages = v
	case "input":
		m.input = v
	case "prompt":
		m.prompt = v
	default:
		i := slices.Index(settingNames[:], string(name))
		if i < 0 {
			return false
		}
		m.settings[i], m.set = v, true
	}
	return true
}

// turn is a message, or an item of a Responses input.
type turn struct {
	role      Span
	content   Span
	name, id  Span // of who speaks, or of what is answered
	calls     Span
	reasoning Span
	whole     Span
	plain     bool // content is known to be a text that is written as it is
}

// member takes note of a member of t.
func (t *turn) member(name []byte, v Span) {
	switch string(name) {
	case "role":
		t.role = v
	case "content":
		t.content, t.plain = v, false
	case "name":
		t.name = v
	case "tool_call_id":
		t.id = v
	case "tool_calls", "function_call":
		t.calls = v
	case "reasoning_content", "reasoning", "thinking":
		t.reasoning = v
	}
}

// system is whether t is the system prompt.
func (t *turn) system(b []byte) bool {
	switch string(b[t.role.Start:t.role.End]) {
	case `"system"`, `"developer"`:
		return true
	}
	return false
}

// maxTurns bounds the turns that are noted of one body.
const maxTurns = 64

// turnNotes are the first turns of a body, noted by PeekBody, which passes all of them
// in any case, so that WritePrompt need not.
type turnNotes struct {
	list  int // where the list stands that they are of
	turns []turn
	end   int // of the last of them
}

// note reads the list that begins at b[start], in which the scanner stands below the
// top level, and returns the index after it. Where that is no list that begins with an
// object, or something is wrong with it, it returns -1, with nothing noted and no word
// of what is wrong: that is for a scanner to say.
func (n *turnNotes) note(s *scanner, start int) int {
	before, long := *s, len(*s.long)
	n.list, n.turns = start, n.turns[:0]
	end := n.read(s, start)
	if end < 0 {
		*s, *s.long, n.turns = before, (*s.long)[:long], n.turns[:0]
	}
	return end
}

func (n *turnNotes) read(s *scanner, start int) int {
	b := s.b
	i := skipSpace(b, start+1)
	if i >= len(b) || b[i] != '{' {
		return -1
	}
	for noting := true; ; {
		if noting = noting && i < len(b) && b[i] == '{' && len(n.turns) < maxTurns; noting {
			n.turns = append(n.turns, turn{whole: Span{Start: i}})
			t := &n.turns[len(n.turns)-1]
			if i = t.read(s); i < 0 {
				return -1
			}
			n.end = i
		} else if i = s.value(i, 2); i < 0 {
			return -1
		}
		if i = skipSpace(b, i); i >= len(b) || b[i] != ',' {
			if i < len(b) && b[i] == ']' {
				return i + 1
			}
			return -1
		}
		i = skipSpace(b, i+1)
	}
}

// read reads the object that begins where whole does, and returns the index after it,
// or -1.
func (t *turn) read(s *scanner) int {
	b := s.b
	var buf [32]byte
	i := skipSpace(b, t.whole.Start+1)
	if i < len(b) && b[i] == '}' {
		t.whole.End = i + 1
		return t.whole.End
	}
	for {
		v, key, escaped := s.key(i)
		if v < 0 {
			return -1
		}
		odd := s.odd
		s.odd = false
		if v < len(b) && b[v] == '"' {
			i, _ = s.str(v)
		} else {
			i = s.value(v, 3)
		}
		if i < 0 {
			return -1
		}
		t.member(plainKey(b, key, escaped, buf[:]), Span{v, i})
		if t.content.Start == v {
			t.plain = !s.odd && b[v] == '"' && t.content.Len() > len(`""`)
		}
		s.odd = s.odd || odd
		if i = skipSpace(b, i); i >= len(b) || b[i] != ',' {
			break
		}
		i = skipSpace(b, i+1)
	}
	if i >= len(b) || b[i] != '}' {
		return -1
	}
	t.whole.End = i + 1
	return t.whole.End
}
