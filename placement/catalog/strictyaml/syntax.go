package strictyaml

import (
	"bytes"
	"errors"
	"io"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// decodeYAML reads the first document of data into doc and the beginning of a
// second one, if there is any, into second.
func decodeYAML(data []byte, doc, second *yaml.Node) error {
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	err := decoder.Decode(doc)
	if err == nil {
		err = decoder.Decode(second)
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// What the YAML library's parser, which counts lines from 0, complains of. All
// else comes from its scanner, which counts from 1, or names no line.
const (
	flowProblem  = "did not find expected ',' or "
	blockProblem = `^did not find expected ('-' indicator|key)$`
)

var (
	within        = regexp.MustCompile(blockProblem + `|^found a tab character that violates indentation$`)
	parserProblem = regexp.MustCompile(blockProblem + `|^did not find expected (',' or '[]}]'|node content|<.*>)$|^found (undefined tag handle|incompatible YAML document|duplicate %(YAML|TAG) directive)$`)
	yamlLine      = regexp.MustCompile(`^line ([0-9]+): `)
)

// syntax says what keeps data from being YAML and on which line, the first
// being 1; 0 is unknown. That is where a list or section in brackets, or a text
// in quotes, begins that is not closed in time, and else where reading stopped.
func syntax(data []byte) (line int, problem string) {
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	from, problem := complaint(data)
	line = from
	if from == 0 || within.MatchString(problem) {
		// The library names the line on which the list, section or text begins
		// that has the fault somewhere within, or none at all. Whatever it stumbles over is the end of the shortest
		// beginning of the file over which it stumbles in the same way.
		starts := lineStarts(data)
		line = from + sort.Search(len(starts)-1-from, func(i int) bool {
			at, same := complaint(data[:starts[from+i]])
			return at == from && same == problem
		})
	}
	if strings.HasPrefix(problem, flowProblem) {
		problem += " after the bracket that opens here"
	}
	return line, "is not YAML: " + problem
}

// complaint returns what the YAML library says about data, "" if nothing, and
// the line it names, the first being 1; 0 if none.
func complaint(data []byte) (line int, problem string) {
	var doc, second yaml.Node
	// The library takes a line 0 for none: with a line before it there is none.
	err := decodeYAML(slices.Concat([]byte("\n"), data), &doc, &second)
	if err == nil {
		return 0, ""
	}
	problem = strings.TrimPrefix(err.Error(), "yaml: ")
	if m := yamlLine.FindStringSubmatch(problem); m != nil {
		line, _ = strconv.Atoi(m[1])
		if problem = problem[len(m[0]):]; !parserProblem.MatchString(problem) {
			line--
		}
	}
	return line, problem
}

// lineStarts returns where each line begins, and the length of data. A line
// ends where YAML says that it does.
func lineStarts(data []byte) []int {
	starts := []int{0}
	for i, b := range data {
		if b == '\n' || b == '\r' && !bytes.HasPrefix(data[i:], []byte("\r\n")) {
			starts = append(starts, i+1)
		}
	}
	return append(starts, len(data))
}
