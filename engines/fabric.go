package engines

// Fabric is a label that a node's configuration gives it: nodes with the same
// name are joined by one fast network, which no replica crosses.
type Fabric struct {
	// Name is the label. Required.
	Name string `yaml:"name" json:"name"`
	// RateGbps is the rate of one port, in Gbit/s. Default 0: not stated, and then
	// no rate contradicts it.
	RateGbps float64 `yaml:"rate_gbps" json:"rate_gbps,omitempty"`
	// Devices are the adapters that lead to it, such as mlx5_0. Each is then
	// counted on. Default none: those that no other label names.
	Devices []string `yaml:"devices" json:"devices,omitempty"`
	// LinkLayer is [InfiniBand] or [Ethernet], the latter for RoCE. Default
	// infiniband.
	LinkLayer LinkLayer `yaml:"link_layer" json:"link_layer,omitempty"`
}

// LinkLayer is what a port speaks.
type LinkLayer string

// The link layers of ports, as configuration spells them.
const (
	InfiniBand LinkLayer = "infiniband"
	Ethernet   LinkLayer = "ethernet"
)

// FabricPort is a port of an InfiniBand or RoCE adapter: what stays the same
// while the machine runs.
type FabricPort struct {
	// Device is the adapter's name, such as mlx5_0; Port its number, from 1.
	Device string `json:"device"`
	Port   int    `json:"port"`
	// LinkLayer is empty where it is not known.
	LinkLayer LinkLayer `json:"link_layer,omitempty"`
	// GUID is the adapter's, as sysfs writes it: "b83f:d203:00ae:9c14".
	GUID     string `json:"guid,omitempty"`
	Firmware string `json:"firmware,omitempty"`
	// NetDevice is the network interface of the port.
	NetDevice string   `json:"net_device,omitempty"`
	BusID     string   `json:"bus_id,omitempty"`
	NUMA      Opt[int] `json:"numa,omitzero"`
	// PCIPath is as in [GPU.PCIPath].
	PCIPath []string `json:"pci_path,omitempty"`
}

// PortState is a port as it is now.
type PortState struct {
	Device string `json:"device"`
	Port   int    `json:"port"`
	// State and Physical are the words of sysfs: "ACTIVE", "LinkUp". Empty: not
	// known.
	State    string       `json:"state,omitempty"`
	Physical string       `json:"physical,omitempty"`
	RateGbps Opt[float64] `json:"rate_gbps,omitzero"`
	// GIDPrefix is the upper half of the port's first GID:
	// "fe80:0000:0000:0000".
	GIDPrefix string `json:"gid_prefix,omitempty"`
	// LinkDowned counts how often the link was lost, SymbolErrors what came
	// over it garbled, since the counters were last cleared.
	LinkDowned   Opt[uint64] `json:"link_downed,omitzero"`
	SymbolErrors Opt[uint64] `json:"symbol_errors,omitzero"`
}

// FabricState is what a node's ports say of a label.
type FabricState struct {
	Name    string  `json:"name"`
	Verdict Verdict `json:"verdict"`
	// Reasons say why, for people.
	Reasons []string `json:"reasons,omitempty"`
}

// Verdict is whether what a node says of itself is so. The zero value means
// that nobody looked.
type Verdict string

const (
	// Confirmed: ports were read that are as the label says.
	Confirmed Verdict = "confirmed"
	// Contradicted: ports were read, and they are not. No gang is placed there.
	Contradicted Verdict = "contradicted"
	// Unknown: the ports could not be read or told apart.
	Unknown Verdict = "unknown"
)
