package hardware

import (
	"fmt"
	"slices"
	"strings"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/fleet/hardware/internal/sysfs"
)

// lead is a port or an interface that may lead to a fabric.
type lead struct {
	name   string // mlx5_0 port 1
	device string
	layer  engines.LinkLayer
	active bool
	state  string
	rate   engines.Opt[float64]
	prefix string
}

// judge holds labels against what the machine's ports say. Nothing that a port
// says names a fabric, so it can only contradict: no active port, a lower rate,
// another link layer, or subnets that differ within one label.
func judge(fabrics []engines.Fabric, ports []sysfs.Port, interfaces []engines.NetInterface) []engines.FabricState {
	var out []engines.FabricState
	for i, f := range fabrics {
		s := engines.FabricState{Name: f.Name, Verdict: engines.Confirmed}
		if len(f.Devices) > 0 {
			s.Reasons = judgeNamed(f, ports, interfaces)
		} else {
			s.Reasons = judgeUnnamed(f, unclaimed(fabrics, ports))
		}
		switch {
		case len(s.Reasons) > 0:
			s.Verdict = engines.Contradicted
		case len(f.Devices) == 0 && ambiguous(fabrics, i):
			s.Verdict = engines.Unknown
			s.Reasons = []string{"which ports lead to it cannot be told, since another label names no devices either: list the devices of each"}
		}
		out = append(out, s)
	}
	return out
}

// unjudged is for ports that could not be read.
func unjudged(fabrics []engines.Fabric, why error) []engines.FabricState {
	var out []engines.FabricState
	for _, f := range fabrics {
		out = append(out, engines.FabricState{Name: f.Name, Verdict: engines.Unknown, Reasons: []string{"the ports could not be read: " + why.Error()}})
	}
	return out
}

// ambiguous reports whether another label takes the same unnamed ports.
func ambiguous(fabrics []engines.Fabric, i int) bool {
	for j, f := range fabrics {
		if j != i && len(f.Devices) == 0 && layer(f) == layer(fabrics[i]) {
			return true
		}
	}
	return false
}

func layer(f engines.Fabric) engines.LinkLayer {
	if f.LinkLayer == "" {
		return engines.InfiniBand
	}
	return f.LinkLayer
}

func unclaimed(fabrics []engines.Fabric, ports []sysfs.Port) []lead {
	var out []lead
	for _, p := range ports {
		if !slices.ContainsFunc(fabrics, func(f engines.Fabric) bool { return slices.Contains(f.Devices, p.Device) }) {
			out = append(out, leadOf(p))
		}
	}
	return out
}

func leadOf(p sysfs.Port) lead {
	return lead{
		name:   fmt.Sprintf("%s port %d", p.Device, p.Port),
		device: p.Device,
		layer:  p.LinkLayer,
		active: p.State.State == "ACTIVE",
		state:  portWords(p.State),
		rate:   p.State.RateGbps,
		prefix: p.State.GIDPrefix,
	}
}

// portWords says how a port is. A port that is up but not active waits for the
// subnet manager of its fabric.
func portWords(s engines.PortState) string {
	switch {
	case s.State == "":
		return "in a state that cannot be read"
	case s.State == "INIT" && s.Physical == "LinkUp":
		return "INIT: its link is up, but no subnet manager has set it up"
	case s.Physical != "":
		return s.State + " (" + s.Physical + ")"
	}
	return s.State
}

// judgeUnnamed looks at the ports that no label names. There may be others
// among them, such as those of storage, so that one which fits is enough.
func judgeUnnamed(f engines.Fabric, leads []lead) []string {
	if len(leads) == 0 {
		return []string{"this machine has no InfiniBand or RoCE port that leads to it"}
	}
	ofLayer := slices.DeleteFunc(slices.Clone(leads), func(l lead) bool { return l.layer != layer(f) })
	if len(ofLayer) == 0 {
		return []string{wrongLayer(f, leads[0])}
	}
	active := slices.DeleteFunc(slices.Clone(ofLayer), func(l lead) bool { return !l.active })
	if len(active) == 0 {
		return []string{fmt.Sprintf("no port is ACTIVE; %s is %s", ofLayer[0].name, ofLayer[0].state)}
	}
	var reasons []string
	if best := fastest(active); slow(f, best) {
		reasons = append(reasons, tooSlow(f, best)+", which is the fastest")
	}
	return append(reasons, prefixes(active)...)
}

// judgeNamed looks at the devices of a label, all of which are counted on.
func judgeNamed(f engines.Fabric, ports []sysfs.Port, interfaces []engines.NetInterface) []string {
	var reasons []string
	var all []lead
	for _, device := range f.Devices {
		var leads []lead
		for _, p := range ports {
			if p.Device == device {
				leads = append(leads, leadOf(p))
			}
		}
		if i := slices.IndexFunc(interfaces, func(n engines.NetInterface) bool { return n.Name == device }); len(leads) == 0 && i >= 0 {
			leads = append(leads, leadOfInterface(interfaces[i]))
		}
		active := slices.DeleteFunc(slices.Clone(leads), func(l lead) bool { return !l.active })
		switch {
		case len(leads) == 0:
			reasons = append(reasons, fmt.Sprintf("%s is not there; there are: %s", device, deviceNames(ports)))
		case len(active) == 0: // the second port of an adapter may be free
			reasons = append(reasons, fmt.Sprintf("%s is %s", leads[0].name, leads[0].state))
		}
		for _, l := range active {
			if l.layer != layer(f) {
				reasons = append(reasons, wrongLayer(f, l))
			} else if slow(f, l) {
				reasons = append(reasons, tooSlow(f, l))
			}
		}
		all = append(all, active...)
	}
	return append(reasons, prefixes(all)...)
}

// leadOfInterface takes a network interface for a port: fabrics need no RDMA.
func leadOfInterface(n engines.NetInterface) lead {
	l := lead{name: "interface " + n.Name, device: n.Name, layer: engines.Ethernet, active: n.Up, state: "down"}
	if mbps, known := n.SpeedMbps.Get(); known {
		l.rate = engines.Known(float64(mbps) / 1000)
	}
	return l
}

func deviceNames(ports []sysfs.Port) string {
	var names []string
	for _, p := range ports {
		if !slices.Contains(names, p.Device) {
			names = append(names, p.Device)
		}
	}
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

func fastest(leads []lead) lead {
	return slices.MaxFunc(leads, func(a, b lead) int {
		switch x, y := a.rate.Or(0), b.rate.Or(0); {
		case x < y:
			return -1
		case x > y:
			return 1
		}
		return 0
	})
}

// slow reports whether a port is known to be slower than the label says.
func slow(f engines.Fabric, l lead) bool {
	rate, known := l.rate.Get()
	return known && rate < f.RateGbps
}

func tooSlow(f engines.Fabric, l lead) string {
	return fmt.Sprintf("%s runs at %v Gbit/s, and rate_gbps says %v", l.name, l.rate, f.RateGbps)
}

func wrongLayer(f engines.Fabric, l lead) string {
	speaks := string(l.layer)
	if speaks == "" {
		speaks = "something unknown"
	}
	s := fmt.Sprintf("%s speaks %s, and the label says %s", l.name, speaks, layer(f))
	if l.layer == engines.Ethernet {
		s += "; if the fabric is RoCE, write link_layer: ethernet"
	}
	return s
}

// prefixes compares the subnets of InfiniBand ports. All islands may have the
// same, but no island has two.
func prefixes(active []lead) []string {
	var first *lead
	for i, l := range active {
		if l.layer != engines.InfiniBand || l.prefix == "" {
			continue
		}
		if first == nil {
			first = &active[i]
		} else if l.prefix != first.prefix {
			return []string{fmt.Sprintf("%s is in subnet %s and %s in %s: two fabrics under one label; list the devices of each", first.name, first.prefix, l.name, l.prefix)}
		}
	}
	return nil
}
