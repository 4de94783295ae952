package console_test

import (
	"context"
	"net/url"
	"slices"
	"strings"
	"testing"
	"unicode"

	"golang.org/x/net/html"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/llmgw/llmgw/auth/webui"
	"github.com/llmgw/llmgw/fleet/apipb"
	"github.com/llmgw/llmgw/fleet/console"
)

// fill sets every field of a message, down to some depth, strings to text.
func fill(m protoreflect.Message, text string, depth int) {
	fields := m.Descriptor().Fields()
	if oneofs := m.Descriptor().Oneofs(); m.Descriptor().FullName() == "google.protobuf.Value" && oneofs.Len() > 0 {
		m.Set(fields.ByName("string_value"), protoreflect.ValueOfString(text))
		return
	}
	for i := range fields.Len() {
		f := fields.Get(i)
		switch {
		case f.IsMap():
			if depth == 0 {
				continue
			}
			entries := m.Mutable(f).Map()
			value := entries.NewValue()
			if f.MapValue().Message() != nil {
				fill(value.Message(), text, depth-1)
			} else {
				value = scalar(f.MapValue(), text)
			}
			entries.Set(scalar(f.MapKey(), text).MapKey(), value)
		case f.IsList():
			list := m.Mutable(f).List()
			for range 2 {
				if f.Message() == nil {
					list.Append(scalar(f, text))
				} else if depth > 0 {
					e := list.NewElement()
					fill(e.Message(), text, depth-1)
					list.Append(e)
				}
			}
		case f.Message() != nil:
			if depth > 0 {
				fill(m.Mutable(f).Message(), text, depth-1)
			}
		default:
			m.Set(f, scalar(f, text))
		}
	}
}

func scalar(f protoreflect.FieldDescriptor, text string) protoreflect.Value {
	switch f.Kind() {
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(text)
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes([]byte(text))
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(true)
	case protoreflect.EnumKind:
		return protoreflect.ValueOfEnum(f.Enum().Values().Get(1).Number())
	case protoreflect.DoubleKind:
		return protoreflect.ValueOfFloat64(1000)
	case protoreflect.FloatKind:
		return protoreflect.ValueOfFloat32(1)
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		return protoreflect.ValueOfInt32(1)
	case protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Sfixed64Kind:
		return protoreflect.ValueOfInt64(1)
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		return protoreflect.ValueOfUint32(1)
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return protoreflect.ValueOfUint64(1)
	case protoreflect.MessageKind, protoreflect.GroupKind:
	}
	panic("no scalar: " + string(f.FullName()))
}

// filled is M with every field set.
func filled[M proto.Message](m M, text string) M {
	fill(m.ProtoReflect(), text, 6)
	return m
}

// hostile are services in all of whose strings there is text.
func hostile(text string) *services {
	s := &services{
		nodes: filled(&apipb.ListNodesResponse{}, text), node: filled(&apipb.GetNodeResponse{}, text), status: filled(&apipb.GetStatusResponse{}, text),
		replicas: filled(&apipb.ListReplicasResponse{}, text), explain: filled(&apipb.ExplainPlacementResponse{}, text), models: filled(&apipb.ListModelsResponse{}, text),
		model: filled(&apipb.GetModelResponse{}, text), sums: []*apipb.UsageSum{filled(&apipb.UsageSum{}, text)}, keys: []*apipb.Key{filled(&apipb.Key{}, text)},
		users: []*apipb.User{filled(&apipb.User{}, text)},
	}
	s.node.Inventory = &structpb.Struct{Fields: map[string]*structpb.Value{text: structpb.NewStringValue(text)}}
	s.model.Definition = "prices:\n- " + text
	s.sums[0].Start = ago(0)
	s.traffic = console.TrafficReading{
		Models: []console.ModelTraffic{{Model: text, Requests: 1, Waking: 1}}, HasPools: true,
		Pools: []console.Pool{{Name: text, HasSaturation: true, Saturation: 2, Bands: []console.Band{{Name: text, Ceiling: 0.5, Waiting: 1}}}},
	}
	return s
}

// tags are the elements of a page, each with the names of its attributes, and what
// leads somewhere.
func tags(t *testing.T, page string) (elements, links []string) {
	t.Helper()
	z := html.NewTokenizer(strings.NewReader(page))
	for {
		switch z.Next() {
		case html.ErrorToken:
			return elements, links
		case html.StartTagToken, html.SelfClosingTagToken:
			token := z.Token()
			names := []string{token.Data}
			for _, a := range token.Attr {
				names = append(names, a.Key)
				if slices.Contains([]string{"href", "src", "action", "formaction", "xlink:href", "data"}, a.Key) {
					links = append(links, a.Val)
				}
			}
			elements = append(elements, strings.Join(names, " "))
		case html.CommentToken:
			elements = append(elements, "comment")
		case html.DoctypeToken, html.EndTagToken, html.TextToken:
		}
	}
}

// Whatever engines, machines and people write, a page has the elements, attributes and
// addresses that its template has.
func TestHostileText(t *testing.T) {
	texts := []string{
		`<script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`, `' onmouseover='alert(1)`, `javascript:alert(1)`, `JaVaScRiPt:alert(1)//`,
		`</pre></title></style><svg onload=alert(1)>`, `{{.}}{{template "head"}}`, "`${alert(1)}`", `--><!--`, `]]><x>`, `&lt;b&gt;&#x3c;`, "a\x00b\x1b[2J", "evil\u202egpj.exe",
		`//evil.example`, `?q=1&page=2#`, `%0d%0aSet-Cookie:x`, `data:text/html,<script>alert(1)</script>`,
	}
	plain := pagesOf(t, "text")
	for _, text := range texts {
		for i, got := range pagesOf(t, text) {
			want := plain[i]
			elements, links := tags(t, got.page)
			before, _ := tags(t, want.page)
			if !slices.Equal(elements, before) {
				for j := range elements {
					if j >= len(before) || elements[j] != before[j] {
						t.Fatalf("%s with %q has %q where the template has another", got.path, text, elements[j])
					}
				}
				t.Fatalf("%s with %q has %d elements; want %d", got.path, text, len(elements), len(before))
			}
			for _, link := range links {
				if u, err := url.Parse(link); err != nil || u.Scheme != "" || u.Host != "" || link != "#main" && !strings.HasPrefix(link, "/") {
					t.Fatalf("%s with %q leads to %q", got.path, text, link)
				}
			}
			if i := strings.IndexFunc(got.page, func(r rune) bool {
				return r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r))
			}); i >= 0 {
				t.Fatalf("%s with %q has %q", got.path, text, got.page[i:min(i+20, len(got.page))])
			}
		}
	}
}

type loaded struct{ path, page string }

// pagesOf are all pages of hostile services.
func pagesOf(t *testing.T, text string) []loaded {
	t.Helper()
	s := hostile(text)
	deps := s.deps(t)
	c := made(t, deps)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	defer func() {
		cancel()
		<-done
	}()
	h := c.Handler(webui.Open)
	q := url.QueryEscape(text)
	var out []loaded
	for _, path := range []string{
		"/admin/", "/admin/nodes", "/admin/nodes?q=%s", "/admin/node?id=%s", "/admin/fabrics?q=%s", "/admin/models?q=%s", "/admin/model?name=%s", "/admin/replicas?model=%s", "/admin/replicas?q=zz%s",
		"/admin/replica?id=%s", "/admin/queues?q=%s", "/admin/rates?q=%s", "/admin/usage?by=owner", "/admin/usage?by=%s", "/admin/accounts?q=%s", "/admin/accounts", "/admin/accounts?state=%s&after=%s", "/admin/elsewhere",
		"/admin/node?id=", "/admin/model?name=x%s", "/admin/nodes?page=%s",
	} {
		full := strings.ReplaceAll(path, "%s", q)
		_, page, _ := get(t, h, full)
		for strings.Contains(page, "This page loads itself again") {
			_, page, _ = get(t, h, full)
		}
		if strings.Contains(page, "Something went wrong here") {
			t.Fatalf("%s with %q cannot be made: %s", path, text, page)
		}
		out = append(out, loaded{path[:strings.IndexByte(path+"?", '?')], page})
	}
	return out
}

// The walk reaches what is deep: otherwise the test above shows nothing.
func TestHostileTextIsOnPages(t *testing.T) {
	for _, p := range pagesOf(t, "zyzzyva") {
		if !strings.Contains(p.page, "zyzzyva") && p.path != "/admin/elsewhere" && p.path != "/admin/node" && p.path != "/admin/usage" && p.path != "/admin/accounts" {
			t.Errorf("%s shows none of it", p.path)
		}
	}
	s := hostile("zyzzyva")
	for what, text := range map[string]string{
		"a line of a shard's output": s.replicas.GetReplicas()[0].GetShards()[0].GetStatus().GetLines()[0],
		"why a node is rejected":     s.explain.GetNext().GetRejected()[0].GetReasons()[0].GetText(),
		"how memory is estimated":    s.explain.GetNeed().GetMemory().GetClasses()[0].GetParts()[0].GetHow(),
	} {
		if text != "zyzzyva" {
			t.Errorf("%s is %q", what, text)
		}
	}
}
