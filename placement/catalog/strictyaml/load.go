package strictyaml

import (
	"bytes"
	"fmt"
	"reflect"
	"unicode/utf8"

	"github.com/go-viper/mapstructure/v2"
	"github.com/knadh/koanf/providers/confmap"
	"github.com/knadh/koanf/v2"
	"go.yaml.in/yaml/v3"
)

// MaxFileBytes is the size from which a file is refused unread.
const MaxFileBytes = 8 << 20

// Source is what a configuration is made of, over the defaults.
type Source struct {
	// File is the name of the file in messages.
	File string
	// Data is the file's text, one YAML document; empty keeps the defaults.
	Data []byte
	// Environ holds variables as os.Environ returns them.
	Environ []string
	// Hints replace the message for an unknown key that people are likely to
	// write; their keys are paths with positions left out (endpoints[].key).
	Hints map[string]string
	// Numbers say, by the path of a key whose value is text, what is written
	// there by whoever means a number; %s stands for the number.
	Numbers map[string]string
}

// Result is what reading a configuration told besides the configuration.
type Result struct {
	// UnknownVariables are those with [Prefix] that no key has, by name.
	UnknownVariables []UnknownVariable

	collector *collector
}

// Written reports whether the file or a variable set the key at path.
func (r *Result) Written(path string) bool {
	_, written := r.collector.positions[path]
	return written
}

// Locate takes joined errors that each begin with the path of a key apart and
// returns them as Faults, with the line or variable that set the key. It is for
// what is found out about a configuration after it was read. nil stays nil.
func (r *Result) Locate(err error) error {
	if err == nil {
		return nil
	}
	c := newCollector(r.collector.file)
	c.positions = r.collector.positions
	c.addValidation(err)
	return c.err()
}

// Load reads src over *into, a pointer to a struct that holds the defaults, and
// then calls its Validate method if it has one. The error is [Faults] with
// everything that is wrong; *into is then undefined. A key that is read
// replaces its default as a whole; a list is never merged with a default list.
func Load(into any, src Source) (*Result, error) {
	root := reflect.TypeOf(into).Elem()
	r := &reader{
		collector: newCollector(src.File),
		hints:     src.Hints,
		numbers:   src.Numbers,
		root:      root,
		merging:   make(map[*yaml.Node]bool),
	}
	tree := map[string]any{}
	n, line, problem := parseYAML(src.Data)
	switch {
	case problem != "":
		r.add(position{line: line}, "", "%s", problem)
	case n == nil:
	case n.Kind != yaml.MappingNode:
		problem = fmt.Sprintf("the file is %s; want the keys %s", nodeKind(n), keyList(Fields(root)))
		r.add(r.at(n), "", "%s", problem)
	default:
		tree = r.section(n, root, "")
	}
	known, unknown := variables(src.Environ, root)
	for _, v := range known {
		r.override(v, tree)
	}
	result := &Result{UnknownVariables: unknown, collector: r.collector}
	if err := decode(tree, into); err != nil {
		// The tree holds known keys and checked types only, so this is a
		// type that this package does not know how to read.
		return result, fmt.Errorf("strictyaml: %w", err)
	}
	// A file that has no keys at all says nothing about the rest.
	if v, ok := into.(interface{ Validate() error }); ok && problem == "" {
		if err := v.Validate(); err != nil {
			r.addValidation(err)
		}
	}
	return result, r.err()
}

func decode(tree map[string]any, into any) error {
	k := koanf.New(".")
	if err := k.Load(confmap.Provider(tree, ""), nil); err != nil {
		return err
	}
	return k.UnmarshalWithConf("", into, koanf.UnmarshalConf{
		Tag: "yaml",
		DecoderConfig: &mapstructure.DecoderConfig{
			ErrorUnused:     true,
			ZeroFields:      true, // a list replaces its default
			SquashTagOption: "inline",
			DecodeHook: mapstructure.ComposeDecodeHookFunc(
				mapstructure.StringToTimeDurationHookFunc(),
				mapstructure.TextUnmarshallerHookFunc(),
			),
		},
	})
}

// parseYAML returns the root of the only YAML document in data, nil if it has
// no content, or what is wrong and on which line.
func parseYAML(data []byte) (n *yaml.Node, line int, problem string) {
	if len(data) > MaxFileBytes {
		return nil, 0, fmt.Sprintf("%d bytes; at most %d are accepted", len(data), MaxFileBytes)
	}
	if !utf8.Valid(data) {
		for i, text := range bytes.Split(data, []byte("\n")) {
			if !utf8.Valid(text) {
				return nil, i + 1, "is not UTF-8"
			}
		}
	}
	var doc, second yaml.Node
	if err := decodeYAML(data, &doc, &second); err != nil {
		line, problem = syntax(data)
		return nil, line, problem
	}
	if second.Kind != 0 {
		return nil, second.Line, "a second document begins here; want one"
	}
	if len(doc.Content) == 0 {
		return nil, 0, ""
	}
	n = doc.Content[0]
	if n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" {
		return nil, 0, ""
	}
	return n, 0, ""
}
