package workload

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"strings"
	"time"
)

// table reads CSV with a header, whose columns may stand in any order. It
// serves the traces of Azure (github.com/Azure/AzurePublicDataset,
// AzureLLMInferenceTrace_*.csv) and BurstGPT (github.com/HPMLL/BurstGPT).
type table struct {
	columns            int
	at, prompt, output int // columns
	session            int // -1: none
	names              []string
	parseAt            func(field, text string) (time.Duration, error)
	fields             []string // reused
}

// newTable finds the columns in the header.
func newTable(header []byte, at, prompt, output string, parseAt func(field, text string) (time.Duration, error)) (*table, error) {
	names, err := splitRow(nil, header)
	if err != nil {
		names = nil // what lacks below says more than where a quote stands
	}
	t := &table{names: names, columns: len(names), parseAt: parseAt}
	for _, c := range []struct {
		name string
		at   *int
	}{{at, &t.at}, {prompt, &t.prompt}, {output, &t.output}} {
		if *c.at = t.find(c.name); *c.at < 0 {
			return nil, &fieldError{
				field: c.name,
				why:   fmt.Sprintf("no such column in the header %s; want the columns %s, %s and %s", excerpt(header), at, prompt, output),
			}
		}
	}
	t.session = t.find("Session ID")
	return t, nil
}

// find returns the column of a name, whatever its case, or -1.
func (t *table) find(name string) int {
	for i, n := range t.names {
		if strings.EqualFold(n, name) {
			return i
		}
	}
	return -1
}

func (t *table) header() bool      { return true }
func (t *table) timeField() string { return t.names[t.at] }
func (t *table) blockTokens() int  { return 0 }

func (t *table) decode(dst []Request, row []byte) (_ []Request, at time.Duration, err error) {
	if t.fields, err = splitRow(t.fields[:0], row); err != nil {
		return dst, 0, err
	}
	if len(t.fields) != t.columns {
		return dst, 0, &fieldError{why: fmt.Sprintf("%d columns, want the header's %d", len(t.fields), t.columns)}
	}
	var r Request
	if at, err = t.parseAt(t.names[t.at], t.fields[t.at]); err != nil {
		return dst, 0, err
	}
	if r.PromptTokens, err = parseTokens(t.names[t.prompt], t.fields[t.prompt]); err != nil {
		return dst, 0, err
	}
	if r.OutputTokens, err = parseTokens(t.names[t.output], t.fields[t.output]); err != nil {
		return dst, 0, err
	}
	if t.session >= 0 {
		r.Session = strings.Clone(t.fields[t.session]) // not the whole row
	}
	return append(dst, r), at, nil
}

// splitRow appends the fields of one row, without space around them. No trace
// has quoted fields in its rows, so encoding/csv, which allocates a reader for
// each, is asked only where there is a quote; none of them has line breaks.
func splitRow(dst []string, row []byte) ([]string, error) {
	if bytes.IndexByte(row, '"') >= 0 {
		fields, err := csv.NewReader(bytes.NewReader(row)).Read()
		if err != nil {
			if e, ok := errors.AsType[*csv.ParseError](err); ok { // its line is always 1
				return dst, &fieldError{why: fmt.Sprintf("broken CSV at byte %d: %v", e.Column, e.Err), err: err}
			}
			return dst, &fieldError{why: "broken CSV: " + err.Error()}
		}
		for _, f := range fields {
			dst = append(dst, strings.TrimSpace(f))
		}
		return dst, nil
	}
	// One copy of the row; the fields are parts of it.
	for field := range strings.SplitSeq(string(row), ",") {
		dst = append(dst, strings.TrimSpace(field))
	}
	return dst, nil
}
