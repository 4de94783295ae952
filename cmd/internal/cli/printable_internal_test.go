package cli

import (
	"strings"
	"testing"
)

// What a log says cannot move the cursor, change a title or turn text around.
func TestPrintable(t *testing.T) {
	for in, want := range map[string]string{
		"a\tb\n":              "a\tb\n",
		"\x1b[2Jgone\r":       `\u001b[2Jgone\u000d`,
		"\u009b2J \x7f":       `\u009b2J \u007f`,
		"moc\u202emodel":      `moc\u202emodel`,
		"broken \xff\xfe end": `broken \xff\xfe end`,
		"模型 é – ≤":            "模型 é – ≤",
	} {
		var b strings.Builder
		n, err := printable{&b}.Write([]byte(in))
		if err != nil || n != len(in) || b.String() != want {
			t.Errorf("%q is %q, %d, %v; want %q", in, b.String(), n, err, want)
		}
	}
}
