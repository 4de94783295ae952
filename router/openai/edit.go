package openai

import (
	"cmp"
	"encoding/json"
	"strconv"
)

// Edit is what to change in a request body.
type Edit struct {
	// Model is the name the engine knows the model by; empty keeps the
	// client's.
	Model string
	// InjectUsage asks the engine for usage at the end of the stream, and
	// InjectContinuous for cumulative usage in each chunk, which implies the
	// former. Bodies that do not ask for a stream are left alone, since
	// engines refuse stream options there, and so is a "stream_options" that
	// is neither object nor null.
	InjectUsage, InjectContinuous bool
	// SetPriority makes Priority the value of "priority", whether or not the
	// client has sent one.
	SetPriority bool
	Priority    int64
	// MaxTokens, of more than 0, makes the body such that no engine gives an answer
	// of more, where [Peek.Bounded] of Path is false. What the client has said stays
	// where it is a number, of more than zero; what is null, text or less is replaced.
	// With a Path that is none of those that Bounded knows nothing is done.
	MaxTokens int64
	Path      string
}

// Edit appends to dst the pieces of body with the changes of e made, and
// returns them with their total length. The body must be the one that
// PeekBody filled p from. Nothing but the values concerned changes: pieces
// alias body, or memory of p that holds until the next Edit or PeekBody of p.
// With room for 9 in dst and a pooled p it allocates nothing, unless a new
// model name holds what JSON escapes.
func (p *Peek) Edit(body []byte, e Edit, dst [][]byte) (parts [][]byte, length int) {
	w := edits{body: body, parts: dst, text: p.scratch[:0]}
	options := p.Stream && (e.InjectUsage || e.InjectContinuous)
	missing := options && !p.HasStreamOptions()
	var bound bounds // the member that bounds the answer; 0: leave all as they are
	if e.MaxTokens > 0 && !p.Bounded(e.Path) {
		bound = boundBy(e.Path)
	}
	p.editNew(&w, e, missing, bound)

	// What is there is changed from front to back.
	var model, stream, priority Span
	if e.Model != "" && e.Model != p.Model {
		model = p.ModelSpan
	}
	if options && !missing {
		stream = p.StreamOptionsSpan
	}
	if e.SetPriority {
		priority = p.PrioritySpan
	}
	for done, at := 0, 0; ; {
		next, most := Span{}, int64(0)
		for bound != 0 && at < len(p.boundMembers) && !p.setsBound(bound, &p.boundMembers[at]) {
			at++
		}
		if bound != 0 && at < len(p.boundMembers) {
			next, most = p.boundMembers[at].value, cmp.Or(p.boundMembers[at].most, e.MaxTokens)
		}
		for _, s := range [...]Span{model, stream, priority} {
			if s.Start > done && (next == Span{} || s.Start < next.Start) {
				next, most = s, 0
			}
		}
		switch {
		case next == Span{}:
			p.scratch = w.text
			return w.finish()
		case most > 0:
			w.replace(next, "")
			w.text = strconv.AppendInt(w.text, most, 10)
			at++
		case next == model:
			w.replace(model, "")
			w.quote(e.Model)
		case next == stream:
			p.editOptions(&w, e)
		default:
			w.replace(priority, "")
			w.text = strconv.AppendInt(w.text, e.Priority, 10)
		}
		done = next.Start
	}
}

// editNew puts the members of e that the body does not have at its front; there is
// one after them, the model.
func (p *Peek) editNew(w *edits, e Edit, options bool, bound bounds) {
	priority := e.SetPriority && p.PrioritySpan == Span{}
	bounded := bound != 0 && p.lacksBound(bound)
	if !options && !priority && !bounded {
		return
	}
	w.replace(Span{p.open + 1, p.open + 1}, "")
	if options {
		w.more(`"stream_options":{"include_usage":true`)
		if e.InjectContinuous {
			w.more(`,"continuous_usage_stats":true`)
		}
		w.more(`},`)
	}
	if priority {
		w.number("priority", e.Priority)
	}
	if bounded {
		w.number(bound.name(), e.MaxTokens)
	}
}

// Injects is whether Edit, given e, makes an engine send usage that the client
// did not ask for: at the end, and in each chunk.
func (p *Peek) Injects(e Edit) (usage, continuous bool) {
	if !p.Stream || p.HasStreamOptions() && !p.optionsObject && !p.optionsNull {
		return false, false
	}
	usage = (e.InjectUsage || e.InjectContinuous) && !p.IncludeUsage
	return usage, e.InjectContinuous && !(p.IncludeUsage && p.ContinuousUsage)
}

// editOptions changes an existing value of "stream_options".
func (p *Peek) editOptions(w *edits, e Edit) {
	const usage, continuous = `"include_usage":true`, `"continuous_usage_stats":true`
	switch {
	case p.optionsNull:
		w.replace(p.StreamOptionsSpan, `{`+usage)
		if e.InjectContinuous {
			w.more(`,` + continuous)
		}
		w.more(`}`)
		return
	case !p.optionsObject:
		return
	}
	at := p.StreamOptionsSpan.Start + 1
	addUsage := p.includeSpan == Span{}
	addContinuous := e.InjectContinuous && p.continuousSpan == Span{}
	if addUsage || addContinuous {
		w.replace(Span{at, at}, "")
		if addUsage {
			w.more(usage)
		}
		if addUsage && addContinuous {
			w.more(`,`)
		}
		if addContinuous {
			w.more(continuous)
		}
		if !p.optionsEmpty {
			w.more(`,`)
		}
	}
	setUsage := !addUsage && !p.IncludeUsage
	setContinuous := e.InjectContinuous && !addContinuous && !p.ContinuousUsage
	continuousFirst := p.continuousSpan.Start < p.includeSpan.Start
	if setContinuous && continuousFirst {
		w.replace(p.continuousSpan, `true`)
	}
	if setUsage {
		w.replace(p.includeSpan, `true`)
	}
	if setContinuous && !continuousFirst {
		w.replace(p.continuousSpan, `true`)
	}
}

// edits collects the pieces of an edited body, from front to back.
type edits struct {
	body  []byte
	done  int // of body
	parts [][]byte
	total int
	text  []byte // inserted text, a piece of it is pending from start
	start int
}

// replace puts text in place of the bytes of s.
func (w *edits) replace(s Span, text string) {
	w.flush()
	w.part(w.body[w.done:s.Start])
	w.done = s.End
	w.more(text)
}

// more appends text to what the last replace put in.
func (w *edits) more(text string) { w.text = append(w.text, text...) }

// number appends a member and the comma after it.
func (w *edits) number(name string, n int64) {
	w.more(`"`)
	w.more(name)
	w.more(`":`)
	w.text = strconv.AppendInt(w.text, n, 10)
	w.more(`,`)
}

// quote appends s as a JSON string.
func (w *edits) quote(s string) {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			quoted, _ := json.Marshal(s) // a string cannot fail
			w.text = append(w.text, quoted...)
			return
		}
	}
	w.text = append(w.text, '"')
	w.text = append(w.text, s...)
	w.text = append(w.text, '"')
}

func (w *edits) flush() {
	w.part(w.text[w.start:])
	w.start = len(w.text)
}

func (w *edits) part(b []byte) {
	if len(b) > 0 {
		w.parts = append(w.parts, b[:len(b):len(b)])
		w.total += len(b)
	}
}

func (w *edits) finish() ([][]byte, int) {
	w.flush()
	w.part(w.body[w.done:])
	return w.parts, w.total
}
