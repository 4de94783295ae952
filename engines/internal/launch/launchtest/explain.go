// Package launchtest helps the tests of built-in adapters.
package launchtest

import (
	"regexp"
	"testing"

	"github.com/llmgw/llmgw/engines"
)

// Line is a line of an engine's output and what its rules must make of it.
type Line struct {
	// Text is as the engine prints it.
	Text string
	// Phase is unset where no rule is to match.
	Phase engines.Phase
	// Reason and Advice have the groups of the rule filled in. An empty Advice
	// is not compared.
	Reason, Advice string
}

// Says is what a line means, in the order of [Line]'s fields.
func Says(text string, phase engines.Phase, reason, advice string) Line {
	return Line{Text: text, Phase: phase, Reason: reason, Advice: advice}
}

// Explain holds rules against lines: for each, the first rule that matches.
func Explain(t *testing.T, rules []engines.LogRule, lines []Line) {
	t.Helper()
	for _, want := range lines {
		var got Line
		for _, r := range rules {
			re := regexp.MustCompile(r.Match)
			if m := re.FindStringSubmatchIndex(want.Text); m != nil {
				fill := func(text string) string { return string(re.ExpandString(nil, text, want.Text, m)) }
				got = Line{want.Text, r.Phase, fill(r.Reason), fill(r.Advice)}
				break
			}
		}
		if got.Phase != want.Phase || got.Reason != want.Reason || want.Advice != "" && got.Advice != want.Advice {
			t.Errorf("%q\n got %v: %s; %s\nwant %v: %s; %s", want.Text, got.Phase, got.Reason, got.Advice, want.Phase, want.Reason, want.Advice)
		}
	}
}
