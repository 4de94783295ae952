// Package pci knows how the addresses of PCI devices are written.
package pci

import (
	"fmt"
	"strconv"
	"strings"
)

// Address writes a PCI address as sysfs does, "0000:1a:00.0", whatever tool it
// comes from: nvidia-smi writes a domain of eight digits in upper case, the
// NVIDIA driver leaves the function out. It returns false for what is none.
func Address(s string) (string, bool) {
	device, function, given := strings.Cut(s, ".")
	if !given {
		function = "0"
	}
	parts := strings.Split(device, ":")
	if len(parts) != 3 || len(function) != 1 || function[0] < '0' || function[0] > '7' {
		return "", false
	}
	var n [3]uint64
	for i, bits := range [3]int{32, 8, 5} {
		if parts[i] == "" || len(parts[i]) > 8 || parts[i][0] == '+' {
			return "", false
		}
		v, err := strconv.ParseUint(parts[i], 16, bits)
		if err != nil {
			return "", false
		}
		n[i] = v
	}
	return fmt.Sprintf("%04x:%02x:%02x.%s", n[0], n[1], n[2], function), true
}
