package doctest_test

import (
	"bufio"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// root is the repository, from this folder.
const root = "../../.."

// block is a fenced block of a page, or a comment that speaks to these tests.
type block struct {
	page string // path below root
	line int    // where it begins, from 1 on
	lang string // "sh", "yaml", …; "comment" for <!-- … -->
	text string
}

// first is the block's first line, where a file says its name.
func (b block) first() string {
	line, _, _ := strings.Cut(b.text, "\n")
	return line
}

// pages are the Markdown files of the repository, by their path below root. What
// other tools keep there (modules of Node, virtual environments) is not looked at.
func pages(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch name := d.Name(); {
		case err != nil:
			return err
		case d.IsDir() && path != root && (strings.HasPrefix(name, ".") || name == "node_modules" || name == "testdata"):
			return filepath.SkipDir
		case !d.IsDir() && strings.HasSuffix(name, ".md"):
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			rel, err := filepath.Rel(root, path)
			if err != nil {
				return err
			}
			out[filepath.ToSlash(rel)] = string(text)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(out) < 5 {
		t.Fatalf("only %d pages below %s", len(out), root)
	}
	return out
}

// blocks returns a page's fenced blocks and one-line comments, in order.
func blocks(page, text string) []block {
	var out []block
	var open *block
	lines := bufio.NewScanner(strings.NewReader(text))
	for n := 1; lines.Scan(); n++ {
		line := lines.Text()
		fence, isFence := strings.CutPrefix(line, "```")
		comment, isComment := strings.CutPrefix(line, "<!-- ")
		switch {
		case open != nil && isFence:
			out = append(out, *open)
			open = nil
		case open != nil:
			open.text += line + "\n"
		case isFence:
			open = &block{page: page, line: n, lang: strings.TrimSpace(fence)}
		case isComment && strings.HasSuffix(comment, " -->"):
			out = append(out, block{page: page, line: n, lang: "comment", text: strings.TrimSuffix(comment, " -->")})
		}
	}
	return out
}

// prose is a page without its fenced blocks, whose lines stay as empty ones.
func prose(text string) string {
	var b strings.Builder
	fenced := false
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "```") {
			fenced = !fenced
			line = "\n"
		}
		if fenced {
			line = "\n"
		}
		b.WriteString(line)
	}
	return b.String()
}
