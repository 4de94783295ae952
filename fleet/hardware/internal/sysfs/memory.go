package sysfs

import (
	"math"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/llmgw/llmgw/engines"
)

// Memory returns how much memory the machine has, and how much of it new
// processes can have. The limits of the control groups that this process is in
// count for both, since engines are its children.
func (r Root) Memory() (m engines.Memory, available engines.Opt[uint64]) {
	m.TotalBytes, available = ParseMeminfo(r.Text("proc/meminfo"))
	for _, g := range r.memoryGroups() {
		limit, known := g.limit.Get()
		if total, ok := m.TotalBytes.Get(); !known || ok && limit >= total {
			continue
		}
		m.LimitBytes = least(m.LimitBytes, g.limit)
		if used, known := g.used.Get(); known {
			available = least(available, engines.Known(limit-min(limit, used)))
		}
	}
	return m, available
}

func least(a, b engines.Opt[uint64]) engines.Opt[uint64] {
	if x, known := a.Get(); !known || b.Or(math.MaxUint64) < x {
		return b
	}
	return a
}

// ParseMeminfo reads /proc/meminfo. Kernels before 3.14 do not say what is
// available; then it is free memory and the caches.
func ParseMeminfo(text string) (total, available engines.Opt[uint64]) {
	values := kilobytes(text)
	get := func(key string) engines.Opt[uint64] {
		if v, ok := values[key]; ok {
			return engines.Known(v)
		}
		return engines.Opt[uint64]{}
	}
	total, available = get("MemTotal"), get("MemAvailable")
	if _, known := available.Get(); !known {
		if free, known := get("MemFree").Get(); known {
			available = engines.Known(free + values["Buffers"] + values["Cached"])
		}
	}
	return total, available
}

// kilobytes reads lines such as "MemTotal:  263583212 kB" and "Node 0 MemTotal: 7
// kB" into bytes.
func kilobytes(text string) map[string]uint64 {
	values := make(map[string]uint64)
	for line := range strings.Lines(text) {
		key, value, found := strings.Cut(line, ":")
		names, fields := strings.Fields(key), strings.Fields(value)
		if !found || len(names) == 0 || len(fields) != 2 || fields[1] != "kB" {
			continue
		}
		n, err := strconv.ParseUint(fields[0], 10, 64)
		if err != nil || n > math.MaxUint64>>14 { // room to add some up
			continue
		}
		values[names[len(names)-1]] = n << 10
	}
	return values
}

// group is a control group that limits memory.
type group struct{ limit, used engines.Opt[uint64] }

// memoryGroups returns the control groups around this process. In a container
// the innermost one is mounted as the root of the tree.
func (r Root) memoryGroups() []group {
	var groups []group
	for line := range strings.Lines(r.Text("proc/self/cgroup")) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) != 3 || !strings.HasPrefix(fields[2], "/") {
			continue
		}
		switch {
		case fields[0] == "0" && fields[1] == "":
			groups = append(groups, r.around("sys/fs/cgroup", fields[2], "memory.max", "memory.current", "inactive_file")...)
		case slices.Contains(strings.Split(fields[1], ","), "memory"):
			groups = append(groups, r.around("sys/fs/cgroup/memory", fields[2], "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")...)
		}
	}
	return groups
}

// around reads a control group and those around it.
func (r Root) around(tree, name, limit, used, reclaimable string) []group {
	var groups []group
	for name = path.Clean(name); ; name = path.Dir(name) {
		dir := tree + name
		g := group{limit: r.Uint(dir + "/" + limit), used: r.Uint(dir + "/" + used)} // "max", no limit, is no number
		if n, known := g.used.Get(); known {
			// Files that nobody has used for long make room by themselves.
			g.used = engines.Known(n - min(n, r.stat(dir+"/memory.stat", reclaimable)))
		}
		if _, known := g.limit.Get(); known {
			groups = append(groups, g)
		}
		if name == "/" {
			return groups
		}
	}
}

// stat returns a value of a file of lines such as "inactive_file 4096"; 0
// where it is not there.
func (r Root) stat(file, key string) uint64 {
	for line := range strings.Lines(r.Text(file)) {
		if value, ok := strings.CutPrefix(line, key+" "); ok {
			n, _ := strconv.ParseUint(strings.TrimSpace(value), 10, 64) // what is no number reclaims nothing
			return n
		}
	}
	return 0
}

// NUMA returns the machine's memory nodes.
func (r Root) NUMA() []engines.NUMANode {
	const dir = "sys/devices/system/node"
	names, err := r.Names(dir)
	if err != nil {
		return nil
	}
	var nodes []engines.NUMANode
	for _, name := range names {
		digits, ok := strings.CutPrefix(name, "node")
		id, err := strconv.ParseUint(digits, 10, 16)
		if !ok || err != nil {
			continue
		}
		n := engines.NUMANode{ID: int(id), CPUs: r.Text(dir + "/" + name + "/cpulist")}
		if total, ok := kilobytes(r.Text(dir + "/" + name + "/meminfo"))["MemTotal"]; ok {
			n.TotalBytes = engines.Known(total)
		}
		for d := range strings.FieldsSeq(r.Text(dir + "/" + name + "/distance")) {
			distance, err := strconv.ParseUint(d, 10, 16)
			if err != nil {
				n.Distances = nil
				break
			}
			n.Distances = append(n.Distances, int(distance))
		}
		nodes = append(nodes, n)
	}
	return nodes
}
