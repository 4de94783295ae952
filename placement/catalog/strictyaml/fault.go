package strictyaml

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Fault is one thing that is wrong with a configuration.
type Fault struct {
	File     string `json:"file,omitempty"`     // as the operator named it; "" if no file is to blame
	Line     int    `json:"line,omitempty"`     // 1 is the first; 0 is unknown, as for a key that is missing
	Variable string `json:"variable,omitempty"` // the environment variable at fault; then File is ""
	Path     string `json:"path,omitempty"`     // the key, e.g. endpoints[2].url; "" for the whole file
	Text     string `json:"text"`               // what is wrong and what would be accepted
}

// Error begins with what an editor needs to jump there.
func (f Fault) Error() string {
	var b strings.Builder
	switch {
	case f.Variable != "":
		b.WriteString(f.Variable + ": ")
	case f.File != "" && f.Line > 0:
		b.WriteString(f.File + ":" + strconv.Itoa(f.Line) + ": ")
	case f.File != "":
		b.WriteString(f.File + ": ")
	}
	if f.Path != "" {
		b.WriteString(f.Path + ": ")
	}
	b.WriteString(f.Text)
	return b.String()
}

// Faults is every fault of a configuration, those of the file first, in the
// order of its lines.
type Faults []Fault

func (f Faults) Error() string {
	lines := make([]string, len(f))
	for i := range f {
		lines[i] = f[i].Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap lets errors.As find a single Fault.
func (f Faults) Unwrap() []error {
	out := make([]error, len(f))
	for i := range f {
		out[i] = f[i]
	}
	return out
}

// position is where a key was written.
type position struct {
	line     int
	variable string
}

// collector gathers faults and remembers where each key stands.
type collector struct {
	file      string
	faults    Faults
	positions map[string]position
	broken    map[string]bool // paths with a fault; what is said about them later follows from it
	meant     map[string]bool // keys that a mistyped one stands for; that they are missing follows from it
}

func newCollector(file string) *collector {
	return &collector{file: file, positions: make(map[string]position), broken: make(map[string]bool), meant: make(map[string]bool)}
}

// add notes a fault that leaves the key at path without a usable value.
func (c *collector) add(at position, path, format string, args ...any) {
	c.note(at, path, format, args...)
	c.broken[path] = true
}

// note adds a fault beside which others at path are worth telling.
func (c *collector) note(at position, path, format string, args ...any) {
	f := Fault{Path: path, Text: fmt.Sprintf(format, args...), Variable: at.variable}
	if at.variable == "" {
		f.File, f.Line = c.file, at.line
	}
	c.faults = append(c.faults, f)
}

// keyPath is how a validation error names the key it is about.
var keyPath = regexp.MustCompile(`^([a-z0-9_]+(?:\[[0-9]+\])*(?:\.[a-z0-9_]+(?:\[[0-9]+\])*)*): `)

// addValidation takes the errors of a Validate method apart and gives each the
// line of its key, or of the nearest section around it that was written. What
// follows from a fault that is already known is left out.
func (c *collector) addValidation(err error) {
	for _, text := range leaves(err) {
		path := ""
		if m := keyPath.FindStringSubmatch(text); m != nil {
			path, text = m[1], text[len(m[0]):]
		}
		if c.follows(path) {
			continue
		}
		at, f := position{}, Fault{File: c.file, Path: path, Text: text}
		for p := path; p != ""; p = parent(p) {
			var written bool
			if at, written = c.positions[p]; written {
				break
			}
		}
		if at.variable != "" {
			f.File, f.Variable = "", at.variable
		}
		f.Line = at.line
		c.faults = append(c.faults, f)
	}
}

// follows reports whether a fault that is already known, at, above or below
// path, explains another one there.
func (c *collector) follows(path string) bool {
	if _, written := c.positions[path]; c.meant[path] && !written {
		return true
	}
	for p := path; p != ""; p = parent(p) {
		if c.broken[p] {
			return true
		}
	}
	for p := range c.broken {
		if path != "" && strings.HasPrefix(p, path) && len(p) > len(path) && (p[len(path)] == '.' || p[len(path)] == '[') {
			return true
		}
	}
	return false
}

func (c *collector) err() error {
	if len(c.faults) == 0 {
		return nil
	}
	slices.SortStableFunc(c.faults, func(a, b Fault) int {
		return cmp.Or(cmp.Compare(a.Variable, b.Variable), cmp.Compare(a.Line, b.Line))
	})
	return slices.Compact(c.faults)
}

// leaves flattens joined errors into one text per fault.
func leaves(err error) []string {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var out []string
		for _, e := range joined.Unwrap() {
			out = append(out, leaves(e)...)
		}
		return out
	}
	return strings.Split(err.Error(), "\n")
}

// join appends a key to a path, quoted if it would not read as a key.
func join(path, key string) string {
	if !plainKey.MatchString(key) {
		key = clip(key)
	}
	if path == "" {
		return key
	}
	return path + "." + key
}

var plainKey = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// parent drops the last key or position of a path.
func parent(path string) string {
	return path[:max(strings.LastIndexAny(path, ".["), 0)]
}

// clip quotes a value for a message and keeps it short.
func clip(s string) string {
	const longest = 60
	if len(s) > longest {
		return strconv.QuoteToGraphic(strings.ToValidUTF8(s[:longest], "")) + "…"
	}
	return strconv.QuoteToGraphic(s)
}

// IsFault tells a fault of the configuration from one of the system,
// such as a file that cannot be read.
func IsFault(err error) bool {
	_, ok := errors.AsType[Faults](err)
	return ok
}
