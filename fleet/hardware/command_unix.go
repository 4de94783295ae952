//go:build unix

package hardware

import (
	"os"
	"os/exec"
	"syscall"
)

// inGroup gives a command a process group of its own, which is killed whole.
func inGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}

// environment is what a vendor's tool needs; secrets are not part of it.
func environment() []string {
	return []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C", "LD_LIBRARY_PATH=" + os.Getenv("LD_LIBRARY_PATH")}
}
