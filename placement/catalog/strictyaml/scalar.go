package strictyaml

import (
	"encoding"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// scalar reads the text of one value as type t. The result is what koanf
// decodes: string, bool, int64, uint64 or float64. tag is YAML's view of the
// text (!!str, !!int, …), or "" for a variable, whose text has no type.
func scalar(text, tag string, t reflect.Type) (any, string) {
	bad := func() (any, string) { return nil, clip(text) + " is not accepted; want " + want(t) }
	if IsDuration(t) {
		return duration(text)
	}
	if IsText(t) {
		if tag != "" && tag != "!!str" && t.Kind() == reflect.Struct {
			return bad()
		}
		if err := reflect.New(t).Interface().(encoding.TextUnmarshaler).UnmarshalText([]byte(text)); err != nil {
			return nil, clip(text) + " is not accepted: " + strings.ReplaceAll(err.Error(), "\n", "; ")
		}
		return text, ""
	}
	switch t.Kind() {
	case reflect.String:
		if tag != "" && tag != "!!str" {
			return nil, clip(text) + " reads as " + kindOf(tag) + "; want text, so put it in quotes"
		}
		return text, ""
	case reflect.Bool:
		// YAML 1.1 read yes, on and their like as true. A file that says
		// yes where true is meant gets an error that says so.
		switch text {
		case "true":
			return true, ""
		case "false":
			return false, ""
		}
		return bad()
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		n, err := strconv.ParseInt(text, 0, t.Bits())
		if err != nil || !wholeNumber(text, tag) {
			return nil, outOfRange(text, err, t)
		}
		return n, ""
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		n, err := strconv.ParseUint(text, 0, t.Bits())
		if err != nil || !wholeNumber(text, tag) {
			return nil, outOfRange(text, err, t)
		}
		return n, ""
	case reflect.Float32, reflect.Float64:
		x, err := strconv.ParseFloat(text, t.Bits())
		if err != nil || math.IsNaN(x) || math.IsInf(x, 0) || (tag != "" && tag != "!!float" && tag != "!!int") {
			return bad()
		}
		return x, ""
	default:
		return bad()
	}
}

// wholeNumber refuses 010, which is eight to some readers and ten to others.
func wholeNumber(text, tag string) bool {
	digits := strings.TrimLeft(text, "+-")
	octal := len(digits) > 1 && digits[0] == '0' && digits[1] >= '0' && digits[1] <= '9'
	return !octal && (tag == "" || tag == "!!int")
}

func outOfRange(text string, err error, t reflect.Type) string {
	if e, ok := err.(*strconv.NumError); ok && e.Err == strconv.ErrRange {
		return clip(text) + " is too large or too small for this key"
	}
	return clip(text) + " is not accepted; want " + want(t)
}

func duration(text string) (any, string) {
	if _, err := time.ParseDuration(text); err != nil {
		if _, numeric := strconv.ParseFloat(text, 64); numeric == nil {
			return nil, clip(text) + " has no unit; want e.g. " + text + "s or " + text + "ms"
		}
		return nil, clip(text) + " is not accepted; want a duration with its unit, e.g. 5s or 2m30s"
	}
	return text, ""
}

// kindOf says what a YAML node is, for messages.
func kindOf(tag string) string {
	switch tag {
	case "!!int", "!!float":
		return "a number"
	case "!!bool":
		return "true or false"
	case "!!timestamp":
		return "a date"
	case "!!null":
		return "nothing"
	default:
		return tag
	}
}

func nodeKind(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a section of keys"
	case yaml.SequenceNode:
		return "a list"
	default:
		return clip(n.Value)
	}
}
