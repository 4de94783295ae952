package hardware

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/llmgw/llmgw/engines"
)

// ErrAdvertise is wrapped by the error for a node that has no address to
// advertise.
var ErrAdvertise = errors.New("hardware: no address to advertise")

// DefaultInterface is the interface whose address a node advertises where it
// exists and configuration names none.
const DefaultInterface = "eth0"

// AdvertiseConfig says which address a node tells others.
type AdvertiseConfig struct {
	// Interface is the name of a network interface. Default [DefaultInterface].
	Interface string
	// Written: a person wrote Interface, so that it has to be there. Otherwise
	// it is a default, and where there is none the interface that leads to
	// ControlPlane is taken.
	Written bool
	// ControlPlane is the host and port that the agent dials.
	ControlPlane string
}

// Advertised is the address under which others reach a node.
type Advertised struct {
	Interface string
	Address   netip.Addr
	// Why says how it was chosen, for people.
	Why string
	// Missed is why it is not one of the interface that somebody made the default.
	// Empty: it is, or [DefaultInterface] is the default, which many machines lack.
	Missed string
}

// Advertise returns the address that a node tells others. An interface that a
// person named may have any address but one of IPv6 that is link-local, which
// says nothing without the reader's own interface; else addresses that are
// loopback, link-local or of containers are not taken, unless the control plane
// itself is on this machine's loopback. Of several, IPv4 goes before IPv6. Errors
// wrap [ErrAdvertise] and name what there is.
func (r *Reader) Advertise(ctx context.Context, cfg AdvertiseConfig) (Advertised, error) {
	release, err := r.myTurn(ctx)
	if err != nil {
		return Advertised{}, fmt.Errorf("%w: %w", ErrAdvertise, err)
	}
	defer release()
	t := r.net.read(ctx, r.readInterfaces)
	if !t.known {
		return Advertised{}, fmt.Errorf("%w: %w", ErrAdvertise, t.err)
	}
	name := cfg.Interface
	if name == "" {
		name = DefaultInterface
	}
	n, found := interfaceNamed(t.value, name)
	if cfg.Written {
		return named(t.value, n, found, name)
	}
	if found {
		if a, ok := best(n, false); ok {
			return Advertised{Interface: name, Address: a, Why: "the default interface"}, nil
		}
	}
	out, err := r.routed(ctx, name, cfg.ControlPlane, t.value)
	if err == nil && name != DefaultInterface && name != out.Interface {
		out.Missed = missed(name, found, t.value)
	}
	return out, err
}

// missed says why a default interface was not taken.
func missed(name string, found bool, all []engines.NetInterface) string {
	if !found {
		return fmt.Sprintf("there is no interface %q; there are: %s", name, list(all))
	}
	return fmt.Sprintf("interface %q has no address that may be told; there are: %s", name, list(all))
}

// named returns the address of an interface that a person named.
func named(all []engines.NetInterface, n engines.NetInterface, found bool, name string) (Advertised, error) {
	if !found {
		return Advertised{}, fmt.Errorf("%w: there is no interface %q; there are: %s", ErrAdvertise, name, list(all))
	}
	a, ok := best(n, true)
	if !ok {
		return Advertised{}, fmt.Errorf("%w: interface %q has none that others could use; there are: %s", ErrAdvertise, name, list(all))
	}
	return Advertised{Interface: name, Address: a, Why: "configuration names the interface"}, nil
}

// routed returns the address over which the control plane is reached, since the
// interface that would be taken is not there or has none.
func (r *Reader) routed(ctx context.Context, without, controlPlane string, all []engines.NetInterface) (Advertised, error) {
	host, port, err := net.SplitHostPort(controlPlane)
	if err != nil {
		return Advertised{}, fmt.Errorf("%w: there is no interface %s with a usable address, and the control plane's address %q is none to route to: %w; name an interface of: %s",
			ErrAdvertise, without, controlPlane, err, list(all))
	}
	ctx, cancel := context.WithTimeout(ctx, r.cfg.ReadTimeout) // a name may have to be looked up
	defer cancel()
	name, local, err := r.network.Route(ctx, host, port)
	if err != nil {
		return Advertised{}, fmt.Errorf("%w: the way to the control plane %s: %w; name an interface of: %s", ErrAdvertise, controlPlane, err, list(all))
	}
	n, _ := interfaceNamed(all, name)
	i := slices.IndexFunc(n.Addresses, func(a engines.NetAddress) bool { return a.Prefix.Addr() == local })
	if i >= 0 && n.Addresses[i].Unadvertised == "" {
		return Advertised{Interface: name, Address: local, Why: "it leads to the control plane"}, nil
	}
	onThisMachine := local.IsLoopback() || !local.IsValid() && name == "lo"
	a, ok := best(n, onThisMachine)
	if !ok {
		return Advertised{}, fmt.Errorf("%w: interface %q, which leads to the control plane, has none that may be told; name an interface of: %s", ErrAdvertise, name, list(all))
	}
	return Advertised{Interface: name, Address: a, Why: "it leads to the control plane"}, nil
}

func interfaceNamed(all []engines.NetInterface, name string) (engines.NetInterface, bool) {
	i := slices.IndexFunc(all, func(n engines.NetInterface) bool { return n.Name == name })
	if i < 0 {
		return engines.NetInterface{}, false
	}
	return all[i], true
}

// best returns the address of an interface that is told others. With named,
// what is not told unless it is named will do.
func best(n engines.NetInterface, named bool) (netip.Addr, bool) {
	rank := func(a engines.NetAddress) int {
		switch addr := a.Prefix.Addr(); {
		case a.Unadvertised == "" && addr.Is4():
			return 4
		case a.Unadvertised == "":
			return 3
		case !named || addr.IsLinkLocalUnicast() && addr.Is6():
			return 0
		case addr.Is4():
			return 2
		}
		return 1
	}
	var out netip.Addr
	top := 0
	for _, a := range n.Addresses {
		if k := rank(a); k > top {
			top, out = k, a.Prefix.Addr()
		}
	}
	return out, top > 0
}

// list names the interfaces with their addresses.
func list(all []engines.NetInterface) string {
	if len(all) == 0 {
		return "none"
	}
	words := make([]string, len(all))
	for i, n := range all {
		words[i] = n.Name
		for j, a := range n.Addresses {
			if j == 0 {
				words[i] += " ("
			} else {
				words[i] += " "
			}
			words[i] += a.Prefix.Addr().String()
		}
		if len(n.Addresses) > 0 {
			words[i] += ")"
		}
	}
	return strings.Join(words, ", ")
}
