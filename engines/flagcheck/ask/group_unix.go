//go:build unix

package ask

import (
	"os/exec"
	"syscall"
)

// ownGroup makes a command lead a process group, and the end of its time be the
// end of that.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}

// endGroup ends what a command that has ended left behind, which holds on to its
// output: as long as one of the group is there, the number is no other's.
func endGroup(cmd *exec.Cmd) { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
