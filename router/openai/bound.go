package openai

import (
	"math"
	"strconv"
	"strings"
)

// bounds are members of a request that some engine takes for the longest answer,
// as a set.
type bounds uint8

const (
	boundTokens     bounds = 1 << iota // max_tokens
	boundCompletion                    // max_completion_tokens
	boundOutput                        // max_output_tokens
	boundPredict                       // n_predict, which llama.cpp looks at first
)

// boundOf is which of them a name is, in any case: Ollama's parser takes it so.
func boundOf(name []byte) bounds {
	for which := boundTokens; which <= boundPredict; which <<= 1 {
		if folds(name, which.name()) {
			return which
		}
	}
	return 0
}

// name is that of one member.
func (b bounds) name() string {
	switch b {
	case boundTokens:
		return "max_tokens"
	case boundCompletion:
		return "max_completion_tokens"
	case boundOutput:
		return "max_output_tokens"
	case boundPredict:
		return "n_predict"
	}
	return ""
}

// boundMember is a member that bounds the answer, where Edit finds it.
type boundMember struct {
	which bounds
	exact bool // in its very name, for parsers that know no other case
	null  bool
	plain bool  // a number of more than zero
	most  int64 // what the value says; 0: nothing
	value Span
}

// mostBoundMembers is for how many of them a pooled Peek keeps room.
const mostBoundMembers = 64

// bound takes note of a member that bounds the answer.
func (p *Peek) bound(which bounds, exact bool, body []byte, v Span) {
	m := boundMember{which: which, exact: exact, value: v}
	raw := body[v.Start:v.End]
	switch {
	case raw[0] == 'n':
		m.null = true
		p.nullBounds |= which
	case raw[0] == '"':
		// vLLM reads a number in a text, llama.cpp passes over it.
		p.bounds |= which
		p.looseBound = true
		if raw = numberText(raw); len(raw) > 0 {
			m.most, _ = tokens(raw)
		}
	default:
		p.bounds |= which
		var ok bool
		if m.most, ok = tokens(raw); !ok {
			p.looseBound = true // -1 is without end to some
		}
		m.plain = m.most > 0
	}
	p.MaxTokens = max(p.MaxTokens, m.most)
	p.boundMembers = append(p.boundMembers, m)
}

// boundBy is the member that bounds an answer of the API at path, for all engines
// that have the API; 0: it is not known.
func boundBy(path string) bounds {
	switch path {
	case "/v1/chat/completions", "/v1/completions", "/v1/messages":
		return boundTokens
	case "/v1/responses":
		return boundOutput
	}
	return 0
}

// setsBound reports whether a member must be given a number, so that every engine
// finds a bound in the body. One that is null is as good as absent, unless it stands
// after what is put in, or beside a number under the same name.
func (p *Peek) setsBound(own bounds, m *boundMember) bool {
	return !m.plain && (!m.null || m.which == own || m.which&p.bounds != 0)
}

// lacksBound reports whether no parser that goes by case finds the API's own member.
func (p *Peek) lacksBound(own bounds) bool {
	for i := range p.boundMembers {
		if m := &p.boundMembers[i]; m.which == own && m.exact {
			return false
		}
	}
	return true
}

// Bounded reports whether no engine gives an answer of more than MaxTokens to the
// body, sent to that path. Where it is false an engine may have a bound of its own,
// or one that MaxTokens says. An API looks at its own member and passes over the
// others'; and where one stands twice, with null, or beside one that is no number,
// engines differ in which they look at.
func (p *Peek) Bounded(path string) bool {
	want := boundTokens | boundCompletion | boundOutput
	switch path {
	case "/v1/chat/completions":
		want = boundTokens | boundCompletion
	case "/v1/completions", "/v1/messages":
		want = boundTokens
	case "/v1/responses":
		want = boundOutput
	}
	return p.bounds&want != 0 && p.bounds&p.nullBounds == 0 && !p.looseBound && p.MaxTokens > 0
}

// numberText is the number that a text holds, as lenient parsers read it: with
// space around it, a sign, and low lines between its digits. It is empty if the
// text is none that parsers agree on.
func numberText(raw []byte) []byte {
	s, ok := text(raw, "")
	if !ok {
		return nil
	}
	s = strings.TrimPrefix(strings.ReplaceAll(strings.TrimSpace(s), "_", ""), "+")
	if _, err := strconv.ParseFloat(s, 64); err != nil && strings.Trim(s, "0123456789") != "" {
		return nil
	}
	return []byte(s)
}

// tokens reads a JSON number of at least zero; fractions are cut off, and what
// does not fit is the largest int64.
func tokens(raw []byte) (int64, bool) {
	if raw[0]-'0' > 9 {
		return 0, false
	}
	if digits(raw, 0) == len(raw) && len(raw) <= 18 {
		var n int64
		for _, c := range raw {
			n = n*10 + int64(c-'0')
		}
		return n, true
	}
	f, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || f >= math.MaxInt64 { // out of range
		return math.MaxInt64, true
	}
	return int64(f), true
}

// choicesAsked reads how many answers are asked for; a text, too, for vLLM takes that.
func choicesAsked(raw []byte) (int64, bool) {
	if raw[0] == '"' {
		raw = numberText(raw)
	}
	n, ok := count(raw)
	return min(n, maxChoicesAsked), ok
}
