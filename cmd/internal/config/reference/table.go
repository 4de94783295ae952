package reference

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/llmgw/llmgw/placement/catalog/strictyaml"
)

// Tables is the keys in Markdown: a table of those of the top level, then a
// heading, the comment and a table for each section.
func Tables(keys []Key) string {
	var b strings.Builder
	table(&b, "", keys)
	for _, k := range keys {
		if path, ok := k.Section(); ok {
			fmt.Fprintf(&b, "\n## `%s`\n\n%s\n", path, k.Comment)
			table(&b, path, keys)
		}
	}
	return b.String()
}

// table writes the table of the keys directly below a path.
func table(b *strings.Builder, path string, all []Key) {
	b.WriteString("\n| key | type | default | meaning |\n| --- | --- | --- | --- |\n")
	for _, k := range all {
		parent, name := k.name()
		if parent != path {
			continue
		}
		meaning, value := strings.ReplaceAll(k.Comment, "|", `\|`), ""
		if _, ok := k.Section(); ok {
			meaning = "see below"
		} else if k.Value.IsValid() {
			value = "`" + shown(k.Value) + "`"
		} else if k.Entry != "" {
			value = "`" + k.Entry + "`"
		}
		fmt.Fprintf(b, "| `%s` | %s | %s | %s |\n", name, typeName(k.Type), value, meaning)
	}
}

func shown(v reflect.Value) string {
	if d, ok := v.Interface().(time.Duration); ok {
		return strictyaml.Duration(d)
	}
	switch v.Kind() {
	case reflect.String:
		return strconv.Quote(v.String())
	case reflect.Slice:
		if strictyaml.IsSection(v.Type().Elem()) {
			return "[]" // whose entries have a table of their own
		}
		entries := make([]string, v.Len())
		for i := range entries {
			entries[i] = fmt.Sprint(v.Index(i))
		}
		return "[" + strings.Join(entries, ", ") + "]"
	default:
		return fmt.Sprint(v)
	}
}

func typeName(t reflect.Type) string {
	switch {
	case strictyaml.IsDuration(t):
		return "duration"
	case strictyaml.IsSection(t):
		return "section"
	case strictyaml.IsText(t):
		return "text"
	}
	switch t.Kind() {
	case reflect.String:
		return "text"
	case reflect.Bool:
		return "true or false"
	case reflect.Float64, reflect.Float32:
		return "number"
	case reflect.Slice:
		return "list"
	case reflect.Map:
		return "mapping"
	case reflect.Pointer:
		return typeName(t.Elem())
	default:
		return "whole number"
	}
}
