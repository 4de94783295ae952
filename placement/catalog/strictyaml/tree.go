package strictyaml

import (
	"fmt"
	"reflect"
	"strings"

	"go.yaml.in/yaml/v3"
)

// maxNodes bounds the values read from one file, aliases counted each time they
// are used, so that a few lines of nested aliases cannot fill memory.
const maxNodes = 500000

// reader turns YAML nodes into the plain values koanf decodes, guided by the
// type they are meant for.
type reader struct {
	*collector
	variable string // the variable the nodes come from; "" for the file
	hints    map[string]string
	numbers  map[string]string
	root     reflect.Type
	visits   int
	merging  map[*yaml.Node]bool // mappings being merged, against cycles
}

func (r *reader) at(n *yaml.Node) position {
	if r.variable != "" {
		return position{variable: r.variable}
	}
	return position{line: n.Line}
}

// value reads n as type t. It returns false if there is nothing to set: the
// section or list is empty, or a fault was added.
func (r *reader) value(n *yaml.Node, t reflect.Type, path string) (any, bool) {
	if !r.spend(n, path) {
		return nil, false
	}
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if n.Kind == yaml.ScalarNode {
		return r.scalarNode(n, t, path)
	}
	switch {
	case n.Kind == yaml.MappingNode && IsSection(t):
		return r.section(n, t, path), true
	case n.Kind == yaml.MappingNode && t.Kind() == reflect.Map:
		return r.mapping(n, t, path), true
	case n.Kind == yaml.SequenceNode && t.Kind() == reflect.Slice:
		return r.list(n, t, path), true
	}
	r.add(r.at(n), path, "is %s; want %s", nodeKind(n), want(t))
	return nil, false
}

// spend counts one value, and says once that there are too many.
func (r *reader) spend(n *yaml.Node, path string) bool {
	if r.visits++; r.visits == maxNodes+1 {
		r.add(r.at(n), path, "more than %d values, aliases counted each time; write fewer", maxNodes)
	}
	return r.visits <= maxNodes
}

func (r *reader) scalarNode(n *yaml.Node, t reflect.Type, path string) (any, bool) {
	tag := n.ShortTag()
	collection := t.Kind() == reflect.Slice || t.Kind() == reflect.Map || (IsSection(t) && !IsText(t))
	switch {
	case tag == "!!null" && (collection || IsSection(t)):
		return nil, false // `endpoints:` with every entry commented out
	case tag == "!!null":
		r.add(r.at(n), path, "has no value; want %s, or leave the key out", want(t))
		return nil, false
	case collection:
		r.add(r.at(n), path, "is %s; want %s", nodeKind(n), want(t))
		return nil, false
	case n.Style&yaml.TaggedStyle != 0 && !strings.HasPrefix(n.Tag, "!!"), tag == "!!binary":
		r.add(r.at(n), path, "has the tag %s; want %s", clip(n.Tag), want(t))
		return nil, false
	}
	v, problem := scalar(n.Value, tag, t)
	if problem != "" {
		if write := r.numbers[path]; write != "" && tag == "!!int" {
			problem = n.Value + " is a number; want " + strings.ReplaceAll(write, "%s", n.Value)
		}
		r.add(r.at(n), path, "%s", problem)
		return nil, false
	}
	return v, true
}

// section reads a mapping whose keys are the fields of t.
func (r *reader) section(n *yaml.Node, t reflect.Type, path string) map[string]any {
	fields := Fields(t)
	out := make(map[string]any)
	r.pairs(n, path, func(key string, k, v *yaml.Node) {
		for _, f := range fields {
			if f.Key != key {
				continue
			}
			inner := join(path, key)
			r.positions[inner] = r.at(k)
			if decoded, ok := r.value(v, f.Type, inner); ok {
				out[key] = decoded
			}
			return
		}
		r.unknown(r.at(k), path, key, fields)
	})
	setDefaults(out, fields)
	return out
}

// setDefaults gives a section the values of the keys it leaves out.
func setDefaults(section map[string]any, fields []Field) {
	for _, f := range fields {
		if _, written := section[f.Key]; written || f.Default == "" {
			continue
		}
		if v, problem := scalar(f.Default, "", f.Type); problem == "" {
			section[f.Key] = v
		}
	}
}

// mapping reads a mapping whose keys the operator chooses.
func (r *reader) mapping(n *yaml.Node, t reflect.Type, path string) map[string]any {
	out := make(map[string]any)
	r.pairs(n, path, func(key string, k, v *yaml.Node) {
		inner := join(path, key)
		r.positions[inner] = r.at(k)
		if decoded, ok := r.value(v, t.Elem(), inner); ok {
			out[key] = decoded
		}
	})
	return out
}

func (r *reader) list(n *yaml.Node, t reflect.Type, path string) []any {
	out := make([]any, 0, len(n.Content))
	for i, item := range n.Content {
		inner := fmt.Sprintf("%s[%d]", path, i)
		r.positions[inner] = r.at(item)
		v, ok := r.value(item, t.Elem(), inner)
		if !ok {
			if !r.broken[inner] { // a section that is kept at its default elsewhere
				r.add(r.at(item), inner, "is empty; want %s", want(t.Elem()))
			}
			// The entries after it keep their positions.
			if v = any(map[string]any{}); !IsSection(t.Elem()) {
				v = reflect.Zero(t.Elem()).Interface()
			}
		}
		out = append(out, v)
	}
	return out
}

// pairs calls yield for each key of a mapping, first those written in it, then
// those merged into it with <<, which never replace one that is written.
func (r *reader) pairs(n *yaml.Node, path string, yield func(key string, k, v *yaml.Node)) {
	lines := make(map[string]int, len(n.Content)/2)
	var merges []*yaml.Node
	for i := 0; i+1 < len(n.Content) && r.spend(n, path); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		for k.Kind == yaml.AliasNode {
			k = k.Alias
		}
		switch {
		case k.Kind != yaml.ScalarNode:
			r.add(r.at(k), path, "has a key that is %s; want text", nodeKind(k))
		case k.ShortTag() == "!!merge":
			merges = append(merges, v)
		case lines[k.Value] != 0:
			r.note(r.at(k), join(path, k.Value), "is written twice, first on line %d; keep one", lines[k.Value])
		default:
			lines[k.Value] = k.Line
			yield(k.Value, k, v)
		}
	}
	for _, m := range merges {
		r.merge(m, path, lines, yield)
	}
}

func (r *reader) merge(n *yaml.Node, path string, taken map[string]int, yield func(key string, k, v *yaml.Node)) {
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if r.merging[n] {
		r.add(r.at(n), path, "merges a section into itself")
		return
	}
	r.merging[n] = true
	defer delete(r.merging, n)
	switch n.Kind {
	case yaml.SequenceNode:
		for _, item := range n.Content {
			r.merge(item, path, taken, yield)
		}
	case yaml.MappingNode:
		r.pairs(n, path, func(key string, k, v *yaml.Node) {
			if taken[key] == 0 {
				taken[key] = k.Line
				yield(key, k, v)
			}
		})
	default:
		r.add(r.at(n), path, "merges %s; want a section or a list of sections", nodeKind(n))
	}
}
