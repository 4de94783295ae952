package plugin

import "syscall"

// attributes put a program into a process group of its own, which a Ctrl-C does not
// reach and which can be ended whole, and have the kernel kill it when the host is
// gone, even if it stands still. The kernel watches the thread that started the
// program rather than the process: should the runtime ever end that thread, the
// adapter is started again like any that died.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
