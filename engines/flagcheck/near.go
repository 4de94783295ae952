package flagcheck

import (
	"cmp"
	"slices"
	"strings"
)

const (
	mostNear = 3
	// farthest is how unlike a name may be to be worth a mention: 0 is the same,
	// 1 has nothing in common.
	farthest = 0.5
)

// near returns the names most like one that is not among them.
func near(name string, names []string) []string {
	type candidate struct {
		name string
		far  float64
	}
	var found []candidate
	for _, n := range names {
		if far := unlike(name, n); far <= farthest {
			found = append(found, candidate{n, far})
		}
	}
	slices.SortStableFunc(found, func(a, b candidate) int { return cmp.Compare(a.far, b.far) })
	var out []string
	for _, c := range found[:min(len(found), mostNear)] {
		out = append(out, c.name)
	}
	return out
}

// unlike is how much two names differ: by letters, for misspellings, or by
// words, for renamed flags, whichever is less.
func unlike(a, b string) float64 {
	a, b = strings.ToLower(strings.TrimLeft(a, "-")), strings.ToLower(strings.TrimLeft(b, "-"))
	if a == "" || b == "" {
		return 1
	}
	letters := float64(distance(a, b)) / float64(max(len(a), len(b)))
	split := func(r rune) bool { return r == '-' || r == '_' || r == '.' }
	x, y := strings.FieldsFunc(a, split), strings.FieldsFunc(b, split)
	common := 0
	for _, w := range x {
		if slices.Contains(y, w) {
			common++
		}
	}
	words := 1 - float64(2*common)/float64(len(x)+len(y))
	return min(letters, words)
}

// distance is the least number of letters to insert, delete or replace.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost = 1 + min(diagonal, row[j], row[j+1])
			}
			diagonal, row[j+1] = row[j+1], cost
		}
	}
	return row[len(b)]
}
