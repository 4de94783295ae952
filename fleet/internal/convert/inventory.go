package convert

import (
	"net/netip"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/fleet/fleetpb"
)

// InventoryToWire converts a node's hardware, without its state.
func InventoryToWire(inv *engines.Inventory) *fleetpb.Inventory {
	return &fleetpb.Inventory{
		Host: &fleetpb.Host{
			Hostname: inv.Host.Hostname, Os: inv.Host.OS, Arch: inv.Host.Arch, Kernel: inv.Host.Kernel,
			Distribution: inv.Host.Distribution, BootId: inv.Host.BootID,
		},
		Cpu: &fleetpb.CPU{
			Model: inv.CPU.Model, Sockets: optIntToWire(inv.CPU.Sockets), Cores: optIntToWire(inv.CPU.Cores),
			Threads: optIntToWire(inv.CPU.Threads), Features: inv.CPU.Features,
		},
		Memory: &fleetpb.Memory{
			TotalBytes: optToWire(inv.Memory.TotalBytes), LimitBytes: optToWire(inv.Memory.LimitBytes), Unified: inv.Memory.Unified,
		},
		Numa:       each(inv.NUMA, numaToWire),
		Gpus:       each(inv.GPUs, gpuToWire),
		Links:      each(inv.Links, func(row []string) *fleetpb.LinkRow { return &fleetpb.LinkRow{To: row} }),
		Ports:      each(inv.Ports, portToWire),
		Fabrics:    each(inv.Fabrics, fabricToWire),
		Interfaces: each(inv.Interfaces, interfaceToWire),
		Warnings:   each(inv.Warnings, warningToWire),
	}
}

// InventoryFromWire converts a node's hardware; its State is the zero value. An
// address that is none, and links that are not a row and a column per card, are
// errors.
func InventoryFromWire(m *fleetpb.Inventory) (*engines.Inventory, error) {
	host, cpu, memory := m.GetHost(), orEmpty(m.GetCpu()), orEmpty(m.GetMemory())
	interfaces, err := tryEach("inventory.interfaces", m.GetInterfaces(), interfaceFromWire)
	if err != nil {
		return nil, err
	}
	links, err := linksFromWire(m.GetLinks(), len(m.GetGpus()))
	if err != nil {
		return nil, err
	}
	return &engines.Inventory{
		Host: engines.Host{
			Hostname: host.GetHostname(), OS: host.GetOs(), Arch: host.GetArch(), Kernel: host.GetKernel(),
			Distribution: host.GetDistribution(), BootID: host.GetBootId(),
		},
		CPU: engines.CPU{
			Model: cpu.GetModel(), Sockets: optIntFromWire(cpu.Sockets), Cores: optIntFromWire(cpu.Cores),
			Threads: optIntFromWire(cpu.Threads), Features: listOrNil(cpu.GetFeatures()),
		},
		Memory: engines.Memory{
			TotalBytes: optFromWire(memory.TotalBytes), LimitBytes: optFromWire(memory.LimitBytes), Unified: memory.GetUnified(),
		},
		NUMA:       each(m.GetNuma(), numaFromWire),
		GPUs:       each(m.GetGpus(), gpuFromWire),
		Links:      links,
		Ports:      each(m.GetPorts(), portFromWire),
		Fabrics:    each(m.GetFabrics(), fabricFromWire),
		Interfaces: interfaces,
		Warnings:   each(m.GetWarnings(), warningFromWire),
	}, nil
}

func linksFromWire(rows []*fleetpb.LinkRow, cards int) ([][]string, error) {
	if len(rows) == 0 {
		return nil, nil
	}
	if len(rows) != cards {
		return nil, faulty("inventory.links", "%d rows; want one for each of %d cards", len(rows), cards)
	}
	out := make([][]string, len(rows))
	for i, row := range rows {
		if len(row.GetTo()) != cards {
			return nil, faulty("inventory.links", "row %d has %d entries; want one for each of %d cards", i, len(row.GetTo()), cards)
		}
		out[i] = row.GetTo()
	}
	return out, nil
}

func numaToWire(n engines.NUMANode) *fleetpb.NUMANode {
	return &fleetpb.NUMANode{
		Id: int64(n.ID), Cpus: n.CPUs, TotalBytes: optToWire(n.TotalBytes),
		Distances: each(n.Distances, func(d int) int64 { return int64(d) }),
	}
}

func numaFromWire(m *fleetpb.NUMANode) engines.NUMANode {
	return engines.NUMANode{
		ID: int(m.GetId()), CPUs: m.GetCpus(), TotalBytes: optFromWire(m.TotalBytes),
		Distances: each(m.GetDistances(), func(d int64) int { return int(d) }),
	}
}

func gpuToWire(g engines.GPU) *fleetpb.GPU {
	return &fleetpb.GPU{
		Index: int64(g.Index), Uuid: g.UUID, Name: g.Name, Vendor: string(g.Vendor), BusId: g.BusID, Driver: g.Driver,
		ComputeCapability: g.ComputeCapability, Architecture: g.Architecture, MemoryBytes: optToWire(g.MemoryBytes),
		PowerLimitWatts: optToWire(g.PowerLimitWatts), Mig: optToWire(g.MIG), Instances: each(g.Instances, instanceToWire),
		Numa: optIntToWire(g.NUMA), PciPath: g.PCIPath,
	}
}

func gpuFromWire(m *fleetpb.GPU) engines.GPU {
	return engines.GPU{
		Index: int(m.GetIndex()), UUID: m.GetUuid(), Name: m.GetName(), Vendor: engines.Vendor(m.GetVendor()), BusID: m.GetBusId(),
		Driver: m.GetDriver(), ComputeCapability: m.GetComputeCapability(), Architecture: m.GetArchitecture(),
		MemoryBytes: optFromWire(m.MemoryBytes), PowerLimitWatts: optFloatFromWire(m.PowerLimitWatts), MIG: optFromWire(m.Mig),
		Instances: each(m.GetInstances(), instanceFromWire), NUMA: optIntFromWire(m.Numa), PCIPath: listOrNil(m.GetPciPath()),
	}
}

func instanceToWire(i engines.MIGInstance) *fleetpb.MIGInstance {
	return &fleetpb.MIGInstance{Uuid: i.UUID, Profile: i.Profile, MemoryBytes: optToWire(i.MemoryBytes)}
}

func instanceFromWire(m *fleetpb.MIGInstance) engines.MIGInstance {
	return engines.MIGInstance{UUID: m.GetUuid(), Profile: m.GetProfile(), MemoryBytes: optFromWire(m.MemoryBytes)}
}

func portToWire(p engines.FabricPort) *fleetpb.FabricPort {
	return &fleetpb.FabricPort{
		Device: p.Device, Port: int64(p.Port), LinkLayer: string(p.LinkLayer), Guid: p.GUID, Firmware: p.Firmware,
		NetDevice: p.NetDevice, BusId: p.BusID, Numa: optIntToWire(p.NUMA), PciPath: p.PCIPath,
	}
}

func portFromWire(m *fleetpb.FabricPort) engines.FabricPort {
	return engines.FabricPort{
		Device: m.GetDevice(), Port: int(m.GetPort()), LinkLayer: engines.LinkLayer(m.GetLinkLayer()), GUID: m.GetGuid(),
		Firmware: m.GetFirmware(), NetDevice: m.GetNetDevice(), BusID: m.GetBusId(), NUMA: optIntFromWire(m.Numa),
		PCIPath: listOrNil(m.GetPciPath()),
	}
}

func fabricToWire(f engines.Fabric) *fleetpb.Fabric {
	return &fleetpb.Fabric{Name: f.Name, RateGbps: f.RateGbps, Devices: f.Devices, LinkLayer: string(f.LinkLayer)}
}

func fabricFromWire(m *fleetpb.Fabric) engines.Fabric {
	return engines.Fabric{
		Name: m.GetName(), RateGbps: optFloatFromWire(&m.RateGbps).Or(0), Devices: listOrNil(m.GetDevices()),
		LinkLayer: engines.LinkLayer(m.GetLinkLayer()),
	}
}

func interfaceToWire(n engines.NetInterface) *fleetpb.NetInterface {
	return &fleetpb.NetInterface{
		Name: n.Name, Mac: n.MAC, Mtu: optIntToWire(n.MTU), SpeedMbps: optIntToWire(n.SpeedMbps), Up: n.Up,
		Addresses: each(n.Addresses, func(a engines.NetAddress) *fleetpb.NetAddress {
			return &fleetpb.NetAddress{Prefix: a.Prefix.String(), Unadvertised: a.Unadvertised}
		}),
	}
}

func interfaceFromWire(m *fleetpb.NetInterface) (engines.NetInterface, error) {
	addresses, err := tryEach("addresses", m.GetAddresses(), func(a *fleetpb.NetAddress) (engines.NetAddress, error) {
		prefix, err := netip.ParsePrefix(a.GetPrefix())
		if err != nil {
			return engines.NetAddress{}, faulty("prefix", "%w", err)
		}
		return engines.NetAddress{Prefix: prefix, Unadvertised: a.GetUnadvertised()}, nil
	})
	if err != nil {
		return engines.NetInterface{}, err
	}
	return engines.NetInterface{
		Name: m.GetName(), MAC: m.GetMac(), MTU: optIntFromWire(m.Mtu), SpeedMbps: optIntFromWire(m.SpeedMbps), Up: m.GetUp(),
		Addresses: addresses,
	}, nil
}

func warningToWire(w engines.Warning) *fleetpb.Warning {
	return &fleetpb.Warning{Part: w.Part, Problem: w.Problem, Advice: w.Advice}
}

func warningFromWire(m *fleetpb.Warning) engines.Warning {
	return engines.Warning{Part: m.GetPart(), Problem: m.GetProblem(), Advice: m.GetAdvice()}
}

// orEmpty returns a message that can be read where there is none.
func orEmpty[M any](m *M) *M {
	if m == nil {
		return new(M)
	}
	return m
}
