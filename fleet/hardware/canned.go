package hardware

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// canned answers for the programs of a root that is not the machine. In its
// directory commands each has a program that is run, or a directory of answers:
//
//	commands/nvidia-smi/query-gpu.csv   a table, as --query-gpu gives it with a header
//	commands/nvidia-smi/topo_-m         the answer to "nvidia-smi topo -m"
//	commands/nvidia-smi/any             the answer to everything else
//	commands/nvidia-smi/any.exit        its exit status, where that is not 0
//
// A query of a table gets the columns that it names, and for one that the table
// lacks the driver's refusal.
type canned struct{ dir string }

// Run implements [Runner].
func (c canned) Run(ctx context.Context, name string, args ...string) (Output, error) {
	path := filepath.Join(c.dir, filepath.Base(name))
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return Output{}, fmt.Errorf("%w: %s", ErrNoCommand, path)
	case !info.IsDir():
		return run(ctx, path, args)
	}
	if table, fields, ok := query(args); ok {
		text, err := os.ReadFile(filepath.Join(path, table))
		if err == nil {
			return answer(string(text), fields), nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return Output{}, err
		}
	}
	for _, file := range []string{strings.ReplaceAll(strings.Join(args, "_"), string(filepath.Separator), "_"), "any"} {
		text, err := os.ReadFile(filepath.Join(path, file))
		if err != nil {
			continue
		}
		out := Output{Stdout: string(text)}
		if exit, err := os.ReadFile(filepath.Join(path, file+".exit")); err == nil {
			if out.Status, err = strconv.Atoi(strings.TrimSpace(string(exit))); err != nil {
				return Output{}, fmt.Errorf("%s.exit: %w", filepath.Join(path, file), err)
			}
		}
		return out, nil
	}
	return Output{Stdout: "Invalid combination of input arguments.\n", Status: 2}, nil
}

// query recognises "--query-gpu=index,name": the name of its table, and the
// fields.
func query(args []string) (table string, fields []string, ok bool) {
	for _, a := range args {
		key, value, found := strings.Cut(a, "=")
		if kind, isQuery := strings.CutPrefix(key, "--query-"); isQuery && found {
			return "query-" + filepath.Base(kind) + ".csv", strings.Split(value, ","), true
		}
	}
	return "", nil, false
}

// answer picks fields of a table. A row that is shorter than the header gives a
// short row; a line without a comma is given as it is.
func answer(table string, fields []string) Output {
	header, body, _ := strings.Cut(strings.TrimLeft(table, "\n"), "\n")
	names := splitCSV(header)
	for i, n := range names {
		names[i], _, _ = strings.Cut(n, " [") // memory.total [MiB]
	}
	columns := make([]int, len(fields))
	for i, f := range fields {
		if columns[i] = slices.Index(names, f); columns[i] < 0 {
			return Output{Stdout: fmt.Sprintf("Field %q is not a valid field to query.\n\n", f), Status: 2}
		}
	}
	var b strings.Builder
	for line := range strings.Lines(body) {
		cells := splitCSV(strings.TrimSpace(line))
		if len(cells) < 2 {
			b.WriteString(line)
			continue
		}
		var out []string
		for _, c := range columns {
			if c < len(cells) {
				out = append(out, cells[c])
			}
		}
		b.WriteString(strings.Join(out, ", ") + "\n")
	}
	return Output{Stdout: b.String()}
}

func splitCSV(line string) []string {
	r := csv.NewReader(strings.NewReader(line))
	r.TrimLeadingSpace, r.LazyQuotes = true, true
	cells, err := r.Read()
	if err != nil {
		return nil
	}
	return cells
}
