package strictyaml

import (
	"encoding"
	"reflect"
	"strings"
	"time"
)

// Field is one key of a section.
type Field struct {
	Key    string // its yaml name
	Type   reflect.Type
	Index  []int // for reflect.Value.FieldByIndex
	Secret bool  // tagged `secret:"true"`: never printed
	// Default is the tag `default:"…"`: the value of the key where it is left
	// out. It is for structs that are entries of lists; all other defaults are
	// in the struct that is read into.
	Default string
}

// Fields returns the keys of a struct in the order of its fields, those of
// inlined structs among them. Fields without a yaml tag, or tagged "-", are not
// keys.
func Fields(t reflect.Type) []Field {
	var out []Field
	for f := range t.Fields() {
		key, options, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		switch {
		case !f.IsExported() || key == "-":
		case strings.Contains(options, "inline"):
			for _, inner := range Fields(f.Type) {
				inner.Index = append([]int{f.Index[0]}, inner.Index...)
				out = append(out, inner)
			}
		case key != "":
			out = append(out, Field{Key: key, Type: f.Type, Index: f.Index, Secret: f.Tag.Get("secret") == "true", Default: f.Tag.Get("default")})
		}
	}
	return out
}

// IsSection reports whether t is written as a mapping whose keys are those of a
// struct.
func IsSection(t reflect.Type) bool {
	return t.Kind() == reflect.Struct && len(Fields(t)) > 0
}

// IsText reports whether t may be written as text that the type itself reads.
// A section that is IsText too may be written either way.
func IsText(t reflect.Type) bool {
	return reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}

// IsDuration reports whether t is written with a unit, as in 5s.
func IsDuration(t reflect.Type) bool { return t == reflect.TypeFor[time.Duration]() }

// want says what a value of type t looks like, to end "want …".
func want(t reflect.Type) string {
	switch {
	case IsDuration(t):
		return "a duration with its unit, e.g. 5s or 2m30s"
	case IsSection(t) && IsText(t):
		return "text or the keys " + keyList(Fields(t))
	case IsText(t):
		return "text"
	}
	switch t.Kind() {
	case reflect.String:
		return "text"
	case reflect.Bool:
		return "true or false"
	case reflect.Float32, reflect.Float64:
		return "a number, e.g. 0.9"
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Struct {
			return "a list, each entry with the keys " + keyList(Fields(t.Elem()))
		}
		return "a list, e.g. [a, b]"
	case reflect.Map:
		return "a mapping of names to values"
	case reflect.Struct:
		return "the keys " + keyList(Fields(t))
	case reflect.Pointer:
		return want(t.Elem())
	default:
		return "a whole number, e.g. 3"
	}
}

func keyList(fields []Field) string {
	keys := make([]string, len(fields))
	for i, f := range fields {
		keys[i] = f.Key
	}
	return strings.Join(keys, ", ")
}

// resolve returns the type at the end of a path of keys, and the path as it is
// shown. A number leads into a list.
func resolve(t reflect.Type, segments []string) (reflect.Type, string, bool) {
	path := ""
next:
	for _, segment := range segments {
		if t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		switch {
		case t.Kind() == reflect.Slice && isIndex(segment):
			t, path = t.Elem(), path+"["+segment+"]"
			continue
		case t.Kind() == reflect.Map && segment != "":
			t, path = t.Elem(), join(path, segment)
			continue
		case t.Kind() == reflect.Struct:
			for _, f := range Fields(t) {
				if f.Key == segment {
					t, path = f.Type, join(path, segment)
					continue next
				}
			}
		}
		return nil, "", false
	}
	return t, path, path != ""
}

// isIndex accepts positions of up to four digits, without leading zeros.
func isIndex(s string) bool {
	if s == "" || len(s) > 4 || (len(s) > 1 && s[0] == '0') {
		return false
	}
	return strings.Trim(s, "0123456789") == ""
}
