package auth_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/llmgw/llmgw/auth"
	"github.com/llmgw/llmgw/storage"
)

// models is a catalog: names and aliases to canonical names.
type models map[string]string

func (m models) version(v uint64) auth.Models {
	return auth.Models{
		Version: v,
		Resolve: func(name string) (string, bool) { c, ok := m[name]; return c, ok },
		Names:   func() []string { return slices.Sorted(maps.Keys(m)) },
	}
}

func catalog() models {
	return models{
		"b/coder": "b/coder", "coder": "b/coder", "team/best": "b/coder",
		"c/secret": "c/secret", "b/alias": "c/secret", "hidden": "c/secret",
		"b/chat": "b/chat", "llama3:8b": "llama3:8b",
	}
}

func identity(list ...string) *auth.Identity {
	return auth.NewIdentity(storage.Key{ID: "key_1", Models: list})
}

// Name and alias are the same thing, in the list and in the request.
func TestMayUse(t *testing.T) {
	m := catalog().version(1)
	for _, test := range []struct {
		list     []string
		yes, not []string
	}{
		{nil, []string{"b/coder", "coder", "c/secret", "b/alias"}, []string{"gone", ""}},
		{[]string{"b/coder"}, []string{"b/coder", "coder", "team/best"}, []string{"b/chat", "c/secret", "b/alias", "llama3:8b"}},
		{[]string{"coder"}, []string{"b/coder", "coder", "team/best"}, []string{"b/chat", "c/secret", "b/alias"}},
		// An alias below b/ does not make its model one below b/.
		{[]string{"b/*"}, []string{"b/coder", "coder", "team/best", "b/chat"}, []string{"c/secret", "b/alias", "hidden", "llama3:8b"}},
		{[]string{"team/*"}, nil, []string{"b/coder", "coder", "team/best"}},
		{[]string{"*"}, []string{"llama3:8b"}, []string{"coder", "hidden", "b/coder"}},
		{[]string{"**"}, []string{"b/coder", "hidden", "llama3:8b"}, []string{"gone"}},
		{[]string{"hidden", "b/chat"}, []string{"c/secret", "b/alias", "hidden", "b/chat"}, []string{"b/coder", "coder"}},
		{[]string{"gone"}, nil, []string{"gone", "b/coder"}},
		{[]string{}, nil, []string{"b/coder", "coder", "llama3:8b"}},
		{[]string{"qwen*", "", "**/x"}, nil, []string{"b/coder", "llama3:8b"}}, // kept by another version; this one cannot read it
	} {
		id := identity(test.list...)
		for _, name := range test.yes {
			if !id.MayUse(m, name) {
				t.Errorf("%q may not use %s", test.list, name)
			}
		}
		for _, name := range test.not {
			if id.MayUse(m, name) {
				t.Errorf("%q may use %s", test.list, name)
			}
		}
	}
}

// A name in the list is read anew for each version of the catalog.
func TestMayUseFollowsTheCatalog(t *testing.T) {
	id := identity("coder", "soon")
	v1, v2 := catalog(), catalog()
	v2["coder"], v2["soon"] = "b/chat", "soon"
	for _, v := range []uint64{1, 2, 1, 2} {
		m := map[uint64]models{1: v1, 2: v2}[v].version(v)
		for name, want := range map[string]bool{"b/coder": v == 1, "b/chat": v == 2, "soon": v == 2} {
			if got := id.MayUse(m, name); got != want {
				t.Errorf("version %d: %s is %v, want %v", v, name, got, want)
			}
		}
	}
}

// Whatever the list and the catalog: all names of one model open alike, and
// nothing opens that the list does not hold by a name or match by canonical name.
func TestNoAliasOpensMore(t *testing.T) {
	part := rapid.StringMatching(`[ab](/[ab]){0,2}`)
	rapid.Check(t, func(t *rapid.T) {
		m := models{}
		for _, c := range rapid.SliceOfN(part, 1, 6).Draw(t, "models") {
			m[c] = c
		}
		canonical := slices.Sorted(maps.Keys(m))
		for alias, target := range rapid.MapOfN(part, rapid.SampledFrom(canonical), 0, 6).Draw(t, "aliases") {
			if _, taken := m[alias]; !taken {
				m[alias] = target
			}
		}
		list := rapid.SliceOfN(rapid.OneOf(part, rapid.SampledFrom([]string{"a/*", "*/b", "b/**", "*", "a/**"})), 1, 4).Draw(t, "list")
		id := identity(list...)
		for name, c := range m {
			want := false
			for _, text := range list {
				p, err := auth.ParsePattern(text)
				if err != nil {
					t.Fatal(err)
				}
				want = want || p.Match(c) || !p.Wildcard() && m[text] == c
			}
			if got := id.MayUse(m.version(1), name); got != want {
				t.Fatalf("%q, asked for %s of %s: %v, want %v", list, name, c, got, want)
			}
		}
	})
}

// Nobody is never somebody.
func TestZeroIdentity(t *testing.T) {
	now := time.Now()
	for name, id := range map[string]*auth.Identity{"nil": nil, "zero": {}, "no ID": auth.NewIdentity(storage.Key{Name: "x"})} {
		if id.Valid(now) || id.MayUse(catalog().version(1), "b/coder") {
			t.Errorf("%s is valid", name)
		}
		if _, ok := id.Budget(); ok || id.KeyID() != "" || id.Owner() != "" || id.Band() != "" || id.Limits() != (storage.Limits{}) ||
			id.Tags() != nil || id.ModelList() != nil || !id.ExpiresAt().IsZero() || id.Name() != "" || id.Revision() != 0 {
			t.Errorf("%s has something: %v", name, id.LogValue())
		}
		ctx := auth.NewContext(t.Context(), id)
		if got, ok := auth.FromContext(ctx); ok || got != nil {
			t.Errorf("%s stands in a context", name)
		}
	}
	if identity("**").MayUse(auth.Models{}, "b/coder") {
		t.Error("a model of no catalog may be used")
	}
}

func TestIdentitySays(t *testing.T) {
	rpm := int64(3)
	at := time.Now().Add(time.Hour)
	k := storage.Key{
		ID: "key_1", Hash: storage.KeyHash{9}, Name: "laptop", Owner: "ada", Models: []string{"b/*"}, Band: "gold", Revision: 4,
		Limits: storage.Limits{RequestsPerMinute: &rpm}, Budget: &storage.Budget{Nanos: 5, Period: storage.PeriodDay},
		Tags: map[string]string{"team": "x"}, ExpiresAt: at,
	}
	id := auth.NewIdentity(k)
	b, ok := id.Budget()
	tag, tagged := id.Tag("team")
	if id.KeyID() != "key_1" || id.Name() != "laptop" || id.Owner() != "ada" || id.Band() != "gold" || *id.Limits().RequestsPerMinute != 3 ||
		!ok || b.Nanos != 5 || !tagged || tag != "x" || !id.ExpiresAt().Equal(at) || id.Revision() != 4 || !slices.Equal(id.ModelList(), k.Models) {
		t.Errorf("%+v became %v", k, id.LogValue())
	}
	if !id.Valid(at.Add(-1)) || id.Valid(at) {
		t.Error("a key is valid until it expires, and not then")
	}
	k.RevokedAt = at
	if auth.NewIdentity(k).Valid(at.Add(-time.Minute)) {
		t.Error("a revoked key is valid")
	}
	id.Tags()["team"], id.ModelList()[0] = "y", "z"
	if tag, _ := id.Tag("team"); tag != "x" || id.ModelList()[0] != "b/*" {
		t.Error("an identity can be changed")
	}
	if got := fmt.Sprint(id.LogValue()); got != "[key=key_1 name=laptop owner=ada]" {
		t.Errorf("in logs it is %s", got)
	}
}

func TestMayUseAllocs(t *testing.T) {
	m := catalog().version(1)
	id := identity("coder", "c/**", "*/chat")
	if n := testing.AllocsPerRun(100, func() {
		if !id.MayUse(m, "coder") || !id.MayUse(m, "b/chat") || id.MayUse(m, "llama3:8b") {
			t.Fatal("wrong")
		}
	}); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}
