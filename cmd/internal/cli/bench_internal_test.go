package cli

import (
	"os"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// The reference page has every flag of bench.
func TestBenchReferenceHasEveryFlag(t *testing.T) {
	page, err := os.ReadFile("../../../docs/reference/bench.md")
	if err != nil {
		t.Fatal(err)
	}
	var cmd benchCmd
	parser, err := kong.New(&cmd)
	if err != nil {
		t.Fatal(err)
	}
	flags := 0
	for _, group := range parser.Model.AllFlags(true) {
		for _, flag := range group {
			if flag.Name == "help" {
				continue
			}
			flags++
			name := "`--" + flag.Name + "`"
			if flag.Tag.Negatable != "" {
				name = "`--[no-]" + flag.Name + "`"
			}
			if !strings.Contains(string(page), name) {
				t.Errorf("docs/reference/bench.md lacks %s", name)
			}
		}
	}
	if flags < 20 {
		t.Errorf("only %d flags were looked at", flags)
	}
}
