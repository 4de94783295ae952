package auth_test

import (
	"errors"
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/llmgw/llmgw/auth"
)

func TestPatternMatch(t *testing.T) {
	for _, test := range []struct {
		pattern  string
		yes, not []string
	}{
		{"b/*", []string{"b/c", "b/c:8b", "b/ü"}, []string{"b", "b/", "b/c/d", "a/b", "B/c", "bb/c", "/b/c", "b//", "b//c"}},
		{"*", []string{"b", "llama3:8b"}, []string{"", "b/c", "/", "/b"}},
		{"**", []string{"b", "b/c", "b/c/d", "/models/qwen"}, []string{""}},
		{"b/**", []string{"b/c", "b/c/d", "b//c"}, []string{"b", "b/", "bb/c", "a/b/c"}},
		{"*/c", []string{"b/c"}, []string{"c", "/c", "a/b/c", "b/c/"}},
		{"*/*/c", []string{"a/b/c"}, []string{"b/c", "a//c"}},
		{"/models/*", []string{"/models/qwen"}, []string{"models/qwen", "/models/", "/models/a/b"}},
		{"a/*/**", []string{"a/b/c", "a/b/c/d"}, []string{"a/b", "a//c"}},
		{"*/", []string{"a/"}, []string{"a", "a/b"}},
	} {
		p, err := auth.ParsePattern(test.pattern)
		if err != nil || !p.Wildcard() || p.String() != test.pattern {
			t.Errorf("%s: %v", test.pattern, err)
			continue
		}
		for _, name := range test.yes {
			if !p.Match(name) {
				t.Errorf("%s does not match %q", test.pattern, name)
			}
		}
		for _, name := range test.not {
			if p.Match(name) {
				t.Errorf("%s matches %q", test.pattern, name)
			}
		}
	}
	if p, err := auth.ParsePattern("b/c"); err != nil || p.Wildcard() || p.Match("b/c") {
		t.Errorf("a name matched by its look, %v", err)
	}
	if (auth.Pattern{}).Match("") || (auth.Pattern{}).Match("a") {
		t.Error("the zero pattern matches")
	}
}

func TestPatternRefused(t *testing.T) {
	for text, want := range map[string]string{
		"":                       "is empty",
		"qwen*":                  "within a segment",
		"b/c*":                   "within a segment",
		"b/***":                  "within a segment",
		"**/c":                   "before its end",
		" b":                     "begins or ends with space",
		"b\x00":                  "invisible",
		"b\u200bc":               "invisible",
		"b\u202ec":               "invisible",
		"\xff":                   "not UTF-8",
		strings.Repeat("x", 257): "257 bytes",
	} {
		if _, err := auth.ParsePattern(text); !errors.Is(err, auth.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v; want %s", text, err, want)
		}
	}
}

// A wildcard matches what a regular expression with the same meaning does.
func TestPatternIsARegularExpression(t *testing.T) {
	segment := rapid.SampledFrom([]string{"a", "b", "ab", "", "*", "x:1"})
	rapid.Check(t, func(t *rapid.T) {
		segments := rapid.SliceOfN(segment, 1, 4).Draw(t, "pattern")
		if rapid.Bool().Draw(t, "rest") {
			segments = append(segments, "**")
		}
		text := strings.Join(segments, "/")
		p, err := auth.ParsePattern(text)
		if err != nil || !p.Wildcard() {
			t.Skip()
		}
		exprs := make([]string, len(segments))
		for i, s := range segments {
			switch s {
			case "*":
				exprs[i] = "[^/]+"
			case "**":
				exprs[i] = ".+"
			default:
				exprs[i] = regexp.QuoteMeta(s)
			}
		}
		re := regexp.MustCompile("^" + strings.Join(exprs, "/") + "$")
		name := strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "ab", "", "x:1", "c"}), 1, 5).Draw(t, "name"), "/")
		if got, want := p.Match(name), re.MatchString(name); got != want {
			t.Fatalf("%q matches %q: %v, want %v", text, name, got, want)
		}
	})
}

func FuzzParsePattern(f *testing.F) {
	for _, s := range []string{"b/*", "**", "b/**", "*/c", "a*", "", "/", "b/c", "**/"} {
		f.Add(s, "b/c")
	}
	f.Fuzz(func(t *testing.T, text, name string) {
		p, err := auth.ParsePattern(text)
		if err != nil {
			if !errors.Is(err, auth.ErrInvalid) || p.Match(name) {
				t.Errorf("%q: %v", text, err)
			}
			return
		}
		if p.String() != text || p.Wildcard() != strings.Contains(text, "*") {
			t.Errorf("%q became %q", text, p)
		}
		if p.Match(name) && (!p.Wildcard() || name == "" || strings.Count(name, "/") < strings.Count(text, "/")) {
			t.Errorf("%q matches %q", text, name)
		}
	})
}
