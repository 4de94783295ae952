// Package sysfs reads what Linux tells of a machine below /proc and /sys, from a
// root that can be any directory of the same shape. What is missing or makes no
// sense there is not known here. Reads can hang with a device that does, so
// callers bound them.
package sysfs

import (
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/llmgw/llmgw/engines"
)

// Root is a directory that holds proc and sys.
type Root string

// maxFile bounds what is read of a file. The largest is /proc/cpuinfo, which
// has under 2 KiB for each processor.
const maxFile = 4 << 20

// Path returns the path of a file below the root.
func (r Root) Path(path string) string { return filepath.Join(string(r), path) }

// Text returns a file without the white space around it; "" where it cannot be
// read.
func (r Root) Text(path string) string {
	f, err := os.Open(r.Path(path))
	if err != nil {
		return ""
	}
	defer f.Close() //nolint:errcheck // it was only read
	text, err := io.ReadAll(io.LimitReader(f, maxFile))
	if err != nil {
		return "" // as for an attribute of a link that is down
	}
	return strings.TrimSpace(string(text))
}

// Uint returns the number that a file holds, in decimal or, with 0x, in
// hexadecimal.
func (r Root) Uint(path string) engines.Opt[uint64] {
	n, err := strconv.ParseUint(r.Text(path), 0, 64)
	if err != nil {
		return engines.Opt[uint64]{}
	}
	return engines.Known(n)
}

// Int returns the number that a file holds where it is 0 or more: the kernel
// writes -1 for what it does not know.
func (r Root) Int(path string) engines.Opt[int] {
	n, known := r.Uint(path).Get()
	if !known || n > math.MaxInt32 {
		return engines.Opt[int]{}
	}
	return engines.Known(int(n))
}

// Names returns the entries of a directory, sorted. An error wraps
// fs.ErrNotExist where there is none.
func (r Root) Names(path string) ([]string, error) {
	f, err := os.Open(r.Path(path))
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // it was only read
	names, err := f.Readdirnames(-1)
	slices.Sort(names)
	return names, err
}

// Has reports whether there is something at a path.
func (r Root) Has(path string) bool {
	_, err := os.Stat(r.Path(path))
	return err == nil
}

// link returns where a symbolic link leads, as it is written; "" where it is
// none.
func (r Root) link(path string) string {
	target, err := os.Readlink(r.Path(path))
	if err != nil {
		return ""
	}
	return target
}
