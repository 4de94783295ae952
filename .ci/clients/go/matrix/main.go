// Command matrix reads what the suites wrote down and prints it as a table of
// cells and clients. It fails if a cell failed, was skipped, or did not run:
//
//	matrix -cells cells.tsv -results DIR -docs clients.md [-write]
//
// cells.tsv says which cells there are; the same list is the table between the
// marks of the documentation, which is compared, or written with -write.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

func main() {
	cells := flag.String("cells", "", "the list of cells")
	results := flag.String("results", "", "folder with what the suites wrote down; empty compares the documentation only")
	docs := flag.String("docs", "", "the page with the list of cells")
	write := flag.Bool("write", false, "write the page's table instead of comparing it")
	flag.Parse()
	if err := run(*cells, *results, *docs, *write); err != nil {
		fmt.Fprintln(os.Stderr, "matrix:", err)
		os.Exit(1)
	}
}

func run(cells, results, docs string, write bool) error {
	m, err := readCells(cells)
	if err != nil {
		return err
	}
	if results != "" {
		err = m.report(os.Stdout, results)
	}
	return errors.Join(err, m.document(docs, write))
}

// matrix is the list of cells: which clients have it and what it asserts.
type matrix struct {
	clients []string
	cells   []cell
}

type cell struct {
	name, asserts, threads string
	clients                []string
}

// readCells reads lines of four fields between tabs: the cell, the clients that
// have it ("*" for all), what it asserts, and public threads of its failure.
// The first line names the clients.
func readCells(path string) (m matrix, err error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return m, err
	}
	for i, line := range strings.Split(strings.TrimRight(string(data), "\n"), "\n") {
		fields := strings.Split(line, "\t")
		switch {
		case i == 0:
			m.clients = fields
		case len(fields) != 4:
			return m, fmt.Errorf("%s:%d: %d fields between tabs; want 4", path, i+1, len(fields))
		default:
			c := cell{name: fields[0], clients: strings.Fields(fields[1]), asserts: fields[2], threads: fields[3]}
			if fields[1] == "*" {
				c.clients = m.clients
			}
			for _, who := range c.clients {
				if !slices.Contains(m.clients, who) {
					return m, fmt.Errorf("%s:%d: %q is no client of the first line", path, i+1, who)
				}
			}
			m.cells = append(m.cells, c)
		}
	}
	return m, nil
}

type result struct {
	Client  string `json:"client"`
	Cell    string `json:"cell"`
	Outcome string `json:"outcome"`
	Millis  int    `json:"ms"`
}

// report prints the table and fails unless every cell passed.
func (m matrix) report(w io.Writer, dir string) error {
	outcomes := map[[2]string]string{}
	files, err := filepath.Glob(filepath.Join(dir, "*.jsonl"))
	if err != nil {
		return err
	}
	for _, path := range files {
		if err := readResults(path, func(r result) {
			if was, ok := outcomes[[2]string{r.Client, r.Cell}]; !ok || was == "pass" {
				outcomes[[2]string{r.Client, r.Cell}] = r.Outcome
			}
		}); err != nil {
			return err
		}
	}
	fmt.Fprintf(w, "%-16s", "")
	for i := range m.clients {
		fmt.Fprintf(w, "%3d", i+1)
	}
	fmt.Fprintln(w)
	var bad []string
	passed := 0
	for _, c := range m.cells {
		fmt.Fprintf(w, "%-16s", c.name)
		for _, who := range m.clients {
			key := [2]string{who, c.name}
			outcome, ran := outcomes[key]
			delete(outcomes, key)
			mark := ""
			switch listed := slices.Contains(c.clients, who); {
			case !listed && !ran:
			case outcome == "pass" && listed:
				mark = "ok"
				passed++
			case !listed:
				mark, bad = "!", append(bad, who+"/"+c.name+": not in the list of cells")
			case !ran:
				mark, bad = "?", append(bad, who+"/"+c.name+": did not run")
			default:
				mark, bad = "X", append(bad, who+"/"+c.name+": "+outcome)
			}
			fmt.Fprintf(w, "%3s", mark)
		}
		fmt.Fprintln(w)
	}
	for i, who := range m.clients {
		fmt.Fprintf(w, "%d %s  ", i+1, who)
	}
	fmt.Fprintln(w)
	for key := range outcomes {
		bad = append(bad, key[0]+"/"+key[1]+": not in the list of cells")
	}
	fmt.Fprintf(w, "%d passed, %d failed\n", passed, len(bad))
	if len(bad) > 0 {
		slices.Sort(bad)
		return errors.New("cells that did not pass:\n  " + strings.Join(bad, "\n  "))
	}
	return nil
}

func readResults(path string, each func(result)) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	in := bufio.NewScanner(f)
	for in.Scan() {
		var r result
		if err := json.Unmarshal(in.Bytes(), &r); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		each(r)
	}
	return in.Err()
}

const begin, end = "<!-- cells -->\n", "<!-- /cells -->\n"

// document compares or writes the table of the page.
func (m matrix) document(path string, write bool) error {
	page, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	before, rest, ok := bytes.Cut(page, []byte(begin))
	was, after, ok2 := bytes.Cut(rest, []byte(end))
	if !ok || !ok2 {
		return fmt.Errorf("%s has no table between the marks %q and %q", path, begin, end)
	}
	table := m.markdown()
	switch {
	case string(was) == table:
		return nil
	case write:
		return os.WriteFile(path, slices.Concat(before, []byte(begin+table+end), after), 0o644) //nolint:gosec // a page
	}
	return fmt.Errorf("%s does not have the table of cells.tsv; run .ci/clients/run docs", path)
}

func (m matrix) markdown() string {
	var b strings.Builder
	b.WriteString("| cell |")
	for i := range m.clients {
		fmt.Fprintf(&b, " %d |", i+1)
	}
	b.WriteString(" asserts | fails elsewhere |\n| --- |" + strings.Repeat(" --- |", len(m.clients)) + " --- | --- |\n")
	for _, c := range m.cells {
		fmt.Fprintf(&b, "| %s |", c.name)
		for _, who := range m.clients {
			if slices.Contains(c.clients, who) {
				b.WriteString(" ● |")
			} else {
				b.WriteString("  |")
			}
		}
		fmt.Fprintf(&b, " %s | %s |\n", c.asserts, c.threads)
	}
	return b.String()
}
