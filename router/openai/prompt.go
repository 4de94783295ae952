package openai

import (
	"io"
	"math/bits"

	"github.com/cespare/xxhash/v2"
)

// WritePrompt writes to w what an engine makes the prompt of a request from:
// the same bytes for bodies that give the engine the same prompt, and bytes that
// begin alike as far as the prompts do. It is for telling which requests share a
// prefix (package router/prefix), not for reading.
//
// Order is that of most chat templates, whatever the order in the body: system
// prompt, tools, messages. Space between tokens, how a string is escaped, content
// as a string or as a text part, an input as a string or as a message, "prompt" as
// a value or as a list of one, and cache_control make no difference; another tool,
// another image and another cache_salt do. Images and the like stand for mediaBytes
// bytes that depend on their URL or data. The model is left out: what is renamed or
// a LoRA is for the caller to tell apart. Chat, completions, embeddings, Responses
// and Anthropic's Messages are told by their members.
//
// body must be a JSON object that [PeekBody] accepts; for another the error is a
// *PeekError and what was written is of no use. What stands where it does not
// belong is passed on as it is. A mistake here costs an engine some prefill and
// nothing else. The time is linear in len(body), the depth of recursion at most
// maxNested. It writes pieces of any size; an error of w is returned as it is.
func WritePrompt(w io.Writer, body []byte) error {
	p := promptWriter{w: w, b: body, buf: make([]byte, 0, pieceBytes)}
	var m promptMembers
	if p.find(&m) {
		p.request(&m)
	}
	return p.end()
}

// WritePrompt is the function [WritePrompt] for a body that PeekBody has read into
// p. It is faster, since it need not look for what it writes, nor for the ends of what
// is long, and a Peek that is used again allocates nothing for it unless there is
// media.
func (p *Peek) WritePrompt(w io.Writer, body []byte) error {
	if p.pieces == nil {
		p.pieces = make([]byte, 0, pieceBytes)
	}
	pw := promptWriter{w: w, b: body, long: &p.long, noted: &p.turns, buf: p.pieces}
	pw.request(&p.parts)
	return pw.end()
}

// What separates parts. Control characters cannot stand in the text between, since
// a string has them escaped.
const (
	tagSetting = "\x01" // what changes the prompt as a whole
	tagRole    = "\x02" // before a role: a turn begins
	tagContent = "\x03" // before its content
	tagTools   = "\x04"
	tagCall    = "\x05" // before a tool call, and other things that are no content
	tagPlain   = "\x06" // before a prompt without a template
	tagMedia   = "\x07"
)

// mediaBytes is how long an image, sound or video is: about 256 tokens of text.
const mediaBytes = 1024

// pieceBytes is how much is gathered of short pieces before it is written.
const pieceBytes = 512

// maxNested bounds content within content, as of a tool's result.
const maxNested = 4

// promptWriter walks over one body. After the first fault it writes nothing more.
type promptWriter struct {
	w     io.Writer
	b     []byte
	long  *longStrings // of b, or nil
	noted *turnNotes   // of b, or nil
	buf   []byte       // short pieces on their way to w
	fault scanner
	werr  error
	texts int // text parts written of the current content
}

// end is what came of it.
func (p *promptWriter) end() error {
	switch {
	case p.werr != nil:
		return p.werr
	case p.fault.err != nil:
		return &PeekError{Kind: p.fault.err, Offset: p.fault.at, Detail: p.fault.why}
	}
	return nil
}

// find looks for the members that make the prompt; false if the body is none.
func (p *promptWriter) find(m *promptMembers) bool {
	sc := p.scanner()
	i := skipSpace(p.b, 0)
	if i >= len(p.b) || p.b[i] != '{' {
		p.fault.fail(i, ErrNotObject, "")
		return false
	}
	var buf [32]byte
	for i = skipSpace(p.b, i+1); i < len(p.b) && p.b[i] != '}'; i = skipSpace(p.b, i+1) {
		start, key, escaped := sc.key(i)
		if start < 0 {
			break
		}
		v := Span{start, sc.value(start, 1)}
		if v.End < 0 {
			break
		}
		m.member(plainKey(p.b, key, escaped, buf[:]), v)
		if i = skipSpace(p.b, v.End); i >= len(p.b) || p.b[i] != ',' {
			break
		}
	}
	if sc.err == nil && (i >= len(p.b) || p.b[i] != '}') {
		sc.unexpected(i, "a comma or the end of the object is expected")
	}
	return !p.broken(&sc)
}

// request writes the whole prompt.
func (p *promptWriter) request(m *promptMembers) {
	if m.set {
		p.settings(m)
	}
	switch {
	case !p.null(m.messages):
		p.turns(m.system, m.tools, m.messages)
	case !p.null(m.input) || p.null(m.prompt):
		p.turns(m.system, m.tools, m.input)
	default:
		p.prompts(m.prompt)
	}
	p.flush()
}

// settings writes what changes the prompt from its beginning.
func (p *promptWriter) settings(m *promptMembers) {
	for i, s := range m.settings {
		if !p.null(s) {
			p.put(tagSetting)
			p.put(settingNames[i])
			p.put(tagContent)
			p.compact(s)
		}
	}
}

// turns writes the system turn, with the tools, and all that follows.
func (p *promptWriter) turns(system, tools, turns Span) {
	list := elements{s: p.scanner(), at: turns.Start}
	if n := p.noted; n != nil && n.list == turns.Start && len(n.turns) > 0 {
		rest := n.turns
		if p.lead(system, tools, &rest[0]) {
			rest = rest[1:]
		}
		for i := range rest {
			p.turn(&rest[i])
		}
		list.begun, list.end, list.done = true, n.end, true
		p.items(&list)
		return
	}
	isList := turns.Len() > 0 && p.b[turns.Start] == '['
	more := isList && list.next()
	var first turn
	if more && p.b[list.at] == '{' {
		first = p.read(&list)
	}
	leads := p.lead(system, tools, &first)
	switch {
	case !isList && !p.null(turns): // a Responses input that is one user message
		p.put(tagRole)
		p.put("user")
		p.put(tagContent)
		p.texts = 0
		p.content(turns, 0)
	case isList && !more, !isList:
	case p.b[list.at] != '{':
		p.prompts(turns) // an input to embed
	default:
		if !leads {
			p.turn(&first)
		}
		p.items(&list)
	}
}

// lead writes the system turn, with the tools, if there are any: first is a part of
// it if it is the system prompt, which lead then reports.
func (p *promptWriter) lead(system, tools Span, first *turn) bool {
	leads := first.system(p.b)
	if leads || !p.null(system) || !p.null(tools) {
		p.put(tagRole)
		p.put("system")
		p.put(tagContent)
		p.texts = 0
		p.content(system, 0)
		if leads {
			p.body(first)
		}
		if !p.null(tools) {
			p.put(tagTools)
			p.value(tools)
		}
	}
	return leads
}

// items writes the elements of a list of turns that come after the one that l is at.
func (p *promptWriter) items(l *elements) {
	for l.next() {
		p.item(l)
	}
	p.broken(&l.s)
}

// item writes the element of a list of turns that l is at.
func (p *promptWriter) item(l *elements) {
	if p.b[l.at] == '{' {
		if t := p.read(l); t.whole.Len() > 0 {
			p.turn(&t)
		}
		return
	}
	if l.whole() {
		p.put(tagPlain)
		p.value(Span{l.at, l.end})
	}
}

// prompts writes one or several prompts without a template: texts, or lists of
// token ids.
func (p *promptWriter) prompts(s Span) {
	l := elements{s: p.scanner(), at: s.Start}
	if p.b[s.Start] != '[' || !l.next() || p.b[l.at] != '"' && p.b[l.at] != '[' {
		p.plain(s)
		return
	}
	for more := true; more; more = l.next() {
		if !l.whole() {
			break
		}
		p.plain(Span{l.at, l.end})
	}
	p.broken(&l.s)
}

// plain writes one prompt without a template.
func (p *promptWriter) plain(s Span) {
	p.put(tagPlain)
	p.value(s)
}

// read reads the object at l, which then is done.
func (p *promptWriter) read(l *elements) turn {
	t := turn{}
	var key [32]byte
	m := members{s: p.scanner(), at: l.at}
	for m.next() {
		t.member(m.name(key[:]), m.value)
	}
	if p.broken(&m.s) {
		l.s.err = m.s.err
		return t
	}
	t.whole = Span{l.at, m.at + 1}
	l.take(m.at + 1)
	return t
}

// turn writes t.
func (p *promptWriter) turn(t *turn) {
	if t.role == (Span{}) { // a call, its output or a reference, of the Responses API
		p.put(tagCall)
		p.value(t.whole)
		return
	}
	p.put(tagRole)
	switch string(p.b[t.role.Start:t.role.End]) {
	case `"user"`:
		p.put("user")
	case `"assistant"`:
		p.put("assistant")
	case `"system"`, `"developer"`:
		p.put("system")
	default:
		p.value(t.role)
	}
	p.put(tagContent)
	p.texts = 0
	p.body(t)
}

// body writes all of t but its role.
func (p *promptWriter) body(t *turn) {
	for _, s := range [...]Span{t.name, t.id, t.reasoning} {
		if !p.null(s) {
			p.put(tagCall)
			p.value(s)
		}
	}
	if t.plain {
		p.nextText()
		p.plainText(p.b[t.content.Start+1 : t.content.End-1])
	} else {
		p.content(t.content, 0)
	}
	if !p.null(t.calls) {
		p.put(tagCall)
		p.value(t.calls)
	}
}

// content writes the content of a turn: a string, or parts.
func (p *promptWriter) content(s Span, depth int) {
	switch {
	case p.null(s):
	case p.b[s.Start] == '"':
		p.textPart(s)
	case p.b[s.Start] == '[' && depth < maxNested:
		l := elements{s: p.scanner(), at: s.Start}
		for l.next() {
			switch p.b[l.at] {
			case '{':
				p.part(&l, depth)
			case '"':
				if l.whole() {
					p.textPart(Span{l.at, l.end})
				}
			default:
				if l.whole() {
					p.value(Span{l.at, l.end})
				}
			}
		}
		p.broken(&l.s)
	default:
		p.value(s)
	}
}

// textPart writes a text of a content.
func (p *promptWriter) textPart(s Span) {
	p.nextText()
	p.text(s)
}

// nextText begins a text; engines put a line break between two.
func (p *promptWriter) nextText() {
	if p.texts++; p.texts > 1 {
		p.put(`\n`)
	}
}

// part writes one part of a content.
func (p *promptWriter) part(l *elements, depth int) {
	var kind, text, nested Span
	var key [32]byte
	m := members{s: p.scanner(), at: l.at}
	for m.next() {
		switch string(m.name(key[:])) {
		case "type":
			kind = m.value
		case "text", "refusal":
			text = m.value
		case "content":
			nested = m.value
		}
	}
	if p.broken(&m.s) {
		l.s.err = m.s.err
		return
	}
	whole := Span{l.at, m.at + 1}
	l.take(m.at + 1)
	switch string(p.b[kind.Start:kind.End]) {
	case `"text"`, `"input_text"`, `"output_text"`, `"refusal"`:
		if text.Len() > 0 && p.b[text.Start] == '"' {
			p.textPart(text)
		}
	case `"tool_result"`:
		p.put(tagCall)
		p.content(nested, depth+1)
	case `"tool_use"`, `"thinking"`, `"redacted_thinking"`:
		p.put(tagCall)
		p.value(whole)
	default:
		p.media(whole)
	}
}

// media writes what stands for an image, sound, video or file.
func (p *promptWriter) media(s Span) {
	const digits = "0123456789abcdef"
	var name [16]byte
	for i, sum := 0, p.digest(s, 0); i < len(name); i, sum = i+1, sum>>4 {
		name[i] = digits[sum&15]
	}
	p.put(tagMedia)
	for range mediaBytes / len(name) {
		p.write(name[:])
	}
}

// digest is a hash of a value in which the order of members makes no difference,
// nor does one that is null.
func (p *promptWriter) digest(s Span, depth int) uint64 {
	if p.b[s.Start] != '{' || depth >= maxNested {
		var d xxhash.Digest
		d.Reset()
		inner := promptWriter{w: &d, b: p.b, long: p.long, buf: make([]byte, 0, pieceBytes)}
		inner.value(s)
		inner.flush()
		p.broken(&inner.fault)
		return d.Sum64()
	}
	var sum uint64
	m := members{s: p.scanner(), at: s.Start}
	for m.next() {
		var key [32]byte
		switch name := m.name(key[:]); {
		case p.b[m.value.Start] == 'n', string(name) == "cache_control":
		default:
			h := xxhash.Sum64(name) ^ bits.RotateLeft64(p.digest(m.value, depth+1), 31)
			sum += h * 0x9e3779b97f4a7c15
		}
	}
	p.broken(&m.s)
	return sum ^ sum>>29
}

// scanner returns one for the body.
func (p *promptWriter) scanner() scanner { return scanner{b: p.b, long: p.long} }

// broken takes over the fault of a scanner; true if there is one.
func (p *promptWriter) broken(s *scanner) bool {
	if s.err != nil && p.fault.err == nil {
		p.fault = scanner{at: s.at, err: s.err, why: s.why}
	}
	return p.fault.err != nil
}

// null is whether s is absent, null, or an empty string or list.
func (p *promptWriter) null(s Span) bool {
	return s.Len() == 0 || p.b[s.Start] == 'n' || s.Len() == 2 && p.b[s.Start] != '{' && p.b[s.Start]-'0' > 9
}
