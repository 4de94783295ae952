package sysfs

import (
	"encoding/binary"
	"encoding/hex"
	"math/bits"
	"net/netip"
	"strconv"
	"strings"

	"github.com/llmgw/llmgw/engines"
)

const netDir = "sys/class/net"

// Interfaces returns the network interfaces without their addresses, which the
// kernel does not tell in files.
func (r Root) Interfaces() ([]engines.NetInterface, error) {
	names, err := r.Names(netDir)
	if err != nil {
		return nil, err
	}
	var out []engines.NetInterface
	for _, name := range names {
		dir := netDir + "/" + name
		if !r.Has(dir + "/operstate") {
			continue // a file of the bonding driver
		}
		n := engines.NetInterface{
			Name:      name,
			MAC:       r.Text(dir + "/address"),
			MTU:       r.Int(dir + "/mtu"),
			SpeedMbps: r.Int(dir + "/speed"), // -1 or an error while it is down
			Up:        r.up(dir),
		}
		if strings.Trim(n.MAC, "0:") == "" {
			n.MAC = ""
		}
		out = append(out, n)
	}
	return out, nil
}

// up reports whether an interface is on. The loopback and tunnels do not know:
// theirs is the flag IFF_UP.
func (r Root) up(dir string) bool {
	switch r.Text(dir + "/operstate") {
	case "up":
		return true
	case "unknown":
		return r.Uint(dir+"/flags").Or(1)&1 != 0
	}
	return false
}

// Route returns the interface over which an address is reached, by the main
// table of the kernel.
func (r Root) Route(to netip.Addr) (string, bool) {
	if to = to.Unmap(); to.Is4() {
		return longest(ParseRoutes(r.Text("proc/net/route")), to)
	}
	return longest(ParseRoutes6(r.Text("proc/net/ipv6_route")), to)
}

// Route is an entry of a routing table.
type Route struct {
	To        netip.Prefix
	Interface string
	Metric    uint64
}

// longest returns the interface of the route that is nearest to an address; of
// several, that with the least metric.
func longest(routes []Route, to netip.Addr) (string, bool) {
	var best *Route
	for i := range routes {
		e := &routes[i]
		if !e.To.Contains(to) {
			continue
		}
		if best == nil || e.To.Bits() > best.To.Bits() || e.To.Bits() == best.To.Bits() && e.Metric < best.Metric {
			best = e
		}
	}
	if best == nil {
		return "", false
	}
	return best.Interface, true
}

const (
	routeUp     = 1
	routeReject = 0x200
)

// ParseRoutes reads /proc/net/route, where addresses are in the byte order of a
// little-endian machine.
func ParseRoutes(text string) []Route {
	var out []Route
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) < 8 {
			continue
		}
		to, err1 := strconv.ParseUint(f[1], 16, 32)
		flags, err2 := strconv.ParseUint(f[3], 16, 32)
		metric, err3 := strconv.ParseUint(f[6], 10, 64)
		mask, err4 := strconv.ParseUint(f[7], 16, 32)
		if err1 != nil || err2 != nil || err3 != nil || err4 != nil || flags&routeUp == 0 || flags&routeReject != 0 {
			continue
		}
		var a [4]byte
		binary.LittleEndian.PutUint32(a[:], uint32(to))
		out = append(out, Route{To: netip.PrefixFrom(netip.AddrFrom4(a), bits.OnesCount32(uint32(mask))), Interface: f[0], Metric: metric})
	}
	return out
}

// ParseRoutes6 reads /proc/net/ipv6_route.
func ParseRoutes6(text string) []Route {
	var out []Route
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) != 10 || len(f[0]) != 32 {
			continue
		}
		to, err1 := hex.DecodeString(f[0])
		length, err2 := strconv.ParseUint(f[1], 16, 8)
		metric, err3 := strconv.ParseUint(f[5], 16, 64)
		flags, err4 := strconv.ParseUint(f[8], 16, 32)
		if err1 != nil || err2 != nil || err3 != nil || err4 != nil || length > 128 || flags&routeUp == 0 || flags&routeReject != 0 {
			continue
		}
		out = append(out, Route{To: netip.PrefixFrom(netip.AddrFrom16([16]byte(to)), int(length)), Interface: f[9], Metric: metric})
	}
	return out
}
