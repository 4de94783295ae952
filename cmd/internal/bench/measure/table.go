package measure

import (
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Table is a table that reads well as plain text and is Markdown. Its first
// column stands left, the others right, as numbers do.
type Table struct {
	header []string
	rows   [][]string
}

// NewTable returns a table with a header and no rows.
func NewTable(header ...string) *Table { return &Table{header: header} }

// Row adds a row. Missing cells are empty, further ones are dropped.
func (t *Table) Row(cells ...string) {
	row := make([]string, len(t.header))
	copy(row, cells)
	t.rows = append(t.rows, row)
}

// Rows is the number of rows.
func (t *Table) Rows() int { return len(t.rows) }

// String renders the table as Markdown, columns aligned.
func (t *Table) String() string {
	width := make([]int, len(t.header))
	all := append([][]string{t.header}, t.rows...)
	for _, row := range all {
		for i, cell := range row {
			width[i] = max(width[i], utf8.RuneCountInString(escape(cell)), 3)
		}
	}
	var b strings.Builder
	line := func(row []string) {
		b.WriteByte('|')
		for i, cell := range row {
			cell = escape(cell)
			pad := strings.Repeat(" ", width[i]-utf8.RuneCountInString(cell))
			if i == 0 {
				b.WriteString(" " + cell + pad + " |")
			} else {
				b.WriteString(" " + pad + cell + " |")
			}
		}
		b.WriteByte('\n')
	}
	line(t.header)
	b.WriteByte('|')
	for i, w := range width {
		if i == 0 {
			b.WriteString(strings.Repeat("-", w+2) + "|")
		} else {
			b.WriteString(strings.Repeat("-", w+1) + ":|")
		}
	}
	b.WriteByte('\n')
	for _, row := range t.rows {
		line(row)
	}
	return b.String()
}

// escape keeps a cell from ending its column or its line.
func escape(cell string) string {
	return strings.NewReplacer("|", `\|`, "\n", " ").Replace(cell)
}

// Missing stands in tables for a figure that was not measured.
const Missing = "–"

// Number renders v with the given decimals, or [Missing] for NaN.
func Number(v float64, decimals int) string {
	if math.IsNaN(v) {
		return Missing
	}
	return strconv.FormatFloat(v, 'f', decimals, 64)
}

// Signed is as Number with a sign in front of what is not negative.
func Signed(v float64, decimals int) string {
	if v >= 0 {
		return "+" + Number(v, decimals)
	}
	return Number(v, decimals)
}
