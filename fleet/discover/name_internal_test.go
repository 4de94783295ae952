package discover

import (
	"fmt"
	"regexp"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestName(t *testing.T) {
	tests := []struct {
		parts []string
		want  string
	}{
		{[]string{"nvidia/Qwen3.6-35B"}, "nvidia-qwen3.6-35b"},
		{[]string{"Gold01", "nvidia/Qwen3.6-35B", "8000"}, "gold01-nvidia-qwen3.6-35b-8000"},
		{[]string{"prod", "", "m", "80"}, "prod-m-80"},
		{[]string{"--a__b!!", "///"}, "a-b"},
		{[]string{"a.b", "..."}, "a.b-..."},
		{[]string{"Straße", "模型"}, "stra-e"},
		{nil, ""},
		{[]string{"", "!"}, ""},
	}
	for _, tt := range tests {
		if got := Name(tt.parts...); got != tt.want {
			t.Errorf("Name(%q) = %q, want %q", tt.parts, got, tt.want)
		}
	}
}

// well is what a name looks like.
var well = regexp.MustCompile(`^([a-z0-9.]+(-[a-z0-9.]+)*)?$`) //nolint:gochecknoglobals // constant

func checkName(t interface{ Fatalf(string, ...any) }, parts ...string) {
	got := Name(parts...)
	if !well.MatchString(got) {
		t.Fatalf("Name(%q) = %q", parts, got)
	}
	if again := Name(got); again != got {
		t.Fatalf("Name(%q) = %q, and the name of that is %q", parts, got, again)
	}
}

func TestNameProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { checkName(t, rapid.SliceOf(rapid.String()).Draw(t, "parts")...) })
}

func FuzzName(f *testing.F) {
	f.Add("Gold01", "nvidia/Qwen3.6-35B")
	f.Add("-", "\xff")
	f.Add("İ", "K") // both become something else in lower case
	f.Fuzz(func(t *testing.T, a, b string) { checkName(t, a, b) })
}

func found(base, model string, prefix ...string) Found {
	return Found{Candidate: Candidate{BaseURL: base, Prefix: prefix}, Model: model}
}

func TestNameAll(t *testing.T) {
	tests := []struct {
		name  string
		found []Found
		want  []string
	}{
		{"a host", []Found{found("http://10.0.0.1:8000", "a/b", "gold")}, []string{"gold-a-b-8000"}},
		{"one port, several nodes", []Found{found("http://10.0.0.1:8000", "m", "prod", "n1"), found("http://10.0.0.2:8000", "m", "prod", "n2")}, []string{"prod-n1-m-8000", "prod-n2-m-8000"}},
		{"several models on one node", []Found{found("http://10.0.0.1:8000", "m1", "prod", "n1"), found("http://10.0.0.1:8001", "m2", "prod", "n1")}, []string{"prod-n1-m1-8000", "prod-n1-m2-8001"}},
		{"one model twice on one node", []Found{found("http://10.0.0.1:8000", "m", "prod", "n1"), found("http://10.0.0.1:8001", "m", "prod", "n1")}, []string{"prod-n1-m-8000", "prod-n1-m-8001"}},
		{"ports that go without saying", []Found{found("https://a.example", "m", "prod", ""), found("http://a.example", "m", "prod", "")}, []string{"prod-m-443", "prod-m-80"}},
		{
			"nodes that nobody knows",
			[]Found{found("https://a.example", "m", "prod", ""), found("https://b.example", "m", "prod", "")},
			[]string{"prod-m-443-38612c96", "prod-m-443-35b22c6c"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			nameAll(tt.found)
			for i, f := range tt.found {
				if f.Name != tt.want[i] {
					t.Errorf("%s is %q, want %q", f.BaseURL, f.Name, tt.want[i])
				}
			}
		})
	}
}

// Names are distinct whatever engines call themselves, also what others would be
// called by, do not depend on the order, and can be names.
func TestNamesAreDistinct(t *testing.T) {
	part := rapid.SampledFrom([]string{"", "a", "b", "a-b", "A", "a/b", "8000", "-"})
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 12).Draw(t, "engines")
		var all []Found
		for i := range n {
			model := part.Draw(t, "model")
			if i > 0 && rapid.Bool().Draw(t, "hostile") {
				// What an earlier one would be called if it is alike with another.
				other := all[rapid.IntRange(0, i-1).Draw(t, "other")]
				c := other.Candidate
				model = withSum(Name(append(append([]string(nil), c.Prefix...), other.Model, c.port())...), other.BaseURL, rapid.IntRange(1, 3).Draw(t, "round"))
			}
			all = append(all, found(fmt.Sprintf("http://10.0.0.%d:8000", i), model, part.Draw(t, "cluster"), part.Draw(t, "node")))
		}
		nameAll(all)
		names := map[string]string{}
		for _, f := range all {
			if other, ok := names[f.Name]; ok {
				t.Fatalf("%s and %s are both %q", other, f.BaseURL, f.Name)
			}
			if !well.MatchString(f.Name) || f.Name == "" || len(f.Name) > maxName {
				t.Fatalf("%s is %q", f.BaseURL, f.Name)
			}
			names[f.Name] = f.BaseURL
		}
		other := rapid.Permutation(all).Draw(t, "order")
		nameAll(other)
		for _, f := range other {
			if names[f.Name] != f.BaseURL {
				t.Fatalf("in another order %s is %q", f.BaseURL, f.Name)
			}
		}
	})
}

func TestLongNames(t *testing.T) {
	long := make([]byte, 600)
	for i := range long {
		long[i] = 'x'
	}
	all := []Found{found("http://10.0.0.1:8000", string(long), "gold"), found("http://10.0.0.1:8001", string(long), "gold")}
	nameAll(all)
	for _, f := range all {
		if len(f.Name) > maxName || !utf8.ValidString(f.Name) {
			t.Errorf("%d bytes: %q", len(f.Name), f.Name)
		}
	}
	if all[0].Name == all[1].Name {
		t.Errorf("both are %q", all[0].Name)
	}
}
