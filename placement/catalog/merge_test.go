package catalog_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/llmgw/llmgw/placement/catalog"
)

func stored(models ...catalog.Model) (out []catalog.Stored) {
	for _, m := range models {
		out = append(out, catalog.Stored{Name: m.Name, Model: m})
	}
	return out
}

func TestMerge(t *testing.T) {
	configured := []catalog.Model{{Name: "a", Aliases: []string{"x"}}}
	for _, tt := range []struct {
		name   string
		stored []catalog.Stored
		models []string
		aside  map[string]string
	}{
		{name: "nothing", models: []string{"a"}},
		{name: "beside it", stored: stored(catalog.Model{Name: "b", Fallbacks: []string{"x"}}), models: []string{"a", "b"}},
		{
			name: "each other's fallback", stored: stored(catalog.Model{Name: "b", Fallbacks: []string{"c"}}, catalog.Model{Name: "c", Fallbacks: []string{"b"}}),
			models: []string{"a", "b", "c"},
		},
		{
			name: "the configuration wins", stored: stored(catalog.Model{Name: "a"}, catalog.Model{Name: "x"}, catalog.Model{Name: "b", Aliases: []string{"c", "x"}}),
			models: []string{"a"},
			aside: map[string]string{
				"a": `name: "a" belongs to model "a" of the configuration, which wins; remove one of them, or give this one another name`,
				"x": `name: "x" belongs to model "a" of the configuration, which wins; remove one of them, or give this one another name`,
				"b": `aliases[1]: "x" belongs to model "a" of the configuration, which wins; remove one of them, or give this one another name`,
			},
		},
		{
			name: "the earlier wins", stored: stored(catalog.Model{Name: "b", Aliases: []string{"c"}}, catalog.Model{Name: "c"}),
			models: []string{"a", "b"},
			aside:  map[string]string{"c": `name: "c" belongs to model "b", which was added before; remove one of them, or give this one another name`},
		},
		{
			name: "no fallback, and who falls back to that", stored: stored(
				catalog.Model{Name: "d", Fallbacks: []string{"c"}}, catalog.Model{Name: "c", Fallbacks: []string{"b", "a"}}, catalog.Model{Name: "e"}),
			models: []string{"a", "e"},
			aside: map[string]string{
				"c": `fallbacks[0]: "b" is no model or alias of the catalog; name one that is, or add it first`,
				"d": `fallbacks[0]: "c" is no model or alias of the catalog; name one that is, or add it first`,
			},
		},
		{
			name: "one fallback by two names", stored: stored(catalog.Model{Name: "b", Fallbacks: []string{"x", "a"}}), models: []string{"a"},
			aside: map[string]string{"b": `fallbacks[1]: "a" is the same model as fallbacks[0], "a"; list it once`},
		},
		{
			name: "one that cannot be read", stored: []catalog.Stored{{Name: "b", Fault: errors.New("profile: unknown")}}, models: []string{"a"},
			aside: map[string]string{"b": "profile: unknown"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			models, aside := catalog.Merge(configured, tt.stored)
			var names []string
			for _, m := range models {
				names = append(names, m.Name)
			}
			why := map[string]string{}
			for _, s := range aside {
				why[s.Name] = s.Why.Error()
			}
			if tt.aside == nil {
				tt.aside = map[string]string{}
			}
			if diff := cmp.Diff(tt.models, names); diff != "" {
				t.Errorf("models (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.aside, why); diff != "" {
				t.Errorf("set aside (-want +got):\n%s", diff)
			}
		})
	}
}

// Whatever is stored, the catalog has every configured model as it is, is valid, and
// each stored model is in it or set aside.
func TestMergeProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.SampledFrom([]string{"a", "b", "c", "d", "e", "f"})
		model := rapid.Custom(func(t *rapid.T) catalog.Model {
			return catalog.Model{
				Name: name.Draw(t, "name"), Aliases: rapid.SliceOfNDistinct(name, 0, 2, rapid.ID).Draw(t, "aliases"),
				Fallbacks: rapid.SliceOfNDistinct(name, 0, 2, rapid.ID).Draw(t, "fallbacks"),
			}
		})
		configured := rapid.SliceOfN(model, 0, 2).Draw(t, "configured")
		if catalog.Validate(configured) != nil {
			configured = nil
		}
		var list []catalog.Stored
		for _, m := range rapid.SliceOfN(model, 0, 5).Draw(t, "stored") {
			text, err := catalog.Format(m)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := catalog.Parse("", text); err == nil { // one that could be added once
				list = append(list, catalog.Stored{Name: m.Name, Model: m})
			}
		}
		models, aside := catalog.Merge(configured, list)
		if _, err := catalog.New(models); err != nil {
			t.Fatalf("%v is no catalog: %v", models, err)
		}
		if len(models)+len(aside) != len(configured)+len(list) {
			t.Fatalf("%d and %d of %d and %d", len(models), len(aside), len(configured), len(list))
		}
		if !slices.EqualFunc(models[:len(configured)], configured, func(a, b catalog.Model) bool { return cmp.Equal(a, b) }) {
			t.Fatalf("configured %v became %v", configured, models)
		}
	})
}

// Of more models than a catalog may have the earlier ones stand in it.
func TestMergeTooMany(t *testing.T) {
	list := make([]catalog.Model, catalog.MaxModels)
	for i := range list {
		list[i].Name = fmt.Sprint("m", i)
	}
	models, aside := catalog.Merge([]catalog.Model{{Name: "a"}}, stored(list...))
	last := list[len(list)-1].Name
	if len(models) != catalog.MaxModels || len(aside) != 1 || aside[0].Name != last || !strings.Contains(aside[0].Why.Error(), "at most 10000 are accepted") {
		t.Errorf("%d models, set aside %v", len(models), aside)
	}
}
