package control

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"

	"github.com/llmgw/llmgw/engines"
)

// reachable reports why the address that a node tells cannot be where others reach
// it; nil: it may be. A name is nobody's to judge here, and neither is an address
// without one. What is of one machine or of one link alone will do for a node that is
// on it: the address from which its stream comes says so, and the one at which that
// arrives is of this machine.
func reachable(address string, at *wire) error {
	ip, err := netip.ParseAddr(address)
	if err != nil {
		return nil
	}
	ip = ip.Unmap()
	peer, known := ipOf(at.remote)
	here, _ := ipOf(at.local)
	elsewhere := known && !peer.IsLoopback() && peer != here
	const advice = "set address, or mgmt_interface, in the agent's configuration"
	switch {
	case ip.IsUnspecified() || ip.IsMulticast():
		return invalid("address: %s is no node's; %s", address, advice)
	case ip.IsLoopback() && elsewhere:
		return invalid("address: %s is the loopback, and the node is another machine, %s: nobody else reaches it there; %s", address, peer, advice)
	case ip.IsLinkLocalUnicast() && ip.Is6():
		return invalid("address: %s is link-local and says nothing without an interface; %s", address, advice)
	case ip.IsLinkLocalUnicast() && elsewhere && !peer.IsLinkLocalUnicast():
		return invalid("address: %s is link-local, and the node's stream comes from %s: nobody beyond its link reaches it there; %s", address, peer, advice)
	}
	return nil
}

// ipOf returns the address of a host and a port; false: it is not known.
func ipOf(hostPort string) (netip.Addr, bool) {
	at, err := netip.ParseAddrPort(hostPort)
	return at.Addr().Unmap().WithZone(""), err == nil
}

// mostAddresses are remembered of those that a node told as its own.
const mostAddresses = 16

// addresses are a node's own: engines that were started while it was reached
// elsewhere serve there yet.
type addresses struct {
	told []string // by the node, as where it is reached; the newest last
	// strange are those of shards that are none of the node's, by shard. Nobody is
	// told to go there.
	strange map[engines.ShardID]string
}

// tell notes an address as one of the node's.
func (a *addresses) tell(address string) {
	if address == "" || slices.Contains(a.told, address) {
		return
	}
	if len(a.told) == mostAddresses {
		a.told = slices.Delete(a.told, 0, 1)
	}
	a.told = append(a.told, address)
}

// foreign reports why a shard's address is none of the node's; empty: it is one, or
// there is none. Whoever may say any address may have routers send requests, and the
// secrets of replicas, to any machine, their own loopback included.
func (n *node) foreign(address string) (why string) {
	if address == "" {
		return ""
	}
	host, port, err := net.SplitHostPort(address)
	if number, bad := strconv.ParseUint(port, 10, 16); err != nil || host == "" || bad != nil || number == 0 {
		return "it is no address with a port"
	}
	if n.stream != nil && n.stream.wire != nil {
		if err := reachable(host, n.stream.wire); err != nil {
			return "routers do not reach the node there"
		}
	}
	if slices.Contains(n.addresses.told, host) {
		return ""
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		for _, told := range n.addresses.told {
			if known, err := netip.ParseAddr(told); err == nil && known.Unmap() == ip.Unmap() {
				return ""
			}
		}
		if n.reg.inventory != nil && hasAddress(n.reg.inventory, ip.Unmap()) {
			return ""
		}
	}
	return fmt.Sprintf("the node has told %q as where it is reached, and no interface of it has that address", n.addresses.told)
}

func hasAddress(inv *engines.Inventory, ip netip.Addr) bool {
	return slices.ContainsFunc(inv.Interfaces, func(i engines.NetInterface) bool {
		return slices.ContainsFunc(i.Addresses, func(a engines.NetAddress) bool { return a.Prefix.Addr().Unmap().WithZone("") == ip })
	})
}

// owned returns a status without an address that is none of the node's.
func (n *node) owned(s engines.ShardStatus) engines.ShardStatus {
	if n.foreign(s.Address) == "" {
		delete(n.addresses.strange, s.ID)
		return s
	}
	if n.addresses.strange == nil {
		n.addresses.strange = map[engines.ShardID]string{}
	}
	n.addresses.strange[s.ID] = s.Address
	s.Address = ""
	return s
}

// strange returns the shards among ids whose addresses are none of the node's,
// with why. The plane's mutex is held.
func (n *node) strange(ids ...engines.ShardID) (out []strangeAddress) {
	for _, id := range ids {
		if address, strange := n.addresses.strange[id]; strange {
			out = append(out, strangeAddress{id, address, n.foreign(address)})
		}
	}
	return out
}

// strangeAddress is an address of a shard that is none of its node's.
type strangeAddress struct {
	shard        engines.ShardID
	address, why string
}

func (p *Plane) warnStrange(node string, list []strangeAddress) {
	for _, s := range list {
		p.log.Warn("shard tells an address that is none of its node's; no router is told of it", "node", node, "replica", s.shard.Replica, "rank", s.shard.Rank,
			"address", s.address, "reason", s.why, "advice", "if the node is reached there, set address in the agent's configuration to it")
	}
}

// readdress gives shards back the addresses that were none of the node's and are now.
func (f *fleet) readdress(n *node) {
	for id, address := range n.addresses.strange {
		i, found := n.find(id)
		if found && n.foreign(address) != "" {
			continue
		}
		delete(n.addresses.strange, id)
		if found {
			n.own()[i].Address = address
			f.changed(n, id)
		}
	}
}
