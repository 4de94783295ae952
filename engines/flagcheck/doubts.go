package flagcheck

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// moreHelp is how a text that shows only its groups says where the rest is.
var moreHelp = regexp.MustCompile("--help[= ](all|full|<|[A-Z])|--help-(all|full)")

const (
	// fewFlags are so few that a text which names a longer one shows groups only.
	fewFlags = 10
	// enoughFlags are so many that it can be said how entries usually look.
	enoughFlags = 5
)

// doubts returns the signs that a part of the text is missing.
func (p *parser) doubts(text string) []string {
	var out []string
	if len(p.flags) < fewFlags {
		if m := moreHelp.FindString(text); m != "" {
			out = append(out, fmt.Sprintf("it shows %s and speaks of %q: this is the short form", flagCount(len(p.flags)), m))
		}
	}
	if p.entries > 0 {
		missing := slices.DeleteFunc(slices.Clone(p.used), func(f string) bool { return p.described[f] })
		if len(missing) > 0 {
			out = append(out, fmt.Sprintf("its usage has %s that nothing below describes, such as %s", flagCount(len(missing)), missing[0]))
		}
	}
	if text != "" && !strings.HasSuffix(text, "\n") {
		out = append(out, "it ends without the end of a line")
	}
	switch {
	case p.last.header != "":
		out = append(out, fmt.Sprintf("it ends with the title %q and nothing below", beginning(p.last.header)))
	case p.open || strings.HasSuffix(p.last.tail, ","):
		out = append(out, fmt.Sprintf("it ends in the middle of a list: %q", beginning(p.last.tail)))
	case unbalanced(p.last.tail):
		out = append(out, fmt.Sprintf("it ends in the middle of a sentence: %q", beginning(p.last.tail)))
	case p.last.bare && p.entries >= enoughFlags && (p.explained+1)*10 >= p.entries*9:
		out = append(out, fmt.Sprintf("its last flag %s has no description, and nearly all others have one", p.last.names[0]))
	}
	if len(p.cut) > 0 {
		out = append(out, fmt.Sprintf("the terminal was too narrow for %s, such as %s…", flagCount(len(p.cut)), p.cut[0]))
	}
	return out
}

// unbalanced reports whether a line opens a bracket that it does not close: the
// rest of a wrapped description would follow.
func unbalanced(line string) bool {
	return strings.Count(line, "(") > strings.Count(line, ")") || strings.Count(line, "[") > strings.Count(line, "]")
}

// beginning is as much of a line as is shown.
func beginning(line string) string { return line[:min(len(line), enoughText)] }

func flagCount(n int) string {
	if n == 1 {
		return "1 flag"
	}
	return fmt.Sprintf("%d flags", n)
}
