package convert

import (
	"slices"
	"strings"
	"sync"

	"github.com/llmgw/llmgw/engines"
)

// mostAlike bounds the texts, and the lists, that are kept to be shared. Beyond it
// those that come are kept anew.
const mostAlike = 4096

// Alike keeps one of each text that machines have in common. Those of one kind differ
// in little but ids and addresses: names of cards and of their drivers, instruction
// sets, the ways between cards and over PCI are the same, and each inventory comes
// with all of them. The zero value is ready; its methods may be called at the same
// time.
type Alike struct {
	mu    sync.Mutex
	texts map[string]string   // guarded by mu
	lists map[string][]string // by their texts; guarded by mu
}

// Share has an inventory, which nobody else has yet, share what it has in common with
// those before. Lists that are shared must not be changed.
func (a *Alike) Share(inv *engines.Inventory) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.text(&inv.Host.OS, &inv.Host.Arch, &inv.Host.Kernel, &inv.Host.Distribution, &inv.CPU.Model)
	a.list(&inv.CPU.Features)
	for i := range inv.NUMA {
		a.text(&inv.NUMA[i].CPUs)
	}
	for i := range inv.GPUs {
		g := &inv.GPUs[i]
		a.text(&g.Name, (*string)(&g.Vendor), &g.BusID, &g.Driver, &g.ComputeCapability, &g.Architecture)
		a.list(&g.PCIPath)
	}
	for i := range inv.Links {
		a.list(&inv.Links[i])
	}
	for i := range inv.Ports {
		p := &inv.Ports[i]
		a.text(&p.Device, (*string)(&p.LinkLayer), &p.Firmware, &p.NetDevice, &p.BusID)
		a.list(&p.PCIPath)
	}
	for i := range inv.Fabrics {
		f := &inv.Fabrics[i]
		a.text(&f.Name, (*string)(&f.LinkLayer))
		a.list(&f.Devices)
	}
	for i := range inv.Interfaces {
		a.text(&inv.Interfaces[i].Name)
	}
}

// text replaces texts by those that are kept. The caller holds mu.
func (a *Alike) text(texts ...*string) {
	if a.texts == nil || len(a.texts)+len(texts) > mostAlike {
		a.texts = make(map[string]string)
	}
	for _, t := range texts {
		kept, known := a.texts[*t]
		if !known {
			kept = *t
			a.texts[kept] = kept
		}
		*t = kept
	}
}

// list replaces a list by the one that is kept. The caller holds mu.
func (a *Alike) list(list *[]string) {
	if len(*list) == 0 {
		return
	}
	key := strings.Join(*list, "\x00")
	kept, known := a.lists[key]
	switch {
	case !known:
		if a.lists == nil || len(a.lists) >= mostAlike {
			a.lists = make(map[string][]string)
		}
		kept = slices.Clip(*list)
		for i := range kept {
			a.text(&kept[i])
		}
		a.lists[key] = kept
	case !slices.Equal(kept, *list): // a text with a zero byte in it
		return
	}
	*list = kept
}
