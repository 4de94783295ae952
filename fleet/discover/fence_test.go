package discover_test

import (
	"errors"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/llmgw/llmgw/fleet/discover"
)

func networks(texts ...string) []netip.Prefix {
	var out []netip.Prefix
	for _, t := range texts {
		out = append(out, netip.MustParsePrefix(t))
	}
	return out
}

func TestFence(t *testing.T) {
	fence := discover.Fence{
		Allow:   networks("127.0.0.2/32", "10.244.0.0/16", "172.17.8.0/24"),
		Bridges: networks("192.168.96.0/20"),
		Never:   networks("10.244.1.0/24", "10.96.0.7/32", "fd00:96::7/128"),
	}
	tests := []struct {
		base string
		ok   bool
	}{
		{"http://10.0.0.1:8000", true},
		{"http://192.168.1.5:8000", true},
		{"http://gold.example:8000", true},
		{"http://[fd00::1]:8000", true},
		{"http://203.0.113.5:8000", true},
		{"http://127.0.0.1:8000", false},
		{"http://127.9.9.9:8000", false},
		{"http://[::1]:8000", false},
		{"http://[::ffff:127.0.0.1]:8000", false},
		{"http://0.0.0.0:8000", false},
		{"http://[::]:8000", false},
		{"http://169.254.169.254", false},
		{"http://[fe80::1]:8000", false},
		{"http://224.0.0.1:8000", false},
		{"http://255.255.255.255:8000", false},
		{"http://172.17.0.2:8000", false},
		{"http://192.168.97.3:8000", false},
		{"http://localhost:8000", false},
		{"http://LocalHost.:8000", false},
		{"http://x.localhost", false},
		{"http://metadata.google.internal", false},
		{"http://vllm.ai.svc:8000", false},
		{"http://vllm.ai.svc.cluster.local:8000", false},
		{"http://vllm.ai.svc.prod.example:8000", false},
		// What configuration names.
		{"http://127.0.0.2:8000", true},
		{"http://172.17.8.1:8000", true},
		{"http://10.244.2.1:8000", true},
		// What a cluster says of itself goes before that.
		{"http://10.244.1.9:8000", false},
		{"http://10.96.0.7:8000", false},
		{"http://[fd00:96::7]:8000", false},
	}
	for _, tt := range tests {
		t.Run(tt.base, func(t *testing.T) {
			if err := fence.CheckURL(tt.base); (err == nil) != tt.ok || (err != nil && !errors.Is(err, discover.ErrForbidden)) {
				t.Errorf("%v, want it allowed: %v", err, tt.ok)
			}
		})
	}
	if err := (discover.Fence{Allow: networks("127.0.0.0/8")}).CheckURL("http://localhost:8000"); err != nil {
		t.Errorf("localhost, which is allowed: %v", err)
	}
	if err := fence.CheckAddr(netip.Addr{}); !errors.Is(err, discover.ErrForbidden) {
		t.Errorf("no address: %v", err)
	}
}

func TestBridges(t *testing.T) {
	got := discover.Bridges([]discover.Interface{
		{Name: "lo", Networks: networks("127.0.0.1/8")},
		{Name: "eth0", Networks: networks("10.0.0.5/24")},
		{Name: "bond0", Networks: networks("10.1.0.5/24")},
		{Name: "docker0", Networks: networks("172.18.0.1/16")},
		{Name: "br-0d3f", Networks: networks("192.168.97.1/20")},
		{Name: "cni0", Networks: networks("10.244.0.1/24")},
		{Name: "bridge0", Networks: networks("10.2.0.5/24")},
	})
	want := []string{"172.18.0.0/16", "192.168.96.0/20", "10.244.0.0/24"}
	var texts []string
	for _, n := range got {
		texts = append(texts, n.String())
	}
	if diff := cmp.Diff(want, texts); diff != "" {
		t.Error(diff)
	}
}
