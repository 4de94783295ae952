package flagcheck

import (
	"regexp"
	"strings"
)

// ending is how a flag that is still in the text ends.
type ending struct {
	removed bool   // the engine refuses it
	text    string // what the description says of it
}

// enoughText is how much of a description is looked at, in bytes: what is said
// of a flag's end is said first.
const enoughText = 200

var (
	removedFlag = regexp.MustCompile(`(?i)\b(argument|option|flag) has been removed\b`)
	// deprecatedFlag does not match a value that is deprecated.
	deprecatedFlag = regexp.MustCompile(`(?i)^\W*(note: )?(--?[\w-]+ is )?deprecated\b|\(deprecated\)`)
	// bracketed is what help texts add to every description.
	bracketed = regexp.MustCompile(`\s*[\[(](env|default)\b.*$`)
)

// endingOf reads a description. llama.cpp goes on listing the flags that it
// removed, with the word that it has and what to use; others say for a while
// that a flag will go.
func endingOf(text string) ending {
	said := strings.TrimRight(bracketed.ReplaceAllString(text, ""), " .")
	switch {
	case removedFlag.MatchString(text):
		return ending{removed: true, text: said}
	case deprecatedFlag.MatchString(text):
		return ending{text: said}
	}
	return ending{}
}
