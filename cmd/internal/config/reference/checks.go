package reference

import (
	"fmt"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/llmgw/llmgw/placement/catalog/strictyaml"
)

var stated = regexp.MustCompile(`Default:? ("[^"]*"|\[[^]]*\]|none|empty|[0-9]+(?:\.[0-9]+)?[a-z0-9]*|true|false|/[^ ;.,]*|[A-Za-z][A-Za-z0-9_-]*)`)

// Disagreements returns the keys that no comment explains, and those whose comment
// states another default than there is, or none.
func Disagreements(keys []Key) []string {
	var faults []string
	fault := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	for _, k := range keys {
		if k.Comment == "" {
			fault("%s has no comment", k.Path)
			continue
		}
		if strictyaml.IsSection(k.section()) {
			continue
		}
		m := stated.FindStringSubmatch(k.Comment)
		if m == nil {
			if k.Value.IsValid() || !strings.Contains(k.Comment, "Required") && !strings.Contains(k.Comment, "Empty means") {
				fault("%s: its comment states no default: %s", k.Path, k.Comment)
			}
			continue
		}
		if k.Entry != "" && m[1] != k.Entry {
			fault("%s: its comment says the default is %s, it is %s", k.Path, m[1], k.Entry)
		}
		if k.Value.IsValid() && !sameDefault(m[1], k.Value) {
			fault("%s: its comment says the default is %s, it is %v", k.Path, m[1], k.Value)
		}
	}
	return faults
}

func sameDefault(stated string, v reflect.Value) bool {
	if stated == "none" || stated == "empty" {
		return v.IsZero() || ((v.Kind() == reflect.Slice || v.Kind() == reflect.Map) && v.Len() == 0)
	}
	if d, ok := v.Interface().(time.Duration); ok {
		want, err := time.ParseDuration(stated)
		return d == want && (err == nil || stated == "0")
	}
	switch v.Kind() {
	case reflect.String:
		if unquoted, err := strconv.Unquote(stated); err == nil {
			stated = unquoted
		}
		return v.String() == stated
	case reflect.Slice: // of a list the first entry stands for all, unless all are stated
		if v.Len() == 0 {
			return false
		}
		if stated[0] == '[' {
			return stated == shown(v)
		}
		first := v.Index(0)
		if strictyaml.IsSection(first.Type()) {
			first = first.Field(0)
		}
		return fmt.Sprint(first) == stated
	default:
		return fmt.Sprint(v) == stated
	}
}

// Unexplained returns the keys that an example file lacks or says nothing about.
func Unexplained(example []byte, keys []Key) []string {
	explained := make(map[string]bool)
	commented := false
	for line := range strings.Lines(string(example)) {
		text := strings.TrimSpace(line)
		name, rest, isKey := strings.Cut(strings.TrimPrefix(text, "- "), ":")
		switch {
		case strings.HasPrefix(text, "#"):
			commented = true
		case text == "":
			commented = false
		case isKey:
			explained[name] = explained[name] || commented || strings.Contains(rest, " # ")
			commented = false
		}
	}
	var faults []string
	for _, k := range keys {
		name := k.Path[strings.LastIndexByte(k.Path, '.')+1:]
		if done, present := explained[name]; !present {
			faults = append(faults, "lacks "+k.Path)
		} else if !done {
			faults = append(faults, "does not explain "+k.Path)
		}
	}
	return faults
}
