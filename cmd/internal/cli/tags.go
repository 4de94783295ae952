package cli

import (
	"fmt"
	"strings"

	"github.com/alecthomas/kong"
)

// tagFlags are tags by name, of which each flag brings one. One that is given twice
// with different values is refused: which of them is meant, nobody knows.
type tagFlags map[string]string

// Decode implements [kong.MapperValue].
func (t *tagFlags) Decode(ctx *kong.DecodeContext) error {
	var text string
	if err := ctx.Scan.PopValueInto("NAME=VALUE", &text); err != nil {
		return err
	}
	name, value, ok := strings.Cut(text, "=")
	if !ok {
		return fmt.Errorf("want NAME=VALUE, got %q", text)
	}
	if before, ok := (*t)[name]; ok && before != value {
		return fmt.Errorf("%s is given as %q and as %q; a tag has one value", name, before, value)
	}
	if *t == nil {
		*t = tagFlags{}
	}
	(*t)[name] = value
	return nil
}
