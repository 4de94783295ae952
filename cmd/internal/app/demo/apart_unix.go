//go:build unix

package demo

import "syscall"

// apart puts a program into a session of its own, which a Ctrl-C does not reach.
func apart() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }
