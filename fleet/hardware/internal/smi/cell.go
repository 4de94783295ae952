package smi

import (
	"math"
	"strconv"
	"strings"

	"github.com/llmgw/llmgw/engines"
)

// Cell is one value of a table. The zero value is one that the tool does not
// have, which is never 0.
type Cell struct {
	text   string
	broken bool
}

// parseCell reads what stands between two commas. Words in place of a value say
// either that there is none for this card or that the card could not be asked.
func parseCell(s string) Cell {
	s = strings.TrimSpace(s)
	bare := strings.ToLower(strings.TrimSpace(strings.TrimSuffix(strings.TrimPrefix(s, "["), "]")))
	switch bare {
	case "", "n/a", "not supported", "not found", "not available", "unknown", "none specified", "insufficient permissions":
		return Cell{}
	case "unknown error", "gpu is lost", "gpu requires reset", "reset required", "err!":
		return Cell{text: strings.TrimSpace(strings.Trim(s, "[]")), broken: true}
	}
	if strings.HasPrefix(s, "[") && strings.HasSuffix(s, "]") { // a word that is new; a value has no brackets
		return Cell{text: strings.Trim(s, "[]"), broken: strings.Contains(bare, "error") || strings.Contains(bare, "lost")}
	}
	return Cell{text: s}
}

// Broken returns what the tool says of a card that could not be asked, or "".
func (c Cell) Broken() string {
	if c.broken {
		return c.text
	}
	return ""
}

// Text returns the value, or "" where there is none.
func (c Cell) Text() string {
	if c.broken {
		return ""
	}
	return c.text
}

// Int returns a whole number that is not negative.
func (c Cell) Int() engines.Opt[int] {
	n, err := strconv.Atoi(c.Text())
	if err != nil || n < 0 {
		return engines.Opt[int]{}
	}
	return engines.Known(n)
}

// Uint returns a whole number.
func (c Cell) Uint() engines.Opt[uint64] {
	n, err := strconv.ParseUint(c.Text(), 10, 64)
	if err != nil {
		return engines.Opt[uint64]{}
	}
	return engines.Known(n)
}

// MiB returns a number of MiB in bytes. The unit may stand behind it.
func (c Cell) MiB() engines.Opt[uint64] {
	n, err := strconv.ParseUint(strings.TrimSuffix(c.Text(), " MiB"), 10, 64)
	if err != nil || n > math.MaxUint64>>20 {
		return engines.Opt[uint64]{}
	}
	return engines.Known(n << 20)
}

// Float returns a finite number. A unit may stand behind it.
func (c Cell) Float() engines.Opt[float64] {
	number, _, _ := strings.Cut(c.Text(), " ")
	f, err := strconv.ParseFloat(number, 64)
	if err != nil || math.IsNaN(f) || math.IsInf(f, 0) {
		return engines.Opt[float64]{}
	}
	return engines.Known(f)
}

// Percent returns a percentage as a ratio in [0,1].
func (c Cell) Percent() engines.Opt[float64] {
	f, known := c.Float().Get()
	if !known || f < 0 || f > 100 {
		return engines.Opt[float64]{}
	}
	return engines.Known(f / 100)
}

// Flag returns yes or no, in any of the words for it. A count is yes above 0.
func (c Cell) Flag() engines.Opt[bool] {
	switch strings.ToLower(c.Text()) {
	case "yes", "enabled", "true", "active":
		return engines.Known(true)
	case "no", "disabled", "false", "not active":
		return engines.Known(false)
	}
	if n, known := c.Uint().Get(); known {
		return engines.Known(n > 0)
	}
	return engines.Opt[bool]{}
}
