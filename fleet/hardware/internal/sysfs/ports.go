package sysfs

import (
	"errors"
	"io/fs"
	"math"
	"path"
	"strconv"
	"strings"

	"github.com/llmgw/llmgw/engines"
)

// Port is a port of an InfiniBand or RoCE adapter with its state.
type Port struct {
	engines.FabricPort
	State engines.PortState
}

// InfiniBandDir is where adapters stand, below a root.
const InfiniBandDir = "sys/class/infiniband"

// Ports returns the ports below a directory of the shape of
// /sys/class/infiniband. Where there is none there are no ports; another error
// means that it is not known.
func (r Root) Ports(dir string) ([]Port, error) {
	devices, err := r.Names(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var ports []Port
	for _, device := range devices {
		adapter := path.Join(dir, device)
		numbers, err := r.Names(adapter + "/ports")
		if err != nil {
			continue // an adapter that is going away
		}
		common := r.adapter(adapter, device)
		for _, number := range numbers {
			n, err := strconv.ParseUint(number, 10, 16)
			if err != nil {
				continue
			}
			p := r.port(adapter+"/ports/"+number, common, int(n))
			p.NetDevice = r.netDevice(adapter, int(n))
			ports = append(ports, p)
		}
	}
	return ports, nil
}

// adapter returns what the ports of an adapter have in common.
func (r Root) adapter(dir, device string) engines.FabricPort {
	p := engines.FabricPort{
		Device:   device,
		GUID:     r.Text(dir + "/node_guid"),
		Firmware: r.Text(dir + "/fw_ver"),
		NUMA:     r.Int(dir + "/device/numa_node"),
	}
	if target := r.link(dir + "/device"); target != "" {
		p.BusID = path.Base(target)
		// The link of the adapter is relative to it and short; that of the device
		// names all bridges.
		p.PCIPath = r.Device(p.BusID).Path
	}
	return p
}

func (r Root) port(dir string, common engines.FabricPort, number int) Port {
	p := Port{FabricPort: common}
	p.Port = number
	switch r.Text(dir + "/link_layer") {
	case "InfiniBand":
		p.LinkLayer = engines.InfiniBand
	case "Ethernet":
		p.LinkLayer = engines.Ethernet
	}
	p.State = engines.PortState{
		Device:       common.Device,
		Port:         number,
		State:        word(r.Text(dir + "/state")),
		Physical:     word(r.Text(dir + "/phys_state")),
		RateGbps:     Rate(r.Text(dir + "/rate")),
		LinkDowned:   r.Uint(dir + "/counters/link_downed"),
		SymbolErrors: r.Uint(dir + "/counters/symbol_error"),
	}
	p.State.GIDPrefix = gidPrefix(r.Text(dir + "/gids/0"))
	return p
}

// netDevice returns the network interface of a port. Those of an adapter with
// several ports are told apart by dev_port, which counts from 0.
func (r Root) netDevice(adapter string, port int) string {
	names, err := r.Names(adapter + "/device/net")
	if err != nil {
		return ""
	}
	if len(names) == 1 && port == 1 {
		return names[0]
	}
	for _, name := range names {
		if r.Int(adapter + "/device/net/" + name + "/dev_port").Is(port - 1) {
			return name
		}
	}
	return ""
}

// word returns "ACTIVE" of "4: ACTIVE".
func word(s string) string {
	_, name, found := strings.Cut(s, ":")
	if !found {
		return ""
	}
	return strings.TrimSpace(name)
}

// Rate reads "400 Gb/sec (4X NDR)" and "2.5 Gb/sec (1X SDR)".
func Rate(s string) engines.Opt[float64] {
	number, unit, _ := strings.Cut(s, " ")
	f, err := strconv.ParseFloat(number, 64)
	if err != nil || !strings.HasPrefix(unit, "Gb/sec") || math.IsNaN(f) || math.IsInf(f, 0) || f < 0 {
		return engines.Opt[float64]{}
	}
	return engines.Known(f)
}

// gidPrefix returns the upper half of a GID. Of an entry that is not in use,
// which is all 0, there is none.
func gidPrefix(gid string) string {
	groups := strings.Split(gid, ":")
	if len(groups) != 8 || strings.Trim(gid, "0:") == "" {
		return ""
	}
	return strings.Join(groups[:4], ":")
}
