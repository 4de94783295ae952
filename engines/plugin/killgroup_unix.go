//go:build unix

package plugin

import (
	"os"
	"syscall"
)

// killGroup ends a program with everything that it has started in its group.
func killGroup(p *os.Process) { _ = syscall.Kill(-p.Pid, syscall.SIGKILL) }
