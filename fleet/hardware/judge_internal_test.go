package hardware

import (
	"errors"
	"strings"
	"testing"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/fleet/hardware/internal/sysfs"
)

// port makes a port of words: "mlx5_0 ib ACTIVE 400 fe80:0:0:0".
func port(words string) sysfs.Port {
	f := strings.Fields(words)
	p := sysfs.Port{FabricPort: engines.FabricPort{Device: f[0], Port: 1}}
	p.LinkLayer = map[string]engines.LinkLayer{"ib": engines.InfiniBand, "eth": engines.Ethernet}[f[1]]
	p.State.State, p.State.Physical = f[2], "LinkUp"
	p.State.RateGbps = sysfs.Rate(f[3] + " Gb/sec")
	if len(f) > 4 {
		p.State.GIDPrefix = f[4]
	}
	return p
}

func TestJudge(t *testing.T) {
	type fabrics = []engines.Fabric
	ib := func(devices ...string) engines.Fabric {
		return engines.Fabric{Name: "a", RateGbps: 400, Devices: devices}
	}
	roce := func(devices ...string) engines.Fabric {
		return engines.Fabric{Name: "a", RateGbps: 400, LinkLayer: engines.Ethernet, Devices: devices}
	}
	tests := []struct {
		name    string
		fabrics fabrics
		ports   []string
		verdict engines.Verdict
		reason  string // part of the only reason; "" for none
	}{
		{"as it should be", fabrics{ib()}, []string{"m0 ib ACTIVE 400", "m1 ib ACTIVE 400"}, engines.Confirmed, ""},
		{"faster", fabrics{ib()}, []string{"m0 ib ACTIVE 800"}, engines.Confirmed, ""},
		{"rate not stated", fabrics{{Name: "a"}}, []string{"m0 ib ACTIVE 10"}, engines.Confirmed, ""},
		{"rate not read", fabrics{ib()}, []string{"m0 ib ACTIVE ?"}, engines.Confirmed, ""},
		{"another port beside it", fabrics{ib()}, []string{"m0 ib ACTIVE 400", "m1 ib DOWN 10", "m2 eth ACTIVE 100"}, engines.Confirmed, ""},
		{"a slower one beside it", fabrics{ib()}, []string{"m0 ib ACTIVE 400", "m1 ib ACTIVE 200"}, engines.Confirmed, ""},
		{"no port", fabrics{ib()}, nil, engines.Contradicted, "has no InfiniBand or RoCE port"},
		{"none active", fabrics{ib()}, []string{"m0 ib DOWN 10"}, engines.Contradicted, "no port is ACTIVE; m0 port 1 is DOWN"},
		{"no subnet manager", fabrics{ib()}, []string{"m0 ib INIT 400"}, engines.Contradicted, "no subnet manager"},
		{"slower", fabrics{ib()}, []string{"m0 ib ACTIVE 200", "m1 ib ACTIVE 100"}, engines.Contradicted, "m0 port 1 runs at 200 Gbit/s, and rate_gbps says 400, which is the fastest"},
		{"Ethernet", fabrics{ib()}, []string{"m0 eth ACTIVE 400"}, engines.Contradicted, "speaks ethernet, and the label says infiniband; if the fabric is RoCE"},
		{"two subnets", fabrics{ib()}, []string{"m0 ib ACTIVE 400 fe80:0:0:0", "m1 ib ACTIVE 400 fe80:0:0:1"}, engines.Contradicted, "two fabrics under one label"},
		{"a subnet that is not known", fabrics{ib()}, []string{"m0 ib ACTIVE 400 fe80:0:0:0", "m1 ib ACTIVE 400"}, engines.Confirmed, ""},
		{"two labels without devices", fabrics{ib(), {Name: "b"}}, []string{"m0 ib ACTIVE 400"}, engines.Unknown, "list the devices of each"},
		{"two labels of two kinds", fabrics{ib(), {Name: "b", LinkLayer: engines.Ethernet}}, []string{"m0 ib ACTIVE 400", "m1 eth ACTIVE 1"}, engines.Confirmed, ""},
		{"ports of another label", fabrics{ib(), {Name: "b", Devices: []string{"m0"}}}, []string{"m0 ib ACTIVE 400"}, engines.Contradicted, "no InfiniBand or RoCE port"},

		{"named", fabrics{ib("m0")}, []string{"m0 ib ACTIVE 400", "m1 ib DOWN 10"}, engines.Confirmed, ""},
		{"named and missing", fabrics{ib("m0", "m7")}, []string{"m0 ib ACTIVE 400"}, engines.Contradicted, "m7 is not there; there are: m0"},
		{"named and missing, none there", fabrics{ib("m7")}, nil, engines.Contradicted, "there are: none"},
		{"named and down", fabrics{ib("m0", "m1")}, []string{"m0 ib ACTIVE 400", "m1 ib DOWN 10"}, engines.Contradicted, "m1 port 1 is DOWN"},
		{"named and slower", fabrics{ib("m0", "m1")}, []string{"m0 ib ACTIVE 400", "m1 ib ACTIVE 100"}, engines.Contradicted, "m1 port 1 runs at 100"},
		{"named and Ethernet", fabrics{ib("m0")}, []string{"m0 eth ACTIVE 400"}, engines.Contradicted, "speaks ethernet"},
		{"named, the second port free", fabrics{ib("m0")}, []string{"m0 ib ACTIVE 400", "m0 ib DOWN 10"}, engines.Confirmed, ""},

		{"RoCE", fabrics{roce()}, []string{"m0 eth ACTIVE 400 fe80:0:0:0", "m1 eth ACTIVE 400 fe80:0:0:1"}, engines.Confirmed, ""},
		{"RoCE that is InfiniBand", fabrics{roce()}, []string{"m0 ib ACTIVE 400"}, engines.Contradicted, "speaks infiniband"},
		{"interface", fabrics{roce("ens1")}, nil, engines.Confirmed, ""},
		{"interface that is slower", fabrics{roce("ens2")}, nil, engines.Contradicted, "interface ens2 runs at 100 Gbit/s"},
		{"interface that is down", fabrics{roce("ens3")}, nil, engines.Contradicted, "interface ens3 is down"},
		{"interface as InfiniBand", fabrics{ib("ens1")}, nil, engines.Contradicted, "speaks ethernet"},
	}
	interfaces := []engines.NetInterface{
		{Name: "ens1", Up: true, SpeedMbps: engines.Known(400_000)},
		{Name: "ens2", Up: true, SpeedMbps: engines.Known(100_000)},
		{Name: "ens3"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var ports []sysfs.Port
			for _, p := range tt.ports {
				ports = append(ports, port(p))
			}
			got := judge(tt.fabrics, ports, interfaces)[0]
			if got.Name != "a" || got.Verdict != tt.verdict {
				t.Errorf("%+v, want %s", got, tt.verdict)
			}
			if tt.reason == "" && len(got.Reasons) > 0 || tt.reason != "" && (len(got.Reasons) != 1 || !strings.Contains(got.Reasons[0], tt.reason)) {
				t.Errorf("reasons %q, want one with %q", got.Reasons, tt.reason)
			}
		})
	}
	if got := unjudged(fabrics{ib()}, errors.New("it hangs")); got[0].Verdict != engines.Unknown || !strings.Contains(got[0].Reasons[0], "it hangs") {
		t.Errorf("ports that could not be read: %+v", got)
	}
}
