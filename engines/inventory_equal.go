package engines

import (
	"cmp"
	"slices"
	"strings"
)

// Equal reports whether two inventories say the same, their State included. An
// empty list is equal to one that is nil.
func (inv *Inventory) Equal(o *Inventory) bool {
	return inv.SameHardware(o) && slices.EqualFunc(inv.Interfaces, o.Interfaces, NetInterface.equal) && inv.State.Equal(o.State)
}

// SameHardware reports whether two inventories differ in nothing but their
// State and whether links of interfaces are up. An agent that sees them differ
// has to register anew.
func (inv *Inventory) SameHardware(o *Inventory) bool {
	return inv.Host == o.Host &&
		inv.CPU.equal(o.CPU) &&
		inv.Memory == o.Memory &&
		slices.EqualFunc(inv.NUMA, o.NUMA, NUMANode.equal) &&
		slices.EqualFunc(inv.GPUs, o.GPUs, GPU.equal) &&
		slices.EqualFunc(inv.Links, o.Links, slices.Equal) &&
		slices.EqualFunc(inv.Ports, o.Ports, FabricPort.equal) &&
		slices.EqualFunc(inv.Fabrics, o.Fabrics, Fabric.equal) &&
		slices.EqualFunc(inv.Interfaces, o.Interfaces, NetInterface.same) &&
		slices.Equal(inv.Warnings, o.Warnings)
}

// Equal reports whether two states say the same. Ages count: a reading that is
// older is another one.
func (s NodeState) Equal(o NodeState) bool {
	return s.MemoryAvailableBytes == o.MemoryAvailableBytes &&
		s.GPUsAge == o.GPUsAge &&
		s.PortsAge == o.PortsAge &&
		slices.EqualFunc(s.GPUs, o.GPUs, GPUState.equal) &&
		slices.Equal(s.Ports, o.Ports) &&
		slices.EqualFunc(s.Fabrics, o.Fabrics, FabricState.equal) &&
		slices.Equal(s.Problems, o.Problems)
}

func (c CPU) equal(o CPU) bool {
	return c.Model == o.Model && c.Sockets == o.Sockets && c.Cores == o.Cores && c.Threads == o.Threads &&
		slices.Equal(c.Features, o.Features)
}

func (n NUMANode) equal(o NUMANode) bool {
	return n.ID == o.ID && n.CPUs == o.CPUs && n.TotalBytes == o.TotalBytes && slices.Equal(n.Distances, o.Distances)
}

func (g GPU) equal(o GPU) bool {
	return g.Index == o.Index && g.UUID == o.UUID && g.Name == o.Name && g.Vendor == o.Vendor &&
		g.BusID == o.BusID && g.Driver == o.Driver &&
		g.ComputeCapability == o.ComputeCapability && g.Architecture == o.Architecture &&
		g.MemoryBytes == o.MemoryBytes && g.PowerLimitWatts == o.PowerLimitWatts &&
		g.MIG == o.MIG && g.NUMA == o.NUMA &&
		slices.Equal(g.Instances, o.Instances) && slices.Equal(g.PCIPath, o.PCIPath)
}

func (g GPUState) equal(o GPUState) bool {
	return g.GPU == o.GPU &&
		g.MemoryUsedBytes == o.MemoryUsedBytes && g.MemoryFreeBytes == o.MemoryFreeBytes &&
		g.UtilizationRatio == o.UtilizationRatio && g.TemperatureC == o.TemperatureC &&
		g.Memory == o.Memory && slices.Equal(g.Foreign, o.Foreign) &&
		g.Health.State == o.Health.State && slices.Equal(g.Health.Reasons, o.Health.Reasons)
}

func (p FabricPort) equal(o FabricPort) bool {
	return p.Device == o.Device && p.Port == o.Port && p.LinkLayer == o.LinkLayer && p.GUID == o.GUID &&
		p.Firmware == o.Firmware && p.NetDevice == o.NetDevice && p.BusID == o.BusID && p.NUMA == o.NUMA &&
		slices.Equal(p.PCIPath, o.PCIPath)
}

func (f Fabric) equal(o Fabric) bool {
	return f.Name == o.Name && f.RateGbps == o.RateGbps && f.LinkLayer == o.LinkLayer && slices.Equal(f.Devices, o.Devices)
}

func (f FabricState) equal(o FabricState) bool {
	return f.Name == o.Name && f.Verdict == o.Verdict && slices.Equal(f.Reasons, o.Reasons)
}

func (n NetInterface) equal(o NetInterface) bool {
	return n.same(o) && n.SpeedMbps == o.SpeedMbps && n.Up == o.Up
}

// same leaves out what changes with the other end of the link, as that of a
// bridge does with each container.
func (n NetInterface) same(o NetInterface) bool {
	return n.Name == o.Name && n.MAC == o.MAC && n.MTU == o.MTU && slices.Equal(n.Addresses, o.Addresses)
}

// Clone returns a copy that shares nothing with inv.
func (inv *Inventory) Clone() *Inventory {
	c := *inv
	c.CPU.Features = slices.Clone(inv.CPU.Features)
	c.NUMA = slices.Clone(inv.NUMA)
	for i := range c.NUMA {
		c.NUMA[i].Distances = slices.Clone(c.NUMA[i].Distances)
	}
	c.GPUs = slices.Clone(inv.GPUs)
	for i := range c.GPUs {
		c.GPUs[i].Instances = slices.Clone(c.GPUs[i].Instances)
		c.GPUs[i].PCIPath = slices.Clone(c.GPUs[i].PCIPath)
	}
	c.Links = slices.Clone(inv.Links)
	for i := range c.Links {
		c.Links[i] = slices.Clone(c.Links[i])
	}
	c.Ports = slices.Clone(inv.Ports)
	for i := range c.Ports {
		c.Ports[i].PCIPath = slices.Clone(c.Ports[i].PCIPath)
	}
	c.Fabrics = slices.Clone(inv.Fabrics)
	for i := range c.Fabrics {
		c.Fabrics[i].Devices = slices.Clone(c.Fabrics[i].Devices)
	}
	c.Interfaces = slices.Clone(inv.Interfaces)
	for i := range c.Interfaces {
		c.Interfaces[i].Addresses = slices.Clone(c.Interfaces[i].Addresses)
	}
	c.Warnings = slices.Clone(inv.Warnings)
	c.State = inv.State.Clone()
	return &c
}

// Clone returns a copy that shares nothing with s.
func (s NodeState) Clone() NodeState {
	s.GPUs = slices.Clone(s.GPUs)
	for i := range s.GPUs {
		s.GPUs[i].Foreign = slices.Clone(s.GPUs[i].Foreign)
		s.GPUs[i].Health.Reasons = slices.Clone(s.GPUs[i].Health.Reasons)
	}
	s.Ports = slices.Clone(s.Ports)
	s.Fabrics = slices.Clone(s.Fabrics)
	for i := range s.Fabrics {
		s.Fabrics[i].Reasons = slices.Clone(s.Fabrics[i].Reasons)
	}
	s.Problems = slices.Clone(s.Problems)
	return s
}

// Sort puts every list in the order that the fields' comments state, so that
// two readings of one machine are equal. Fabrics stay as configured. It keeps
// State in step with what it describes. Links are not moved: whoever fills them
// in does so after the cards are in order.
func (inv *Inventory) Sort() {
	slices.Sort(inv.CPU.Features)
	slices.SortFunc(inv.NUMA, func(a, b NUMANode) int { return cmp.Compare(a.ID, b.ID) })
	slices.SortStableFunc(inv.GPUs, func(a, b GPU) int {
		return cmp.Or(cmp.Compare(a.Index, b.Index), strings.Compare(a.BusID, b.BusID), strings.Compare(a.UUID, b.UUID))
	})
	for _, g := range inv.GPUs {
		slices.SortFunc(g.Instances, func(a, b MIGInstance) int { return strings.Compare(a.UUID, b.UUID) })
	}
	slices.SortFunc(inv.Ports, func(a, b FabricPort) int {
		return cmp.Or(compareNumbered(a.Device, b.Device), cmp.Compare(a.Port, b.Port))
	})
	slices.SortFunc(inv.Interfaces, func(a, b NetInterface) int { return compareNumbered(a.Name, b.Name) })
	for _, n := range inv.Interfaces {
		slices.SortFunc(n.Addresses, func(a, b NetAddress) int { return a.Prefix.Compare(b.Prefix) })
	}
	slices.SortFunc(inv.Warnings, compareWarnings)
	inv.State.sort(inv)
}

// sort puts the state's lists in the order of the inventory's.
func (s *NodeState) sort(inv *Inventory) {
	gpus := make(map[string]int, len(inv.GPUs))
	for i, g := range inv.GPUs {
		gpus[g.ID()] = i
	}
	slices.SortStableFunc(s.GPUs, func(a, b GPUState) int { return cmp.Compare(gpus[a.GPU], gpus[b.GPU]) })
	for _, g := range s.GPUs {
		slices.SortFunc(g.Foreign, func(a, b GPUProcess) int { return cmp.Compare(a.PID, b.PID) })
	}
	slices.SortFunc(s.Ports, func(a, b PortState) int {
		return cmp.Or(compareNumbered(a.Device, b.Device), cmp.Compare(a.Port, b.Port))
	})
	slices.SortFunc(s.Problems, compareWarnings)
}

func compareWarnings(a, b Warning) int {
	return cmp.Or(strings.Compare(a.Part, b.Part), strings.Compare(a.Problem, b.Problem), strings.Compare(a.Advice, b.Advice))
}

// compareNumbered compares names that end in a number, so that mlx5_2 stands
// before mlx5_10.
func compareNumbered(a, b string) int {
	stem := func(s string) (string, string) {
		head := strings.TrimRight(s, "0123456789")
		return head, s[len(head):]
	}
	headA, numberA := stem(a)
	headB, numberB := stem(b)
	return cmp.Or(
		strings.Compare(headA, headB),
		cmp.Compare(len(numberA), len(numberB)),
		strings.Compare(numberA, numberB),
	)
}
