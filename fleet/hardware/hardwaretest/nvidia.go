package hardwaretest

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// nvidiaCard is one line of a table of nvidia-smi.
type nvidiaCard map[string]string

// nvidiaColumns is what the simulated nvidia-smi knows; utilization.gpu is last,
// as the one that old drivers leave out.
func nvidiaColumns() []string {
	return []string{
		"index", "name", "uuid", "pci.bus_id", "memory.total", "memory.used", "memory.free", "driver_version",
		"power.limit", "temperature.gpu", "compute_cap", "mig.mode.current",
		"ecc.errors.uncorrected.volatile.total", "ecc.errors.corrected.volatile.total", "retired_pages.pending",
		"remapped_rows.pending", "remapped_rows.failure", "gpu_recovery_action", "utilization.gpu",
	}
}

// h100 is a card that does nothing.
func (m *Machine) h100(index int, address string) nvidiaCard {
	return nvidiaCard{
		"index": fmt.Sprint(index), "name": "NVIDIA H100 80GB HBM3", "uuid": "GPU-" + m.uuid("gpu"+fmt.Sprint(index)),
		"pci.bus_id": "0000" + strings.ToUpper(address), "memory.total": "81559", "memory.used": "1", "memory.free": "81007",
		"driver_version": "550.90.07", "power.limit": "700.00", "temperature.gpu": fmt.Sprint(30 + index),
		"compute_cap": "9.0", "mig.mode.current": "Disabled",
		"ecc.errors.uncorrected.volatile.total": "0", "ecc.errors.corrected.volatile.total": "0", "retired_pages.pending": "[N/A]",
		"remapped_rows.pending": "No", "remapped_rows.failure": "No", "gpu_recovery_action": "None", "utilization.gpu": "0",
	}
}

// smi writes the table of nvidia-smi, which refuses a column that is not of it.
// A card's row ends where it has no value.
func (m *Machine) smi(cards []nvidiaCard, columns []string) {
	m.tb.Helper()
	lines := []string{strings.Join(columns, ", ")}
	for _, c := range cards {
		var cells []string
		for _, name := range columns {
			if v, ok := c[name]; ok {
				cells = append(cells, v)
			}
		}
		lines = append(lines, strings.Join(cells, ", "))
	}
	m.Write("commands/nvidia-smi/query-gpu.csv", strings.Join(lines, "\n"))
	m.Write("commands/nvidia-smi/query-compute-apps.csv", "gpu_uuid, pid, used_memory")
}

// Run makes processes use cards: a line "gpu_uuid, pid, MiB" for each.
func (m *Machine) Run(lines ...string) {
	m.tb.Helper()
	m.Write("commands/nvidia-smi/query-compute-apps.csv", strings.Join(append([]string{"gpu_uuid, pid, used_memory"}, lines...), "\n"))
}

// Process adds a process to /proc.
func (m *Machine) Process(pid, parent, session int, name string) {
	m.tb.Helper()
	m.Write(fmt.Sprintf("proc/%d/stat", pid), fmt.Sprintf("%d (%s) S %d %d %d 0 -1 4194304", pid, name, parent, pid, session))
}

// GPU returns the UUID of a card.
func (m *Machine) GPU(index int) string { return "GPU-" + m.uuid("gpu"+fmt.Sprint(index)) }

// The PCI addresses of an 8-card HGX machine: four root ports of each processor,
// a switch below each, and below that a card and an adapter.
func hgx() (cards, adapters []string, bridges func(i int, last string) []string) {
	roots := []string{"15", "38", "48", "59", "95", "b7", "c7", "d9"}
	for _, r := range roots {
		cards = append(cards, fmt.Sprintf("0000:%s:00.0", add(r, 3)))
		adapters = append(adapters, fmt.Sprintf("0000:%s:00.0", add(r, 4)))
	}
	return cards, adapters, func(i int, last string) []string {
		return []string{
			fmt.Sprintf("0000:%s:01.0", roots[i]), fmt.Sprintf("0000:%s:00.0", add(roots[i], 1)),
			fmt.Sprintf("0000:%s:%s.0", add(roots[i], 2), last),
		}
	}
}

func add(bus string, n int) string {
	var v int
	_, _ = fmt.Sscanf(bus, "%x", &v)
	return fmt.Sprintf("%02x", v+n)
}

// H100x8 is a machine with eight H100 joined by NVLink and eight InfiniBand
// ports, one behind the same PCI switch as each card.
func H100x8(tb testing.TB, o Options) *Machine {
	tb.Helper()
	m := newMachine(tb, o)
	m.x86("Intel(R) Xeon(R) Platinum 8480C", 2, 56, sapphireRapids)
	m.memory(2048, 2, 224)
	addresses, adapters, bridges := hgx()
	var cards []nvidiaCard
	for i, a := range addresses {
		m.pci(a, bridges(i, "00"), i/4, "0x030200", "0x10de")
		m.adapter(i, adapters[i], bridges(i, "01"), i/4)
		cards = append(cards, m.h100(i, a))
	}
	m.smi(cards, nvidiaColumns())
	m.Write("commands/nvidia-smi/topo_-m", nvlinks(8))
	return m
}

const sapphireRapids = "fpu sse4_2 fma f16c avx avx2 avx512f avx512bw avx512_vnni avx_vnni avx512_bf16 avx512_fp16 amx_bf16 amx_tile amx_int8"

// nvlinks is what topo -m says of cards that are all joined by NVLink.
func nvlinks(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "\tGPU%d", i)
	}
	b.WriteString("\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\n")
	for i := range n {
		fmt.Fprintf(&b, "GPU%d", i)
		for j := range n {
			if i == j {
				b.WriteString("\t X ")
			} else {
				b.WriteString("\tNV18")
			}
		}
		b.WriteString("\tPXB\t0-55\t0\tN/A\n")
	}
	b.WriteString("\nLegend:\n\n  X    = Self\n  NV#  = Connection traversing a bonded set of # NVLinks")
	return b.String()
}

// twoH100 is a small machine for what can be wrong with cards.
func twoH100(tb testing.TB, o Options) (*Machine, []nvidiaCard) {
	tb.Helper()
	m := newMachine(tb, o)
	m.x86("Intel(R) Xeon(R) Gold 6330", 1, 2, "avx avx2 avx512f fma f16c")
	m.memory(256, 1, 4)
	addresses, _, bridges := hgx()
	var cards []nvidiaCard
	for i, a := range addresses[:2] {
		m.pci(a, bridges(i, "00"), 0, "0x030200", "0x10de")
		cards = append(cards, m.h100(i, a))
	}
	return m, cards
}

// OldDriver is a machine whose nvidia-smi leaves the last column out of its
// rows, and knows nothing that came later.
func OldDriver(tb testing.TB, o Options) *Machine {
	tb.Helper()
	m, cards := twoH100(tb, o)
	for _, c := range cards {
		delete(c, "utilization.gpu")
	}
	m.smi(cards, baseColumns())
	return m
}

func baseColumns() []string {
	return []string{
		"index", "name", "uuid", "pci.bus_id", "memory.total", "memory.used", "memory.free", "driver_version", "power.limit",
		"temperature.gpu", "utilization.gpu",
	}
}

// UnknownField is a machine whose driver refuses some fields, and tells remapped
// rows in a query of their own.
func UnknownField(tb testing.TB, o Options) *Machine {
	tb.Helper()
	m, cards := twoH100(tb, o)
	m.smi(cards, slices.DeleteFunc(nvidiaColumns(), func(c string) bool {
		return strings.HasPrefix(c, "remapped") || c == "gpu_recovery_action" || c == "compute_cap" || c == "power.limit"
	}))
	m.Write("commands/nvidia-smi/query-remapped-rows.csv", "gpu_bus_id, remapped_rows.pending, remapped_rows.failure\n"+
		cards[0]["pci.bus_id"]+", No, No\n"+cards[1]["pci.bus_id"]+", Yes, No")
	return m
}

// LostCard is a machine on which the second card has fallen off the bus and the
// first works.
func LostCard(tb testing.TB, o Options) *Machine {
	tb.Helper()
	m, cards := twoH100(tb, o)
	m.smi(cards[:1], nvidiaColumns())
	m.LoseCard(1)
	return m
}

// LoseCard takes a card of H100x8 or of the machines with two from nvidia-smi,
// which says so as it does of a card that fell off the bus.
func (m *Machine) LoseCard(index int) {
	m.tb.Helper()
	addresses, _, _ := hgx()
	const table = "commands/nvidia-smi/query-gpu.csv"
	var keep []string
	for line := range strings.SplitSeq(strings.TrimSpace(m.read(table)), "\n") {
		if !strings.Contains(line, strings.ToUpper(addresses[index])) {
			keep = append(keep, line)
		}
	}
	keep = append(keep, "Unable to determine the device handle for GPU "+strings.ToUpper(addresses[index])+": GPU is lost.  Reboot the system to recover this GPU")
	m.Write(table, strings.Join(keep, "\n"))
}

// SetGPU changes what nvidia-smi says of one card in one column.
func (m *Machine) SetGPU(index int, column, value string) {
	m.tb.Helper()
	const table = "commands/nvidia-smi/query-gpu.csv"
	lines := strings.Split(strings.TrimSpace(m.read(table)), "\n")
	at := slices.Index(strings.Split(lines[0], ", "), column)
	if at < 0 {
		m.tb.Fatalf("nvidia-smi has no column %q", column)
	}
	for i, line := range lines[1:] {
		cells := strings.Split(line, ", ")
		if cells[0] == fmt.Sprint(index) {
			cells[at] = value
			lines[i+1] = strings.Join(cells, ", ")
		}
	}
	m.Write(table, strings.Join(lines, "\n"))
}

// MIG is a machine with two cards of which the first is split.
func MIG(tb testing.TB, o Options) *Machine {
	tb.Helper()
	m, cards := twoH100(tb, o)
	cards[0]["mig.mode.current"], cards[0]["utilization.gpu"] = "Enabled", "[N/A]"
	m.smi(cards, nvidiaColumns())
	m.Write("commands/nvidia-smi/-L", fmt.Sprintf(`GPU 0: NVIDIA H100 80GB HBM3 (UUID: %s)
  MIG 4g.40gb     Device  0: (UUID: MIG-%s)
  MIG 3g.40gb     Device  1: (UUID: MIG-%s)
GPU 1: NVIDIA H100 80GB HBM3 (UUID: %s)`, cards[0]["uuid"], m.uuid("mig0"), m.uuid("mig1"), cards[1]["uuid"]))
	return m
}

// GB10 is a DGX Spark: an ARM processor and a card that share their memory, of
// which nvidia-smi says nothing.
func GB10(tb testing.TB, o Options) *Machine {
	tb.Helper()
	m := newMachine(tb, o)
	var cpus strings.Builder
	for i := range 20 {
		fmt.Fprintf(&cpus, "processor\t: %d\nFeatures\t: fp asimd asimddp sve sve2 i8mm bf16\nCPU implementer\t: 0x41\nCPU part\t: 0xd85\n\n", i)
		m.files(fmt.Sprintf("sys/devices/system/cpu/cpu%d/topology", i), map[string]string{"physical_package_id": "0", "core_id": fmt.Sprint(i)})
	}
	m.Write("proc/cpuinfo", cpus.String())
	m.Write("proc/sys/kernel/arch", "aarch64")
	m.memory(120, 1, 20)
	m.pci("000f:01:00.0", []string{"000f:00:00.0"}, -1, "0x030200", "0x10de")
	m.smi([]nvidiaCard{{
		"index": "0", "name": "NVIDIA GB10", "uuid": m.GPU(0), "pci.bus_id": "0000000F:01:00.0",
		"memory.total": "[N/A]", "memory.used": "[N/A]", "memory.free": "[N/A]", "driver_version": "580.95.05",
		"power.limit": "[N/A]", "temperature.gpu": "41", "compute_cap": "12.1", "mig.mode.current": "[N/A]",
		"ecc.errors.uncorrected.volatile.total": "[N/A]", "ecc.errors.corrected.volatile.total": "[N/A]", "retired_pages.pending": "[N/A]",
		"remapped_rows.pending": "[N/A]", "remapped_rows.failure": "[N/A]", "gpu_recovery_action": "None", "utilization.gpu": "3",
	}}, nvidiaColumns())
	m.Process(4242, 1, 4242, "ollama runner")
	m.Run(m.GPU(0) + ", 4242, 6144")
	return m
}

func (m *Machine) read(path string) string {
	m.tb.Helper()
	text, err := os.ReadFile(filepath.Join(m.Root, path))
	if err != nil {
		m.tb.Fatal(err)
	}
	return string(text)
}
