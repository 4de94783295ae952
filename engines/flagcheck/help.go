package flagcheck

import (
	"maps"
	"regexp"
	"slices"
	"strings"
)

// Help is what a help text says. The zero value is that of an empty text.
type Help struct {
	// Lines is how many lines the text has, blank ones at its end left out.
	Lines int
	// Doubts say why the text seems to lack a part of what the engine knows;
	// empty: there is no sign of it.
	Doubts []string

	flags     map[string]bool // as the text spells them
	variables map[string]bool
	ending    map[string]ending // flags that are going or gone
	alike     bool              // dashes and underscores inside a name
	oneDash   bool              // -name and --name are the same flag, as for Go's package flag
}

// Flags returns the flags that the text declares, each with its dashes, sorted.
// Those that it says have been removed are not among them.
func (h Help) Flags() []string { return slices.Sorted(maps.Keys(h.flags)) }

// Has reports whether the text declares flag, which has its dashes and no
// value. It is the whole name or nothing: --port is not there because
// --port-range is. Of a dotted name, the way to set a part of a JSON value, what
// stands before the dot counts.
func (h Help) Has(flag string) bool {
	if h.has(flag) {
		return true
	}
	whole, _, dotted := strings.Cut(flag, ".")
	return dotted && strings.HasPrefix(flag, "--") && h.has(whole)
}

func (h Help) has(flag string) bool {
	if h.flags[flag] {
		return true
	}
	name, long := strings.CutPrefix(flag, "--")
	switch {
	case !long:
		return false
	case h.oneDash && h.flags["-"+name]:
		return true
	case !h.alike:
		return false
	}
	for known := range h.flags {
		if strings.ReplaceAll(known, "_", "-") == strings.ReplaceAll(flag, "_", "-") {
			return true
		}
	}
	return false
}

// Names reports whether the text names an environment variable, as a word.
func (h Help) Names(variable string) bool { return h.variables[variable] }

var (
	// escape is what makes a terminal show colours.
	escape = regexp.MustCompile(`\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(\x07|\x1b\\)`)
	// variableWord is how engines spell variables.
	variableWord = regexp.MustCompile(`[A-Za-z_][A-Za-z0-9_]*`)
)

// Parse reads a help text. It takes any text: of one that is no help it finds
// no flags.
func Parse(text string) Help {
	text = escape.ReplaceAllString(text, "")
	text = strings.ReplaceAll(text, "\r\n", "\n")
	h := Help{flags: make(map[string]bool), variables: make(map[string]bool)}
	for _, name := range variableWord.FindAllString(text, -1) {
		if strings.ToUpper(name) == name {
			h.variables[name] = true
		}
	}
	p := parser{flags: h.flags}
	p.read(text)
	h.Lines, h.ending = p.lines, p.ending
	for name, end := range h.ending {
		if end.removed {
			delete(h.flags, name)
		}
	}
	h.alike, h.oneDash = alike(text), oneDash(h.flags)
	h.Doubts = p.doubts(text)
	return h
}

// alike reports whether the parser behind a text takes - and _ in a name for
// the same. Two do that are known to: vLLM's, whose texts explain how JSON
// values are set in parts, and llama.cpp's, known by the titles of its parts.
func alike(text string) bool {
	return strings.Contains(text, "--json-arg.") || strings.Contains(text, "----- common params -----")
}

// oneDash reports whether the flags are those of Go's package flag, which
// shows one dash and takes two as well.
func oneDash(flags map[string]bool) bool {
	long := false
	for f := range flags {
		if strings.HasPrefix(f, "--") {
			return false
		}
		long = long || len(f) > 2
	}
	return long
}

func (h Help) variableNames() []string { return slices.Sorted(maps.Keys(h.variables)) }
