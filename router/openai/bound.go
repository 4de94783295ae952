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
	switch {
	case folds(name, "max_tokens"):
		return boundTokens
	case folds(name, "max_completion_tokens"):
		return boundCompletion
	case folds(name, "max_output_tokens"):
		return boundOutput
	case folds(name, "n_predict"):
		return boundPredict
	}
	return 0
}

// bound takes note of a member that bounds the answer.
func (p *Peek) bound(which bounds, raw []byte) {
	if raw[0] == 'n' {
		p.nullBounds |= which
		return
	}
	p.bounds |= which
	if raw[0] == '"' {
		// vLLM reads a number in a text, llama.cpp passes over it.
		p.looseBound = true
		if raw = numberText(raw); len(raw) == 0 {
			return
		}
	}
	n, ok := tokens(raw)
	if !ok {
		p.looseBound = true // -1 is without end to some
		return
	}
	p.MaxTokens = max(p.MaxTokens, n)
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
