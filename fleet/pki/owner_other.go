//go:build !unix

package pki

import (
	"io/fs"
	"os"
)

// keepOwner does nothing where files have no owner of this kind.
func keepOwner(*os.File, fs.FileInfo) bool { return false }
