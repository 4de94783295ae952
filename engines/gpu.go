package engines

import "strconv"

// GPU is a card of a node: what stays the same while the machine runs.
type GPU struct {
	// Index is its number on the node as its vendor's tools count, from 0. It can
	// move when another card is lost.
	Index int `json:"index"`
	// UUID is its lasting name. Empty: the driver does not tell it.
	UUID string `json:"uuid,omitempty"`
	// Name is what the vendor calls it. Empty: not known.
	Name   string `json:"name,omitempty"`
	Vendor Vendor `json:"vendor,omitempty"`
	// BusID is its PCI address as sysfs writes it, "0000:1a:00.0". Empty: not
	// known, or the card is not on PCI.
	BusID string `json:"bus_id,omitempty"`
	// Driver is the version of its kernel driver.
	Driver string `json:"driver,omitempty"`
	// ComputeCapability is what CUDA calls so, "9.0". Architecture is the
	// generation: "Hopper", "gfx942".
	ComputeCapability string `json:"compute_capability,omitempty"`
	Architecture      string `json:"architecture,omitempty"`
	// MemoryBytes is all its memory. Where [Memory.Unified] is set it is the
	// machine's, which the cards share.
	MemoryBytes     Opt[uint64]  `json:"memory_bytes,omitzero"`
	PowerLimitWatts Opt[float64] `json:"power_limit_watts,omitzero"`
	// MIG is whether it is split into instances, which are then used in its
	// place.
	MIG       Opt[bool]     `json:"mig,omitzero"`
	Instances []MIGInstance `json:"instances,omitempty"`
	// NUMA is the number of the memory node next to it.
	NUMA Opt[int] `json:"numa,omitzero"`
	// PCIPath are the bridges between the machine and the card, the outermost
	// first; see [SharedBridges].
	PCIPath []string `json:"pci_path,omitempty"`
}

// ID returns a name for the card that is its own on the node and lasts as long
// as its kind allows: the UUID, else the PCI address, else the index.
func (g GPU) ID() string {
	switch {
	case g.UUID != "":
		return g.UUID
	case g.BusID != "":
		return "pci:" + g.BusID
	}
	return "index:" + strconv.Itoa(g.Index)
}

// MIGInstance is a part of a card that is used like a card.
type MIGInstance struct {
	// UUID begins with "MIG-".
	UUID string `json:"uuid"`
	// Profile is its size in the vendor's words: "3g.20gb".
	Profile string `json:"profile,omitempty"`
	// MemoryBytes is what the profile's name says, in units of 10^9 bytes. The
	// instance has at least that.
	MemoryBytes Opt[uint64] `json:"memory_bytes,omitzero"`
}

// GPUState is a card as it is now.
type GPUState struct {
	// GPU is the card's [GPU.ID].
	GPU              string       `json:"gpu"`
	MemoryUsedBytes  Opt[uint64]  `json:"memory_used_bytes,omitzero"`
	MemoryFreeBytes  Opt[uint64]  `json:"memory_free_bytes,omitzero"`
	UtilizationRatio Opt[float64] `json:"utilization_ratio,omitzero"`
	TemperatureC     Opt[float64] `json:"temperature_c,omitzero"`
	// Memory is what the card says of errors in its memory.
	Memory MemoryErrors `json:"memory_errors,omitzero"`
	// Foreign are the processes on the card that this node's agent did not
	// start. What they hold is not there to be planned with.
	Foreign []GPUProcess `json:"foreign,omitempty"`
	Health  Health       `json:"health"`
}

// MemoryErrors are a card's counts of errors in its memory.
type MemoryErrors struct {
	// Corrected and Uncorrected count since the driver was loaded.
	Corrected   Opt[uint64] `json:"corrected,omitzero"`
	Uncorrected Opt[uint64] `json:"uncorrected,omitzero"`
	// RemapPending: rows or pages wait to be replaced, which the next reset of
	// the card does. RemapFailed: that is not possible any more.
	RemapPending Opt[bool] `json:"remap_pending,omitzero"`
	RemapFailed  Opt[bool] `json:"remap_failed,omitzero"`
}

// GPUProcess is a process that uses a card.
type GPUProcess struct {
	PID int `json:"pid"`
	// Name is that of the process. Empty: not known, as for one of another
	// container.
	Name        string      `json:"name,omitempty"`
	MemoryBytes Opt[uint64] `json:"memory_bytes,omitzero"`
}

// Health says whether a card may be used.
type Health struct {
	State HealthState `json:"state"`
	// Reasons are why, the gravest first. A healthy card has some too, where
	// faults were noted that the policy ignores.
	Reasons []HealthReason `json:"reasons,omitempty"`
}

// Usable reports whether new engines may be placed on the card. Of one whose
// state nobody could read that is not known, and it is not.
func (h Health) Usable() bool { return h.State == Healthy || h.State == RestartEngine }

// HealthState is what may be done with a card. The zero value is not known.
type HealthState string

const (
	// Healthy: the card may be used.
	Healthy HealthState = "healthy"
	// RestartEngine: the engines that run on the card must be started anew;
	// the card itself may be used.
	RestartEngine HealthState = "restart-engine"
	// Excluded: nothing new is placed on the card, and what runs there is moved.
	Excluded HealthState = "excluded"
)

// HealthReason is a fault of a card.
type HealthReason struct {
	// Kind names it in one word: "xid-79", "ecc-uncorrected", "remap-pending".
	Kind string `json:"kind"`
	// Action is what the policy makes of it: the state it would have alone.
	Action HealthState `json:"action"`
	// Detail is for people: what was seen.
	Detail string `json:"detail,omitempty"`
	// Ends says what has to happen for the fault to be over, and what is still
	// missing.
	Ends string `json:"ends,omitempty"`
}

// SharedBridges returns how many PCI bridges two devices have in common, by
// their PCIPath. 0: they meet only in the processor, or it is not known. The more,
// the nearer they are.
func SharedBridges(a, b []string) int {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}
