package sysfs

import (
	"strings"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/fleet/hardware/internal/pci"
)

// Device is a device on PCI.
type Device struct {
	// BusID is its address as sysfs writes it.
	BusID string
	// NUMA is the number of the memory node next to it.
	NUMA engines.Opt[int]
	// Path are the bridges between the machine and the device, the outermost
	// first.
	Path []string
}

// The numbers of vendors on PCI.
const (
	VendorNVIDIA = "0x10de"
	VendorAMD    = "0x1002"
)

const pciDevices = "sys/bus/pci/devices"

// Cards returns the addresses of a vendor's display and computing devices.
func (r Root) Cards(vendor string) []string {
	names, err := r.Names(pciDevices)
	if err != nil {
		return nil
	}
	var cards []string
	for _, name := range names {
		if address, ok := pci.Address(name); !ok || address != name {
			continue
		}
		// The class first: most devices are no cards, and one read says so.
		if r.isCard(name) && r.Text(pciDevices+"/"+name+"/vendor") == vendor {
			cards = append(cards, name)
		}
	}
	return cards
}

// isCard reports whether a device is of class VGA, 3D or display.
func (r Root) isCard(name string) bool {
	class := r.Text(pciDevices + "/" + name + "/class")
	for _, c := range []string{"0x0300", "0x0302", "0x0380"} {
		if strings.HasPrefix(class, c) {
			return true
		}
	}
	return false
}

// Device returns where a device is. Of one that is not there nothing is known
// but its address.
func (r Root) Device(busID string) Device {
	d := Device{BusID: busID}
	if busID == "" {
		return d
	}
	d.NUMA = r.Int(pciDevices + "/" + busID + "/numa_node")
	d.Path = bridges(r.link(pciDevices + "/" + busID))
	return d
}

// bridges returns the addresses in a path below /sys/devices but the last,
// which is the device's own.
func bridges(path string) []string {
	var out []string
	for part := range strings.SplitSeq(path, "/") {
		if address, ok := pci.Address(part); ok && address == part {
			out = append(out, address)
		}
	}
	if len(out) < 2 {
		return nil
	}
	return out[:len(out)-1]
}
