package control

import (
	"errors"
	"strings"
	"testing"
)

func TestReachable(t *testing.T) {
	const here = "10.0.0.1:7443"
	for _, tt := range []struct {
		name, address, remote, local string
		want                         string // part of the error; "": it is taken
	}{
		{"a private one", "10.0.0.5", "10.0.0.5:40000", here, ""},
		{"another than the stream's", "192.168.7.5", "10.0.0.5:40000", here, ""},
		{"none", "", "10.0.0.5:40000", here, ""},
		{"a name", "gpu-17", "10.0.0.5:40000", here, ""},
		{"all addresses", "0.0.0.0", "127.0.0.1:40000", "127.0.0.1:7443", "is no node's"},
		{"all addresses of IPv6", "::", "10.0.0.5:40000", here, "is no node's"},
		{"many machines'", "224.0.0.1", "10.0.0.5:40000", here, "is no node's"},
		{"the loopback, elsewhere", "127.0.0.1", "10.0.0.5:40000", here, "nobody else reaches it there; set address"},
		{"the loopback of IPv6, elsewhere", "::1", "[2001:db8::5]:40000", "[2001:db8::1]:7443", "is the loopback"},
		{"the loopback, as IPv6", "::ffff:127.0.0.1", "10.0.0.5:40000", here, "is the loopback"},
		{"the loopback, over it", "127.0.0.1", "127.0.0.1:40000", "127.0.0.1:7443", ""},
		{"the loopback, by this machine's own address", "127.0.0.1", "10.0.0.1:40000", here, ""},
		{"the same on a listener of both versions", "127.0.0.1", "[::ffff:10.0.0.1]:40000", here, ""},
		{"the loopback, from who knows where", "127.0.0.1", "pipe", "pipe", ""},
		{"link-local of IPv6", "fe80::1", "[fe80::1%eth0]:40000", "[fe80::2%eth0]:7443", "says nothing without an interface"},
		{"link-local, on its link", "169.254.7.5", "169.254.7.5:40000", "169.254.7.1:7443", ""},
		{"link-local, elsewhere", "169.254.169.254", "10.0.0.5:40000", here, "nobody beyond its link reaches it there"},
		{"link-local, on this machine", "169.254.7.5", "127.0.0.1:40000", "127.0.0.1:7443", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := reachable(tt.address, &wire{remote: tt.remote, local: tt.local})
			if (err != nil) != (tt.want != "") || err != nil && (!errors.Is(err, errInvalid) || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("%v; want %q", err, tt.want)
			}
		})
	}
}
