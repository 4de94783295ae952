package auth_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/llmgw/llmgw/auth"
	"github.com/llmgw/llmgw/storage"
)

// wildcards draws patterns with a wildcard, of few segments.
func wildcards(t *rapid.T, label string) auth.Pattern {
	segments := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "*", "*", ""}), 0, 3).Draw(t, label)
	if last := rapid.SampledFrom([]string{"", "*", "**", "a"}).Draw(t, label+" ends"); last != "" || len(segments) == 0 {
		segments = append(segments, last)
	}
	text := strings.Join(segments, "/")
	p, err := auth.ParsePattern(text)
	if err != nil || !p.Wildcard() {
		p, _ = auth.ParsePattern("**")
	}
	return p
}

// names are all that have up to that many segments of few letters, one of which stands
// in no pattern.
func names(most int) (out []string) {
	level := []string{""}
	for range most {
		var next []string
		for _, head := range level {
			for _, s := range []string{"a", "b", "z", ""} {
				next = append(next, head+s)
			}
		}
		out = append(out, next...)
		level = level[:0]
		for _, n := range next {
			level = append(level, n+"/")
		}
	}
	return out
}

// A wildcard covers another one just where it matches every name that the other does.
func TestCovers(t *testing.T) {
	all := names(6)
	rapid.Check(t, func(t *rapid.T) {
		p, q := wildcards(t, "p"), wildcards(t, "q")
		want := true
		for _, name := range all {
			if q.Match(name) && !p.Match(name) {
				want = false
				break
			}
		}
		// What matches nothing is within everything, which Covers need not see.
		if got := p.Covers(q); got != want && slices.ContainsFunc(all, q.Match) {
			t.Fatalf("%s covers %s: %v, want %v", p, q, got, want)
		}
	})
	name, _ := auth.ParsePattern("a")
	if all, _ := auth.ParsePattern("**"); all.Covers(name) || name.Covers(all) || name.Covers(name) {
		t.Error("a name is covered by its look")
	}
}

func TestNarrow(t *testing.T) {
	m := catalog().version(1) // b/coder (coder), b/chat, c/coder and hidden
	for _, test := range []struct {
		asked, allowed, want []string // want nil: refused, unless asked is nil
	}{
		{nil, nil, nil},
		{nil, []string{"b/*"}, []string{"b/*"}},
		{[]string{}, []string{"b/*"}, []string{"b/*"}},
		{[]string{"b/*"}, nil, []string{"b/*"}},
		{[]string{"b/*"}, []string{"**"}, []string{"b/*"}},
		{[]string{"b/*"}, []string{"b/**"}, []string{"b/*"}},
		{[]string{"b/**"}, []string{"b/*"}, nil},
		{[]string{"**"}, []string{"*", "*/*"}, nil},
		{[]string{"b/coder"}, []string{"b/*"}, []string{"b/coder"}},
		{[]string{"coder"}, []string{"coder"}, []string{"coder"}},
		{[]string{"gone"}, []string{"gone"}, []string{"gone"}},
		{[]string{"gone"}, []string{"**"}, nil},
		{[]string{"gone"}, nil, nil},
		{[]string{"b/chat", "c/coder"}, []string{"b/*"}, nil},
		{[]string{"b/chat"}, []string{}, nil},
	} {
		got, err := auth.Narrow(test.asked, test.allowed, m)
		if len(test.asked) > 0 && test.want == nil {
			if !errors.Is(err, auth.ErrInvalid) || !strings.Contains(err.Error(), "is no model that may be used") {
				t.Errorf("%q of %q: %q, %v", test.asked, test.allowed, got, err)
			}
			continue
		}
		if err != nil || !slices.Equal(got, test.want) {
			t.Errorf("%q of %q: %q, %v; want %q", test.asked, test.allowed, got, err, test.want)
		}
	}
	if _, err := auth.Narrow([]string{"a*"}, nil, m); !errors.Is(err, auth.ErrInvalid) {
		t.Error(err)
	}
	// An alias becomes what it is an alias of, and so leads nowhere else later.
	alias, canonical := aliasOf(t, m)
	if got, err := auth.Narrow([]string{alias}, []string{"**"}, m); err != nil || !slices.Equal(got, []string{canonical}) {
		t.Errorf("%s became %q, %v", alias, got, err)
	}
	if got, err := auth.Narrow([]string{canonical}, []string{alias}, m); err != nil || !slices.Equal(got, []string{canonical}) {
		t.Errorf("%s of %s became %q, %v", canonical, alias, got, err)
	}
	if got, err := auth.Narrow([]string{alias}, []string{"**"}, auth.Models{}); err == nil {
		t.Errorf("without a catalog %s became %q", alias, got)
	}
}

// aliasOf returns some alias and its model's name.
func aliasOf(t *testing.T, m auth.Models) (alias, canonical string) {
	t.Helper()
	for _, name := range slices.Sorted(slices.Values(m.Names())) {
		if c, ok := m.Resolve(name); ok && c != name {
			return name, c
		}
	}
	t.Fatal("the catalog has no alias")
	return "", ""
}

// Whatever is asked of whatever is allowed, a key with what Narrow or Meet says may use
// nothing that the allowance may not.
func TestNarrowAndMeetAllowNoMore(t *testing.T) {
	m := catalog().version(1)
	all := m.Names()
	entry := rapid.OneOf(rapid.SampledFrom(append(slices.Clone(all), "gone")),
		rapid.Custom(func(t *rapid.T) string { return wildcards(t, "wildcard").String() }), rapid.SampledFrom([]string{"b/*", "**", "*", "c/**"}))
	list := rapid.OneOf(rapid.Just([]string(nil)), rapid.SliceOfN(entry, 1, 4))
	may := func(models []string) func(string) bool {
		id := auth.NewIdentity(keyWith(models))
		return func(name string) bool { return id.MayUse(m, name) }
	}
	rapid.Check(t, func(t *rapid.T) {
		asked, allowed := list.Draw(t, "asked"), list.Draw(t, "allowed")
		if got, err := auth.Narrow(asked, allowed, m); err == nil {
			for _, name := range all {
				if may(got)(name) && !may(allowed)(name) || len(asked) > 0 && may(got)(name) != may(asked)(name) {
					t.Fatalf("Narrow gave %q, which may use %s", got, name)
				}
			}
		}
		got, ok := auth.Meet(asked, allowed, m)
		if ok && got == nil && (asked != nil || allowed != nil) || !ok && got != nil {
			t.Fatalf("Meet gave %q, %v", got, ok)
		}
		for _, name := range all {
			if ok && may(got)(name) && (!may(allowed)(name) || !may(asked)(name)) {
				t.Fatalf("Meet gave %q, which may use %s", got, name)
			}
		}
	})
}

// What two lists of the most entries have in common is no longer than a list may be.
func TestMeetIsBounded(t *testing.T) {
	var a, b []string
	for i := range auth.MaxPatterns {
		a = append(a, "a/"+strings.Repeat("x", 40)+string(rune('0'+i%10))+string(rune('a'+i/10))+"/*")
		b = append(b, "b/"+string(rune('0'+i%10))+string(rune('a'+i/10))+"/*")
	}
	a[0], b[0] = "b/**", "a/**"
	got, ok := auth.Meet(a, b, auth.Models{})
	if _, err := auth.CheckModels(got, auth.Models{}, true); !ok || err != nil || len(got) < 100 {
		t.Errorf("%d entries, %v, %v", len(got), ok, err)
	}
}

func keyWith(models []string) storage.Key { return storage.Key{ID: "key_1", Models: models} }
