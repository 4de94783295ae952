//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package record

import "os"

// lockFile does nothing here: that one Log at a time writes to a directory is
// left to the operator. Two would meet at the name of the next segment, which
// only one of them can make.
func lockFile(*os.File) error { return nil }

// syncDirectory does nothing here, since not every system can.
func syncDirectory(*os.Root) error { return nil }
