package flagcheck_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/engines/flagcheck"
)

// Of a text that is no help, however long and whatever is in it, little is said.
func TestNoHelp(t *testing.T) {
	var many strings.Builder
	many.WriteString("----- common params -----\n")
	for i := range 5100 {
		fmt.Fprintf(&many, "--%x\n", i)
	}
	repeat := func(s string) string { return strings.Repeat(s, (16<<10)/len(s)) }
	check := engines.Check{Name: "serve", Command: engines.Command{Args: []string{"--missing", "--also-missing"}}, Variables: []string{"MISSING"}}
	for name, text := range map[string]string{
		"flags without an end":  many.String(),
		"a flag without an end": "  --" + repeat("a") + "  x\n",
		"a description":         "  --a N  deprecated " + repeat("x") + "\n",
		"a list":                repeat("-a, "),
		"a bracket":             "-a " + repeat("("),
		"a title":               repeat("x") + ":\n",
		"a usage":               "usage: " + repeat("[--x-"),
		"escapes":               repeat("\x1b["),
		"binary":                repeat("\x7fELF\x00\xff\xfe--x\n"),
		"a version":             "version: 1." + repeat("1"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := flagcheck.Parse(text)
			r := flagcheck.Check(check, h, flagcheck.Version(text))
			if len(h.Flags()) > 5000 || len(r.Version) > 100 {
				t.Errorf("%d flags, a version of %d bytes", len(h.Flags()), len(r.Version))
			}
			if said := fmt.Sprint(r); len(said) > 8<<10 {
				t.Errorf("%d bytes are said of it: %.200q", len(said), said)
			}
		})
	}
}
