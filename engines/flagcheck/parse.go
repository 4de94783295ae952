package flagcheck

import (
	"regexp"
	"strings"
)

// parser reads a help text line by line.
type parser struct {
	flags map[string]bool // all that were found, in usage or described
	lines int

	used      []string        // flags of the usage
	described map[string]bool // flags with an entry of their own
	entries   int             // entries
	explained int             // entries with a description
	last      entry
	open      bool // the list of an entry goes on in the next line
	cut       []string
	ending    map[string]ending
}

// entry is the declaration of one flag with all its names.
type entry struct {
	names  []string
	bare   bool   // nothing describes it yet
	text   string // the first of its description
	tail   string // the last line of its description, or of itself
	header string // a section's title, if nothing followed it yet
}

// Bounds of a text that is no help, or of no engine: the longest has some 400
// flags of up to 50 letters.
const (
	longestFlag = 100 // bytes
	mostFlags   = 5000
)

// deepest is the indentation beyond which a line is a description. clap puts
// flags without a short name at 6 and descriptions at 10; everyone else flags
// at 0 to 4 and descriptions much further right.
const deepest = 8

var (
	flagName = regexp.MustCompile(`^--?[A-Za-z0-9?][A-Za-z0-9_.-]*$`)
	// optional is a name in two forms, such as --[no-]mmap.
	optional = regexp.MustCompile(`^(--?)\[([A-Za-z-]+)\]([A-Za-z0-9][A-Za-z0-9_.-]*)`)
	// inUsage are the flags of a usage; the character before it is no part of a
	// name.
	inUsage = regexp.MustCompile(`(?:^|[\s\[(|,{])(--?(?:\[[A-Za-z-]+\])?[A-Za-z][A-Za-z0-9_.-]*)`)
	plain   = regexp.MustCompile(`^[a-z][a-z']*[.,;:]?$`)
	title   = regexp.MustCompile(`^\S.*:$`)
)

func (p *parser) read(text string) {
	p.described, p.ending = make(map[string]bool), make(map[string]ending)
	usage := false
	n := 0
	for line := range strings.Lines(text) {
		n++
		line, boxed := unbox(strings.TrimRight(expand(line), " \n\r"))
		trimmed := strings.TrimLeft(line, " ")
		indent := len(line) - len(trimmed)
		if trimmed == "" {
			usage, p.open = false, false
			continue
		}
		p.lines = n
		low := strings.ToLower(trimmed)
		switch {
		case strings.HasPrefix(low, "usage:"):
			usage = true
			p.usage(trimmed)
		case usage && (indent > 0 || trimmed[0] == '[') && !p.declares(trimmed, indent, boxed):
			p.usage(trimmed)
		case p.open || p.declares(trimmed, indent, boxed):
			usage = false
			p.entry(trimmed, boxed)
		default:
			usage = false
			p.prose(trimmed, indent)
		}
	}
	p.close()
}

// expand replaces tabs, which Go's package flag puts before descriptions.
func expand(line string) string { return strings.ReplaceAll(line, "\t", "        ") }

// unbox takes away the frame that rich draws around options, and the star of
// those that are required.
func unbox(line string) (string, bool) {
	inner, boxed := strings.CutPrefix(strings.TrimLeft(line, " "), "│")
	if !boxed {
		return line, false
	}
	inner = strings.TrimRight(strings.TrimSuffix(inner, "│"), " ")
	if bare := strings.TrimLeft(inner, " "); strings.HasPrefix(bare, "* ") {
		inner = bare[2:]
		return " " + strings.TrimLeft(inner, " "), true
	}
	return inner, true
}

// declares reports whether a line begins an entry.
func (p *parser) declares(trimmed string, indent int, boxed bool) bool {
	if indent > deepest || trimmed[0] != '-' {
		return false
	}
	names, _, _ := declaration(trimmed, boxed)
	return len(names) > 0
}

func (p *parser) entry(trimmed string, boxed bool) {
	names, rest, cut := declaration(trimmed, boxed)
	if p.open {
		p.last.names = append(p.last.names, names...)
	} else {
		p.close()
		p.entries++
		p.last = entry{names: names, bare: true}
	}
	p.cut = append(p.cut, cut...)
	if len(p.flags) < mostFlags {
		for _, name := range names {
			p.flags[name], p.described[name] = true, true
		}
	}
	p.last.tail = trimmed
	p.open = rest == "" && strings.HasSuffix(trimmed, ",")
	if rest != "" {
		p.describe(rest)
	}
}

// describe adds a line to the description of the last entry.
func (p *parser) describe(line string) {
	if p.last.bare {
		p.last.bare = false
		p.explained++
	}
	if len(p.last.text) < enoughText {
		p.last.text = strings.TrimSpace(p.last.text + " " + beginning(line))
	}
}

// close looks at the description of the last entry, which is whole.
func (p *parser) close() {
	end := endingOf(p.last.text)
	if end == (ending{}) {
		return
	}
	for _, name := range p.last.names {
		p.ending[name] = end
	}
}

// prose is a line that declares nothing: it describes the last entry if it
// stands further right, and is a title or a text between otherwise.
func (p *parser) prose(trimmed string, indent int) {
	if indent == 0 {
		p.close()
		p.last = entry{tail: trimmed}
		if title.MatchString(trimmed) {
			p.last.header = trimmed
		}
		return
	}
	p.last.header, p.last.tail = "", trimmed
	p.describe(trimmed)
}

func (p *parser) usage(line string) {
	for _, m := range inUsage.FindAllStringSubmatch(line, -1) {
		for _, name := range forms(m[1]) {
			if p.flags[name] || len(p.flags) >= mostFlags {
				continue
			}
			p.flags[name] = true
			p.used = append(p.used, name)
		}
	}
}

// declaration splits the line of an entry into its names, and what stands behind
// them for people. Names whose end a narrow terminal cut off are told apart.
func declaration(line string, boxed bool) (names []string, rest string, cut []string) {
	list, rest := head(line, boxed)
	words := 0 // in a row that are neither a flag nor a value's name
	for _, word := range separate(list) {
		if name, short := strings.CutSuffix(word, "…"); short && len(word) <= longestFlag && strings.HasPrefix(word, "-") {
			cut = append(cut, name)
			continue
		}
		fs := forms(word)
		names = append(names, fs...)
		if len(fs) == 0 && plain.MatchString(word) {
			words++
		} else {
			words = 0
		}
		switch {
		case words <= 2:
		case strings.Contains(list, " {"):
			return names, rest, cut // values, and then in words what else may stand there
		default:
			return nil, "", nil // a sentence that begins with a flag
		}
	}
	return names, rest, cut
}

// head cuts a line where the description begins: at the first two spaces that
// do not follow a comma, which llama.cpp uses to line up long names. In a frame
// the names stand in columns, and the description behind the first column that
// is no name.
func head(line string, boxed bool) (list, rest string) {
	depth := 0
	for i := 0; i < len(line); i++ {
		switch line[i] {
		case '[', '<', '{', '(':
			depth++
		case ']', '>', '}', ')':
			depth = max(depth-1, 0)
		case ' ':
			if i+1 >= len(line) || line[i+1] != ' ' {
				continue
			}
			next := strings.TrimLeft(line[i:], " ")
			if line[i-1] == ',' || boxed && strings.HasPrefix(next, "-") {
				i = len(line) - len(next) - 1
				continue
			}
			if depth > 0 && strings.HasPrefix(next, "|") {
				continue
			}
			return line[:i], next
		}
	}
	return line, ""
}

// separate splits a list of names and the names of their values into words.
// What stands in brackets is a value's.
func separate(list string) []string {
	var out []string
	var word strings.Builder
	depth := 0
	flush := func() {
		if word.Len() > 0 {
			out = append(out, word.String())
			word.Reset()
		}
	}
	for i := 0; i < len(list); i++ {
		c := list[i]
		switch {
		case depth == 0 && c == '[' && strings.HasSuffix(word.String(), "-"): // --[no-]x
			end := strings.IndexByte(list[i:], ']')
			if end < 0 {
				end = len(list) - i - 1
			}
			word.WriteString(list[i : i+end+1])
			i += end
		case c == '[' || c == '<' || c == '{' || c == '(':
			flush()
			depth++
		case c == ']' || c == '>' || c == '}' || c == ')':
			depth = max(depth-1, 0)
		case depth > 0:
		case c == ' ' || c == ',' || c == '/' || c == '|' || c == '=':
			flush()
			if c == '=' { // the value's name follows
				for i+1 < len(list) && list[i+1] != ' ' && list[i+1] != ',' {
					i++
				}
			}
		default:
			word.WriteByte(c)
		}
	}
	flush()
	return out
}

// forms returns the names that a word declares: none, one, or two.
func forms(word string) []string {
	if len(word) > longestFlag {
		return nil
	}
	if m := optional.FindStringSubmatch(word); m != nil {
		return []string{m[1] + m[3], m[1] + m[2] + m[3]}
	}
	word = strings.TrimRight(word, ".:;")
	if flagName.MatchString(word) && strings.Trim(word, "-") != "" {
		return []string{word}
	}
	return nil
}
