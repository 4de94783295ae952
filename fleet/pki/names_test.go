package pki_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/llmgw/llmgw/fleet/pki"
)

func TestCheckID(t *testing.T) {
	for _, id := range []string{"a", "gpu-17", "10.0.0.5", "ip-10-0-0-1.us-west-2.compute.internal", "0", strings.Repeat("a", 63)} {
		if err := pki.CheckID(id); err != nil {
			t.Errorf("%q: %v", id, err)
		}
	}
	for _, id := range []string{
		"", "GPU-17", "gpu_17", "gpu 17", "gpu/17", "../gpu", ".", "..", "gpu.", ".gpu", "a..b", "-gpu", "gpu-", "a.-b", "a-.b", "*", "gpu*",
		"gpü", "gpu\x00", "gpu\n", "a%2fb", strings.Repeat("a", 64),
	} {
		if err := pki.CheckID(id); !errors.Is(err, pki.ErrName) {
			t.Errorf("%q: error %v, want ErrName", id, err)
		}
	}
}

func TestParseHost(t *testing.T) {
	tests := []struct{ text, want, refusal string }{
		{text: "gw.example", want: "gw.example"},
		{text: "GW.Example.", want: "gw.example"},
		{text: "llmgw", want: "llmgw"},
		{text: "llmgw_server", want: "llmgw_server"},
		{text: "10.0.0.5", want: "10.0.0.5"},
		{text: "2001:db8::1", want: "2001:db8::1"},
		{text: "::ffff:10.0.0.5", want: "10.0.0.5"},
		{text: "", refusal: "is empty"},
		{text: "10.0.0", refusal: "ends in a number"},
		{text: "10.0.0.5:7443", refusal: `write "10.0.0.5" without ":7443"`},
		{text: "gw.example:7443", refusal: `write "gw.example" without`},
		{text: "[2001:db8::1]:7443", refusal: `write "2001:db8::1" alone`},
		{text: "[2001:db8::1]", refusal: `write "2001:db8::1" alone`},
		{text: "https://gw.example/", refusal: `as in "gw.example"`},
		{text: "*.example", refusal: "wildcard"},
		{text: "gw..example", refusal: `the part ""`},
		{text: "-gw.example", refusal: `the part "-gw"`},
		{text: "gü.example", refusal: "xn--"},
		{text: "gw example", refusal: "characters other than"},
		{text: "fe80::1%eth0", refusal: "zone"},
		{text: "0.0.0.0", refusal: "no address that can be dialled"},
		{text: "::", refusal: "no address that can be dialled"},
		{text: strings.Repeat("a.", 130) + "b", refusal: "longer than 253"},
	}
	for _, tt := range tests {
		got, err := pki.ParseHost(tt.text)
		switch {
		case tt.refusal != "":
			if !errors.Is(err, pki.ErrName) || !strings.Contains(err.Error(), tt.refusal) {
				t.Errorf("%q: error %v, want ErrName with %q", tt.text, err, tt.refusal)
			}
		case err != nil || got.String() != tt.want:
			t.Errorf("%q: %q, %v; want %q", tt.text, got, err, tt.want)
		}
	}
}

func TestServiceHosts(t *testing.T) {
	got, err := pki.ServiceHosts("inference", "llmgw", "cluster.local")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"llmgw", "llmgw.inference", "llmgw.inference.svc", "llmgw.inference.svc.cluster.local"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
	for _, bad := range [][2]string{{"inference", ""}, {"", "llmgw"}, {"a.b", "llmgw"}, {"inference", "a.b"}} {
		if _, err := pki.ServiceHosts(bad[0], bad[1], "cluster.local"); !errors.Is(err, pki.ErrName) {
			t.Errorf("%q: error %v, want ErrName", bad, err)
		}
	}
}
