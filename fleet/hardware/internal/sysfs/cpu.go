package sysfs

import (
	"slices"
	"strconv"
	"strings"

	"github.com/llmgw/llmgw/engines"
)

// CPU returns what the machine computes with.
func (r Root) CPU() engines.CPU {
	c := ParseCPUInfo(r.Text("proc/cpuinfo"))
	if _, known := c.Sockets.Get(); !known {
		c.Sockets, c.Cores = r.topology()
	}
	return c
}

// ParseCPUInfo reads /proc/cpuinfo of x86 and of ARM. Of the latter it does not
// tell sockets and cores.
func ParseCPUInfo(text string) engines.CPU {
	var (
		c                 engines.CPU
		threads           int
		socket            string
		sockets, cores    = map[string]bool{}, map[string]bool{}
		implementer, part string
	)
	for line := range strings.Lines(text) {
		key, value, found := strings.Cut(line, ":")
		if !found {
			continue
		}
		value = strings.TrimSpace(value)
		switch strings.TrimSpace(key) {
		case "processor":
			threads++
		case "model name":
			c.Model = first(c.Model, value)
		case "physical id":
			socket = value
			sockets[value] = true
		case "core id":
			cores[socket+"/"+value] = true
		case "flags", "Features":
			if c.Features == nil {
				c.Features = features(value)
			}
		case "CPU implementer":
			implementer = first(implementer, value)
		case "CPU part":
			part = first(part, value)
		}
	}
	if c.Model == "" {
		c.Model = armModel(implementer, part)
	}
	c.Threads, c.Sockets, c.Cores = counted(threads), counted(len(sockets)), counted(len(cores))
	return c
}

func first(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// counted returns a count; none counted means that it is not known.
func counted(n int) engines.Opt[int] {
	if n == 0 {
		return engines.Opt[int]{}
	}
	return engines.Known(n)
}

// features picks those that matter to engines, under one name each.
func features(flags string) []string {
	arm := map[string]string{"asimd": "neon", "asimddp": "dotprod"}
	wanted := engines.CPUFeatures()
	var out []string
	for f := range strings.FieldsSeq(flags) {
		if name, ok := arm[f]; ok {
			f = name
		}
		if slices.Contains(wanted, f) && !slices.Contains(out, f) {
			out = append(out, f)
		}
	}
	slices.Sort(out)
	return out
}

// armModel names the processors that stand beside cards; ARM itself has only
// numbers.
func armModel(implementer, part string) string {
	names := map[string]string{
		"0x41/0xd0c": "Neoverse N1", "0x41/0xd40": "Neoverse V1", "0x41/0xd49": "Neoverse N2",
		"0x41/0xd4f": "Neoverse V2", "0x41/0xd84": "Neoverse V3", "0x41/0xd85": "Cortex-X925",
		"0x41/0xd87": "Cortex-A725", "0xc0/0xac3": "Ampere-1",
	}
	if implementer == "" {
		return ""
	}
	if name, ok := names[implementer+"/"+part]; ok {
		return name
	}
	return "ARM implementer " + implementer + " part " + part
}

// topology counts sockets and cores by what the kernel says of each processor.
func (r Root) topology() (sockets, cores engines.Opt[int]) {
	const dir = "sys/devices/system/cpu"
	names, err := r.Names(dir)
	if err != nil {
		return sockets, cores
	}
	packages, ids := map[string]bool{}, map[string]bool{}
	for _, name := range names {
		if _, err := strconv.ParseUint(strings.TrimPrefix(name, "cpu"), 10, 16); err != nil {
			continue
		}
		socket := r.Text(dir + "/" + name + "/topology/physical_package_id")
		core := r.Text(dir + "/" + name + "/topology/core_id")
		if socket == "" || core == "" || strings.HasPrefix(socket, "-") {
			continue
		}
		packages[socket], ids[socket+"/"+core] = true, true
	}
	return counted(len(packages)), counted(len(ids))
}
