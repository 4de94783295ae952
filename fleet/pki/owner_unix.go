//go:build unix

package pki

import (
	"io/fs"
	"os"
	"syscall"
)

// keepOwner gives a file the owner and group of the one that it replaces, and
// reports whether it has them. Only root can give a file away; for others it
// stays theirs, as what they replace most often is.
func keepOwner(f *os.File, replaced fs.FileInfo) bool {
	was, ok := replaced.Sys().(*syscall.Stat_t)
	return ok && f.Chown(int(was.Uid), int(was.Gid)) == nil
}
