package sysfs

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/fleet/hardware/internal/pci"
)

// AMDCard is a card as the kernel's drivers for AMD tell of it.
type AMDCard struct {
	Device
	// Node is its number in the topology of kfd.
	Node int
	// DRM is its name below /sys/class/drm, such as card1; "" where it is not
	// known.
	DRM string
	// Architecture is as compilers call it: gfx942.
	Architecture string
	UUID         string
	Name         string

	MemoryTotalBytes, MemoryUsedBytes engines.Opt[uint64]
	BusyRatio, TemperatureC           engines.Opt[float64]
	PowerLimitWatts                   engines.Opt[float64]
	Errors                            engines.MemoryErrors
	// Links has the kind of the link to other nodes, by their number.
	Links map[int]string
}

const (
	kfdNodes = "sys/class/kfd/kfd/topology/nodes"
	drmCards = "sys/class/drm"
)

// AMDCards returns the cards that kfd, the part of the driver which computes,
// knows. They are in the order of their addresses.
func (r Root) AMDCards() []AMDCard {
	nodes, err := r.Names(kfdNodes)
	if err != nil {
		return nil
	}
	drm := r.drmCards()
	var cards []AMDCard
	for _, node := range nodes {
		number, err := strconv.ParseUint(node, 10, 16)
		if err != nil {
			continue
		}
		p := properties(r.Text(kfdNodes + "/" + node + "/properties"))
		if p["simd_count"] == 0 || p["gfx_target_version"] == 0 { // a processor
			continue
		}
		c := AMDCard{
			Device:       r.Device(kfdAddress(p["domain"], p["location_id"])),
			Node:         int(number),
			Architecture: gfx(p["gfx_target_version"]),
			Links:        r.amdLinks(node),
		}
		if id := p["unique_id"]; id != 0 {
			c.UUID = fmt.Sprintf("GPU-%016x", id)
		}
		c.DRM = drm[c.BusID]
		r.readDRM(&c)
		if _, known := c.MemoryTotalBytes.Get(); !known {
			c.MemoryTotalBytes = r.bankBytes(node)
		}
		cards = append(cards, c)
	}
	return cards
}

// properties reads lines of a name and a number.
func properties(text string) map[string]uint64 {
	out := make(map[string]uint64)
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) != 2 {
			continue
		}
		if n, err := strconv.ParseUint(f[1], 10, 64); err == nil {
			out[f[0]] = n
		}
	}
	return out
}

// kfdAddress makes a PCI address of kfd's numbers: bus, device and function are
// in location_id.
func kfdAddress(domain, location uint64) string {
	return fmt.Sprintf("%04x:%02x:%02x.%d", domain&0xffffffff, location>>8&0xff, location>>3&0x1f, location&7)
}

// gfx returns the name of a target version: 90402 is gfx942, 90010 gfx90a.
func gfx(version uint64) string {
	return fmt.Sprintf("gfx%d%x%x", version/10000, version/100%100, version%100)
}

// drmCards returns the names of cards below /sys/class/drm by their address.
func (r Root) drmCards() map[string]string {
	names, err := r.Names(drmCards)
	if err != nil {
		return nil
	}
	out := make(map[string]string)
	for _, name := range names {
		digits, ok := strings.CutPrefix(name, "card")
		if _, err := strconv.ParseUint(digits, 10, 16); !ok || err != nil { // a connector, card0-DP-1
			continue
		}
		target := r.link(drmCards + "/" + name + "/device")
		if address, ok := pci.Address(target[strings.LastIndexByte(target, '/')+1:]); ok {
			out[address] = name
		}
	}
	return out
}

// readDRM reads what the display side of the driver tells of a card.
func (r Root) readDRM(c *AMDCard) {
	if c.DRM == "" {
		return
	}
	dir := drmCards + "/" + c.DRM + "/device"
	c.MemoryTotalBytes = r.Uint(dir + "/mem_info_vram_total")
	c.MemoryUsedBytes = r.Uint(dir + "/mem_info_vram_used")
	c.Name = r.Text(dir + "/product_name")
	if percent, known := r.Uint(dir + "/gpu_busy_percent").Get(); known && percent <= 100 {
		c.BusyRatio = engines.Known(float64(percent) / 100)
	}
	if id := r.Text(dir + "/unique_id"); id != "" && strings.Trim(id, "0") != "" {
		c.UUID = "GPU-" + id
	}
	r.readSensors(c, dir+"/hwmon")
	c.Errors = r.ras(dir + "/ras")
}

// readSensors reads temperature and power limit, which the kernel tells in
// thousandths and millionths. Of several sensors the hottest counts.
func (r Root) readSensors(c *AMDCard, dir string) {
	monitors, err := r.Names(dir)
	if err != nil {
		return
	}
	for _, m := range monitors {
		for i := 1; i <= 3; i++ { // edge, junction, memory
			if t, known := r.Uint(fmt.Sprintf("%s/%s/temp%d_input", dir, m, i)).Get(); known {
				c.TemperatureC = engines.Known(max(c.TemperatureC.Or(0), float64(t)/1000))
			}
		}
		if p, known := r.Uint(dir + "/" + m + "/power1_cap").Get(); known {
			c.PowerLimitWatts = engines.Known(float64(p) / 1e6)
		}
	}
}

// ras adds up the errors of a card's blocks: files of "ue: 0" and "ce: 3".
func (r Root) ras(dir string) engines.MemoryErrors {
	var e engines.MemoryErrors
	names, err := r.Names(dir)
	if err != nil {
		return e
	}
	for _, name := range names {
		if !strings.HasSuffix(name, "_err_count") {
			continue
		}
		for line := range strings.Lines(r.Text(dir + "/" + name)) {
			key, value, _ := strings.Cut(line, ":")
			n, err := strconv.ParseUint(strings.TrimSpace(value), 10, 32)
			if err != nil {
				continue
			}
			switch key {
			case "ue":
				e.Uncorrected = engines.Known(e.Uncorrected.Or(0) + n)
			case "ce":
				e.Corrected = engines.Known(e.Corrected.Or(0) + n)
			}
		}
	}
	return e
}

// bankBytes returns the memory of a node by kfd, which tells it where the
// display side does not.
func (r Root) bankBytes(node string) engines.Opt[uint64] {
	dir := kfdNodes + "/" + node + "/mem_banks"
	banks, err := r.Names(dir)
	if err != nil {
		return engines.Opt[uint64]{}
	}
	const frameBufferPublic, frameBufferPrivate = 1, 2
	var sum uint64
	for _, bank := range banks {
		p := properties(r.Text(dir + "/" + bank + "/properties"))
		if p["heap_type"] == frameBufferPublic || p["heap_type"] == frameBufferPrivate {
			sum += p["size_in_bytes"]
		}
	}
	if sum == 0 {
		return engines.Opt[uint64]{}
	}
	return engines.Known(sum)
}

// amdLinks returns the kinds of the links of a node. How far two cards are
// apart on PCI kfd does not say.
func (r Root) amdLinks(node string) map[int]string {
	dir := kfdNodes + "/" + node + "/io_links"
	names, err := r.Names(dir)
	if err != nil {
		return nil
	}
	const xgmi = 11
	links := make(map[int]string)
	for _, name := range names {
		if p := properties(r.Text(dir + "/" + name + "/properties")); p["type"] == xgmi {
			links[int(p["node_to"]&0xffff)] = "XGMI"
		}
	}
	return links
}
