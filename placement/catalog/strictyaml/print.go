package strictyaml

import (
	"bytes"
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
func Print(w io.Writer, v any) error { return encoder{hide: true}.print(w, v) }

// Format returns v, a struct, as the YAML that would produce it. Keys with the zero
// value are left out, so that what a key had no need to say is not said. Nothing is
// replaced.
func Format(v any) ([]byte, error) {
	var b bytes.Buffer
	err := encoder{short: true}.print(&b, v)
	return b.Bytes(), err
}

type encoder struct {
	hide  bool // secrets are replaced
	short bool // zero values are left out
}

func (e encoder) print(w io.Writer, v any) error {
	out := yaml.NewEncoder(w)
	out.SetIndent(2)
	if err := out.Encode(e.node(reflect.ValueOf(v), false)); err != nil {
		return err
	}
	return out.Close()
}

func (e encoder) node(v reflect.Value, secret bool) *yaml.Node {
	if v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	t := v.Type()
	switch {
	case e.hide && secret && !v.IsZero():
		return text(hidden)
	case IsDuration(t):
		return plain("!!str", Duration(time.Duration(v.Int())))
	case IsSection(t):
		return e.section(v)
	}
	if m, ok := v.Interface().(encoding.TextMarshaler); ok {
		if b, err := m.MarshalText(); err == nil {
			return text(string(b))
		}
	}
	switch t.Kind() {
	case reflect.String:
		if e.hide {
			return text(redactURL(v.String()))
		}
		return text(v.String())
	case reflect.Slice:
		n := &yaml.Node{Kind: yaml.SequenceNode}
		if !IsSection(t.Elem()) {
			n.Style = yaml.FlowStyle
		}
		for i := range v.Len() {
			n.Content = append(n.Content, e.node(v.Index(i), secret))
		}
		return n
	case reflect.Map:
		n := &yaml.Node{Kind: yaml.MappingNode}
		keys := v.MapKeys()
		slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
		for _, k := range keys {
			n.Content = append(n.Content, text(k.String()), e.node(v.MapIndex(k), secret))
		}
		return n
	}
	n := new(yaml.Node)
	if err := n.Encode(v.Interface()); err != nil {
		return text(err.Error())
	}
	return n
}

func (e encoder) section(v reflect.Value) *yaml.Node {
	n := &yaml.Node{Kind: yaml.MappingNode}
	for _, f := range Fields(v.Type()) {
		v := v.FieldByIndex(f.Index)
		switch {
		case v.Kind() == reflect.Pointer && v.IsNil():
			continue // there is no way to write it but to leave it out
		case e.short && (v.IsZero() || (v.Kind() == reflect.Slice || v.Kind() == reflect.Map) && v.Len() == 0):
			continue
		}
		n.Content = append(n.Content, text(f.Key), e.node(v, f.Secret))
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
