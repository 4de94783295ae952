package strictyaml

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Prefix begins every variable that overrides a key. What follows is the key's
// path in capitals with two underscores where the path has a dot:
// LLMGW_ROUTER__TIMEOUTS__DIAL for router.timeouts.dial. A number leads into a
// list that the file has: LLMGW_ENDPOINTS__0__URL.
const Prefix = "LLMGW_"

// serviceLink matches the variables that Kubernetes makes for a Service whose
// name, in capitals, comes before them. They belong to no key, whatever keys
// there will be.
var serviceLink = regexp.MustCompile(`(^|_)(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT(_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)$`)

type variable struct {
	name, value string
	segments    []string
	path        string
	typ         reflect.Type
}

// UnknownVariable is a variable with [Prefix] that no key has.
type UnknownVariable struct {
	Name  string
	Meant string // the variable that was probably meant, "" if none comes to mind
}

// variables sorts an environment into those that name a key, outer sections
// first, and those that have the prefix and no key.
func variables(environ []string, root reflect.Type) (known []variable, unknown []UnknownVariable) {
	seen := make(map[string]bool)
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		rest, ours := strings.CutPrefix(name, Prefix)
		if !ours || seen[name] {
			continue // os.Getenv takes the first of two, and so does this
		}
		seen[name] = true
		segments := strings.Split(strings.ToLower(rest), "__")
		t, path, ok := resolve(root, segments)
		if !ok || rest != strings.ToUpper(rest) || isServiceLink(rest) {
			unknown = append(unknown, UnknownVariable{Name: name, Meant: meantVariable(name, root)})
			continue
		}
		known = append(known, variable{name: name, value: value, segments: segments, path: path, typ: t})
	}
	slices.SortFunc(known, func(a, b variable) int {
		if d := len(a.segments) - len(b.segments); d != 0 {
			return d
		}
		return strings.Compare(a.name, b.name)
	})
	slices.SortFunc(unknown, func(a, b UnknownVariable) int { return strings.Compare(a.Name, b.Name) })
	return known, unknown
}

// meantVariable returns the variable of a key whose name differs from the
// given one only in its underscores or in case, or "".
func meantVariable(name string, root reflect.Type) string {
	alike := func(name string) string { return strings.ReplaceAll(strings.ToUpper(name), "_", "") }
	for _, path := range Paths(root) {
		if v := VariableFor(path); !strings.Contains(path, "[]") && alike(v) == alike(name) {
			return v
		}
	}
	return ""
}

func isServiceLink(rest string) bool {
	return !strings.Contains(rest, "__") && serviceLink.MatchString(rest)
}

// VariableFor returns the variable that overrides the key at path.
func VariableFor(path string) string {
	path = anyPosition.ReplaceAllStringFunc(path, func(s string) string { return "." + strings.Trim(s, "[]") })
	return Prefix + strings.ToUpper(strings.ReplaceAll(path, ".", "__"))
}

// override reads a variable and puts it into the tree that the file made.
func (r *reader) override(v variable, tree map[string]any) {
	r.variable = v.name
	defer func() { r.variable = "" }()
	at := position{variable: v.name}
	value, ok := r.variableValue(v)
	if !ok {
		return
	}
	r.positions[v.path] = at
	if err := put(tree, v.segments, value); err != nil {
		r.add(at, v.path, "%v", err)
	}
}

func (r *reader) variableValue(v variable) (any, bool) {
	t := v.typ
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	text := strings.TrimSpace(v.value)
	if t.Kind() == reflect.String {
		text = v.value
	}
	structured := (IsSection(t) && (!IsText(t) || strings.HasPrefix(text, "{"))) || t.Kind() == reflect.Map
	if t.Kind() == reflect.Slice {
		e := t.Elem()
		structured = strings.HasPrefix(text, "[") || (IsSection(e) && !IsText(e))
	}
	at := position{variable: v.name}
	switch {
	case structured:
		n, line, problem := parseYAML([]byte(text))
		if problem != "" {
			r.add(at, v.path, "line %d: %s", line, problem)
			return nil, false
		}
		if n == nil {
			r.add(at, v.path, "has no value; want %s", want(t))
			return nil, false
		}
		return r.value(n, t, v.path)
	case t.Kind() == reflect.Slice:
		return r.commaList(v, text, t)
	}
	value, problem := scalar(text, "", t)
	if problem != "" {
		r.add(at, v.path, "%s", problem)
		return nil, false
	}
	return value, true
}

// commaList reads "a, b" as a list; nothing is a list without entries.
func (r *reader) commaList(v variable, text string, t reflect.Type) (any, bool) {
	out := []any{}
	if text == "" {
		return out, true
	}
	for item := range strings.SplitSeq(text, ",") {
		value, problem := scalar(strings.TrimSpace(item), "", t.Elem())
		if problem != "" {
			r.add(position{variable: v.name}, fmt.Sprintf("%s[%d]", v.path, len(out)), "%s", problem)
			return nil, false
		}
		r.positions[fmt.Sprintf("%s[%d]", v.path, len(out))] = position{variable: v.name}
		out = append(out, value)
	}
	return out, true
}

// put sets the value at the end of a path, making sections on the way but not
// entries of lists.
func put(tree map[string]any, segments []string, value any) error {
	at := any(tree)
	for i, segment := range segments {
		last := i == len(segments)-1
		switch node := at.(type) {
		case map[string]any:
			if last {
				node[segment] = value
				return nil
			}
			next, ok := node[segment]
			if !ok {
				if isIndex(segments[i+1]) {
					return fmt.Errorf("the file has no such entry; set %s as a whole", Prefix+strings.ToUpper(strings.Join(segments[:i+1], "__")))
				}
				next = map[string]any{}
				node[segment] = next
			}
			at = next
		case []any:
			n, err := strconv.Atoi(segment)
			if err != nil || n >= len(node) {
				return fmt.Errorf("entry %s does not exist; the list has %d", segment, len(node))
			}
			if last {
				node[n] = value
				return nil
			}
			if text, short := node[n].(string); short {
				return fmt.Errorf("the entry is written as %s; write it with its keys to set one of them", clip(text))
			}
			at = node[n]
		default:
			return fmt.Errorf("%s holds no keys", strings.Join(segments[:i], "."))
		}
	}
	return nil
}
