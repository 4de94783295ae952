package process

import (
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/llmgw/llmgw/engines"
)

// splitter makes lines of what a process prints, in pieces as they come. A
// line ends with a line feed, or with a carriage return, as in progress bars.
type splitter struct {
	most    int // bytes of a line; the rest is dropped
	partial []byte
	// returned: a carriage return ended partial, and what comes next says
	// whether a line feed follows.
	returned bool
}

// write calls emit for each line that is complete now, but for empty ones. The
// next line was printed over it where over is true.
func (s *splitter) write(piece []byte, emit func(line string, over bool)) {
	for _, b := range piece {
		if s.returned && b != '\n' && b != '\r' {
			s.end(true, emit)
		}
		switch {
		case b == '\n':
			s.end(false, emit)
		case b == '\r':
			s.returned = true
		case len(s.partial) < s.most:
			s.partial = append(s.partial, b)
		}
	}
}

// end completes the line that is not complete.
func (s *splitter) end(over bool, emit func(line string, over bool)) {
	line := clean(s.partial, s.most)
	s.partial, s.returned = s.partial[:0], false
	if line != "" {
		emit(line, over)
	}
}

// escape are the sequences by which a terminal is told of colours and titles.
var escape = regexp.MustCompile("\x1b(?:\\[[0-?]*[ -/]*[@-~]|\\][^\x07\x1b]*(?:\x07|\x1b\\\\)?|[@-Z\\\\^_])")

// clean returns line as valid UTF-8 without colours and control characters, at
// most that many bytes.
func clean(line []byte, most int) string {
	text := strings.ToValidUTF8(string(line), "\uFFFD")
	if strings.ContainsRune(text, '\x1b') {
		text = escape.ReplaceAllLiteralString(text, "")
	}
	text = strings.Map(func(r rune) rune {
		switch {
		case r == '\t':
			return ' '
		case r < ' ' || r >= 0x7f && r < 0xa0:
			return -1
		}
		return r
	}, text)
	if len(text) > most {
		for most > 0 && !utf8.RuneStart(text[most]) {
			most--
		}
		text = text[:most]
	}
	return strings.TrimRight(text, " ")
}

// rule is a [engines.LogRule] that is ready for use.
type rule struct {
	engines.LogRule
	match *regexp.Regexp
}

func compile(rules []engines.LogRule) ([]rule, error) {
	all := make([]rule, len(rules))
	for i, r := range rules {
		re, err := regexp.Compile(r.Match)
		if err != nil {
			return nil, fmt.Errorf("logs[%d]: %w", i, err)
		}
		if r.Phase == engines.PhaseFailed && r.Reason == "" {
			return nil, fmt.Errorf("logs[%d]: %q is a failure without a reason", i, r.Match)
		}
		all[i] = rule{LogRule: r, match: re}
	}
	return all, nil
}

// finding is what a line means.
type finding struct {
	rule           int // its place among the rules
	phase          engines.Phase
	reason, advice string
}

// read returns what line means by the first rule that matches it.
func read(rules []rule, line string) (finding, bool) {
	for i, r := range rules {
		groups := r.match.FindStringSubmatchIndex(line)
		if groups == nil {
			continue
		}
		expand := func(text string) string { return string(r.match.ExpandString(nil, text, line, groups)) }
		return finding{rule: i, phase: r.Phase, reason: expand(r.Reason), advice: expand(r.Advice)}, true
	}
	return finding{}, false
}

// flagRules know how argument parsers refuse a flag: argparse, llama.cpp, clap,
// click and Go. They count only for a process that has ended.
func flagRules() []rule {
	rules, err := compile([]engines.LogRule{
		refusal(`unrecognized arguments?: (?P<flag>.+)`),
		refusal(`invalid argument: (?P<flag>-\S+)`),
		refusal(`unexpected argument '(?P<flag>[^']+)'`),
		refusal(`[Nn]o such option:? (?P<flag>-\S+)`),
		refusal(`flag provided but not defined: (?P<flag>-\S+)`),
	})
	if err != nil {
		panic("process: " + err.Error())
	}
	return rules
}

func refusal(match string) engines.LogRule {
	return engines.LogRule{
		Match: match, Phase: engines.PhaseFailed,
		Reason: "it does not know the flag ${flag}",
		Advice: "compare with its help text: another version of it, or a slip in the profile's extra_args",
	}
}

// tail holds the last lines that were printed.
type tail struct {
	lines []string
	most  int
	over  bool // the last one is printed over by the next
}

func (t *tail) add(line string, over bool) {
	if t.over && len(t.lines) > 0 {
		t.lines = t.lines[:len(t.lines)-1]
	}
	if len(t.lines) == t.most {
		copy(t.lines, t.lines[1:])
		t.lines = t.lines[:t.most-1]
	}
	t.lines, t.over = append(t.lines, line), over
}

// last returns a copy of the last n lines.
func (t *tail) last(n int) []string {
	return append([]string(nil), t.lines[max(0, len(t.lines)-n):]...)
}
