package hardware_test

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/llmgw/llmgw/fleet/hardware"
	"github.com/llmgw/llmgw/fleet/hardware/hardwaretest"
)

func TestAdvertise(t *testing.T) {
	// addresses replaces those of a machine that has eth0, lo and docker0.
	addresses := func(text string) func(*hardwaretest.Machine) {
		return func(m *hardwaretest.Machine) { m.Write("commands/ip/-json_address", text) }
	}
	noEth0 := func(m *hardwaretest.Machine) {
		m.Remove("sys/class/net/eth0")
		m.Write("sys/class/net/ens3/operstate", "up")
		addresses(`[{"ifname":"ens3","addr_info":[{"local":"fe80::1","prefixlen":64},{"local":"2001:db8::7","prefixlen":64},{"local":"10.1.0.7","prefixlen":16}]},
			{"ifname":"docker0","addr_info":[{"local":"172.17.0.1","prefixlen":16}]},{"ifname":"lo","addr_info":[{"local":"127.0.0.1","prefixlen":8}]}]`)(m)
		m.Write("proc/net/route", "Iface Destination Gateway Flags RefCnt Use Metric Mask MTU\nens3 00000000 0 0003 0 0 0 00000000 0\ndocker0 000011AC 0 0001 0 0 0 0000FFFF 0")
		m.Write("etc/hosts", "127.0.0.1 localhost\n10.9.9.9 control.example # the control plane")
	}
	const control = "10.9.9.9:7443"
	tests := []struct {
		name    string
		change  func(*hardwaretest.Machine)
		cfg     hardware.AdvertiseConfig
		want    string // interface and address
		refused string // part of the error
	}{
		{"default", nil, hardware.AdvertiseConfig{ControlPlane: control}, "eth0 10.0.0.7", ""},
		{"default, written", nil, hardware.AdvertiseConfig{Interface: "eth0", Written: true}, "eth0 10.0.0.7", ""},
		{"written and absent", nil, hardware.AdvertiseConfig{Interface: "ib9", Written: true, ControlPlane: control}, "", `there is no interface "ib9"; there are: docker0 (172.17.0.1), eth0 (10.0.0.7 fe80::42:1), lo (127.0.0.1 ::1)`},
		{"default absent", noEth0, hardware.AdvertiseConfig{ControlPlane: control}, "ens3 10.1.0.7", ""},
		{"another default absent", noEth0, hardware.AdvertiseConfig{Interface: "bond0", ControlPlane: control}, "ens3 10.1.0.7", ""},
		{"another default without an address", noEth0, hardware.AdvertiseConfig{Interface: "docker0", ControlPlane: control}, "ens3 10.1.0.7", ""},
		{"eth0 as another's default", noEth0, hardware.AdvertiseConfig{Interface: "eth0", ControlPlane: control}, "ens3 10.1.0.7", ""},
		{"another default, no control plane", noEth0, hardware.AdvertiseConfig{Interface: "bond0"}, "", "there is no interface bond0 with a usable address"},
		{"default absent, a name", noEth0, hardware.AdvertiseConfig{ControlPlane: "control.example:7443"}, "ens3 10.1.0.7", ""},
		{"default absent, an unknown name", noEth0, hardware.AdvertiseConfig{ControlPlane: "x.example:7443"}, "", "name an interface of: docker0"},
		{"default absent, no control plane", noEth0, hardware.AdvertiseConfig{}, "", "none to route to"},
		{"default absent, no route", noEth0, hardware.AdvertiseConfig{ControlPlane: "[2001:db8::1]:7443"}, "", "no route leads to 2001:db8::1"},
		{"by way of containers", noEth0, hardware.AdvertiseConfig{ControlPlane: "172.17.0.9:7443"}, "", `interface "docker0", which leads to the control plane, has none that may be told`},
		{"containers, named", nil, hardware.AdvertiseConfig{Interface: "docker0", Written: true}, "docker0 172.17.0.1", ""},
		{"loopback, named", nil, hardware.AdvertiseConfig{Interface: "lo", Written: true}, "lo 127.0.0.1", ""},
		{"control plane on this machine", noEth0, hardware.AdvertiseConfig{ControlPlane: "127.0.0.1:7443"}, "lo 127.0.0.1", ""},
		{"only link-local", addresses(`[{"ifname":"eth0","addr_info":[{"local":"fe80::1","prefixlen":64}]}]`), hardware.AdvertiseConfig{Interface: "eth0", Written: true}, "", "none that others could use"},
		{"link-local of IPv4, named", addresses(`[{"ifname":"eth0","addr_info":[{"local":"169.254.3.4","prefixlen":16}]}]`), hardware.AdvertiseConfig{Interface: "eth0", Written: true}, "eth0 169.254.3.4", ""},
		{"link-local of IPv4, default", addresses(`[{"ifname":"eth0","addr_info":[{"local":"169.254.3.4","prefixlen":16}]}]`), hardware.AdvertiseConfig{ControlPlane: control}, "", "has none that may be told"},
		{"IPv6 alone", addresses(`[{"ifname":"eth0","addr_info":[{"local":"fe80::1","prefixlen":64},{"local":"2001:db8::7","prefixlen":64}]}]`), hardware.AdvertiseConfig{}, "eth0 2001:db8::7", ""},
		{"addresses cannot be read", addresses(`{`), hardware.AdvertiseConfig{}, "", "ip -json address"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := hardwaretest.CPUOnly(t, hardwaretest.Options{})
			if tt.change != nil {
				tt.change(m)
			}
			got, err := newReader(t, config(m), hardware.Deps{}).Advertise(t.Context(), tt.cfg)
			if tt.refused != "" {
				if !errors.Is(err, hardware.ErrAdvertise) || !strings.Contains(err.Error(), tt.refused) {
					t.Errorf("%+v, %v; want an error with %q", got, err, tt.refused)
				}
				return
			}
			if err != nil || got.Interface+" "+got.Address.String() != tt.want || got.Why == "" {
				t.Errorf("%+v, %v; want %s", got, err, tt.want)
			}
			if missed := !tt.cfg.Written && tt.cfg.Interface != "" && tt.cfg.Interface != got.Interface && tt.cfg.Interface != hardware.DefaultInterface; missed != (got.Missed != "") {
				t.Errorf("of %q it says: %q", tt.cfg.Interface, got.Missed)
			}
		})
	}
}

// The kernel's own choice of an address counts where it is known.
func TestAdvertiseTakesTheAddressOfTheRoute(t *testing.T) {
	m := hardwaretest.CPUOnly(t, hardwaretest.Options{})
	r := newReader(t, config(m), hardware.Deps{Network: twoAddresses{}})
	got, err := r.Advertise(t.Context(), hardware.AdvertiseConfig{Interface: "bond0", ControlPlane: "10.2.0.1:7443"})
	if err != nil || got.Address != netip.MustParseAddr("10.2.0.7") {
		t.Errorf("%+v, %v", got, err)
	}
}

type twoAddresses struct{}

func (twoAddresses) Addresses(context.Context) (map[string][]netip.Prefix, error) {
	return map[string][]netip.Prefix{"eth0": {netip.MustParsePrefix("10.1.0.7/16"), netip.MustParsePrefix("10.2.0.7/16")}}, nil
}

func (twoAddresses) Route(context.Context, string, string) (string, netip.Addr, error) {
	return "eth0", netip.MustParseAddr("10.2.0.7"), nil
}

// The machine that runs the tests reaches its own loopback over it.
func TestAdvertiseOnThisMachine(t *testing.T) {
	r := newReader(t, hardware.DefaultConfig(), hardware.Deps{})
	got, err := r.Advertise(t.Context(), hardware.AdvertiseConfig{Interface: "no-such-default", ControlPlane: "127.0.0.1:7443"})
	if err != nil || !got.Address.IsLoopback() {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := r.Advertise(t.Context(), hardware.AdvertiseConfig{Interface: "no-such", Written: true}); !errors.Is(err, hardware.ErrAdvertise) {
		t.Errorf("error %v, want %v", err, hardware.ErrAdvertise)
	}
}
