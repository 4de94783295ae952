package flagcheck

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/llmgw/llmgw/engines"
)

// Report is what came of holding one check against one help text.
type Report struct {
	// Check is the name of the check.
	Check string `json:"check"`
	// Version is what the engine says it is; empty: not known.
	Version string `json:"version,omitempty"`
	// HelpLines is how many lines the text has.
	HelpLines int `json:"help_lines"`
	// Known is how many flags and variables of the command the text names.
	Known int `json:"known"`
	// Missing are those that it does not, in the order of the command.
	Missing []Missing `json:"missing,omitempty"`
	// Skipped are flags that the text lacks and the adapter would not pass to
	// this version.
	Skipped []Skipped `json:"skipped,omitempty"`
	// Warnings are what else a person should know, such as a text that seems to
	// be cut off.
	Warnings []string `json:"warnings,omitempty"`
}

// Missing is a flag, with its dashes, or a variable that the engine does not
// know by its help.
type Missing struct {
	Name string `json:"name"`
	// Near are up to three names of the text that are much like it, the nearest
	// first.
	Near []string `json:"near,omitempty"`
	// Said is what the text says of a flag that has been removed.
	Said string `json:"said,omitempty"`
}

// String returns the name, and what the text says of it or what may have been
// meant.
func (m Missing) String() string {
	if m.Said != "" {
		return m.Name + ": " + m.Said
	}
	if len(m.Near) == 0 {
		return m.Name
	}
	return m.Name + " (did you mean " + strings.Join(m.Near, ", ") + "?)"
}

// Skipped is a flag that only later versions have.
type Skipped struct {
	Name string `json:"name"`
	// Since is the first version that has it.
	Since string `json:"since"`
}

// OK reports whether everything that the engine would be given is known to it.
func (r Report) OK() bool { return len(r.Missing) == 0 }

// Check holds a command against the help text of its executable. version is
// what the executable says it is, empty if that is not known: then flags that
// only some versions have may be missing, for the adapter does not pass them.
func Check(c engines.Check, h Help, version string) Report {
	r := Report{Check: c.Name, Version: version, HelpLines: h.Lines, Warnings: slices.Clone(h.Doubts)}
	if c.HelpLines > 0 && h.Lines < c.HelpLines {
		r.Warnings = append(r.Warnings, fmt.Sprintf("the help has %d lines, and a whole one has %d or more: it seems to be cut off", h.Lines, c.HelpLines))
	}
	flags := h.Flags()
	for _, flag := range Flags(Rest(c)) {
		since, newer := c.Since[flag]
		switch {
		case h.Has(flag):
			r.Known++
			if end, going := h.ending[flag]; going {
				r.Warnings = append(r.Warnings, flag+" is going away: "+end.text)
			}
		case newer && (version == "" || engines.CompareVersions(version, since) < 0):
			r.Skipped = append(r.Skipped, Skipped{flag, since})
		default:
			r.Missing = append(r.Missing, Missing{Name: flag, Near: near(flag, flags), Said: h.ending[flag].text})
		}
	}
	for _, name := range c.Variables {
		if h.Names(name) {
			r.Known++
			continue
		}
		r.Missing = append(r.Missing, Missing{Name: name, Near: near(name, h.variableNames())})
	}
	return r
}

// Rest returns the arguments of the check's command behind those that lead to
// the help as well: of "python -m engine --port 1" with the help at "-m engine
// --help" it is "--port 1", since -m is a flag of Python's.
func Rest(c engines.Check) []string {
	args := c.Command.Args
	for i, word := range c.HelpArgs {
		if i >= len(args) || args[i] != word {
			return args[min(i, len(args)):]
		}
	}
	return args[len(c.HelpArgs):]
}

// given is an argument that is a flag. A negative number is none.
var given = regexp.MustCompile(`^--?[A-Za-z][A-Za-z0-9_.-]*$`)

// Flags returns the flags of a command line, each once and without a value
// behind "=", up to the word "--".
func Flags(args []string) []string {
	var out []string
	for _, arg := range args {
		if arg == "--" {
			break
		}
		name, _, _ := strings.Cut(arg, "=")
		if given.MatchString(name) && !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}
