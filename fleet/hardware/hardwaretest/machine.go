package hardwaretest

import (
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Options are what differs between machines of one kind.
type Options struct {
	// Hostname is the machine's name, of which the names of its cards and
	// adapters are made. Default node-1.
	Hostname string
	// Address is its address on eth0. Default 10.0.0.7/24.
	Address string
	// RateGbps is the rate of its InfiniBand ports. Default 400.
	RateGbps int
	// GIDPrefix is the subnet of its InfiniBand ports. Default
	// fe80:0000:0000:0000, which is that of every fabric nobody has named.
	GIDPrefix string
}

func (o Options) withDefaults() Options {
	if o.Hostname == "" {
		o.Hostname = "node-1"
	}
	if o.Address == "" {
		o.Address = "10.0.0.7/24"
	}
	if o.RateGbps == 0 {
		o.RateGbps = 400
	}
	if o.GIDPrefix == "" {
		o.GIDPrefix = "fe80:0000:0000:0000"
	}
	return o
}

// Machine is a directory of the shape of a machine. Its methods fail the test
// where they cannot do what they say.
type Machine struct {
	// Root is for hardware.Config.Root.
	Root string

	tb      testing.TB
	options Options
}

// newMachine makes a machine that is nothing but a kernel and a network.
func newMachine(tb testing.TB, o Options) *Machine {
	tb.Helper()
	m := &Machine{Root: tb.TempDir(), tb: tb, options: o.withDefaults()}
	m.Write("proc/sys/kernel/hostname", m.options.Hostname)
	m.Write("proc/sys/kernel/osrelease", "6.8.0-45-generic")
	m.Write("proc/sys/kernel/random/boot_id", m.uuid("boot"))
	m.Write("proc/self/cgroup", "0::/system.slice/llmgw-agent.service")
	m.Write("etc/os-release", "NAME=\"Ubuntu\"\nPRETTY_NAME=\"Ubuntu 24.04.1 LTS\"")
	m.network()
	return m
}

// Write writes a file, with a line's end behind text, in place of what was
// there.
func (m *Machine) Write(path, text string) {
	m.tb.Helper()
	m.write(path, text+"\n", 0o644)
}

// Script makes a shell script stand for a vendor's tool.
func (m *Machine) Script(name, body string) {
	m.tb.Helper()
	m.Remove("commands/" + name)
	m.write("commands/"+name, "#!/bin/sh\n"+body+"\n", 0o755)
}

// write puts a file in place whole, since a reader may be at it.
func (m *Machine) write(path, text string, mode os.FileMode) {
	m.tb.Helper()
	file := filepath.Join(m.Root, path)
	err := os.MkdirAll(filepath.Dir(file), 0o755)
	if err == nil {
		err = os.WriteFile(file+".new", []byte(text), mode)
	}
	if err == nil {
		err = os.Rename(file+".new", file)
	}
	if err != nil {
		m.tb.Fatal(err)
	}
}

// Remove removes a file, or a directory with all below it.
func (m *Machine) Remove(path string) {
	m.tb.Helper()
	if err := os.RemoveAll(filepath.Join(m.Root, path)); err != nil {
		m.tb.Fatal(err)
	}
}

// link makes a symbolic link, as sysfs has them.
func (m *Machine) link(path, target string) {
	m.tb.Helper()
	file := filepath.Join(m.Root, path)
	err := os.MkdirAll(filepath.Dir(file), 0o755)
	if err == nil {
		err = os.Symlink(target, file)
	}
	if err != nil {
		m.tb.Fatal(err)
	}
}

// files writes files below a directory.
func (m *Machine) files(dir string, files map[string]string) {
	m.tb.Helper()
	for name, text := range files {
		m.Write(dir+"/"+name, text)
	}
}

// hex returns n digits that are the machine's own and the same each time.
func (m *Machine) hex(what string, n int) string {
	var b strings.Builder
	for i := 0; b.Len() < n; i++ {
		h := fnv.New64a()
		_, _ = fmt.Fprintf(h, "%s/%s/%d", m.options.Hostname, what, i)
		fmt.Fprintf(&b, "%016x", h.Sum64())
	}
	return b.String()[:n]
}

func (m *Machine) uuid(what string) string {
	h := m.hex(what, 32)
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}

// network adds a loopback, eth0 with the default route, and Docker's bridge.
func (m *Machine) network() {
	address, bits, _ := strings.Cut(m.options.Address, "/")
	for _, n := range []struct{ name, state, speed, mtu, mac string }{
		{"lo", "unknown", "", "65536", "00:00:00:00:00:00"},
		{"eth0", "up", "25000", "1500", mac(m.hex("eth0", 10))},
		{"docker0", "down", "-1", "1500", "02:42:ac:11:00:01"},
	} {
		m.files("sys/class/net/"+n.name, map[string]string{"operstate": n.state, "speed": n.speed, "mtu": n.mtu, "address": n.mac, "flags": "0x1003"})
	}
	m.Write("commands/ip/-json_address", fmt.Sprintf(`[
 {"ifname":"lo","addr_info":[{"local":"127.0.0.1","prefixlen":8},{"local":"::1","prefixlen":128}]},
 {"ifname":"eth0","addr_info":[{"local":%q,"prefixlen":%s},{"local":"fe80::42:1","prefixlen":64}]},
 {"ifname":"docker0","addr_info":[{"local":"172.17.0.1","prefixlen":16}]}
]`, address, bits))
	m.Write("proc/net/route", `Iface	Destination	Gateway 	Flags	RefCnt	Use	Metric	Mask		MTU	Window	IRTT
eth0	00000000	0100000A	0003	0	0	100	00000000	0	0	0
docker0	000011AC	00000000	0001	0	0	0	0000FFFF	0	0	0`)
}

func mac(ten string) string {
	parts := []string{"b8"}
	for i := 0; i < len(ten); i += 2 {
		parts = append(parts, ten[i:i+2])
	}
	return strings.Join(parts, ":")
}

// x86 adds processors: cores of two threads each.
func (m *Machine) x86(model string, sockets, cores int, flags string) {
	m.tb.Helper()
	var b strings.Builder
	for i := range sockets * cores * 2 {
		core := i % (sockets * cores)
		fmt.Fprintf(&b, "processor\t: %d\nvendor_id\t: GenuineIntel\nmodel name\t: %s\nphysical id\t: %d\ncore id\t\t: %d\nflags\t\t: %s\n\n",
			i, model, core/cores, core%cores, flags)
	}
	m.Write("proc/cpuinfo", b.String())
	m.Write("proc/sys/kernel/arch", "x86_64")
}

// memory adds memory, all but an eighth of it free, in NUMA nodes of the same
// size.
func (m *Machine) memory(gib, nodes, cpus int) {
	m.tb.Helper()
	kb := gib << 20
	m.Write("proc/meminfo", fmt.Sprintf("MemTotal:       %d kB\nMemFree:        %d kB\nMemAvailable:   %d kB", kb, kb/2, kb-kb/8))
	for n := range nodes {
		distances := make([]string, nodes)
		for i := range distances {
			distances[i] = "21"
		}
		distances[n] = "10"
		m.files(fmt.Sprintf("sys/devices/system/node/node%d", n), map[string]string{
			"cpulist":  fmt.Sprintf("%d-%d", n*cpus/nodes, (n+1)*cpus/nodes-1),
			"meminfo":  fmt.Sprintf("Node %d MemTotal:       %d kB", n, kb/nodes),
			"distance": strings.Join(distances, " "),
		})
	}
}

// pci adds a device with its bridges, the outermost first.
func (m *Machine) pci(address string, bridges []string, numa int, class, vendor string) string {
	m.tb.Helper()
	domain, rest, _ := strings.Cut(bridges[0], ":")
	bus, _, _ := strings.Cut(rest, ":")
	path := "devices/pci" + domain + ":" + bus + "/" + strings.Join(bridges, "/") + "/" + address
	m.files("sys/"+path, map[string]string{"class": class, "vendor": vendor, "numa_node": fmt.Sprint(numa)})
	m.link("sys/bus/pci/devices/"+address, "../../../"+path)
	return path
}

// adapter adds an InfiniBand adapter with one port.
func (m *Machine) adapter(index int, address string, bridges []string, numa int) {
	m.tb.Helper()
	name := fmt.Sprintf("mlx5_%d", index)
	path := m.pci(address, bridges, numa, "0x020700", "0x15b3")
	dir := path + "/infiniband/" + name
	guid := m.hex(name, 16)
	guid = guid[:4] + ":" + guid[4:8] + ":" + guid[8:12] + ":" + guid[12:]
	m.files("sys/"+dir, map[string]string{"node_guid": guid, "fw_ver": "28.39.1002"})
	m.files("sys/"+dir+"/ports/1", map[string]string{
		"link_layer":            "InfiniBand",
		"state":                 "4: ACTIVE",
		"phys_state":            "5: LinkUp",
		"rate":                  fmt.Sprintf("%d Gb/sec (4X NDR)", m.options.RateGbps),
		"gids/0":                m.options.GIDPrefix + ":" + guid,
		"counters/link_downed":  "0",
		"counters/symbol_error": "0",
	})
	m.Write(fmt.Sprintf("sys/%s/net/ibs%d/dev_port", path, index), "0")
	m.link("sys/"+dir+"/device", "../../../"+address)
	m.link("sys/class/infiniband/"+name, "../../"+dir)
}

// SetPort changes an attribute of a port of an adapter, such as state.
func (m *Machine) SetPort(device, attribute, value string) {
	m.tb.Helper()
	dir, err := filepath.EvalSymlinks(filepath.Join(m.Root, "sys/class/infiniband", device))
	if err != nil {
		m.tb.Fatal(err)
	}
	below, err := filepath.Rel(m.Root, dir)
	if err != nil {
		m.tb.Fatal(err)
	}
	m.Write(below+"/ports/1/"+attribute, value)
}
