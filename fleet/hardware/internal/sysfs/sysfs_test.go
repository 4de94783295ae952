package sysfs

import (
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/llmgw/llmgw/engines"
)

// root makes a root of files by their path.
func root(t *testing.T, files map[string]string) Root {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return Root(dir)
}

func TestNumbers(t *testing.T) {
	r := root(t, map[string]string{"a": "7\n", "b": "-1\n", "c": "0x10", "d": "max\n", "e": "", "f": "9999999999"})
	for name, want := range map[string]engines.Opt[int]{
		"a": engines.Known(7), "b": {}, "c": engines.Known(16), "d": {}, "e": {}, "f": {}, "missing": {},
	} {
		if got := r.Int(name); got != want {
			t.Errorf("Int(%s) = %v, want %v", name, got, want)
		}
	}
}

func TestUptime(t *testing.T) {
	for text, want := range map[string]engines.Opt[time.Duration]{
		"350735.47 234388.90\n": engines.Known(350735470 * time.Millisecond), "": {}, "x 1": {}, "-1.0 2": {},
	} {
		if got := root(t, map[string]string{"proc/uptime": text}).Uptime(); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}

func TestParseCPUInfoARM(t *testing.T) {
	c := ParseCPUInfo("processor\t: 0\nFeatures\t: fp asimd asimddp sve\nCPU implementer\t: 0x41\nCPU part\t: 0xd4f\n\nprocessor\t: 1\n")
	want := engines.CPU{Model: "Neoverse V2", Threads: engines.Known(2), Features: []string{"dotprod", "neon", "sve"}}
	if diff := cmp.Diff(want, c, cmp.AllowUnexported(engines.Opt[int]{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := ParseCPUInfo("CPU implementer\t: 0x99\nCPU part\t: 0x1\n").Model; got != "ARM implementer 0x99 part 0x1" {
		t.Errorf("of an unknown processor: %q", got)
	}
}

func TestArchOfOldKernels(t *testing.T) {
	for want, cpuinfo := range map[string]string{
		"amd64": "processor\t: 0\nvendor_id\t: AuthenticAMD\n",
		"arm64": "processor\t: 0\nCPU implementer\t: 0x41\n",
		"":      "cpu\t: POWER9\n",
	} {
		if got := root(t, map[string]string{"proc/cpuinfo": cpuinfo}).Host().Arch; got != want {
			t.Errorf("%q: %q, want %q", cpuinfo, got, want)
		}
	}
}

func TestMemory(t *testing.T) {
	const gib = 1 << 30
	meminfo := "MemTotal: 67108864 kB\nMemFree: 1048576 kB\nMemAvailable: 33554432 kB\nBuffers: 1024 kB\nHugePages_Total: 5\n"
	group := func(dir, limit, current, stat string) map[string]string {
		return map[string]string{dir + "/memory.max": limit, dir + "/memory.current": current, dir + "/memory.stat": stat}
	}
	tests := []struct {
		name             string
		files            map[string]string
		limit, available engines.Opt[uint64]
	}{
		{"machine", nil, engines.Opt[uint64]{}, engines.Known[uint64](32 * gib)},
		{"no limit", group("sys/fs/cgroup/a/b", "max", "5", ""), engines.Opt[uint64]{}, engines.Known[uint64](32 * gib)},
		{
			"container", group("sys/fs/cgroup/a/b", "17179869184", "10737418240", "anon 1\ninactive_file 2147483648\n"),
			engines.Known[uint64](16 * gib), engines.Known[uint64](8 * gib),
		},
		{"slice around it", group("sys/fs/cgroup/a", "8589934592", "0", ""), engines.Known[uint64](8 * gib), engines.Known[uint64](8 * gib)},
		{"root of a namespace", group("sys/fs/cgroup", "8589934592", "8589934593", ""), engines.Known[uint64](8 * gib), engines.Known[uint64](0)},
		{"above what there is", group("sys/fs/cgroup/a", "687194767360", "0", ""), engines.Opt[uint64]{}, engines.Known[uint64](32 * gib)},
		{
			"version 1", map[string]string{
				"proc/self/cgroup": "5:cpu,memory:/x\n",
				"sys/fs/cgroup/memory/x/memory.limit_in_bytes": "4294967296",
				"sys/fs/cgroup/memory/x/memory.usage_in_bytes": "1073741824",
				"sys/fs/cgroup/memory/memory.limit_in_bytes":   "9223372036854771712",
				"sys/fs/cgroup/memory/memory.usage_in_bytes":   "1",
				"sys/fs/cgroup/memory/x/memory.stat":           "total_inactive_file 0",
			}, engines.Known[uint64](4 * gib), engines.Known[uint64](3 * gib),
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			files := map[string]string{"proc/meminfo": meminfo, "proc/self/cgroup": "0::/a/b\n"}
			maps.Copy(files, tt.files)
			m, available := root(t, files).Memory()
			if !m.TotalBytes.Is(64*gib) || m.LimitBytes != tt.limit || available != tt.available {
				t.Errorf("total %v, limit %v, available %v; want limit %v, available %v", m.TotalBytes, m.LimitBytes, available, tt.limit, tt.available)
			}
		})
	}
	if total, available := ParseMeminfo("MemTotal: 100 kB\nMemFree: 10 kB\nBuffers: 20 kB\nCached: 30 kB\n"); !total.Is(102400) || !available.Is(61440) {
		t.Errorf("of an old kernel %v, %v", total, available)
	}
	if total, available := ParseMeminfo(""); total != available || total.Or(7) != 7 {
		t.Errorf("of nothing %v, %v", total, available)
	}
}

func TestWords(t *testing.T) {
	for in, want := range map[string]engines.Opt[float64]{
		"400 Gb/sec (4X NDR)": engines.Known(400.0), "2.5 Gb/sec (1X SDR)": engines.Known(2.5), "": {}, "400": {}, "NaN Gb/sec": {}, "-4 Gb/sec": {},
	} {
		if got := Rate(in); got != want {
			t.Errorf("Rate(%q) = %v, want %v", in, got, want)
		}
	}
	if a, b, c := gidPrefix("fe80:0000:0000:0001:b83f:d203:00ae:9c14"), gidPrefix("0000:0000:0000:0000:0000:0000:0000:0000"), gidPrefix("x"); a != "fe80:0000:0000:0001" || b+c != "" {
		t.Errorf("prefixes %q, %q, %q", a, b, c)
	}
	for version, want := range map[uint64]string{90402: "gfx942", 90010: "gfx90a", 110001: "gfx1101", 100300: "gfx1030"} {
		if got := gfx(version); got != want {
			t.Errorf("gfx(%d) = %q, want %q", version, got, want)
		}
	}
	if got := kfdAddress(1, 0x1a<<8|2<<3|1); got != "0001:1a:02.1" {
		t.Errorf("address %q", got)
	}
}

// An adapter with two ports of which one carries Ethernet, and one that is
// going away.
func TestPorts(t *testing.T) {
	r := root(t, map[string]string{
		"ib/mlx5_0/ports/1/state":              "1: DOWN",
		"ib/mlx5_0/ports/1/link_layer":         "InfiniBand",
		"ib/mlx5_0/ports/2/state":              "4: ACTIVE",
		"ib/mlx5_0/ports/2/link_layer":         "Ethernet",
		"ib/mlx5_0/ports/2/rate":               "100 Gb/sec (4X EDR)",
		"ib/mlx5_0/device/net/ens1f0/dev_port": "0",
		"ib/mlx5_0/device/net/ens1f1/dev_port": "1",
		"ib/mlx5_1/node_guid":                  "x",
	})
	ports, err := r.Ports("ib")
	if err != nil || len(ports) != 2 {
		t.Fatalf("%d ports, %v; want 2", len(ports), err)
	}
	two := ports[1]
	if two.LinkLayer != engines.Ethernet || two.NetDevice != "ens1f1" || two.State.State != "ACTIVE" || !two.State.RateGbps.Is(100) {
		t.Errorf("port 2 is %+v", two)
	}
	if one := ports[0]; one.State.State != "DOWN" || one.NetDevice != "ens1f0" || one.State.RateGbps != (engines.Opt[float64]{}) {
		t.Errorf("port 1 is %+v", one)
	}
	if ports, err := r.Ports("none"); ports != nil || err != nil {
		t.Errorf("where there is no InfiniBand: %v, %v", ports, err)
	}
}

func TestRoute(t *testing.T) {
	r := root(t, map[string]string{
		"proc/net/route": "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n" +
			"eth0\t00000000\t0100000A\t0003\t0\t0\t100\t00000000\t0\t0\t0\n" +
			"eth1\t00000000\t0100000A\t0003\t0\t0\t50\t00000000\t0\t0\t0\n" +
			"ib0\t0000A8C0\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0\n" +
			"off\t0000A8C0\t00000000\t0000\t0\t0\t0\t00FFFFFF\t0\t0\t0\n",
		"proc/net/ipv6_route": "00000000000000000000000000000000 00 00000000000000000000000000000000 00 fe800000000000000000000000000001 00000400 00000001 00000000 00000003     eth0\n" +
			"20010db8000000000000000000000000 20 00000000000000000000000000000000 00 00000000000000000000000000000000 00000100 00000001 00000000 00000001     eth2\n" +
			"00000000000000000000000000000000 00 00000000000000000000000000000000 00 00000000000000000000000000000000 ffffffff 00000001 00000000 00200200       lo\n",
	})
	for to, want := range map[string]string{
		"8.8.8.8": "eth1", "192.168.0.9": "ib0", "::ffff:192.168.0.9": "ib0", "2001:db8::1": "eth2", "2001:db9::1": "eth0",
	} {
		if got, _ := r.Route(netip.MustParseAddr(to)); got != want {
			t.Errorf("to %s by %q, want %q", to, got, want)
		}
	}
	if got, ok := Root(t.TempDir()).Route(netip.MustParseAddr("8.8.8.8")); ok {
		t.Errorf("without routes: %q", got)
	}
}

func TestProcess(t *testing.T) {
	p, ok := ParseStat("77 (a) b (c)) S 5 77 42 0 -1 4194304")
	if p != (Process{Name: "a) b (c)", Parent: 5, Session: 42}) || !ok {
		t.Errorf("%+v, %v", p, ok)
	}
	for _, bad := range []string{"", "77", "77 (a", ") 77 (", "77 (a) S", "77 (a) S x 77 42"} {
		if _, ok := ParseStat(bad); ok {
			t.Errorf("%q is taken for a process", bad)
		}
	}

	r := root(t, map[string]string{
		"proc/10/stat": "10 (engine) S 1 10 10 0",
		"proc/11/stat": "11 (worker) S 10 10 10 0",
		"proc/12/stat": "12 (grandchild) S 11 12 12 0",
		"proc/13/stat": "13 (outlived) S 1 13 10 0",
		"proc/20/stat": "20 (stranger) S 1 20 20 0",
		"proc/30/stat": "30 (circle) S 31 30 30 0",
		"proc/31/stat": "31 (circle) S 30 31 31 0",
	})
	known := func(pid int) bool { return pid == 10 }
	for pid, want := range map[int]bool{10: true, 11: true, 12: true, 13: true, 20: false, 30: false, 99: false, 1: false, 0: false} {
		if got := r.Descends(pid, known); got != want {
			t.Errorf("process %d is ours: %v, want %v", pid, got, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("processor\t: 0\nmodel name\t: x\nflags\t: avx2\n")
	f.Add("MemTotal:       263583212 kB\nMemAvailable: 7 kB\n")
	f.Add("77 (a) b (c)) S 5 77 42 0 -1 4194304")
	f.Add("eth0\t00000000\t0100000A\t0003\t0\t0\t100\t00000000\t0\t0\t0\n")
	f.Add("20010db8000000000000000000000000 20 00000000000000000000000000000000 00 00000000000000000000000000000000 00000100 00000001 00000000 00000001     eth2\n")
	f.Fuzz(func(t *testing.T, text string) {
		ParseCPUInfo(text)
		if total, available := ParseMeminfo(text); total.Or(0)%1024 != 0 || available.Or(0)%1024 != 0 {
			t.Errorf("%v, %v: not of kB", total, available)
		}
		ParseStat(text)
		for _, r := range append(ParseRoutes(text), ParseRoutes6(text)...) {
			if !r.To.IsValid() {
				t.Errorf("a route to %v", r.To)
			}
		}
		Rate(text)
		gidPrefix(text)
		properties(text)
	})
}
