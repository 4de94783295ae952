package process

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/llmgw/llmgw/engines"
)

func split(most int, pieces ...string) []string {
	s := splitter{most: most}
	var lines []string
	emit := func(line string, over bool) {
		if over {
			line += "<"
		}
		lines = append(lines, line)
	}
	for _, p := range pieces {
		s.write([]byte(p), emit)
	}
	s.end(false, emit)
	return lines
}

func TestSplitter(t *testing.T) {
	for _, c := range []struct {
		name   string
		pieces []string
		want   []string
	}{
		{"lines", []string{"one\ntwo\n"}, []string{"one", "two"}},
		{"pieces", []string{"o", "ne\nt", "wo"}, []string{"one", "two"}},
		{"empty lines are none", []string{"\n\r\n \none\n"}, []string{"one"}},
		{"both ends", []string{"one\r", "\ntwo\r\n"}, []string{"one", "two"}},
		{"progress, return first", []string{"\r10%\r50%", "\r100%\ndone\n"}, []string{"10%<", "50%<", "100%", "done"}},
		{"progress, return last", []string{"10%\r", "50%\r", "done\n"}, []string{"10%<", "50%<", "done"}},
		{"bound", []string{strings.Repeat("x", 70) + "\nshort\n"}, []string{strings.Repeat("x", 64), "short"}},
		{"bound on runes", []string{strings.Repeat("é", 40) + "\n"}, []string{strings.Repeat("é", 32)}},
		{"not UTF-8", []string{"a\xffb\xc3\n"}, []string{"a\uFFFDb\uFFFD"}},
		{"colours", []string{"\x1b[1;36m(Engine pid=1)\x1b[0;0m up\x1b]0;title\x07\n"}, []string{"(Engine pid=1) up"}},
		{"control characters", []string{"a\x00\tb\x7f\n"}, []string{"a b"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := split(64, c.pieces...); !slices.Equal(got, c.want) {
				t.Errorf("lines are %q, want %q", got, c.want)
			}
		})
	}
}

func FuzzSplitter(f *testing.F) {
	f.Add([]byte("a\r\nb\rc\x1b[1m\xff\n"), uint8(3))
	f.Add([]byte(strings.Repeat("é", 100)), uint8(1))
	f.Add([]byte("\x1b]0;t\x1b\\\r\r\n\x1b[31"), uint8(7))
	f.Fuzz(func(t *testing.T, text []byte, size uint8) {
		const most = 64
		whole := split(most, string(text))
		var pieces []string
		for piece := range slices.Chunk(text, int(size)+1) {
			pieces = append(pieces, string(piece))
		}
		if got := split(most, pieces...); !slices.Equal(got, whole) {
			t.Fatalf("in pieces: %q, whole: %q", got, whole)
		}
		for _, line := range whole {
			line = strings.TrimSuffix(line, "<")
			if len(line) > most || !utf8.ValidString(line) || strings.ContainsAny(line, "\r\n\x1b\x00") {
				t.Fatalf("line %q", line)
			}
		}
	})
}

func TestFirstRuleThatMatchesCounts(t *testing.T) {
	rules, err := compile([]engines.LogRule{
		{Match: `out of memory.*tried (?P<size>\S+)`, Phase: engines.PhaseFailed, Reason: "no room for ${size}", Advice: "lower by $1"},
		{Match: `out of memory`, Phase: engines.PhaseFailed, Reason: "no room"},
		{Match: `Loading`, Phase: engines.PhaseLoading},
	})
	if err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string]finding{
		"CUDA out of memory, tried 2GiB": {rule: 0, phase: engines.PhaseFailed, reason: "no room for 2GiB", advice: "lower by 2GiB"},
		"CUDA out of memory":             {rule: 1, phase: engines.PhaseFailed, reason: "no room"},
		"Loading out of habit":           {rule: 2, phase: engines.PhaseLoading},
	} {
		if got, ok := read(rules, line); !ok || got != want {
			t.Errorf("%q means %+v, want %+v", line, got, want)
		}
	}
	if _, ok := read(rules, "nothing of note"); ok {
		t.Error("a line that no rule matches means something")
	}
	if _, err := compile([]engines.LogRule{{Match: "x", Phase: engines.PhaseFailed}}); err == nil {
		t.Error("a failure without a reason is accepted")
	}
}

func TestRefusedFlags(t *testing.T) {
	rules := flagRules()
	for line, flag := range map[string]string{
		"vllm: error: unrecognized arguments: --foo 3":       "--foo 3",
		"error: invalid argument: --foo":                     "--foo",
		"error: unexpected argument '--foo' found":           "--foo",
		"Error: No such option: --foo Did you mean --food?":  "--foo",
		"flag provided but not defined: -foo":                "-foo",
		"launch_server.py: error: unrecognized argument: -x": "-x",
	} {
		found, ok := read(rules, line)
		if want := "it does not know the flag " + flag; !ok || found.reason != want {
			t.Errorf("%q: %q, want %q", line, found.reason, want)
		}
	}
}

func TestTailKeepsTheLast(t *testing.T) {
	l := tail{most: 3}
	for _, line := range []string{"a", "b", "1%<", "2%<", "3%", "c"} {
		text, over := strings.CutSuffix(line, "<")
		l.add(text, over)
	}
	if got := l.last(5); !slices.Equal(got, []string{"b", "3%", "c"}) {
		t.Errorf("tail is %q", got)
	}
	if got := l.last(1); !slices.Equal(got, []string{"c"}) {
		t.Errorf("last is %q", got)
	}
}
