//go:build unix && !linux

package plugin

import "syscall"

// attributes put a program into a process group of its own, which a Ctrl-C does not
// reach and which can be ended whole.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
