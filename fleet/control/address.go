package control

import "net/netip"

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
