package smi_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/fleet/hardware/internal/smi"
)

func TestCells(t *testing.T) {
	one := func(text string) smi.Cell {
		rows, _ := smi.Rows([]string{"index", "x"}, "0, "+text)
		if len(rows) != 1 {
			t.Fatalf("%q gives %d rows", text, len(rows))
		}
		return rows[0]["x"]
	}
	for _, absent := range []string{"N/A", "[N/A]", "[Not Supported]", "[Not Found]", "Not Supported", "", "[Unknown]"} {
		c := one(absent)
		if c.Text() != "" || c.Broken() != "" || c.Uint() != (engines.Opt[uint64]{}) || c.Flag() != (engines.Opt[bool]{}) {
			t.Errorf("%q is %q, broken %q; want nothing", absent, c.Text(), c.Broken())
		}
	}
	for _, broken := range []string{"[Unknown Error]", "Unknown Error", "[GPU is lost]", "[GPU requires reset]", "[Some new Error]"} {
		c := one(broken)
		if c.Broken() != strings.Trim(broken, "[]") || c.Text() != "" || c.MiB() != (engines.Opt[uint64]{}) {
			t.Errorf("%q is %q, broken %q", broken, c.Text(), c.Broken())
		}
	}
	if got := one("81559").MiB(); got != engines.Known[uint64](81559<<20) {
		t.Errorf("MiB: %v", got)
	}
	if got := one("99999999999999999").MiB(); got != (engines.Opt[uint64]{}) {
		t.Errorf("MiB that do not fit: %v", got)
	}
	if got := one("0").MiB(); got != engines.Known[uint64](0) {
		t.Errorf("no MiB: %v", got)
	}
	for text, want := range map[string]engines.Opt[float64]{"0": engines.Known(0.0), "100": engines.Known(1.0), "37 %": engines.Known(0.37), "101": {}, "-1": {}, "NaN": {}} {
		if got := one(text).Percent(); got != want {
			t.Errorf("%q per cent: %v, want %v", text, got, want)
		}
	}
	for text, want := range map[string]engines.Opt[bool]{
		"Yes": engines.Known(true), "No": engines.Known(false), "Enabled": engines.Known(true), "0": engines.Known(false), "3": engines.Known(true), "maybe": {},
	} {
		if got := one(text).Flag(); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}

func TestRows(t *testing.T) {
	fields := []string{"index", "name", "uuid", "pci.bus_id", "memory.total", "utilization.gpu"}
	out := `0, NVIDIA H100 80GB HBM3, GPU-a, 00000000:1A:00.0, 81559, 3
1, NVIDIA H100 80GB HBM3, GPU-b, 00000000:1B:00.0, 81559
2, [Unknown Error], GPU-c, 00000000:1C:00.0, [Unknown Error], [Unknown Error]
[GPU is lost], [GPU is lost], [GPU is lost], 00000000:1D:00.0, [GPU is lost], [GPU is lost]

Unable to determine the device handle for GPU 0000:3B:00.0: GPU is lost.  Reboot the system to recover this GPU
WARNING: infoROM is corrupted at gpu 0000:1A:00.0
4, one, two, three, four, five, six
`
	rows, said := smi.Rows(fields, out)
	if len(rows) != 4 || len(said) != 3 {
		t.Fatalf("%d rows, %d other lines; want 4 and 3: %q", len(rows), len(said), said)
	}
	if got := rows[0]["utilization.gpu"].Percent(); got != engines.Known(0.03) {
		t.Errorf("utilisation %v", got)
	}
	if got := rows[1]["utilization.gpu"].Percent(); got != (engines.Opt[float64]{}) {
		t.Errorf("utilisation of a short row is %v, want none", got)
	}
	if got := rows[1]["memory.total"].MiB(); got != engines.Known[uint64](81559<<20) {
		t.Errorf("memory of a short row %v", got)
	}
	if rows[2]["uuid"].Text() != "GPU-c" || rows[2]["name"].Broken() != "Unknown Error" {
		t.Errorf("the row with errors: %+v", rows[2])
	}
	bus, why, ok := smi.LostCard(said[0])
	if bus != "0000:3b:00.0" || !strings.HasPrefix(why, "GPU is lost") || !ok {
		t.Errorf("lost card %q, %q, %v", bus, why, ok)
	}
	if _, _, ok := smi.LostCard(said[1]); ok {
		t.Error("a warning is taken for a lost card")
	}
	if bus, _, ok := smi.LostCard("Unable to determine the device handle for GPU1: 0000:3B:00.0: Unknown Error"); bus != "0000:3b:00.0" || !ok {
		t.Errorf("with an index: %q, %v", bus, ok)
	}
}

func TestUnknownField(t *testing.T) {
	out := "Field \"remapped_rows.pending\" is not a valid field to query.\n\n"
	if f, ok := smi.UnknownField(out); f != "remapped_rows.pending" || !ok {
		t.Errorf("%q, %v", f, ok)
	}
	if rows, _ := smi.Rows([]string{"index", "x"}, out); len(rows) != 0 {
		t.Errorf("it is taken for a row: %v", rows)
	}
	if _, ok := smi.UnknownField("0, NVIDIA H100"); ok {
		t.Error("a row is taken for it")
	}
}

func TestInstances(t *testing.T) {
	out := `GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-a)
  MIG 3g.20gb     Device  0: (UUID: MIG-1)
  MIG 1g.5gb+me   Device  1: (UUID: MIG-GPU-a/13/0)
GPU 1: NVIDIA A100-SXM4-40GB (UUID: GPU-b)
`
	want := map[string][]engines.MIGInstance{"GPU-a": {
		{UUID: "MIG-1", Profile: "3g.20gb", MemoryBytes: engines.Known[uint64](20e9)},
		{UUID: "MIG-GPU-a/13/0", Profile: "1g.5gb+me", MemoryBytes: engines.Known[uint64](5e9)},
	}}
	if diff := cmp.Diff(want, smi.Instances(out), cmp.AllowUnexported(engines.Opt[uint64]{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestTopology(t *testing.T) {
	out := "\t\x1b[4mGPU0\tGPU1\tNIC0\tGPU2\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m\n" +
		"GPU0\t X \tNV18\tPXB\tSYS\t0-55\t0\tN/A\n" +
		"GPU1\tNV18\t X \tNODE\tPHB\t0-55\t0\tN/A\n" +
		"NIC0\tPXB\tNODE\t X \tSYS\t\t\t\n" +
		"GPU2\tSYS\tPHB\tSYS\t X \t0-55\t0\tN/A\n\nLegend:\n\n  X    = Self\n  SYS  = Connection traversing PCIe\n"
	want := map[[2]int]string{
		{0, 0}: "X", {0, 1}: "NV18", {0, 2}: "SYS", {1, 0}: "NV18", {1, 1}: "X", {1, 2}: "PHB", {2, 0}: "SYS", {2, 1}: "PHB", {2, 2}: "X",
	}
	if diff := cmp.Diff(want, smi.Topology(out)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := smi.Topology("topology is not supported on this machine\n"); len(got) != 0 {
		t.Errorf("words give %v", got)
	}
}

func TestROCmRows(t *testing.T) {
	old := `WARNING: AMD GPU device(s) is/are in a low-power state.
device,VRAM Total Memory (B),VRAM Total Used Memory (B),Card series,Driver version
card0,206141652992,296648704,"AMD Instinct MI300X, OAM",6.3.6
card1,206141652992,N/A,AMD Instinct MI300X,6.3.6
system,1
`
	cards := smi.ROCmRows(old)
	if len(cards) != 2 {
		t.Fatalf("%d cards, want 2", len(cards))
	}
	if got := cards["card0"].First("Card Series", "Card series").Text(); got != "AMD Instinct MI300X, OAM" {
		t.Errorf("name %q", got)
	}
	if got := cards["card1"]["VRAM Total Used Memory (B)"].Uint(); got != (engines.Opt[uint64]{}) {
		t.Errorf("used memory %v, want none", got)
	}
	if got := smi.ROCmRows("card0,1,2\n"); len(got) != 0 {
		t.Errorf("rows without a header: %v", got)
	}
}

func FuzzRows(f *testing.F) {
	f.Add("0, NVIDIA H100 80GB HBM3, GPU-a, 00000000:1A:00.0, 81559, 3\n1, [Unknown Error]")
	f.Add("Unable to determine the device handle for GPU 0000:3B:00.0: GPU is lost.")
	fields := []string{"index", "name", "uuid", "pci.bus_id", "memory.total", "utilization.gpu"}
	f.Fuzz(func(t *testing.T, out string) {
		rows, said := smi.Rows(fields, out)
		for _, r := range rows {
			if len(r) > len(fields) {
				t.Errorf("%d cells", len(r))
			}
			for _, c := range r {
				if c.Broken() != "" && (c.Text() != "" || c.Uint() != (engines.Opt[uint64]{})) {
					t.Errorf("a broken cell has a value: %+v", c)
				}
				if p, known := c.Percent().Get(); known && (p < 0 || p > 1) {
					t.Errorf("a ratio of %v", p)
				}
			}
		}
		for _, line := range said {
			smi.LostCard(line)
		}
		smi.UnknownField(out)
	})
}

func FuzzTopology(f *testing.F) {
	f.Add("\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tNV18\t0-55\nGPU1\tNV18\t X \t0-55\n")
	f.Fuzz(func(_ *testing.T, out string) {
		smi.Topology(out)
		smi.Instances(out)
		smi.ROCmRows(out)
	})
}
