package sysfs

import (
	"strings"
	"time"

	"github.com/llmgw/llmgw/engines"
)

// Host returns what the system says of itself.
func (r Root) Host() engines.Host {
	h := engines.Host{
		Hostname:     r.Text("proc/sys/kernel/hostname"),
		Kernel:       r.Text("proc/sys/kernel/osrelease"),
		Distribution: r.distribution(),
		BootID:       r.BootID(),
		Arch:         r.arch(),
	}
	if h.Kernel != "" {
		h.OS = "linux"
	}
	return h
}

// BootID returns the name of the machine's present start; "" where it is not
// known.
func (r Root) BootID() string { return r.Text("proc/sys/kernel/random/boot_id") }

// Uptime returns how long the machine has run.
func (r Root) Uptime() engines.Opt[time.Duration] {
	seconds, _, _ := strings.Cut(r.Text("proc/uptime"), " ")
	up, err := time.ParseDuration(seconds + "s")
	if err != nil || up < 0 {
		return engines.Opt[time.Duration]{}
	}
	return engines.Known(up)
}

// arch returns the architecture in Go's words. Kernels before 6.1 do not say;
// /proc/cpuinfo then shows which it is.
func (r Root) arch() string {
	switch machine := r.Text("proc/sys/kernel/arch"); machine {
	case "x86_64":
		return "amd64"
	case "aarch64":
		return "arm64"
	case "":
	default:
		return machine
	}
	switch cpus := r.Text("proc/cpuinfo"); {
	case strings.HasPrefix(cpus, "processor") && strings.Contains(cpus, "\nvendor_id"):
		return "amd64"
	case strings.Contains(cpus, "CPU implementer"):
		return "arm64"
	}
	return ""
}

func (r Root) distribution() string {
	for line := range strings.Lines(r.Text("etc/os-release")) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "PRETTY_NAME="); ok {
			return strings.Trim(name, `"'`)
		}
	}
	return ""
}
