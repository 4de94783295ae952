package hardware

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/fleet/hardware/internal/sysfs"
)

// Network knows the addresses of a machine. Calls may overlap.
type Network interface {
	// Addresses returns the addresses with their networks, by the name of the
	// interface.
	Addresses(ctx context.Context) (map[string][]netip.Prefix, error)
	// Route returns the interface over which a host, which is a name or an
	// address, is reached, and the address that is used for it where that is
	// known. It sends nothing to the host.
	Route(ctx context.Context, host, port string) (name string, local netip.Addr, err error)
}

// machineNetwork asks the machine itself.
type machineNetwork struct{}

// Addresses implements [Network].
func (machineNetwork) Addresses(context.Context) (map[string][]netip.Prefix, error) {
	interfaces, err := net.Interfaces()
	if err != nil {
		return nil, err
	}
	out := make(map[string][]netip.Prefix)
	for _, i := range interfaces {
		addresses, err := i.Addrs()
		if err != nil {
			continue // it went away
		}
		for _, a := range addresses {
			if p, err := netip.ParsePrefix(a.String()); err == nil {
				out[i.Name] = append(out[i.Name], p)
			}
		}
	}
	return out, nil
}

// Route implements [Network]. A UDP socket that is connected has a local address
// and has sent nothing.
func (m machineNetwork) Route(ctx context.Context, host, port string) (string, netip.Addr, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "udp", net.JoinHostPort(host, port))
	if err != nil {
		return "", netip.Addr{}, err
	}
	defer conn.Close() //nolint:errcheck // nothing was sent
	ap, err := netip.ParseAddrPort(conn.LocalAddr().String())
	if err != nil {
		return "", netip.Addr{}, err
	}
	local := ap.Addr().Unmap().WithZone("")
	addresses, err := m.Addresses(ctx)
	if err != nil {
		return "", netip.Addr{}, err
	}
	for name, list := range addresses {
		if slices.ContainsFunc(list, func(p netip.Prefix) bool { return p.Addr() == local }) {
			return name, local, nil
		}
	}
	return "", netip.Addr{}, fmt.Errorf("no interface has %v any more", local)
}

// rootNetwork reads a root that is not the machine: addresses are what its
// command "ip -json address" says, routes what stands in its /proc/net.
type rootNetwork struct {
	root   sysfs.Root
	runner Runner
}

// Addresses implements [Network].
func (n rootNetwork) Addresses(ctx context.Context) (map[string][]netip.Prefix, error) {
	out, err := n.runner.Run(ctx, "ip", "-json", "address")
	if errors.Is(err, ErrNoCommand) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return parseAddresses(out.Stdout)
}

// parseAddresses reads the answer of "ip -json address".
func parseAddresses(text string) (map[string][]netip.Prefix, error) {
	var links []struct {
		Name      string `json:"ifname"`
		Addresses []struct {
			Local  string `json:"local"`
			Length int    `json:"prefixlen"`
		} `json:"addr_info"`
	}
	if err := json.Unmarshal([]byte(text), &links); err != nil {
		return nil, fmt.Errorf("what ip -json address says: %w", err)
	}
	out := make(map[string][]netip.Prefix)
	for _, l := range links {
		for _, a := range l.Addresses {
			if addr, err := netip.ParseAddr(a.Local); err == nil {
				if p := netip.PrefixFrom(addr.WithZone(""), a.Length); p.IsValid() {
					out[l.Name] = append(out[l.Name], p)
				}
			}
		}
	}
	return out, nil
}

// Route implements [Network].
func (n rootNetwork) Route(_ context.Context, host, _ string) (string, netip.Addr, error) {
	to, err := netip.ParseAddr(host)
	if err != nil {
		if to, err = n.lookUp(host); err != nil {
			return "", netip.Addr{}, err
		}
	}
	if to.IsLoopback() {
		return "lo", netip.Addr{}, nil
	}
	name, ok := n.root.Route(to)
	if !ok {
		return "", netip.Addr{}, fmt.Errorf("no route leads to %v", to)
	}
	return name, netip.Addr{}, nil
}

// lookUp finds a name in etc/hosts.
func (n rootNetwork) lookUp(host string) (netip.Addr, error) {
	for line := range strings.Lines(n.root.Text("etc/hosts")) {
		entry, _, _ := strings.Cut(line, "#")
		f := strings.Fields(entry)
		if len(f) > 1 && slices.Contains(f[1:], host) {
			return netip.ParseAddr(f[0])
		}
	}
	return netip.Addr{}, fmt.Errorf("%q is no address and not in etc/hosts", host)
}

// readInterfaces reads the interfaces with their addresses.
func (r *Reader) readInterfaces(ctx context.Context) ([]engines.NetInterface, error) {
	interfaces, err := r.root.Interfaces()
	if err != nil {
		return nil, err
	}
	addresses, err := r.network.Addresses(ctx)
	if err != nil {
		return nil, err
	}
	interfaces = slices.DeleteFunc(interfaces, func(n engines.NetInterface) bool { return ofOneContainer(n.Name) })
	for i := range interfaces {
		n := &interfaces[i]
		for _, p := range addresses[n.Name] {
			n.Addresses = append(n.Addresses, engines.NetAddress{Prefix: p, Unadvertised: unadvertised(n.Name, p.Addr())})
		}
	}
	return interfaces, nil
}

// ofOneContainer reports whether an interface is this machine's end of a
// container's. Those come and go with their containers and lead nowhere else.
func ofOneContainer(name string) bool {
	for _, prefix := range []string{"veth", "cali", "lxc", "lxd", "tap"} {
		digits := strings.TrimPrefix(name, prefix)
		if digits != name && !strings.HasPrefix(digits, "br") { // lxcbr0 is a bridge
			return true
		}
	}
	return false
}

// unadvertised says why an address is not told to others unless configuration
// names it; "" for one that is.
func unadvertised(name string, a netip.Addr) string {
	switch {
	case a.IsLoopback():
		return "loopback"
	case a.IsLinkLocalUnicast():
		return "link-local"
	case a.IsUnspecified(), a.IsMulticast():
		return "no host's address"
	case ofContainers(name):
		return "container bridge"
	}
	return ""
}

// ofContainers reports whether an interface is one that Docker, libvirt, LXC or
// a network of Kubernetes makes for containers on this machine. The addresses of
// such are the same on every node.
func ofContainers(name string) bool {
	for _, prefix := range []string{
		"docker", "veth", "virbr", "lxcbr", "lxdbr", "podman", "cni", "flannel", "cali", "cilium", "weave", "kube-", "nodelocaldns",
	} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	id, ok := strings.CutPrefix(name, "br-") // a network of Docker's; br-lan is somebody's own
	return ok && len(id) == 12 && strings.Trim(id, "0123456789abcdef") == ""
}
