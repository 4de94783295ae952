package smi

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/fleet/hardware/internal/pci"
)

// Row is a line of nvidia-smi's, by the names of its fields. A field behind the
// end of a short line is a Cell without a value.
type Row map[string]Cell

// Rows reads the answer to a query of fields with --format=csv,noheader. Lines
// that are not rows, which is how nvidia-smi says what is wrong, are returned
// apart. A line may have fewer cells than there are fields: old drivers leave
// the last ones out.
func Rows(fields []string, out string) (rows []Row, said []string) {
	for line := range strings.Lines(out) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		cells := strings.Split(line, ",")
		if len(cells) > len(fields) || len(cells) < min(2, len(fields)) || !isKey(strings.TrimSpace(cells[0])) {
			said = append(said, line)
			continue
		}
		row := make(Row, len(cells))
		for i, c := range cells {
			row[fields[i]] = parseCell(c)
		}
		rows = append(rows, row)
	}
	return rows, said
}

// isKey reports whether a cell can begin a row: an index, an address, a UUID, or
// a word in place of one.
func isKey(s string) bool {
	if _, err := strconv.ParseUint(s, 10, 16); err == nil {
		return true
	}
	_, isAddress := pci.Address(s)
	return isAddress || strings.HasPrefix(s, "GPU-") || strings.HasPrefix(s, "MIG-") ||
		strings.HasPrefix(s, "[") && strings.HasSuffix(s, "]")
}

var (
	unknownField = regexp.MustCompile(`Field "([^"]{1,100})" is not a valid field to query`)
	lostCard     = regexp.MustCompile(`(?i)device handle for GPU ?(?:\d+: )?([0-9a-f:.]{7,16}): *(.{1,200})`)
)

// UnknownField returns the field that a driver does not know, where that is why
// it answered nothing.
func UnknownField(out string) (string, bool) {
	m := unknownField.FindStringSubmatch(out)
	if m == nil {
		return "", false
	}
	return m[1], true
}

// LostCard returns the address of the card that a line says cannot be used, and
// why.
func LostCard(line string) (bus, why string, ok bool) {
	m := lostCard.FindStringSubmatch(line)
	if m == nil {
		return "", "", false
	}
	bus, ok = pci.Address(m[1])
	return bus, strings.TrimSpace(m[2]), ok
}

var (
	listedCard     = regexp.MustCompile(`^GPU \d+: .*\(UUID: (GPU-[^)]{1,80})\)`)
	listedInstance = regexp.MustCompile(`^\s+MIG (\S{1,40})\s+Device\s+\d+: \(UUID: (MIG-[^)]{1,120})\)`)
	profileMemory  = regexp.MustCompile(`\.(\d{1,5})gb`)
)

// Instances reads nvidia-smi -L: the parts of split cards, by the UUID of the
// card.
func Instances(out string) map[string][]engines.MIGInstance {
	found := make(map[string][]engines.MIGInstance)
	card := ""
	for line := range strings.Lines(out) {
		if m := listedCard.FindStringSubmatch(line); m != nil {
			card = m[1]
		}
		m := listedInstance.FindStringSubmatch(line)
		if m == nil || card == "" {
			continue
		}
		part := engines.MIGInstance{UUID: m[2], Profile: m[1]}
		if size := profileMemory.FindStringSubmatch(m[1]); size != nil {
			n, _ := strconv.ParseUint(size[1], 10, 64) // five digits at most
			part.MemoryBytes = engines.Known(n * 1e9)
		}
		found[card] = append(found[card], part)
	}
	return found
}

// Topology reads nvidia-smi topo -m: how cards reach each other, by their
// indexes. Adapters, which the table has too, are left out.
func Topology(out string) map[[2]int]string {
	links := make(map[[2]int]string)
	var columns []int // the card of each column; -1 for what is none
	for line := range strings.Lines(out) {
		words := strings.Fields(stripEscapes(line))
		if len(words) == 0 {
			continue
		}
		if columns == nil {
			for _, w := range words {
				if w == "CPU" || w == "NUMA" { // "CPU Affinity" ends the links
					break
				}
				columns = append(columns, cardNumber(w))
			}
			if len(columns) == 0 || columns[0] < 0 {
				columns = nil
			}
			continue
		}
		from := cardNumber(words[0])
		if from < 0 {
			continue
		}
		for i, w := range words[1:] {
			if i < len(columns) && columns[i] >= 0 && isLink(w) {
				links[[2]int{from, columns[i]}] = w
			}
		}
	}
	return links
}

func cardNumber(s string) int {
	digits, ok := strings.CutPrefix(s, "GPU")
	if !ok {
		return -1
	}
	n, err := strconv.ParseUint(digits, 10, 16)
	if err != nil {
		return -1
	}
	return int(n)
}

func isLink(s string) bool {
	switch s {
	case "X", "SYS", "NODE", "PHB", "PXB", "PIX":
		return true
	}
	digits, ok := strings.CutPrefix(s, "NV")
	_, err := strconv.ParseUint(digits, 10, 16)
	return ok && err == nil
}

var escapes = regexp.MustCompile("\x1b\\[[0-9;]*m")

// stripEscapes removes the codes with which the header is underlined.
func stripEscapes(s string) string { return escapes.ReplaceAllString(s, "") }
