package openai

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode/utf8"
)

// maxUserBytes bounds the `user` field that Peek copies; a longer one is left
// out, since it is only a label.
const maxUserBytes = 1024

// Span is a half-open range of bytes in the body that was peeked at. The zero
// Span means absent.
type Span struct{ Start, End int }

// Len is the length in bytes.
func (s Span) Len() int { return s.End - s.Start }

// Peek is what a relay needs to know of a JSON request body. The zero value is
// ready for PeekBody. Spans cover whole JSON values, strings with their quotes.
//
// A Peek that is used again for another body keeps its buffers, and keeps the
// string Model (or User) when the new value is the same, so that a pooled Peek
// allocates nothing for the model it saw last. No field aliases the body.
type Peek struct {
	// Model is the decoded top-level "model"; never empty after a nil error.
	Model     string
	ModelSpan Span

	// Stream is whether "stream" is true. When a key stands twice the last one
	// holds, as in most parsers; Edit changes the last one. "model",
	// "previous_response_id" and "conversation" may stand only once.
	Stream     bool
	StreamSpan Span

	// StreamOptionsSpan covers the value of "stream_options", null included.
	StreamOptionsSpan Span
	// IncludeUsage and ContinuousUsage are whether "include_usage" and
	// "continuous_usage_stats" are true in "stream_options".
	IncludeUsage    bool
	ContinuousUsage bool

	// MaxTokens is the largest of "max_tokens", "max_completion_tokens",
	// "max_output_tokens" and "n_predict" that is a number of at least zero. What it
	// is a bound for [Peek.Bounded] says.
	MaxTokens int64

	// Choices is the largest of 1, "n", "best_of" and "n_cmpl": how many answers are
	// made of each prompt. Prompts is how many prompts "prompt" is a list of; 1 if it is
	// none. Both are at most 1,048,576.
	Choices, Prompts int64

	// User is "user" if it is a string of at most 1,024 bytes, else empty.
	User string

	// Previous is "previous_response_id" if it is a string, and HasPrevious
	// whether it is anything but null. HasConversation says the latter of
	// "conversation", and Background of "background" that it is neither null nor
	// false. They count in upper case, too, since parsers in Go take them so.
	// NoStore is whether "store" is false.
	Previous        string
	HasPrevious     bool
	HasConversation bool
	Background      bool
	NoStore         bool

	// PrioritySpan covers the value of "priority", of whatever type.
	PrioritySpan Span

	// PromptSpan covers the longest of "messages", "prompt", "input" and
	// "query".
	PromptSpan Span

	bounds         bounds // members that bound the answer and are not null
	nullBounds     bounds // and those that are
	looseBound     bool   // one of them is not a number of at least zero
	boundMembers   []boundMember
	open           int // of the top-level object
	modelKeys      int
	previousKeys   int
	talkKeys       int
	optionsObject  bool
	optionsNull    bool
	optionsEmpty   bool
	includeSpan    Span // value of include_usage
	continuousSpan Span
	scratch        []byte // what Edit inserts
	pieces         []byte // room for WritePrompt
	long           longStrings
	parts          promptMembers
	turns          turnNotes
	pairs          pairNotes
}

// HasStreamOptions is whether the body has "stream_options", null included.
func (p *Peek) HasStreamOptions() bool { return p.StreamOptionsSpan != Span{} }

// PeekBody reads body once and fills p. The body must be one JSON object with
// exactly one top-level "model", a non-empty string; white space may surround
// it, a byte order mark may not. What PeekBody accepts, encoding/json accepts
// and understands alike, but for control characters within strings, which are
// let through to the engine. It allocates nothing unless the model or user
// differs from the one p held before, and recurses never; its time is linear
// in len(body). A refusal is a *PeekError; p then holds nothing of use.
func PeekBody(body []byte, p *Peek) error {
	*p = Peek{
		Model: p.Model, User: p.User, Choices: 1, Prompts: 1,
		scratch: p.scratch, pieces: p.pieces, long: p.long[:0], turns: turnNotes{turns: p.turns.turns[:0]},
		boundMembers: p.boundMembers[:0],
	}
	oldUser := p.User
	p.User = ""
	if cap(p.boundMembers) > mostBoundMembers {
		p.boundMembers = nil
	}
	s := scanner{b: body, long: &p.long, notes: true}
	p.top(&s, oldUser)
	if s.err != nil {
		return &PeekError{Kind: s.err, Offset: s.at, Detail: s.why}
	}
	return nil
}

func (p *Peek) top(s *scanner, oldUser string) {
	b := s.b
	i := skipSpace(b, 0)
	switch {
	case len(b) >= 3 && string(b[:3]) == "\xef\xbb\xbf":
		s.fail(0, ErrNotJSON, "a byte order mark stands before the JSON text")
		return
	case i >= len(b):
		s.fail(i, ErrNotJSON, "the body is empty")
		return
	case b[i] != '{':
		if end := s.value(i, 0); end >= 0 {
			s.err, s.at = ErrNotObject, i
		}
		return
	}
	p.open = i
	for i = skipSpace(b, i+1); ; i = skipSpace(b, i+1) {
		if i < len(b) && b[i] == '}' && i == skipSpace(b, p.open+1) {
			break // no member at all
		}
		start, key, escaped := s.key(i)
		if start < 0 {
			return
		}
		end := p.value(s, key, start)
		if end < 0 {
			return
		}
		p.member(s, key, escaped, Span{start, end}, oldUser)
		if s.err != nil {
			return
		}
		if i = skipSpace(b, end); i >= len(b) || b[i] != ',' {
			break
		}
	}
	if i >= len(b) || b[i] != '}' {
		s.unexpected(i, "a comma or the end of the object is expected")
		return
	}
	if end := skipSpace(b, i+1); end < len(b) {
		s.fail(end, ErrNotJSON, "more follows after the JSON object")
		return
	}
	if p.ModelSpan == (Span{}) {
		s.fail(i, ErrNoModel, "")
	}
}

// value returns the index after the value of a top-level member.
func (p *Peek) value(s *scanner, key Span, start int) int {
	if start < len(s.b) && s.b[start] == '[' {
		switch name := s.b[key.Start+1 : key.End-1]; {
		case string(name) == "messages", string(name) == "input":
			if end := p.turns.note(s, start); end >= 0 {
				return end
			}
		case pairSide(name):
			return p.pairs.list(s, start)
		}
	}
	return s.value(start, 1)
}

// member takes note of a top-level member.
func (p *Peek) member(s *scanner, key Span, escaped bool, v Span, oldUser string) {
	var buf [32]byte
	name := plainKey(s.b, key, escaped, buf[:])
	if pairSide(name) {
		p.pairs.side(s.b, v)
	}
	switch string(name) {
	case "model":
		p.model(s, key, v)
	case "stream":
		p.Stream, p.StreamSpan = s.b[v.Start] == 't', v
	case "stream_options":
		p.streamOptions(s, v)
	case "n", "best_of", "n_cmpl":
		if n, ok := choicesAsked(s.b[v.Start:v.End]); ok {
			p.Choices = max(p.Choices, n)
		}
	case "user":
		p.User = ""
		if v.Len() <= maxUserBytes {
			p.User, _ = text(s.b[v.Start:v.End], oldUser)
		}
	case "priority":
		p.PrioritySpan = v
	case "store":
		p.NoStore = s.b[v.Start] == 'f'
	case "messages", "prompt", "input", "query":
		p.parts.member(name, v)
		if v.Len() > p.PromptSpan.Len() {
			p.PromptSpan = v
		}
		if s.b[v.Start] == '[' && string(name) == "prompt" {
			p.Prompts = max(p.Prompts, prompts(s.b, v))
		}
	default:
		if p.parts.member(name, v) {
			return
		}
		// Parsers in Go match field names without regard to case (Ollama's),
		// so "Model" beside "model" would name another model there.
		which := boundOf(name)
		switch {
		case which != 0:
			p.bound(which, string(name) == which.name(), s.b, v)
		case folds(name, "model"):
			p.countModel(s, key)
		case folds(name, "previous_response_id"):
			p.previous(s, key, v)
		case folds(name, "conversation"):
			p.conversation(s, key, v)
		case folds(name, "background"):
			p.Background = p.Background || s.b[v.Start] != 'n' && s.b[v.Start] != 'f'
		}
		if !validText(s.b[key.Start:key.End]) {
			s.fail(key.Start, ErrNotJSON, "a key holds a control character or is not UTF-8")
		}
	}
}

// maxChoicesAsked bounds Choices and Prompts, so that their product with a number
// of tokens is one.
const maxChoicesAsked = 1 << 20

// prompts counts the entries of a list of prompts: texts, or lists of tokens. A
// list of numbers is one prompt.
func prompts(b []byte, list Span) (n int64) {
	s := scanner{b: b}
	for i := skipSpace(b, list.Start+1); i < list.End && (b[i] == '"' || b[i] == '['); i = skipSpace(b, i+1) {
		if i = s.value(i, 1); i < 0 {
			break
		}
		n++
		if i = skipSpace(b, i); b[i] != ',' {
			break
		}
	}
	return min(max(n, 1), maxChoicesAsked)
}

// countModel refuses the second key that some parser takes for "model".
func (p *Peek) countModel(s *scanner, key Span) {
	if p.modelKeys++; p.modelKeys > 1 {
		s.fail(key.Start, ErrDuplicateModel, "")
	}
}

func (p *Peek) model(s *scanner, key, v Span) {
	p.countModel(s, key)
	name, ok := text(s.b[v.Start:v.End], p.Model)
	switch {
	case !ok:
		s.fail(v.Start, ErrModelNotString, "")
	case name == "":
		s.fail(v.Start, ErrNoModel, "the model is empty")
	}
	p.Model, p.ModelSpan = name, v
}

// streamOptions takes note of the members of the value of "stream_options".
func (p *Peek) streamOptions(s *scanner, v Span) {
	p.StreamOptionsSpan = v
	p.IncludeUsage, p.includeSpan = false, Span{}
	p.ContinuousUsage, p.continuousSpan = false, Span{}
	p.optionsObject = s.b[v.Start] == '{'
	p.optionsNull = s.b[v.Start] == 'n'
	if !p.optionsObject {
		return
	}
	var key [32]byte
	m := members{s: scanner{b: s.b}, at: v.Start}
	p.optionsEmpty = true
	for m.next() {
		p.optionsEmpty = false
		switch string(m.name(key[:])) {
		case "include_usage":
			p.IncludeUsage, p.includeSpan = s.b[m.value.Start] == 't', m.value
		case "continuous_usage_stats":
			p.ContinuousUsage, p.continuousSpan = s.b[m.value.Start] == 't', m.value
		}
	}
}

func (p *Peek) previous(s *scanner, key, v Span) {
	if p.previousKeys++; p.previousKeys > 1 {
		s.fail(key.Start, ErrDuplicateField, "previous_response_id")
	}
	p.HasPrevious = s.b[v.Start] != 'n'
	p.Previous, _ = text(s.b[v.Start:v.End], "")
}

func (p *Peek) conversation(s *scanner, key, v Span) {
	if p.talkKeys++; p.talkKeys > 1 {
		s.fail(key.Start, ErrDuplicateField, "conversation")
	}
	p.HasConversation = s.b[v.Start] != 'n'
}

// folds is whether a key, as plainKey has it, is lower without regard to case,
// by the rules of encoding/json: two letters beyond ASCII are cases of s and k.
// An escape beyond ASCII counts as those.
func folds(name []byte, lower string) bool {
	if len(name) < len(lower) || len(name) > 3*len(lower) {
		return false
	}
	for i := range len(lower) {
		want, n := lower[i], 0
		switch c := name[0]; {
		case c == want, c|0x20 == want && 'a' <= want && want <= 'z':
			n = 1
		case c == 0xff && (want == 's' || want == 'k'):
			n = 1
		case want == 's' && bytes.HasPrefix(name, []byte("\u017f")):
			n = len("\u017f")
		case want == 'k' && bytes.HasPrefix(name, []byte("\u212a")):
			n = len("\u212a")
		default:
			return false
		}
		if name = name[n:]; len(name) == 0 {
			return i == len(lower)-1
		}
	}
	return false
}

// validText is whether raw, the text of a string, holds no control character
// and no invalid UTF-8.
func validText(raw []byte) bool {
	for i, c := range raw {
		if c < ' ' {
			return false
		}
		if c >= utf8.RuneSelf {
			return validText(raw[:i]) && utf8.Valid(raw[i:]) && !hasControl(raw[i:])
		}
	}
	return true
}

func hasControl(raw []byte) bool {
	for _, c := range raw {
		if c < ' ' {
			return true
		}
	}
	return false
}

// text decodes the JSON value raw if it is a string, and returns old when that
// is equal, so that a repeated value costs no allocation. It is not ok for
// another type, and for what parsers do not agree on: control characters,
// invalid UTF-8 and lone surrogates.
func text(raw []byte, old string) (string, bool) {
	if raw[0] != '"' {
		return "", false
	}
	inner := raw[1 : len(raw)-1]
	if !validText(inner) {
		return "", false
	}
	if bytes.IndexByte(inner, '\\') < 0 {
		if string(inner) == old {
			return old, true
		}
		return string(inner), true
	}
	var decoded string
	if json.Unmarshal(raw, &decoded) != nil || strings.ContainsRune(decoded, utf8.RuneError) {
		return "", false
	}
	return decoded, true
}
