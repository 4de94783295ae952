package plugin

import (
	"slices"
	"strings"
	"unicode"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/engines/plugin/pluginpb"
)

// mostSaid bounds a text of an adapter that is passed on for people, in bytes.
const mostSaid = 1000

// refused is the error of a refusal: a [*engines.ProfileError] in text for people,
// or an [*engines.AnswerError] where the refusal says not what is wrong.
func refused(r *pluginpb.Refusal) error {
	const most = 200 // faults
	e := refusalFromWire(r)
	e.Faults = e.Faults[:min(len(e.Faults), most)]
	e.Engine = engines.Name(forPeople(string(e.Engine), mostSaid))
	for i := range e.Faults {
		f := &e.Faults[i]
		for _, text := range []*string{&f.Field, &f.Problem, &f.Advice} {
			*text = forPeople(*text, mostSaid)
		}
	}
	if !slices.ContainsFunc(e.Faults, func(f engines.Fault) bool { return f.Field != "" && f.Problem != "" }) {
		return &engines.AnswerError{Of: "refusal", Faults: []engines.Fault{{Field: "faults", Problem: "none says what is wrong", Advice: "name a field and its problem"}}}
	}
	return e
}

// forPeople returns text on one line, without what a terminal would obey, and its
// beginning if it is long.
func forPeople(text string, most int) string {
	const more = "…"
	if len(text) > most {
		text = text[:most-len(more)] + more
	}
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return ' '
		case unicode.IsControl(r):
			return -1
		}
		return r
	}, strings.ToValidUTF8(text, "\uFFFD"))
}
