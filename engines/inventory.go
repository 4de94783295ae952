package engines

import (
	"net/netip"
	"slices"
	"time"
)

// Inventory is what one node has. It travels when a node registers; between
// registrations only its State changes, which each heartbeat replaces whole.
// Two readings of an unchanged machine are equal: see [Inventory.Sort].
type Inventory struct {
	Host   Host   `json:"host"`
	CPU    CPU    `json:"cpu"`
	Memory Memory `json:"memory"`
	// NUMA are the machine's memory nodes, by number. Empty: not known.
	NUMA []NUMANode `json:"numa,omitempty"`
	// GPUs are its cards, by index. Empty: it has none that its drivers name.
	GPUs []GPU `json:"gpus,omitempty"`
	// Links says how cards reach each other, where that is known: row i, column
	// j is the way from GPUs[i] to GPUs[j] in the words of nvidia-smi: "X" the
	// same card, "NV18" eighteen NVLinks, "XGMI", "PIX", "PXB", "PHB", "NODE",
	// "SYS" ever farther over PCI; "" not known.
	Links [][]string `json:"links,omitempty"`
	// Ports are the ports of its InfiniBand and RoCE adapters.
	Ports []FabricPort `json:"ports,omitempty"`
	// Fabrics are the labels that its configuration gives it. What its ports say
	// of them is in State.
	Fabrics []Fabric `json:"fabrics,omitempty"`
	// Interfaces are its network interfaces, by name.
	Interfaces []NetInterface `json:"interfaces,omitempty"`
	// Warnings are what a person should know of the machine. None of them keeps
	// it from serving.
	Warnings []Warning `json:"warnings,omitempty"`
	// State is what was so when the inventory was taken.
	State NodeState `json:"state"`
}

// Host is the machine and its operating system. An empty field is not known.
type Host struct {
	Hostname string `json:"hostname,omitempty"`
	// OS and Arch are as Go spells them: "linux", "arm64".
	OS   string `json:"os,omitempty"`
	Arch string `json:"arch,omitempty"`
	// Kernel is its release: "6.8.0-45-generic".
	Kernel string `json:"kernel,omitempty"`
	// Distribution is what the system calls itself: "Ubuntu 24.04.1 LTS".
	Distribution string `json:"distribution,omitempty"`
	// BootID changes with each start of the machine and nothing else.
	BootID string `json:"boot_id,omitempty"`
}

// CPU is the processors of a machine, all alike.
type CPU struct {
	// Model is what it calls itself. Empty: not known.
	Model string `json:"model,omitempty"`
	// Sockets, Cores and Threads are for the whole machine.
	Sockets Opt[int] `json:"sockets,omitzero"`
	Cores   Opt[int] `json:"cores,omitzero"`
	Threads Opt[int] `json:"threads,omitzero"`
	// Features are the instruction sets that matter to engines, of those in
	// [CPUFeatures], sorted. Empty: not known, or none of them.
	Features []string `json:"features,omitempty"`
}

// CPUFeatures returns the names that stand in [CPU.Features], sorted: those of
// x86, where each is what /proc/cpuinfo calls it, and those of ARM, where neon
// is asimd and dotprod asimddp. The caller owns the slice.
func CPUFeatures() []string {
	return []string{
		"amx_bf16", "amx_int8", "amx_tile", "avx", "avx2", "avx512_bf16", "avx512_fp16", "avx512_vnni", "avx512bw",
		"avx512f", "avx_vnni", "bf16", "dotprod", "f16c", "fma", "i8mm", "neon", "sme", "sve", "sve2",
	}
}

// Memory is the machine's own memory. How much of it is free is in
// [NodeState.MemoryAvailableBytes].
type Memory struct {
	TotalBytes Opt[uint64] `json:"total_bytes,omitzero"`
	// LimitBytes is the control group's limit, where there is one below the
	// total.
	LimitBytes Opt[uint64] `json:"limit_bytes,omitzero"`
	// Unified: the cards have no memory but this.
	Unified bool `json:"unified,omitempty"`
}

// NUMANode is a part of the machine's memory with the processors next to it.
type NUMANode struct {
	ID int `json:"id"`
	// CPUs is a list as the kernel writes it: "0-31,64-95".
	CPUs       string      `json:"cpus,omitempty"`
	TotalBytes Opt[uint64] `json:"total_bytes,omitzero"`
	// Distances to the nodes in their order; 10 is the node itself.
	Distances []int `json:"distances,omitempty"`
}

// NetInterface is a network interface of the machine, as it was when the
// inventory was taken.
type NetInterface struct {
	Name string `json:"name"`
	// MAC is in lower case with colons; empty where there is none.
	MAC string   `json:"mac,omitempty"`
	MTU Opt[int] `json:"mtu,omitzero"`
	// SpeedMbps is not known while the link is down.
	SpeedMbps Opt[int] `json:"speed_mbps,omitzero"`
	// Up: it is switched on and, where it can tell, has a link.
	Up bool `json:"up,omitempty"`
	// Addresses are its addresses with their networks.
	Addresses []NetAddress `json:"addresses,omitempty"`
}

// NetAddress is an address of an interface.
type NetAddress struct {
	Prefix netip.Prefix `json:"prefix"`
	// Unadvertised says why nobody is told the address unless configuration
	// names it: "loopback", "link-local", "container bridge". Empty: it may be
	// told.
	Unadvertised string `json:"unadvertised,omitempty"`
}

// Warning is something a person should know of a machine.
type Warning struct {
	// Part is what it is about: "cpu", "nvidia", "fabrics".
	Part string `json:"part"`
	// Problem says what is so, Advice what can be done. Advice may be empty.
	Problem string `json:"problem"`
	Advice  string `json:"advice,omitempty"`
}

// NodeState is what changes on a node while it runs, and what a heartbeat
// carries. It is one reading: what is missing is not known now, whatever was
// known before.
type NodeState struct {
	// MemoryAvailableBytes is how much of its memory new processes can have
	// without pushing others out, within the control group's limit.
	MemoryAvailableBytes Opt[uint64] `json:"memory_available_bytes,omitzero"`
	// GPUs has an entry for each card, in the order of [Inventory.GPUs].
	GPUs []GPUState `json:"gpus,omitempty"`
	// GPUsAge is how old the reading of the cards is. More than 0 when a driver
	// did not answer in time and the last answer is told instead.
	GPUsAge time.Duration `json:"gpus_age_ns,omitempty"`
	// Ports has an entry for each port, in the order of [Inventory.Ports].
	Ports []PortState `json:"ports,omitempty"`
	// PortsAge is how old the reading of the ports is, as with GPUsAge.
	PortsAge time.Duration `json:"ports_age_ns,omitempty"`
	// Fabrics has an entry for each label, in the order of [Inventory.Fabrics].
	Fabrics []FabricState `json:"fabrics,omitempty"`
	// Problems are what could not be read now, and why.
	Problems []Warning `json:"problems,omitempty"`
}

// GPU returns the state of the card with that [GPU.ID].
func (s NodeState) GPU(id string) (GPUState, bool) {
	i := slices.IndexFunc(s.GPUs, func(g GPUState) bool { return g.GPU == id })
	if i < 0 {
		return GPUState{}, false
	}
	return s.GPUs[i], true
}

// Fabric returns the state of the label with that name.
func (s NodeState) Fabric(name string) (FabricState, bool) {
	i := slices.IndexFunc(s.Fabrics, func(f FabricState) bool { return f.Name == name })
	if i < 0 {
		return FabricState{}, false
	}
	return s.Fabrics[i], true
}

// GPU returns the card with that [GPU.ID].
func (inv *Inventory) GPU(id string) (GPU, bool) {
	i := slices.IndexFunc(inv.GPUs, func(g GPU) bool { return g.ID() == id })
	if i < 0 {
		return GPU{}, false
	}
	return inv.GPUs[i], true
}
