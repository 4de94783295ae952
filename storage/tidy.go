package storage

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Tidy makes the row's texts such as can be kept and shown: what is not UTF-8,
// and characters that cannot be seen or change how others are shown, become
// U+FFFD, and what is longer than 256 bytes is cut. It leaves KeyID and RequestID
// alone, which are not for clients to choose.
func (u *Usage) Tidy() {
	for _, text := range u.texts() {
		*text = tidy(*text, maxText)
	}
}

// Tidy does for an audit row's Actor, Target and RequestID what [Usage.Tidy] does;
// of the last 128 bytes are kept.
func (a *Audit) Tidy() {
	a.Actor, a.Target, a.RequestID = tidy(a.Actor, maxText), tidy(a.Target, maxText), tidy(a.RequestID, maxAsked)
}

func tidy(s string, most int) string {
	if len(s) <= most && seen(s) {
		return s
	}
	// Cut before and after: a replacement is longer than what it replaces.
	s = strings.Map(func(r rune) rune {
		if hidden(r) {
			return utf8.RuneError
		}
		return r
	}, s[:min(len(s), most)])
	for len(s) > most {
		_, n := utf8.DecodeLastRuneInString(s)
		s = s[:len(s)-n]
	}
	return s
}

// seen reports whether all of a text can be seen. Most texts are ASCII.
func seen(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c == 0x7f {
			return false
		} else if c >= utf8.RuneSelf {
			return utf8.ValidString(s[i:]) && !strings.ContainsFunc(s[i:], hidden)
		}
	}
	return true
}

// hidden reports whether a character cannot be seen, or changes how others are
// shown.
func hidden(r rune) bool {
	return unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r == '\u2028' || r == '\u2029'
}
