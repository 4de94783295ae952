package flagcheck

import (
	"regexp"
	"strings"
)

var (
	// aloneVersion is a line that says nothing else: "0.12.0", "vllm 0.12.0".
	aloneVersion = regexp.MustCompile(`^(?:[A-Za-z][\w.-]*[ /])?(v?\d+\.\d[\w.+-]*)$`)
	// saidVersion is a version in a sentence: "version: 10587 (3f545be)",
	// "ollama version is 0.33.0", "sglang version: v0.5.15".
	saidVersion = regexp.MustCompile(`(?i)\bversion(?: is)?[:=]? *"?([vb]?\d[\w.+-]*)`)
	// dottedVersion is what looks like a version anywhere.
	dottedVersion = regexp.MustCompile(`(?:^|[\s(])(v?\d+\.\d+[\w.+-]*)(?:$|[\s),])`)
)

// longestVersion is how long a version may be, in bytes.
const longestVersion = 100

// Version finds the engine's version in what it printed, first in the first
// output that has one. A line that holds nothing else, or the engine's name
// before it, goes before a sentence about a version, and the last of several
// before the others, for engines log before they answer. It returns "" if there
// is none.
func Version(outputs ...string) string {
	for _, output := range outputs {
		output = escape.ReplaceAllString(output, "")
		for _, pattern := range []*regexp.Regexp{aloneVersion, saidVersion, dottedVersion} {
			found := ""
			for line := range strings.Lines(output) {
				if m := pattern.FindStringSubmatch(strings.TrimSpace(line)); m != nil && len(m[1]) <= longestVersion {
					found = strings.TrimRight(m[1], ".-+_")
				}
			}
			if found != "" {
				return found
			}
		}
	}
	return ""
}
