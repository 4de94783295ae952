package discover_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/llmgw/llmgw/fleet/discover"
)

func TestBaseURL(t *testing.T) {
	tests := []struct{ text, want, err string }{
		{"http://10.0.0.1:8000", "http://10.0.0.1:8000", ""},
		{"HTTP://Gold.Example:8000/", "http://gold.example:8000", ""},
		{"https://a.example:443/v1/", "https://a.example", ""},
		{"http://a.example:80/v1", "http://a.example", ""},
		{"http://a.example:08000/llm//", "http://a.example:8000/llm", ""},
		{"http://[FD00::0001]:8000", "http://[fd00::1]:8000", ""},
		{"http://[fd00::1]", "http://[fd00::1]", ""},
		{"http://[::ffff:10.0.0.1]:8000", "http://10.0.0.1:8000", ""},
		{"https://a.example.:8000/llm/v1", "https://a.example:8000/llm", ""},
		{"http://a..example", "", "no host"},
		{"http://.", "", "no host"},
		{"https://a.example:80", "https://a.example:80", ""},
		{"ftp://a.example", "", "neither http:// nor https://"},
		{"a.example:8000", "", "neither http:// nor https://"},
		{"10.0.0.1:8000", "", "no URL"},
		{"", "", "neither"},
		{"http://", "", "no host"},
		{"http://:8000", "", "no host"},
		{"http://user:geheim@a.example", "", "holds a user"},
		{"http://a.example?x=1", "", "query"},
		{"http://a.example?", "", "query"},
		{"http://a.example/#x", "", "query"},
		{"http://a.example:", "", "without a port"},
		{"http://a.example:0", "", "no port"},
		{"http://a.example:65536", "", "no port"},
		{"http://a b", "", "no URL"},
		{"http://a.example/../x", "", "dots"},
		{"http://[fe80::1%25eth0]:8000", "", "no host"},
		{"http://a.example/" + strings.Repeat("x", 3000), "", "longer"},
	}
	for _, tt := range tests {
		t.Run(tt.text[:min(len(tt.text), 40)], func(t *testing.T) {
			got, err := discover.BaseURL(tt.text)
			switch {
			case tt.err == "" && (err != nil || got != tt.want):
				t.Errorf("%q, %v; want %q", got, err, tt.want)
			case tt.err != "" && (!errors.Is(err, discover.ErrAddress) || !strings.Contains(err.Error(), tt.err)):
				t.Errorf("%q, %v; want an error with %q", got, err, tt.err)
			case err != nil && strings.Contains(err.Error(), "geheim"):
				t.Errorf("the error repeats a password: %v", err)
			}
		})
	}
}

func FuzzBaseURL(f *testing.F) {
	for _, seed := range []string{"http://10.0.0.1:8000/v1/", "https://A:443", "http://[::1]:80", "http://a/v1/v1", "http://a/%2e%2e/"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := discover.BaseURL(text)
		if err != nil {
			if !errors.Is(err, discover.ErrAddress) {
				t.Fatalf("error %v", err)
			}
			return
		}
		again, err := discover.BaseURL(got)
		if err != nil || again != got {
			t.Fatalf("%q is %q, and that is %q, %v", text, got, again, err)
		}
	})
}

func TestPortScan(t *testing.T) {
	scan := discover.PortScan{Host: "Gold.Example", Name: "gold", Ports: []int{8000, 8001}}
	got, err := scan.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := discover.Listing{Candidates: []discover.Candidate{
		{BaseURL: "http://gold.example:8000", Node: "gold", Prefix: []string{"gold"}, Origin: "port scan"},
		{BaseURL: "http://gold.example:8001", Node: "gold", Prefix: []string{"gold"}, Origin: "port scan"},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	tests := []struct {
		name string
		scan discover.PortScan
		want string
	}{
		{"good", scan, ""},
		{"IPv6", discover.PortScan{Host: "fd00::1", Ports: []int{1}}, ""},
		{"nothing to scan", discover.PortScan{}, ""},
		{"no host", discover.PortScan{Ports: []int{1}}, "advertise is empty"},
		{"a URL", discover.PortScan{Host: "http://a", Ports: []int{1}}, "want an address or a name, without a port"},
		{"a port", discover.PortScan{Host: "10.0.0.1:8000", Ports: []int{1}}, "without a port"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			switch err := tt.scan.Validate(); {
			case tt.want == "" && err != nil:
				t.Error(err)
			case tt.want != "" && (!errors.Is(err, discover.ErrAddress) || !strings.Contains(err.Error(), tt.want)):
				t.Errorf("%v, want an error with %q", err, tt.want)
			}
		})
	}
}
