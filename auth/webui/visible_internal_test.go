package webui

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func FuzzVisible(f *testing.F) {
	for in, want := range map[string]string{
		"<p>a\tb\n</p>":      "<p>a\tb\n</p>",
		"gpu\u202e1-dab":     `gpu\u202e1-dab`,
		"\x1b[31mred\x00":    `\u001b[31mred\u0000`,
		"\u2066x\u2069 \xff": `\u2066x\u2069 \xff`,
		"12\u202f345 模型 é":   "12\u202f345 模型 é",
	} {
		if got := string(visible([]byte(in))); got != want {
			f.Errorf("%q is %q; want %q", in, got, want)
		}
		f.Add([]byte(in))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		got := visible(in)
		if !utf8.Valid(got) {
			t.Fatalf("%q is %q", in, got)
		}
		for _, r := range string(got) {
			if hides(r, utf8.RuneLen(r)) {
				t.Fatalf("%q is %q, with %U", in, got, r)
			}
		}
		if strings.Count(string(got), "<") != strings.Count(string(in), "<") {
			t.Fatalf("%q is %q, with more of what HTML reads", in, got)
		}
	})
}

func BenchmarkVisible(b *testing.B) {
	page := []byte(strings.Repeat("<td class=\"num\">12\u202f345</td>\n", 3000))
	b.SetBytes(int64(len(page)))
	for b.Loop() {
		visible(page)
	}
}
