package flagcheck_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/engines/flagcheck"
)

// longHelp is a help text of 725 lines, in argparse's style.
func longHelp() string {
	var b strings.Builder
	b.WriteString("usage: engine serve [options]\n\nGroupA:\n")
	for i := range 361 {
		fmt.Fprintf(&b, "  --flag-%d N\n                        What it does (default: %d)\n", i, i)
	}
	return b.String()
}

// A text that ends early is doubted wherever it ends, by its length; and by its
// look where that says something.
func TestCutHelpIsDoubted(t *testing.T) {
	whole := longHelp()
	lines := strings.SplitAfter(whole, "\n")
	c := engines.Check{Command: engines.Command{Args: []string{"--flag-0"}}, HelpLines: 725}
	if r := flagcheck.Check(c, flagcheck.Parse(whole), ""); len(r.Warnings) > 0 || r.HelpLines != 725 {
		t.Fatalf("the whole text: %d lines, warnings %q", r.HelpLines, r.Warnings)
	}
	r := flagcheck.Check(c, flagcheck.Parse(strings.Join(lines[:400], "")), "")
	if want := "the help has 400 lines, and a whole one has 725 or more: it seems to be cut off"; strings.Join(r.Warnings, "\n") != `its last flag --flag-198 has no description, and nearly all others have one`+"\n"+want {
		t.Errorf("400 of 725 lines: %q", r.Warnings)
	}
	r = flagcheck.Check(c, flagcheck.Parse(strings.Join(lines[:401], "")), "")
	if len(r.Warnings) != 1 || !strings.Contains(r.Warnings[0], "401 lines") {
		t.Errorf("401 of 725 lines: %q", r.Warnings)
	}
}

func TestDoubts(t *testing.T) {
	entries := strings.Repeat("  --a-flag N            text\n", 6)
	tests := []struct {
		name, text, want string
	}{
		{"whole", "Options:\n" + entries, ""},
		{"cut in a line", "Options:\n" + entries + "  --b", "it ends without the end of a line"},
		{"cut in a sentence", entries + "  --b N                 text (default:\n", "in the middle of a sentence"},
		{"cut in a list", entries + "-b, --bee,\n", "in the middle of a list"},
		{"cut behind a title", entries + "\nCacheConfig:\n", `the title "CacheConfig:"`},
		{"cut before a description", entries + "  --bee\n", "its last flag --bee has no description"},
		{"flags of the usage that nothing describes", "usage: engine [-h] [--bee] [--cee]\n\noptions:\n  -h  help\n", "2 flags that nothing below describes, such as --bee"},
		{"groups only", "usage: vllm serve [model_tag] [options]\n\noptions:\n  -h, --help            show this\n\nConfig Groups:\n  CacheConfig           text\n\nFor full list:            vllm serve --help=all\n", `shows 2 flags and speaks of "--help=all"`},
		{"a narrow terminal", "│ --lengths-via-tokenize    --no-lengths-via-token…      text │\n", "too narrow for 1 flag, such as --no-lengths-via-token…"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			doubts := strings.Join(flagcheck.Parse(tt.text).Doubts, "\n")
			if tt.want == "" && doubts != "" || !strings.Contains(doubts, tt.want) {
				t.Errorf("doubts %q; want %q", doubts, tt.want)
			}
		})
	}
}
