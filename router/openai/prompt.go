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
	return writePrompt(w, body, Span{}, nil, make([]byte, 0, pieceBytes))
}

// WritePrompt is the function [WritePrompt] for a body that PeekBody has read into
// p. It is faster, since it need not look for the ends of what is long, and a Peek
// that is used again allocates nothing for it unless there is media.
func (p *Peek) WritePrompt(w io.Writer, body []byte) error {
	if p.pieces == nil {
		p.pieces = make([]byte, 0, pieceBytes)
	}
	return writePrompt(w, body, p.PromptSpan, &p.long, p.pieces)
}

// writePrompt skips a member's value without a look if it is known. It uses the
// room of buf.
func writePrompt(w io.Writer, body []byte, known Span, long *longStrings, buf []byte) error {
	p := promptWriter{w: w, b: body, known: known, long: long, buf: buf}
	p.request()
	switch {
	case p.werr != nil:
		return p.werr
	case p.fault.err != nil:
		return &PeekError{Kind: p.fault.err, Offset: p.fault.at, Detail: p.fault.why}
	}
	return nil
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
	known Span         // of a member's value, or zero
	long  *longStrings // of b, or nil
	buf   []byte       // short pieces on their way to w
	fault scanner
	werr  error
	texts int // text parts written of the current content
}

// request writes the whole prompt.
func (p *promptWriter) request() {
	var system, tools, messages, input, prompt Span
	var settings [len(settingNames)]Span
	sc := p.scanner()
	i := skipSpace(p.b, 0)
	if i >= len(p.b) || p.b[i] != '{' {
		p.fault.fail(i, ErrNotObject, "")
		return
	}
	var buf [32]byte
	for i = skipSpace(p.b, i+1); i < len(p.b) && p.b[i] != '}'; i = skipSpace(p.b, i+1) {
		start, key, escaped := sc.key(i)
		if start < 0 {
			break
		}
		v := Span{start, p.known.End}
		if start != p.known.Start || v.End > len(p.b) || v.Len() < 1 {
			if v.End = sc.value(start, 1); v.End < 0 {
				break
			}
		}
		switch name := plainKey(p.b, key, escaped, buf[:]); string(name) {
		case "system", "instructions":
			system = v
		case "tools", "functions":
			tools = v
		case "messages":
			messages = v
		case "input":
			input = v
		case "prompt":
			prompt = v
		default:
			for i, s := range settingNames {
				if string(name) == s {
					settings[i] = v
				}
			}
		}
		if i = skipSpace(p.b, v.End); i >= len(p.b) || p.b[i] != ',' {
			break
		}
	}
	if sc.err == nil && (i >= len(p.b) || p.b[i] != '}') {
		sc.unexpected(i, "a comma or the end of the object is expected")
	}
	if p.broken(&sc) {
		return
	}
	for i, s := range settings {
		if !p.null(s) {
			p.put(tagSetting)
			p.put(settingNames[i])
			p.put(tagContent)
			p.compact(s)
		}
	}
	switch {
	case !p.null(messages):
		p.turns(system, tools, messages)
	case !p.null(input) || p.null(prompt):
		p.turns(system, tools, input)
	default:
		p.prompts(prompt)
	}
	p.flush()
}

// settingNames are the members that change a prompt from its beginning.
var settingNames = [...]string{ //nolint:gochecknoglobals // a constant that Go has no form for
	"cache_salt", "chat_template", "chat_template_kwargs", "documents", "mm_processor_kwargs", "reasoning",
	"reasoning_effort",
}

// turns writes the system turn, with the tools, and all that follows.
func (p *promptWriter) turns(system, tools, turns Span) {
	list := elements{s: p.scanner(), at: turns.Start}
	isList := turns.Len() > 0 && p.b[turns.Start] == '['
	more := isList && list.next()
	var first turn
	if more && p.b[list.at] == '{' {
		first = p.read(&list)
	}
	leads := first.system(p.b)
	if leads || !p.null(system) || !p.null(tools) {
		p.put(tagRole)
		p.put("system")
		p.put(tagContent)
		p.texts = 0
		p.content(system, 0)
		if leads {
			p.body(&first)
		}
		if !p.null(tools) {
			p.put(tagTools)
			p.value(tools)
		}
	}
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
		for list.next() {
			p.item(&list)
		}
		p.broken(&list.s)
	}
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

// turn is a message, or an item of a Responses input.
type turn struct {
	role      Span
	content   Span
	name, id  Span // of who speaks, or of what is answered
	calls     Span
	reasoning Span
	whole     Span
}

// system is whether t is the system prompt.
func (t *turn) system(b []byte) bool {
	switch string(b[t.role.Start:t.role.End]) {
	case `"system"`, `"developer"`:
		return true
	}
	return false
}

// read reads the object at l, which then is done.
func (p *promptWriter) read(l *elements) turn {
	t := turn{}
	var key [32]byte
	m := members{s: p.scanner(), at: l.at}
	for m.next() {
		switch string(m.name(key[:])) {
		case "role":
			t.role = m.value
		case "content":
			t.content = m.value
		case "name":
			t.name = m.value
		case "tool_call_id":
			t.id = m.value
		case "tool_calls", "function_call":
			t.calls = m.value
		case "reasoning_content", "reasoning", "thinking":
			t.reasoning = m.value
		}
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
	if t.system(p.b) {
		p.put("system")
	} else {
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
	p.content(t.content, 0)
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

// textPart writes a text; engines put a line break between two.
func (p *promptWriter) textPart(s Span) {
	if p.texts++; p.texts > 1 {
		p.put(`\n`)
	}
	p.text(s)
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
