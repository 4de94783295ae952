package hardware

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/fleet/hardware/faults"
	"github.com/llmgw/llmgw/fleet/hardware/internal/pci"
	"github.com/llmgw/llmgw/fleet/hardware/internal/smi"
	"github.com/llmgw/llmgw/fleet/hardware/internal/sysfs"
)

// amdReading is one reading of AMD's cards.
type amdReading struct {
	cards []cardReading
	notes []engines.Warning
}

// readAMD reads the cards from the kernel's files, which answer even where
// rocm-smi does not. What they lack that tool adds in a full reading.
func readAMD(ctx context.Context, root sysfs.Root, runner Runner, full bool) (amdReading, error) {
	var r amdReading
	found := root.AMDCards()
	slices.SortFunc(found, func(a, b sysfs.AMDCard) int { return strings.Compare(a.BusID, b.BusID) })
	driver := root.Text("sys/module/amdgpu/version")
	for i, c := range found {
		r.cards = append(r.cards, amdCard(c, i, driver))
	}
	if full && slices.ContainsFunc(r.cards, lacksFacts) {
		r.supplement(ctx, runner)
	}
	return r, nil
}

func amdCard(c sysfs.AMDCard, index int, driver string) cardReading {
	out := cardReading{
		gpu: engines.GPU{
			Index:           index,
			UUID:            c.UUID,
			Name:            c.Name,
			Vendor:          engines.AMD,
			BusID:           c.BusID,
			Driver:          driver,
			Architecture:    c.Architecture,
			MemoryBytes:     c.MemoryTotalBytes,
			PowerLimitWatts: c.PowerLimitWatts,
			NUMA:            c.NUMA,
			PCIPath:         c.Path,
		},
		state: engines.GPUState{
			MemoryUsedBytes:  c.MemoryUsedBytes,
			UtilizationRatio: c.BusyRatio,
			TemperatureC:     c.TemperatureC,
			Memory:           c.Errors,
		},
		links: c.Links,
		node:  c.Node,
	}
	out.addFree()
	out.seen = faults.Observation{UUID: c.UUID, Driver: driver, Errors: c.Errors}
	return out
}

// addFree works out free memory where total and used are known and it is not.
func (c *cardReading) addFree() {
	total, known := c.gpu.MemoryBytes.Get()
	used, usedKnown := c.state.MemoryUsedBytes.Get()
	if _, freeKnown := c.state.MemoryFreeBytes.Get(); known && usedKnown && !freeKnown {
		c.state.MemoryFreeBytes = engines.Known(total - min(total, used))
	}
}

func lacksFacts(c cardReading) bool {
	_, memory := c.gpu.MemoryBytes.Get()
	_, power := c.gpu.PowerLimitWatts.Get()
	return !memory || !power || c.gpu.Name == "" || c.gpu.Driver == ""
}

// supplement adds what rocm-smi tells. Old builds refuse some of the switches;
// a call with few then has to do.
func (r *amdReading) supplement(ctx context.Context, runner Runner) {
	for _, args := range [][]string{
		{"-i", "--showmeminfo", "vram", "--showproductname", "--showdriverversion", "--showmaxpower", "--showbus", "--csv"},
		{"--showmeminfo", "vram", "--showbus", "--csv"},
	} {
		out, err := runner.Run(ctx, "rocm-smi", args...)
		if errors.Is(err, ErrNoCommand) {
			return
		}
		if err != nil {
			r.notes = append(r.notes, engines.Warning{Part: "amd", Problem: err.Error()})
			return
		}
		if rows := smi.ROCmRows(out.Stdout); len(rows) > 0 {
			for _, row := range rows {
				r.add(row)
			}
			return
		}
	}
	r.notes = append(r.notes, engines.Warning{Part: "amd", Problem: "rocm-smi names no card, so names and limits of cards may be missing"})
}

// add fills in what one card lacks. The names of columns are those of ROCm 5.7
// to 7.1.
func (r *amdReading) add(row smi.Row) {
	bus, ok := pci.Address(row.First("PCI Bus", "PCI BUS").Text())
	if !ok {
		return
	}
	i := slices.IndexFunc(r.cards, func(c cardReading) bool { return c.gpu.BusID == bus })
	if i < 0 {
		return
	}
	c := &r.cards[i]
	if c.gpu.Name == "" {
		c.gpu.Name = row.First("Card Series", "Card series", "Card Model", "Card model", "Device Name").Text()
	}
	if c.gpu.Driver == "" {
		c.gpu.Driver = row.First("Driver version", "Driver Version").Text()
		c.seen.Driver = c.gpu.Driver
	}
	if _, known := c.gpu.MemoryBytes.Get(); !known {
		c.gpu.MemoryBytes = row["VRAM Total Memory (B)"].Uint()
	}
	if _, known := c.state.MemoryUsedBytes.Get(); !known {
		c.state.MemoryUsedBytes = row["VRAM Total Used Memory (B)"].Uint()
	}
	if _, known := c.gpu.PowerLimitWatts.Get(); !known {
		c.gpu.PowerLimitWatts = row.First("Max Graphics Package Power (W)").Float()
	}
	c.addFree()
}
