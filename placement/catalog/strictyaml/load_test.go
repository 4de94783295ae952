package strictyaml_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/llmgw/llmgw/placement/catalog/strictyaml"
)

type file struct {
	Listen string `yaml:"listen"`
	Inner  `yaml:",inline"`
	Items  []item            `yaml:"items"`
	Names  []string          `yaml:"names"`
	Labels map[string]string `yaml:"labels"`
	Unused string            `yaml:"-"`
}

type Inner struct {
	Router router `yaml:"router"`
}

type router struct {
	Retries  int      `yaml:"retries"`
	Bytes    uint32   `yaml:"bytes"`
	Inject   bool     `yaml:"inject"`
	Ceiling  float64  `yaml:"ceiling"`
	Timeouts timeouts `yaml:"timeouts"`
}

type timeouts struct {
	Dial time.Duration `yaml:"dial"`
	Idle time.Duration `yaml:"idle"`
}

type item struct {
	ID     string  `yaml:"id"`
	URL    string  `yaml:"url"`
	Models []ref   `yaml:"models"`
	Token  string  `yaml:"token" secret:"true"`
	Weight float64 `yaml:"weight" default:"1"`
}

// ref is written as a name or with its keys.
type ref struct {
	Name     string `yaml:"name"`
	Upstream string `yaml:"upstream"`
}

func (r *ref) UnmarshalText(b []byte) error {
	if len(b) == 0 {
		return errors.New("a name is needed")
	}
	*r = ref{Name: string(b)}
	return nil
}

func (f *file) Validate() error {
	var errs []error
	if f.Router.Timeouts.Dial <= 0 {
		errs = append(errs, fmt.Errorf("router.timeouts.dial: %v is not positive; want e.g. 5s", f.Router.Timeouts.Dial))
	}
	if f.Router.Retries < 0 {
		errs = append(errs, fmt.Errorf("router.retries: %d is negative; want 0 or more", f.Router.Retries))
	}
	for i, it := range f.Items {
		if it.URL == "" {
			errs = append(errs, fmt.Errorf("items[%d].url: %q is empty; want a URL", i, it.URL))
		}
	}
	return errors.Join(errs...)
}

func defaults() file {
	return file{
		Listen: ":8080",
		Inner:  Inner{Router: router{Retries: 2, Inject: true, Ceiling: 0.9, Timeouts: timeouts{Dial: 5 * time.Second, Idle: time.Minute}}},
		Names:  []string{"x", "y"},
		Unused: "kept",
	}
}

func TestLoad(t *testing.T) {
	tests := []struct {
		name    string
		data    string
		environ []string
		want    func(*file)
		unknown []strictyaml.UnknownVariable
	}{
		{name: "nothing", want: func(*file) {}},
		{name: "comments only", data: "# nothing\n---\n", want: func(*file) {}},
		{
			name: "everything",
			data: `listen: ":1"
router: {retries: 0, bytes: 0x10, inject: false, ceiling: 1, timeouts: {dial: 250ms}}
items:
  - id: a
    url: http://a
    models: [m, {name: n, upstream: u}]
names: [z]
labels: {a.b: c}
`,
			want: func(f *file) {
				f.Listen = ":1"
				f.Router = router{Bytes: 16, Ceiling: 1, Timeouts: timeouts{Dial: 250 * time.Millisecond, Idle: time.Minute}}
				f.Items = []item{{ID: "a", URL: "http://a", Models: []ref{{Name: "m"}, {Name: "n", Upstream: "u"}}, Weight: 1}}
				f.Names = []string{"z"}
				f.Labels = map[string]string{"a.b": "c"}
			},
		},
		{name: "empty sections keep their defaults", data: "router:\nitems:\nnames:\n", want: func(*file) {}},
		{name: "a list replaces its default", data: "names: []", want: func(f *file) { f.Names = []string{} }},
		{
			name: "anchors and merges",
			data: `items:
  - &one {id: a, url: http://a}
  - {<<: *one, id: b, weight: 2}
  - <<: [{id: c, token: t}, *one]
`,
			want: func(f *file) {
				f.Items = []item{{ID: "a", URL: "http://a", Weight: 1}, {ID: "b", URL: "http://a", Weight: 2}, {ID: "c", URL: "http://a", Token: "t", Weight: 1}}
			},
		},
		{
			name: "variables",
			data: "router: {retries: 1}\nitems: [{id: a, url: http://a}]\n",
			environ: []string{
				"LLMGW_ROUTER__RETRIES=3", "LLMGW_ROUTER__TIMEOUTS__DIAL=1s", "LLMGW_ROUTER__INJECT=false", "LLMGW_NAMES=a, b",
				"LLMGW_LISTEN=true", "LLMGW_ITEMS__0__URL=http://b", "LLMGW_ITEMS__0__MODELS=m,n", "LLMGW_LABELS={k: v}",
				"LLMGW_ROUTER__RETRIES=9", "PATH=/bin",
			},
			want: func(f *file) {
				f.Listen = "true"
				f.Router.Retries, f.Router.Inject, f.Router.Timeouts.Dial = 3, false, time.Second
				f.Names = []string{"a", "b"}
				f.Items = []item{{ID: "a", URL: "http://b", Models: []ref{{Name: "m"}, {Name: "n"}}, Weight: 1}}
				f.Labels = map[string]string{"k": "v"}
			},
		},
		{
			name:    "outer variables before inner ones, flow lists",
			environ: []string{"LLMGW_ROUTER__RETRIES=3", "LLMGW_ROUTER={retries: 1, ceiling: 0.5, timeouts: {dial: 1s}}", "LLMGW_NAMES=['a,b', c]", "LLMGW_ITEMS=[{id: a, url: http://a}]"},
			want: func(f *file) {
				f.Router = router{Retries: 3, Inject: true, Ceiling: 0.5, Timeouts: timeouts{Dial: time.Second, Idle: time.Minute}}
				f.Names = []string{"a,b", "c"}
				f.Items = []item{{ID: "a", URL: "http://a", Weight: 1}}
			},
		},
		{
			name:    "an entry from a variable has the defaults of one, and may say 0",
			data:    "items: [{id: a, url: u}, {id: b, url: u}]",
			environ: []string{"LLMGW_ITEMS__0={id: c, url: v}", "LLMGW_ITEMS__1__WEIGHT=0"},
			want: func(f *file) {
				f.Items = []item{{ID: "c", URL: "v", Weight: 1}, {ID: "b", URL: "u"}}
			},
		},
		{
			name: "a Kubernetes service and strangers",
			environ: []string{
				"LLMGW_PORT=tcp://10.0.0.1:8080", "LLMGW_SERVICE_HOST=10.0.0.1", "LLMGW_SERVICE_PORT_HTTP=80", "LLMGW_PORT_8080_TCP_ADDR=10.0.0.1",
				"LLMGW_ROUTER__RETRYS=x", "LLMGW_ROUTER_RETRIES=x", "LLMGW_router__retries=4", "LLMGW_UNUSED=x", "LLMGW_=x", "LLMGW_ROUTER__=x", "LLMGW_NAMES__00=x",
			},
			want: func(*file) {},
			unknown: []strictyaml.UnknownVariable{
				{Name: "LLMGW_"},
				{Name: "LLMGW_NAMES__00"},
				{Name: "LLMGW_PORT"},
				{Name: "LLMGW_PORT_8080_TCP_ADDR"},
				{Name: "LLMGW_ROUTER_RETRIES", Meant: "LLMGW_ROUTER__RETRIES"},
				{Name: "LLMGW_ROUTER__", Meant: "LLMGW_ROUTER"},
				{Name: "LLMGW_ROUTER__RETRYS"},
				{Name: "LLMGW_SERVICE_HOST"},
				{Name: "LLMGW_SERVICE_PORT_HTTP"},
				{Name: "LLMGW_UNUSED"},
				{Name: "LLMGW_router__retries", Meant: "LLMGW_ROUTER__RETRIES"},
			},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, want := defaults(), defaults()
			tt.want(&want)
			res, err := strictyaml.Load(&got, strictyaml.Source{File: "f.yaml", Data: []byte(tt.data), Environ: tt.environ})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("configuration (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.unknown, res.UnknownVariables); diff != "" {
				t.Errorf("unknown variables (-want +got):\n%s", diff)
			}
		})
	}
}

func TestLoadFaults(t *testing.T) {
	tests := []struct {
		name    string
		data    string
		environ []string
		want    []string
	}{
		{
			name: "everything at once, in the order of the file",
			data: `listen: 8080
routr: {}
router:
  retries: many
  retries: 3
  timeouts: {dial: -1s, idel: 5s}
  inject: yes
  ceiling: .nan
  bytes: 4294967296
retries: 1
items:
  - id: a
    ulr: http://secret@a
  - none
  - id: c
    models: [1, {name: x, upstrem: y}, ""]
names: a
labels: [1]
`,
			environ: []string{"LLMGW_ROUTER__RETRIES=-", "LLMGW_ITEMS__7__URL=http://a"},
			want: []string{
				`f.yaml:1: listen: "8080" reads as a number; want text, so put it in quotes`,
				`f.yaml:2: routr: unknown key; did you mean router?`,
				`f.yaml:4: router.retries: "many" is not accepted; want a whole number, e.g. 3`,
				`f.yaml:5: router.retries: is written twice, first on line 4; keep one`,
				`f.yaml:6: router.timeouts.idel: unknown key; did you mean idle?`,
				`f.yaml:6: router.timeouts.dial: -1s is not positive; want e.g. 5s`,
				`f.yaml:7: router.inject: "yes" is not accepted; want true or false`,
				`f.yaml:8: router.ceiling: ".nan" is not accepted; want a number, e.g. 0.9`,
				`f.yaml:9: router.bytes: "4294967296" is too large or too small for this key`,
				`f.yaml:10: retries: unknown key here; did you mean router.retries?`,
				`f.yaml:13: items[0].ulr: unknown key; did you mean url?`,
				`f.yaml:14: items[1]: is "none"; want the keys id, url, models, token, weight`,
				`f.yaml:15: items[2].url: "" is empty; want a URL`,
				`f.yaml:16: items[2].models[0]: "1" is not accepted; want text or the keys name, upstream`,
				`f.yaml:16: items[2].models[1].upstrem: unknown key; did you mean upstream?`,
				`f.yaml:16: items[2].models[2]: "" is not accepted: a name is needed`,
				`f.yaml:17: names: is "a"; want a list, e.g. [a, b]`,
				`f.yaml:18: labels: is a list; want a mapping of names to values`,
				`LLMGW_ITEMS__7__URL: items[7].url: entry 7 does not exist; the list has 3`,
				`LLMGW_ROUTER__RETRIES: router.retries: "-" is not accepted; want a whole number, e.g. 3`,
			},
		},
		{
			name: "no suggestion",
			data: "frobnicate: 1\nadmin listen: x\n",
			want: []string{
				`f.yaml:1: frobnicate: unknown key; known here are listen, router, items, names, labels`,
				`f.yaml:2: "admin listen": unknown key; known here are listen, router, items, names, labels`,
			},
		},
		{name: "hint", data: "items: [{id: a, url: u, key: hunter2}]", want: []string{`f.yaml:1: items[0].key: secrets stand elsewhere`}},
		{name: "duration without unit", data: "router: {timeouts: {dial: 5}}", want: []string{`f.yaml:1: router.timeouts.dial: "5" has no unit; want e.g. 5s or 5ms`}},
		{name: "empty entries", data: "items:\n-\n- {id: a, url: u, models: [~]}\nnames: [~]\n", want: []string{
			`f.yaml:2: items[0]: is empty; want the keys id, url, models, token, weight`,
			`f.yaml:3: items[1].models[0]: is empty; want text or the keys name, upstream`,
			`f.yaml:4: names[0]: has no value; want text, or leave the key out`,
		}},
		{name: "octal", data: "router: {retries: 010}", want: []string{`f.yaml:1: router.retries: "010" is not accepted; want a whole number, e.g. 3`}},
		{name: "null", data: "listen:\n", want: []string{`f.yaml:1: listen: has no value; want text, or leave the key out`}},
		{name: "tags", data: "listen: !x y\nrouter: {retries: !!binary aGk=}\n", want: []string{
			`f.yaml:1: listen: has the tag "!x"; want text`,
			`f.yaml:2: router.retries: has the tag "!!binary"; want a whole number, e.g. 3`,
		}},
		{name: "two documents", data: "listen: a\n---\nlisten: b\n", want: []string{`f.yaml:2: a second document begins here; want one`}},
		{name: "no YAML", data: "listen: a\n  b: c\n", want: []string{`f.yaml:2: is not YAML: mapping values are not allowed in this context`}},
		{name: "unknown anchor", data: "listen: *x\n", want: []string{`f.yaml:1: is not YAML: unknown anchor 'x' referenced`}},
		{name: "tab", data: "router:\n\tretries: 1\n", want: []string{`f.yaml:2: is not YAML: found character that cannot start any token`}},
		{name: "not UTF-8", data: "listen: a\nnames: [\"\xff\"]\n", want: []string{`f.yaml:2: is not UTF-8`}},
		{name: "a list", data: "- a\n", want: []string{`f.yaml:1: the file is a list; want the keys listen, router, items, names, labels`}},
		{name: "merge into itself", data: "router: &r\n  <<: *r\n", want: []string{`f.yaml:1: router: merges a section into itself`}},
		{name: "merge of text", data: "router:\n  <<: x\n", want: []string{`f.yaml:2: router: merges "x"; want a section or a list of sections`}},
		{name: "key that is a list", data: "router:\n  [a]: x\n", want: []string{`f.yaml:2: router: has a key that is a list; want text`}},
		{
			name:    "variable out of range of its validation",
			environ: []string{"LLMGW_ROUTER__RETRIES=-1", "LLMGW_ROUTER__TIMEOUTS=dial", "LLMGW_ITEMS=[{id: a"},
			want: []string{
				`LLMGW_ITEMS: items: line 1: is not YAML: did not find expected ',' or '}' after the bracket that opens here`,
				`LLMGW_ROUTER__RETRIES: router.retries: -1 is negative; want 0 or more`,
				`LLMGW_ROUTER__TIMEOUTS: router.timeouts: is "dial"; want the keys dial, idle`,
			},
		},
		{name: "too long to repeat", data: "router: {retries: " + strings.Repeat("x", 5000) + "}", want: []string{
			`f.yaml:1: router.retries: "` + strings.Repeat("x", 60) + `"… is not accepted; want a whole number, e.g. 3`,
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := defaults()
			_, err := strictyaml.Load(&f, strictyaml.Source{
				File: "f.yaml", Data: []byte(tt.data), Environ: tt.environ,
				Hints: map[string]string{"items[].key": "secrets stand elsewhere"},
			})
			if !strictyaml.IsFault(err) {
				t.Fatalf("error %v is not of type Faults", err)
			}
			if diff := cmp.Diff(tt.want, strings.Split(err.Error(), "\n")); diff != "" {
				t.Errorf("faults (-want +got):\n%s", diff)
			}
		})
	}
}

// The line of a fault of syntax is the one to look at, wherever it stands.
func TestSyntaxLine(t *testing.T) {
	const (
		indicator = "did not find expected '-' indicator"
		key       = "did not find expected key"
		list      = "did not find expected ',' or ']' after the bracket that opens here"
		section   = "did not find expected ',' or '}' after the bracket that opens here"
	)
	tests := []struct {
		name, data string
		line       int
		problem    string
	}{
		{"list not closed", "endpoints:\n  - id: a\n    url: http://h:1\n    models: [m\nlog:\n  level: info", 4, list},
		{"list not closed on the first line", "a: [m\nlog:\n  level: info", 1, list},
		{"list not closed, the only line", "a: [m", 1, list},
		{"list within a list", "a:\n- [x,\n   [y, z,\n    {k: v]\n  ]\n", 4, section},
		{"list over lines", "a: 1\nb: [x,\n  \"y\"\n  \"z\"]\n", 2, list},
		{"less indented than its entry", "# c\nendpoints:\n  - id: a\n   url: x", 4, indicator},
		{"less indented, and more after it", "# c\nendpoints:\n  - id: a\n   url: x\nlog:\n  level: info\n" + strings.Repeat("# c\n", 50), 4, indicator},
		{"key in a list", "a:\n  - x\n  y: 1\nb: 1\n", 3, indicator},
		{"text in a list", "a:\n  - x\n  y\nb: 1\n", 3, "could not find expected ':'"},
		{"less indented than its section", "a:\n    b: 1\n    c: {d: 1,\n      e: 2}\n  f: 3\n", 5, key},
		{"entry in a section", "a:\n  b:\n    c: 1\n    - d\n", 4, key},
		{"key on the first line", "a: 1\n b: 2\n", 2, "mapping values are not allowed in this context"},
		{"bracket closed on the first line", "]", 1, "did not find expected node content"},
		{"quote not closed", "a: 1\nb:\n  c: \"x\n  d: 1\n", 3, "found unexpected end of stream"},
		{"quote not closed on the first line", "a: \"x\nb: 1\n", 1, "found unexpected end of stream"},
		{"no colon", "a: 1\nb\nc: 2\n", 2, "could not find expected ':'"},
		{"tab", "a:\n  b: 1\n\tc: 1\n", 3, "found a tab character that violates indentation"},
		{"anchor", "a: 1\nb: [1,\n  *x]\nc: 1\n", 3, "unknown anchor 'x' referenced"},
		{"control character", "a: 1\nb: \"\x01\"\nc: 1\n", 2, "control characters are not allowed"},
		{"carriage returns", "a: 1\r\nb:\r\n  - x\r\n c: 1\r\n", 4, key},
		{"byte order mark", "\ufeffa: 1\nb: [1\n", 2, list},
		{"second document", "a: 1\n---\nb: [1\n", 3, list},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := defaults()
			_, err := strictyaml.Load(&f, strictyaml.Source{File: "f.yaml", Data: []byte(tt.data)})
			want := strictyaml.Faults{{File: "f.yaml", Line: tt.line, Text: "is not YAML: " + tt.problem}}
			if diff := cmp.Diff(error(want), err); diff != "" {
				t.Errorf("faults (-want +got):\n%s", diff)
			}
		})
	}
}

// Each level merges the one below ten times: 10^8 keys from ten lines.
func TestLoadMergeBomb(t *testing.T) {
	var b strings.Builder
	b.WriteString("items:\n- &b0 {url: u, id: i}\n")
	for i := range 8 {
		fmt.Fprintf(&b, "- &b%d {<<: [%s]}\n", i+1, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*b%d, ", i), 10), ", "))
	}
	f := defaults()
	_, err := strictyaml.Load(&f, strictyaml.Source{File: "f.yaml", Data: []byte(b.String())})
	if err == nil || !strings.Contains(err.Error(), "more than 500000 values") {
		t.Errorf("error %v; want one that says there are too many values", err)
	}
}

func TestPrintReadsBack(t *testing.T) {
	f := defaults()
	f.Items = []item{{ID: "1", URL: "http://me:pw@host/v1", Models: []ref{{Name: "yes", Upstream: "~"}}, Token: "hunter2"}}
	f.Labels = map[string]string{"b": "2", "a": "null"}
	f.Router.Timeouts.Idle = 90 * time.Minute
	var out bytes.Buffer
	if err := strictyaml.Print(&out, f); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(out.String(), "hunter2") || strings.Contains(out.String(), "pw") {
		t.Errorf("a secret is printed:\n%s", out.String())
	}
	got := defaults()
	if _, err := strictyaml.Load(&got, strictyaml.Source{File: "printed", Data: out.Bytes()}); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	f.Items[0].Token, f.Items[0].URL = "<secret>", "http://hidden@host/v1"
	if diff := cmp.Diff(f, got); diff != "" {
		t.Errorf("after printing and reading (-want +got):\n%s", diff)
	}
}

func TestDuration(t *testing.T) {
	for d, want := range map[time.Duration]string{
		time.Minute: "1m", 90 * time.Second: "1m30s", time.Hour: "1h", 30 * time.Minute: "30m", 10 * time.Second: "10s",
		0: "0s", 100 * time.Minute: "1h40m", 250 * time.Millisecond: "250ms", time.Hour + time.Second: "1h0m1s",
	} {
		if got := strictyaml.Duration(d); got != want {
			t.Errorf("Duration(%v) = %s, want %s", d, got, want)
		}
	}
}

func FuzzLoad(f *testing.F) {
	f.Add([]byte("listen: a\nrouter: {retries: 3, timeouts: {dial: 1s}}\nitems: [{id: a, url: u, models: [x]}]\n"), "3")
	f.Add([]byte("a: &a [*a]\nrouter: &r {<<: *r}"), "{")
	f.Add([]byte("--- !!map\n? [x]\n: y\n..."), "[a")
	f.Fuzz(func(t *testing.T, data []byte, value string) {
		v := defaults()
		_, err := strictyaml.Load(&v, strictyaml.Source{File: "f", Data: data, Environ: []string{"LLMGW_ROUTER=" + value, "LLMGW_ITEMS=" + value, "LLMGW_NAMES=" + value}})
		if err != nil && !strictyaml.IsFault(err) {
			t.Errorf("error that is no fault of the file: %v", err)
		}
	})
}

func TestChanged(t *testing.T) {
	a, b := defaults(), defaults()
	if got := strictyaml.Changed(a, b); got != nil {
		t.Errorf("two equal configurations differ in %v", got)
	}
	b.Router.Timeouts.Dial, b.Names, b.Unused = 1, nil, "not a key"
	if diff := cmp.Diff([]string{"router.timeouts.dial", "names"}, strictyaml.Changed(a, b)); diff != "" {
		t.Errorf("changed keys (-want +got):\n%s", diff)
	}
}
