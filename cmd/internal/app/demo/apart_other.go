//go:build !unix

package demo

import "syscall"

// apart is nothing where no engine is started anyway.
func apart() *syscall.SysProcAttr { return nil }
