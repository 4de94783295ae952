package catalog_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/placement/catalog"
	"github.com/llmgw/llmgw/placement/catalog/strictyaml"
)

// fullModel has a value in each of its fields.
func fullModel(t testing.TB) catalog.Model {
	t.Helper()
	return catalog.Model{
		Name: "full", Aliases: []string{"f: #1", "voll"}, Fallbacks: []string{"other"}, RoutingProfile: "chat",
		Prices: []catalog.Price{
			{From: instant(t, "2026-03-01"), Input: 1, CachedInput: new(catalog.Money(0)), Output: new(catalog.Money(2))},
			{From: instant(t, "2026-03-02T08:00:00Z"), Input: money(t, "0.15"), CachedInput: new(money(t, "0.1")), Output: new(catalog.Money(0))},
		},
		MaxOutputTokens: 1, ContextTokens: 2, Source: "https://models.example/full.gguf?a=b#c",
		Profile: &engines.Profile{
			Engine: engines.VLLM, Executable: "/opt/vllm/bin/vllm", Mode: "ray", Model: "https://models.example/full.gguf?a=b#c", Revision: "main", ServedNames: []string{"full"},
			Task: engines.TaskEmbed, Ranks: 2, TensorParallel: 4, PipelineParallel: 2, DataParallel: 2, ExpertParallel: true, ContextTokens: 8192,
			MaxRunning: 64, MemoryRatio: 0.9, DType: "bfloat16", KVCacheDType: "fp8", Quantization: "awq", PriorityScheduling: true, KVEvents: true, Sleep: true,
			Options: map[string]string{"tool_call_parser": "hermes", "n": "12"}, ExtraArgs: []string{"--flag", "two words", "12", "true"},
			Env: map[string]string{"SEED": "0", "EMPTY": ""}, LoadTimeout: 90 * time.Minute, StopGrace: 1500 * time.Millisecond,
		},
		Scaling: &catalog.Scaling{
			Min: 1, Max: 2, IdleTimeout: 90 * time.Second, TargetLoad: 0.5,
			Prewarm: []catalog.Prewarm{{Cron: "0 8 * * 1-5", Timezone: "Europe/Berlin", For: 10 * time.Hour, Min: 2}},
		},
		Placement: &catalog.Placement{
			Nodes: []string{"n1"}, Labels: map[string]string{"zone": "a", "empty": ""}, Classes: []string{"NVIDIA H100 80GB HBM3"}, Spread: "rack",
			Apart: []string{"other"}, CardMemoryBytes: 1 << 36, HostMemoryBytes: 1 << 33,
		},
	}
}

// zeroFields are the paths of fields without a value.
func zeroFields(v reflect.Value, path string) (out []string) {
	switch {
	case v.Kind() == reflect.Pointer && !v.IsNil():
		return zeroFields(v.Elem(), path)
	case v.Kind() == reflect.Slice && v.Len() > 0:
		return zeroFields(v.Index(0), path+"[0]")
	case v.Kind() == reflect.Struct:
		for f, inner := range v.Fields() {
			out = append(out, zeroFields(inner, path+"."+f.Name)...)
		}
		return out
	case v.IsZero():
		return []string{path}
	}
	return nil
}

// Every field is written and read back as it was: alone, and in a list.
func TestEveryFieldRoundTrips(t *testing.T) {
	full := fullModel(t)
	cpu := catalog.Model{Name: "cpu", Source: "/m", Profile: &engines.Profile{Engine: engines.Sim, CPU: true}}
	full.Profile.CPU = true // for the count of fields alone: beside cards it is refused
	if zero := zeroFields(reflect.ValueOf(full), ""); !reflect.DeepEqual(zero, []string{".Prices[0].CachedInput"}) {
		t.Fatalf("the model has no value in %v; give it one, so that the field's way through YAML is tested", zero)
	}
	full.Profile.CPU = false
	fields := func(typ reflect.Type) (n int) { return len(strictyaml.Fields(typ)) }
	for _, typ := range []reflect.Type{reflect.TypeFor[catalog.Model](), reflect.TypeFor[engines.Profile](), reflect.TypeFor[catalog.Scaling](), reflect.TypeFor[catalog.Prewarm](), reflect.TypeFor[catalog.Placement](), reflect.TypeFor[catalog.Price]()} {
		if fields(typ) != typ.NumField() {
			t.Errorf("%v has %d fields and %d keys; every field needs a yaml tag", typ, typ.NumField(), fields(typ))
		}
	}
	for _, want := range []catalog.Model{full, cpu, {Name: "bare"}, {Name: "off", Source: "m", Profile: &engines.Profile{Engine: engines.Sim}, Scaling: &catalog.Scaling{}}} {
		text, err := catalog.Format(want)
		if err != nil {
			t.Fatal(err)
		}
		list := "models:\n  - " + strings.ReplaceAll(strings.TrimSpace(string(text)), "\n", "\n    ") + "\n"
		for _, text := range []string{string(text), list} {
			d, err := catalog.Parse("m.yaml", []byte(text))
			if err != nil {
				t.Fatalf("%v\n%s", err, text)
			}
			if diff := cmp.Diff([]catalog.Model{want}, d.Models); diff != "" {
				t.Errorf("%s (-want +got):\n%s", text, diff)
			}
		}
	}
}

// Whatever a valid model's texts hold, they are read as they were written.
func TestFormatRoundTrips(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := catalog.Model{Name: rapid.String().Draw(t, "name"), Source: rapid.String().Draw(t, "source"), Profile: &engines.Profile{
			Engine: engines.Sim, Options: rapid.MapOfN(rapid.String(), rapid.String(), 0, 2).Draw(t, "options"),
			ExtraArgs: rapid.SliceOfN(rapid.String(), 0, 3).Draw(t, "args"),
		}}
		if catalog.Validate([]catalog.Model{m}) != nil {
			return
		}
		text, err := catalog.Format(m)
		if err != nil {
			t.Fatal(err)
		}
		d, err := catalog.Parse("", text)
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		again, err := catalog.Format(d.Models[0])
		if err != nil || string(again) != string(text) {
			t.Fatalf("%v\n%s\n%s", err, text, again)
		}
	})
}

func TestParseFaults(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		want       []string
	}{
		{"nothing", "", []string{`m.yaml: name: "" is empty; want 1 to 256 bytes`}},
		{"no YAML", "name: m\nsource: a: b\n", []string{"m.yaml:2: is not YAML: mapping values are not allowed in this context"}},
		{"a list of nothing", "models: []\n", []string{"m.yaml:1: models: is empty; want at least one model"}},
		{"a list without its key", "- name: a\n", []string{
			"m.yaml:1: the file is a list; want the keys name, aliases, fallbacks, routing_profile, prices, max_output_tokens, context_tokens, source, profile, scaling, placement",
		}},
		{"a slip", "name: m\nsource: /m\nprofile:\n  engine: vllm\n  tensor_paralel: 8\n", []string{
			"m.yaml:5: profile.tensor_paralel: unknown key; did you mean tensor_parallel?",
		}},
		{"a key of another section", "name: m\nsource: /m\nprofile: {engine: vllm}\nmin: 1\n", []string{"m.yaml:4: min: unknown key here; did you mean scaling.min?"}},
		{"two models in one", "name: a\nmodels: [{name: b}]\n", []string{
			"m.yaml:2: models: stands beside the keys of one model; want either one model, or the list models alone",
		}},
		{"several", "name: m\nprofile:\n  engine: vllm\n  ranks: 3\n  tensor_parallel: 8\nscaling:\n  min: 2\n", []string{
			"m.yaml: source: is missing, so there is nothing to run; want a path on the nodes, an http or https URL, or a name that the engine finds by itself",
			"m.yaml:4: profile.ranks: 8 cards cannot be divided over 3 ranks; make tensor × pipeline × data a multiple of it",
			"m.yaml:6: scaling.max: 0 is less than min, 2; want at least that",
		}},
		{"in a list", "models:\n  - name: a\n    fallbacks: [b, b, a]\n  - name: a\n", []string{
			"m.yaml:3: models[0].fallbacks[1]: \"b\" stands there already; list it once",
			"m.yaml:3: models[0].fallbacks[2]: \"a\" is this model itself; name another one",
			"m.yaml:4: models[1].name: \"a\" is already the name of models[0]; names are unique",
		}},
		{"too long", "name: m\nsource: /m\nprofile:\n  engine: sim\n  extra_args: [" + strings.Repeat("x", catalog.MaxDefinitionBytes) + "]\n", []string{
			"m.yaml:1: name: the model's definition has 24635 bytes; at most 24576 are accepted",
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d, err := catalog.Parse("m.yaml", []byte(tt.text))
			if d != nil || err == nil {
				t.Fatalf("%v, %v", d, err)
			}
			if diff := cmp.Diff(tt.want, strings.Split(err.Error(), "\n")); diff != "" {
				t.Errorf("faults (-want +got):\n%s", diff)
			}
			if !strictyaml.IsFault(err) {
				t.Errorf("%T", err)
			}
		})
	}
}

// What is found out later has its line, too.
func TestLocate(t *testing.T) {
	for text, want := range map[string]string{
		"name: m\nfallbacks:\n  - gone\n":                "m.yaml:3: fallbacks[0]: is gone",
		"models:\n  - name: m\n    fallbacks: [gone]\n":  "m.yaml:3: models[0].fallbacks[0]: is gone",
		"# a comment\nname: m\nfallbacks: [\"gone\", x]": "m.yaml:3: fallbacks[0]: is gone",
	} {
		d, err := catalog.Parse("m.yaml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if got := d.Locate(errors.New("models[0].fallbacks[0]: is gone")); got == nil || got.Error() != want {
			t.Errorf("%v, want %s", got, want)
		}
		if d.Locate(nil) != nil {
			t.Error("nothing is a fault")
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("name: m\nsource: /m\nprofile: {engine: vllm}\n")
	f.Add("models: [{name: a}, {name: b, aliases: [a]}]")
	f.Add("models: &a\n  - *a\n")
	f.Fuzz(func(t *testing.T, text string) {
		d, err := catalog.Parse("f", []byte(text))
		if err != nil {
			if !strictyaml.IsFault(err) {
				t.Fatalf("%T: %v", err, err)
			}
			return
		}
		for _, m := range d.Models {
			out, err := catalog.Format(m)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := catalog.Parse("f", out); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
		}
	})
}
