package smi

import (
	"encoding/csv"
	"strings"
)

// ROCmRows reads the CSV of rocm-smi: for each card, by its name such as
// "card0", its cells by the names of the columns, which differ between versions.
// Several tables may follow each other, and lines that are neither a header nor a
// card's are passed over.
func ROCmRows(out string) map[string]Row {
	cards := make(map[string]Row)
	var header []string
	for line := range strings.Lines(out) {
		r := csv.NewReader(strings.NewReader(line))
		r.LazyQuotes, r.TrimLeadingSpace = true, true
		cells, err := r.Read()
		if err != nil || len(cells) < 2 {
			continue
		}
		switch {
		case strings.EqualFold(cells[0], "device"):
			header = cells
		case strings.HasPrefix(cells[0], "card") && header != nil:
			row := cards[cells[0]]
			if row == nil {
				row = make(Row)
				cards[cells[0]] = row
			}
			for i := 1; i < min(len(cells), len(header)); i++ {
				row[strings.TrimSpace(header[i])] = parseCell(cells[i])
			}
		}
	}
	return cards
}

// First returns the first of some columns that has a value, since versions
// call one thing by several names.
func (r Row) First(columns ...string) Cell {
	for _, name := range columns {
		if c := r[name]; c.Text() != "" {
			return c
		}
	}
	return Cell{}
}
