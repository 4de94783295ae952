package strictyaml

import (
	"reflect"
	"regexp"
	"strings"
)

// unknown adds the fault for a key that no field has, with the key that was
// probably meant: one of the same section that reads alike, or the same key of
// another section. The value is never repeated, it may be a secret.
func (r *reader) unknown(at position, path, key string, fields []Field) {
	full := join(path, key)
	if hint, ok := r.hints[anyPosition.ReplaceAllString(full, "[]")]; ok {
		r.add(at, full, "%s", hint)
		return
	}
	keys := make([]string, len(fields))
	for i, f := range fields {
		keys[i] = f.Key
	}
	if near := nearest(key, keys); near != "" {
		r.add(at, full, "unknown key; did you mean %s?", near)
		r.meant[join(path, near)] = true
		return
	}
	for _, elsewhere := range paths(r.root, "") {
		if elsewhere == key || strings.HasSuffix(elsewhere, "."+key) {
			r.add(at, full, "unknown key here; did you mean %s?", elsewhere)
			return
		}
	}
	r.add(at, full, "unknown key; known here are %s", strings.Join(keys, ", "))
}

var anyPosition = regexp.MustCompile(`\[[0-9]+\]`)

// Paths returns the path of every key of a struct type, sections before their
// keys; a position in a list is written [].
func Paths(t reflect.Type) []string { return paths(t, "") }

func paths(t reflect.Type, path string) []string {
	switch {
	case t.Kind() == reflect.Pointer:
		return paths(t.Elem(), path)
	case t.Kind() == reflect.Slice:
		return paths(t.Elem(), path+"[]")
	case !IsSection(t):
		return nil
	}
	var out []string
	for _, f := range Fields(t) {
		inner := join(path, f.Key)
		out = append(out, inner)
		out = append(out, paths(f.Type, inner)...)
	}
	return out
}

// nearest returns the candidate that differs from word least, by at most about
// one edit in four bytes, or "".
func nearest(word string, candidates []string) string {
	word = strings.ToLower(strings.ReplaceAll(word, "-", "_"))
	if len(word) > 64 {
		return ""
	}
	best, bestDistance := "", max((len(word)+2)/4, 1)+1
	for _, c := range candidates {
		if d := distance(word, c); d < bestDistance {
			best, bestDistance = c, d
		}
	}
	return best
}

// distance counts the insertions, deletions, replacements and swaps of
// neighbours that lead from a to b (optimal string alignment).
func distance(a, b string) int {
	before, above := make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range above {
		above[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row := make([]int, len(b)+1)
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(above[j]+1, row[j-1]+1, above[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, above = above, row
	}
	return above[len(b)]
}
