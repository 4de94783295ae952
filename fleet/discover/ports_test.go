package discover_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/llmgw/llmgw/fleet/discover"
)

func TestParsePorts(t *testing.T) {
	tests := []struct {
		text string
		want []int
		err  string // substring; "" for none
	}{
		{"8000", []int{8000}, ""},
		{"8000,8001,8890-8893", []int{8000, 8001, 8890, 8891, 8892, 8893}, ""},
		{" 8001 , 8000", []int{8000, 8001}, ""},
		{"8000-8000,8000", []int{8000}, ""},
		{"1,65535", []int{1, 65535}, ""},
		{"", nil, `"" is no port`},
		{"8000,", nil, `"" is no port`},
		{"0", nil, "no port"},
		{"65536", nil, "no port"},
		{"-1", nil, "no port"},
		{"+8000", nil, "no port"},
		{"8000-", nil, "no port"},
		{"8000-8001-8002", nil, "no port"},
		{"8001-8000", nil, "ends before it begins; want e.g. 8000-8001"},
		{"1-65535", nil, "65535 ports; 1024 are the most"},
		{"1-1000,2001-3000", nil, "more than 1024"},
		{"http", nil, "no port"},
		{"1-1000" + strings.Repeat(",1-1000", 500), nil, ""},
	}
	for _, tt := range tests {
		t.Run(tt.text[:min(len(tt.text), 20)], func(t *testing.T) {
			got, err := discover.ParsePorts(tt.text)
			switch {
			case tt.err != "" && (err == nil || !errors.Is(err, discover.ErrPorts) || !strings.Contains(err.Error(), tt.err)):
				t.Errorf("%v, %v; want an error with %q", got, err, tt.err)
			case tt.err == "" && err != nil:
				t.Error(err)
			case tt.want != nil && !cmp.Equal(tt.want, got):
				t.Error(cmp.Diff(tt.want, got))
			}
		})
	}
	if diff := cmp.Diff([]int{8000, 8001, 8080, 8890}, discover.DefaultPorts()); diff != "" {
		t.Error(diff)
	}
}

func FuzzParsePorts(f *testing.F) {
	for _, seed := range []string{"8000", "8000,8001,8890-8899", "1-65535", ",", "-", "8000-8001-8002", " 1 "} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := discover.ParsePorts(text)
		if err != nil {
			if !errors.Is(err, discover.ErrPorts) || len(err.Error()) > 400 {
				t.Fatalf("error %q", err)
			}
			return
		}
		if len(got) == 0 || len(got) > 1024 || !slices.IsSorted(got) || got[0] < 1 || got[len(got)-1] > 65535 {
			t.Fatalf("%q: %v", text, got)
		}
		if len(slices.Compact(slices.Clone(got))) != len(got) {
			t.Fatalf("%q: a port twice", text)
		}
	})
}
