package discover

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// ErrForbidden is of every address that is never registered.
var ErrForbidden = errors.New("discover: address that is never registered")

// Interface is one of a machine's network interfaces, as package net lists them.
type Interface struct {
	Name     string
	Networks []netip.Prefix
}

// Bridges returns the networks of those interfaces that runtimes of containers
// and machines make, by how they call them: addresses in them mean something on
// this machine alone.
func Bridges(interfaces []Interface) []netip.Prefix {
	var out []netip.Prefix
	for _, i := range interfaces {
		for _, own := range []string{"docker", "br-", "podman", "cni", "virbr", "lxcbr", "lxdbr", "flannel", "cali", "cilium", "kube-ipvs", "nodelocaldns", "weave"} {
			if strings.HasPrefix(i.Name, own) {
				for _, n := range i.Networks {
					out = append(out, n.Masked())
				}
				break
			}
		}
	}
	return out
}

// Fence says which addresses are never an engine's: those of the loopback,
// link-local, multicast and unspecified ones, Docker's own bridge
// (172.17.0.0/16), and those of Bridges, unless Allow names them; and those of
// Never, whatever Allow names. The zero value forbids the former alone. A Fence
// is a value and may be used concurrently.
type Fence struct {
	Allow   []netip.Prefix
	Bridges []netip.Prefix
	Never   []netip.Prefix
}

// CheckAddr returns nil for an address that may be registered, otherwise why
// not, wrapping [ErrForbidden].
func (f Fence) CheckAddr(ip netip.Addr) error {
	ip = ip.Unmap().WithZone("")
	no := func(what string) error { return fmt.Errorf("%w: %v is %s", ErrForbidden, ip, what) }
	switch {
	case !ip.IsValid() || ip.IsUnspecified() || ip == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
		return no("no address of one machine")
	case ip.IsMulticast():
		return no("multicast")
	case holds(f.Never, ip):
		return no("of a pod or a cluster IP, which only the cluster reaches")
	case holds(f.Allow, ip):
		return nil
	case ip.IsLoopback():
		return no("the loopback, where only this machine reaches it; advertise an address that routers reach")
	case ip.IsLinkLocalUnicast():
		return no("link-local")
	case holds(f.Bridges, ip), netip.PrefixFrom(netip.AddrFrom4([4]byte{172, 17, 0, 0}), 16).Contains(ip):
		return no("of a bridge of containers, where only this machine reaches it; name its network in allow if it is not")
	}
	return nil
}

// CheckURL is [Fence.CheckAddr] for the host of an address. Of names, those of
// the loopback and of services inside a cluster are forbidden; what another name
// stands for is checked when it is dialled.
func (f Fence) CheckURL(base string) error {
	u, err := url.Parse(base)
	if err != nil {
		return fmt.Errorf("%w: no URL", ErrAddress)
	}
	host := strings.TrimSuffix(strings.ToLower(u.Hostname()), ".")
	if ip, err := netip.ParseAddr(host); err == nil {
		return f.CheckAddr(ip)
	}
	no := func(what string) error { return fmt.Errorf("%w: %q is %s", ErrForbidden, host, what) }
	switch {
	case host == "localhost" || strings.HasSuffix(host, ".localhost"):
		if holds(f.Allow, netip.AddrFrom4([4]byte{127, 0, 0, 1})) {
			return nil
		}
		return no("the loopback, where only this machine reaches it; advertise an address that routers reach")
	case host == "metadata" || host == "metadata.google.internal":
		return no("a cloud's metadata")
	case strings.HasSuffix(host, ".svc") || strings.Contains(host, ".svc.") || strings.HasSuffix(host, ".cluster.local"):
		return no("a name that only the cluster knows")
	}
	return nil
}

func holds(networks []netip.Prefix, ip netip.Addr) bool {
	return slices.ContainsFunc(networks, func(n netip.Prefix) bool { return n.Contains(ip) })
}
