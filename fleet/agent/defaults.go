package agent

import (
	"cmp"
	"fmt"
	"time"

	"github.com/llmgw/llmgw/engines/process"
	"github.com/llmgw/llmgw/fleet/fleetpb"
)

// Ports says which ports engines get.
type Ports struct {
	// First is the first port of the range. Default 0: as the control plane says, by
	// its control.port_range; 20000 until it was heard, and with a last that is
	// written. 1 to 65535.
	First int `yaml:"first"`
	// Last is the last one, which is in the range too. Default 0: as the control plane
	// says; 20999 until it was heard, and with a first that is written. First to 65535.
	Last int `yaml:"last"`
	// Rest is how long a freed port is left alone, so that who still knows it
	// does not reach another model. Default 10m; 0 is not at all; not negative.
	Rest time.Duration `yaml:"rest"`
}

// over returns the range that holds with what the control plane said.
func (p Ports) over(said defaults) process.PortsConfig {
	out := process.DefaultPortsConfig()
	out.Rest = p.Rest
	if p.First == 0 && p.Last == 0 {
		out.First, out.Last = cmp.Or(said.First, out.First), cmp.Or(said.Last, out.Last)
		return out
	}
	out.First, out.Last = cmp.Or(p.First, out.First), cmp.Or(p.Last, out.Last)
	return out
}

// defaults are what a control plane says that holds where the node's own
// configuration says nothing. They are remembered, so that an agent that begins
// while no control plane is there goes by the same. Zero: nothing was said.
type defaults struct {
	// Interface is the network interface whose address is told others.
	Interface string `json:"mgmt_interface,omitempty"`
	// First and Last are the ports that engines get.
	First int `json:"first_port,omitempty"`
	Last  int `json:"last_port,omitempty"`
}

// mostInterface bounds the name of an interface, whatever a system may allow.
const mostInterface = 64

// defaultsOf reads what a welcome says. The error says what of it cannot be, which
// is then left out.
func defaultsOf(w *fleetpb.Welcome) (d defaults, err error) {
	if name := w.GetMgmtInterface(); len(name) <= mostInterface {
		d.Interface = name
	} else {
		err = fmt.Errorf("its mgmt_interface has %d bytes; want at most %d", len(name), mostInterface)
	}
	if r := w.GetPortRange(); r != nil {
		if r.GetFirst() < 1 || r.GetLast() < r.GetFirst() || r.GetLast() > 65535 {
			return d, fmt.Errorf("its port_range is %d to %d; want 1 to 65535 in order", r.GetFirst(), r.GetLast())
		}
		d.First, d.Last = int(r.GetFirst()), int(r.GetLast())
	}
	return d, err
}

// with returns d with what was said since.
func (d defaults) with(said defaults) defaults {
	d.Interface = cmp.Or(said.Interface, d.Interface)
	if said.First != 0 {
		d.First, d.Last = said.First, said.Last
	}
	return d
}
