package config

import (
	"encoding"
	"io"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// hidden stands where a secret would.
const hidden = "<secret>"

// Print writes v, a struct, as the YAML that would produce it, every key
// written out but pointers to nothing. Fields tagged `secret:"true"` and passwords within URLs are
// replaced.
func Print(w io.Writer, v any) error {
	e := yaml.NewEncoder(w)
	e.SetIndent(2)
	if err := e.Encode(encode(reflect.ValueOf(v), false)); err != nil {
		return err
	}
	return e.Close()
}

func encode(v reflect.Value, secret bool) *yaml.Node {
	if v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	t := v.Type()
	switch {
	case secret && !v.IsZero():
		return text(hidden)
	case IsDuration(t):
		return plain("!!str", Duration(time.Duration(v.Int())))
	case IsSection(t):
		n := &yaml.Node{Kind: yaml.MappingNode}
		for _, f := range Fields(t) {
			if v := v.FieldByIndex(f.Index); v.Kind() == reflect.Pointer && v.IsNil() {
				continue // there is no way to write it but to leave it out
			}
			n.Content = append(n.Content, text(f.Key), encode(v.FieldByIndex(f.Index), f.Secret))
		}
		return n
	}
	if m, ok := v.Interface().(encoding.TextMarshaler); ok {
		if b, err := m.MarshalText(); err == nil {
			return text(string(b))
		}
	}
	switch t.Kind() {
	case reflect.String:
		return text(redactURL(v.String()))
	case reflect.Slice:
		n := &yaml.Node{Kind: yaml.SequenceNode}
		if !IsSection(t.Elem()) {
			n.Style = yaml.FlowStyle
		}
		for i := range v.Len() {
			n.Content = append(n.Content, encode(v.Index(i), secret))
		}
		return n
	case reflect.Map:
		n := &yaml.Node{Kind: yaml.MappingNode}
		keys := v.MapKeys()
		slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
		for _, k := range keys {
			n.Content = append(n.Content, text(k.String()), encode(v.MapIndex(k), secret))
		}
		return n
	}
	n := new(yaml.Node)
	if err := n.Encode(v.Interface()); err != nil {
		return text(err.Error())
	}
	return n
}

func text(s string) *yaml.Node {
	n := new(yaml.Node)
	n.SetString(s)
	return n
}

func plain(tag, s string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Tag: tag, Value: s} }

// Duration writes d as people do: 1m, not 1m0s.
func Duration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

var userInfo = regexp.MustCompile(`://[^/@]*@`)

// redactURL hides user and password of a URL, parsable or not.
func redactURL(s string) string {
	if !userInfo.MatchString(s) {
		return s
	}
	if u, err := url.Parse(s); err == nil && u.User != nil {
		u.User = url.User("hidden")
		return u.String()
	}
	return userInfo.ReplaceAllString(s, "://hidden@")
}
