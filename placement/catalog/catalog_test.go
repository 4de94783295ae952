package catalog_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/llmgw/llmgw/placement/catalog"
)

func TestValidate(t *testing.T) {
	long := strings.Repeat("n", catalog.MaxNameBytes+1)
	many := make([]string, catalog.MaxAliases+1)
	for i := range many {
		many[i] = fmt.Sprint("alias-", i)
	}
	tests := []struct {
		name   string
		models []catalog.Model
		want   []string
	}{
		{name: "nothing"},
		{name: "plain", models: []catalog.Model{{Name: "meta-llama/Llama-3.1-8B"}, {Name: "qwen3:8b", Aliases: []string{"small", "模型"}}}},
		{name: "each other's fallback", models: []catalog.Model{{Name: "a", Fallbacks: []string{"b"}}, {Name: "b", Fallbacks: []string{"a"}}}},
		{name: "case counts", models: []catalog.Model{{Name: "a"}, {Name: "A"}}},
		{
			name:   "empty name",
			models: []catalog.Model{{}},
			want:   []string{`models[0].name: "" is empty; want 1 to 256 bytes`},
		},
		{
			name:   "name twice",
			models: []catalog.Model{{Name: "a"}, {Name: "a"}},
			want:   []string{`models[1].name: "a" is already the name of models[0]; names are unique`},
		},
		{
			name:   "alias is a name, of a later model too",
			models: []catalog.Model{{Name: "a", Aliases: []string{"b"}}, {Name: "b", Aliases: []string{"a"}}},
			want: []string{
				`models[0].aliases[0]: "b" is already the name of models[1]; a name or alias leads to one model`,
				`models[1].aliases[0]: "a" is already the name of models[0]; a name or alias leads to one model`,
			},
		},
		{
			name:   "alias twice, alias of itself",
			models: []catalog.Model{{Name: "a", Aliases: []string{"x", "x", "a"}}},
			want: []string{
				`models[0].aliases[1]: "x" is already an alias of models[0]; a name or alias leads to one model`,
				`models[0].aliases[2]: "a" is already the name of models[0]; a name or alias leads to one model`,
			},
		},
		{
			name:   "fallbacks",
			models: []catalog.Model{{Name: "a", Aliases: []string{"me"}, Fallbacks: []string{"gone", "a", "me", "b", "bee"}}, {Name: "b", Aliases: []string{"bee"}}},
			want: []string{
				`models[0].fallbacks[0]: "gone" is no model or alias of this catalog; name one that is, or add it`,
				`models[0].fallbacks[1]: "a" is this model itself; name another one`,
				`models[0].fallbacks[2]: "me" is this model itself; name another one`,
				`models[0].fallbacks[4]: "bee" is the same model as fallbacks[3], "b"; list it once`,
			},
		},
		{
			name:   "characters",
			models: []catalog.Model{{Name: "a\nb"}, {Name: " a"}, {Name: "a\u200bb"}, {Name: "\xff"}, {Name: "gpt-*"}, {Name: long}},
			want: []string{
				`models[0].name: "a\nb" contains the invisible character U+000A; want printable text`,
				`models[1].name: " a" begins or ends with space; want none there`,
				`models[2].name: "a\u200bb" contains the invisible character U+200B; want printable text`,
				`models[3].name: "\xff" is not UTF-8; want UTF-8`,
				`models[4].name: "gpt-*" contains *; it is kept for patterns that match several models`,
				`models[5].name: 257 bytes; want at most 256`,
			},
		},
		{
			name:   "too many",
			models: []catalog.Model{{Name: "a", Aliases: many}},
			want:   []string{`models[0].aliases: 65 entries; at most 64 are accepted`},
		},
		{
			name:   "profile",
			models: []catalog.Model{{Name: "a", RoutingProfile: "chat "}},
			want:   []string{`models[0].routing_profile: "chat " begins or ends with space; want none there`},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := catalog.Validate(tt.models)
			var got []string
			if err != nil {
				got = strings.Split(err.Error(), "\n")
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("faults (-want +got):\n%s", diff)
			}
			c, newErr := catalog.New(tt.models)
			if (newErr == nil) != (err == nil) || (c == nil) != (err != nil) {
				t.Errorf("New = %v, %v; Validate = %v", c, newErr, err)
			}
		})
	}
}

func TestCatalogKeepsNothingOfItsArgument(t *testing.T) {
	models := []catalog.Model{
		{Name: "b", Aliases: []string{"bee"}},
		{Name: "a", Fallbacks: []string{"bee"}},
	}
	c, err := catalog.New(models)
	if err != nil {
		t.Fatal(err)
	}
	models[0].Aliases[0], models[1].Fallbacks[0] = "changed", "changed"
	c.Models()[0].Fallbacks[0] = "changed"

	want := []catalog.Model{{Name: "a", Fallbacks: []string{"b"}}, {Name: "b", Aliases: []string{"bee"}}}
	if diff := cmp.Diff(want, c.Models()); diff != "" {
		t.Errorf("models (-want +got):\n%s", diff)
	}
}

func TestNilCatalogIsEmpty(t *testing.T) {
	var c *catalog.Catalog
	if _, ok := c.Resolve("a"); ok || c.Len() != 0 || c.Models() != nil {
		t.Error("a nil catalog holds something")
	}
}

func TestResolveAllocs(t *testing.T) {
	c, err := catalog.New([]catalog.Model{{Name: "a", Aliases: []string{"x"}}})
	if err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(100, func() { c.Resolve("x") }); n != 0 {
		t.Errorf("Resolve allocates %v times, want 0", n)
	}
}

func TestWithServed(t *testing.T) {
	models := []catalog.Model{{Name: "a", Aliases: []string{"x"}}}
	got := catalog.WithServed(models, []string{"c", "b", "x", "a", "c"})
	want := []catalog.Model{{Name: "a", Aliases: []string{"x"}}, {Name: "b"}, {Name: "c"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("models (-want +got):\n%s", diff)
	}
}

// Whatever a list holds, a catalog made of it leads each of its names to the
// model that declared it, and each fallback to another model.
func TestCatalogProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.SampledFrom([]string{"a", "b", "c", "d", "e", "", "f "})
		models := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) catalog.Model {
			return catalog.Model{
				Name:      name.Draw(t, "name"),
				Aliases:   rapid.SliceOfN(name, 0, 2).Draw(t, "aliases"),
				Fallbacks: rapid.SliceOfN(name, 0, 2).Draw(t, "fallbacks"),
			}
		}), 0, 4).Draw(t, "models")
		c, err := catalog.New(models)
		if err != nil {
			return
		}
		for i := range models {
			for _, n := range append([]string{models[i].Name}, models[i].Aliases...) {
				if m, ok := c.Resolve(n); !ok || m.Name != models[i].Name {
					t.Fatalf("Resolve(%q) = %v, %v; want %q", n, m, ok, models[i].Name)
				}
			}
		}
		for _, m := range c.Models() {
			for _, f := range m.Fallbacks {
				if other, ok := c.Resolve(f); !ok || other.Name != f || f == m.Name {
					t.Fatalf("model %q falls back to %q, which is %v", m.Name, f, other)
				}
			}
		}
	})
}
