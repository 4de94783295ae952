// Package reference makes reference pages of configuration files: a table of
// keys with their types, defaults and meanings, from the structs and the comments
// of their fields. It reads source files, so only tests and generators use it.
package reference

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"

	"github.com/llmgw/llmgw/placement/catalog/strictyaml"
)

const module = "github.com/llmgw/llmgw"

// Key is one key with what its field's comment says.
type Key struct {
	Path    string // positions written []
	Type    reflect.Type
	Value   reflect.Value // the default; invalid within lists
	Comment string        // one line
	Entry   string        // the default within an entry of a list; "" for none
}

// Section reports whether the key has keys of its own, and the path that theirs
// begin with.
func (k *Key) Section() (path string, ok bool) {
	switch {
	case strictyaml.IsSection(k.section()):
		return k.Path, true
	case k.Type.Kind() == reflect.Slice && strictyaml.IsSection(k.Type.Elem()):
		return k.Path + "[]", true
	}
	return "", false
}

// section is the key's type, of one that may be left out the type of what is not.
func (k *Key) section() reflect.Type {
	if k.Type.Kind() == reflect.Pointer {
		return k.Type.Elem()
	}
	return k.Type
}

// value is what the keys of a section have by default; invalid for one that is left
// out by default.
func (k *Key) value() reflect.Value {
	if k.Value.IsValid() && k.Type.Kind() == reflect.Pointer {
		return k.Value.Elem()
	}
	return k.Value
}

// name is the last part of the path, and parent what stands before it.
func (k *Key) name() (parent, name string) {
	i := strings.LastIndexByte(k.Path, '.')
	return k.Path[:max(i, 0)], k.Path[i+1:]
}

// Keys returns every key of a configuration struct, which holds the defaults, in
// the order of the fields. repository is the path of the module's folder, below
// which the comments are read.
func Keys(repository string, defaults any) ([]Key, error) {
	c := collector{repository: repository, docs: make(map[reflect.Type]map[string]string), sources: make(map[string][]*ast.File)}
	c.collect(reflect.ValueOf(defaults), reflect.TypeOf(defaults), "")
	return c.keys, c.err
}

type collector struct {
	repository string
	docs       map[reflect.Type]map[string]string
	sources    map[string][]*ast.File // of a package, by its path
	keys       []Key
	err        error // the first
}

func (c *collector) collect(v reflect.Value, typ reflect.Type, path string) {
	for _, f := range strictyaml.Fields(typ) {
		owner := typ
		for _, i := range f.Index[:len(f.Index)-1] {
			owner = owner.Field(i).Type
		}
		name := owner.Field(f.Index[len(f.Index)-1]).Name
		k := Key{Path: strings.TrimPrefix(path+"."+f.Key, "."), Type: f.Type, Comment: c.comments(owner)[name], Entry: f.Default}
		if rest, ok := strings.CutPrefix(k.Comment, name); ok && strings.IndexAny(rest, " ,") == 0 {
			k.Comment = "`" + f.Key + "`" + rest
		}
		if v.IsValid() {
			k.Value = v.FieldByIndex(f.Index)
		}
		c.keys = append(c.keys, k)
		below, ok := k.Section()
		switch {
		case !ok:
		case below == k.Path:
			c.collect(k.value(), k.section(), below)
		default:
			c.collect(reflect.Value{}, f.Type.Elem(), below)
		}
	}
}

// comments reads the comments of a struct's fields from its source.
func (c *collector) comments(typ reflect.Type) map[string]string {
	if known, ok := c.docs[typ]; ok {
		return known
	}
	link := regexp.MustCompile(`\[([A-Z][a-z]\w*(?:\.\w+)?)\]`) // what go doc links
	out := make(map[string]string)
	c.docs[typ] = out
	for _, file := range c.source(typ) {
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok || spec.Name.Name != typ.Name() {
				return true
			}
			if s, ok := spec.Type.(*ast.StructType); ok {
				for _, f := range s.Fields.List {
					for _, id := range f.Names {
						text := strings.Join(strings.Fields(f.Doc.Text()), " ")
						out[id.Name] = link.ReplaceAllString(text, "`$1`")
					}
				}
			}
			return false
		})
	}
	return out
}

// source reads the files of a type's package, its tests left out.
func (c *collector) source(typ reflect.Type) []*ast.File {
	if known, ok := c.sources[typ.PkgPath()]; ok {
		return known
	}
	names, err := filepath.Glob(filepath.Join(c.repository, strings.TrimPrefix(typ.PkgPath(), module), "*.go"))
	if err == nil && len(names) == 0 {
		err = fmt.Errorf("reference: no source of %s below %s", typ, c.repository)
	}
	var files []*ast.File
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		var file *ast.File
		if file, err = parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments|parser.SkipObjectResolution); err != nil {
			break
		}
		files = append(files, file)
	}
	c.sources[typ.PkgPath()] = files
	if c.err == nil {
		c.err = err
	}
	return files
}
