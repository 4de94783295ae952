package openai

import (
	"cmp"
	"slices"
)

const (
	// longBytes is from when on a string's end is worth a note: a search for the
	// note then costs less than one for the end.
	longBytes = 512
	// maxLong bounds the notes of one body. Prompts have most of their text in a
	// few long strings.
	maxLong = 256
)

// longStrings are the long strings of a body in the order in which they stand there,
// noted by PeekBody so that WritePrompt, which comes by twice or thrice, need not
// look for their ends again.
type longStrings []longString

// longString is one of them, with its quotes.
type longString struct {
	start, end int
	escaped    bool
	odd        bool // it has an escape that WritePrompt writes in another way
}

// note takes l if it is long, there is room, and it does end.
func (ls *longStrings) note(l longString) {
	if l.end-l.start >= longBytes && len(*ls) < maxLong {
		*ls = append(*ls, l)
	}
}

// at returns the string whose opening quote is at start, nil if there is no note.
func (ls *longStrings) at(start int) *longString {
	i, ok := slices.BinarySearchFunc(*ls, start, func(l longString, at int) int { return cmp.Compare(l.start, at) })
	if !ok {
		return nil
	}
	return &(*ls)[i]
}
