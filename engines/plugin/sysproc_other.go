//go:build !unix

package plugin

import (
	"os"
	"syscall"
)

func attributes() *syscall.SysProcAttr { return nil }

// killGroup ends a program. What it has started goes on where there are no groups.
func killGroup(p *os.Process) { _ = p.Kill() }
