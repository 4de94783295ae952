package plugin

import (
	"os"
	"runtime"
)

// longestSocketDir is how long the path of the directory for sockets may be. The
// path of a Unix socket has 108 bytes on Linux and 104 elsewhere, one of them a NUL,
// and go-plugin adds up to 38: /plugin-dir0123456789/plugin0123456789.
const longestSocketDir = 64

// socketDir returns where sockets are made. A directory for temporary files whose
// path is too long, as test runners and macOS have them, gives way to /tmp.
func socketDir(configured string) string {
	if configured != "" {
		return configured
	}
	if dir := os.TempDir(); len(dir) <= longestSocketDir || runtime.GOOS == "windows" {
		return dir
	}
	return "/tmp"
}
