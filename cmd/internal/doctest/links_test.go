package doctest_test

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"
)

// Every link of a page to a file of the repository, and to a heading of a page,
// leads somewhere.
func TestLinks(t *testing.T) {
	all := pages(t)
	link := regexp.MustCompile(`\]\(([^)\s]+)\)`)
	code := regexp.MustCompile("`[^`\n]*`")
	for name, text := range all {
		for _, m := range link.FindAllStringSubmatch(code.ReplaceAllString(prose(text), ""), -1) {
			target := m[1]
			if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
				continue
			}
			file, anchor, _ := strings.Cut(target, "#")
			file = path.Join(path.Dir(name), file)
			if strings.HasPrefix(target, "#") {
				file = name
			}
			if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(file))); err != nil || strings.HasPrefix(file, "..") {
				t.Errorf("%s: the link %s leads nowhere", name, target)
				continue
			}
			if anchor != "" && !headings(all[file])[anchor] {
				t.Errorf("%s: the link %s leads to no heading", name, target)
			}
		}
	}
}

// headings are a page's anchors as GitHub makes them: lower case, spaces to
// hyphens, other punctuation left out.
func headings(text string) map[string]bool {
	out := map[string]bool{}
	for line := range strings.Lines(prose(text)) {
		title := strings.TrimLeft(line, "#")
		if title == line || !strings.HasPrefix(title, " ") {
			continue
		}
		out[strings.Map(func(r rune) rune {
			switch {
			case unicode.IsLetter(r) || unicode.IsDigit(r) || r == '-' || r == '_':
				return unicode.ToLower(r)
			case r == ' ':
				return '-'
			}
			return -1
		}, strings.TrimSpace(title))] = true
	}
	return out
}

// Every page below docs can be reached from the index.
func TestIndexIsComplete(t *testing.T) {
	all := pages(t)
	index := all["docs/README.md"]
	for name := range all {
		below, ok := strings.CutPrefix(name, "docs/")
		if ok && below != "README.md" && !strings.Contains(index, "("+below+")") {
			t.Errorf("docs/README.md does not lead to %s", below)
		}
	}
}
