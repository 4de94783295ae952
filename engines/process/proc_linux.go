package process

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/llmgw/llmgw/engines"
)

// supported is nil where processes can be attended to.
func supported() error { return nil }

func procFile(pid int, name string) string { return "/proc/" + strconv.Itoa(pid) + "/" + name }

func readStat(pid int) (stat, error) {
	line, err := os.ReadFile(procFile(pid, "stat"))
	if err != nil {
		return stat{}, err
	}
	return parseStat(line)
}

// bootID names the machine's boot.
func bootID() (string, error) {
	text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(text)), err
}

// ticks returns the time since the machine started in the unit of
// /proc/PID/stat, which is a hundredth of a second for programs whatever the
// kernel's own is, rounded down as the kernel does.
func ticks() (uint64, error) {
	var now unix.Timespec
	err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now)
	return uint64(now.Nano()) / uint64(10*time.Millisecond), err
}

// allStats returns every process that can be seen.
func allStats() (map[int]stat, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	all := make(map[int]stat, len(entries))
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if st, err := readStat(pid); err == nil { // else it has just ended
			all[pid] = st
		}
	}
	return all, nil
}

// markerOf returns the value of [Marker] in the environment that a process was
// given. Whole is false where it cannot be told: it is empty, or a program has
// written its title over it. What may not be read is another user's.
func markerOf(pid int) (value string, whole bool) {
	env, err := os.ReadFile(procFile(pid, "environ"))
	if errors.Is(err, fs.ErrPermission) {
		return "", true
	}
	if err != nil || len(env) == 0 {
		return "", false
	}
	whole = true
	for v := range bytes.SplitSeq(bytes.TrimSuffix(env, []byte{0}), []byte{0}) {
		name, text, ok := bytes.Cut(v, []byte("="))
		if ok && string(name) == Marker {
			return string(text), true
		}
		whole = whole && ok
	}
	return "", whole
}

// prints reports whether the process's output goes to the file.
func prints(pid int, file os.FileInfo) bool {
	for _, fd := range []string{"fd/1", "fd/2"} {
		if info, err := os.Stat(procFile(pid, fd)); err == nil && os.SameFile(info, file) {
			return true
		}
	}
	return false
}

// commandOf returns the first words of a process's command: enough to know it,
// and not the rest, where secrets of others may stand.
func commandOf(pid int) string {
	text, err := os.ReadFile(procFile(pid, "cmdline"))
	if err != nil {
		return ""
	}
	words := strings.FieldsFunc(string(text), func(r rune) bool { return r == 0 })
	return clean([]byte(strings.Join(words[:min(3, len(words))], " ")), 120)
}

// signalOne sends a signal to a process, and to no other that has its number.
func signalOne(id identity, sig syscall.Signal) error {
	fd, err := unix.PidfdOpen(id.PID, 0)
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) { // before Linux 5.3, or a sandbox
		if st, err := readStat(id.PID); err != nil || st.Start != id.Start {
			return syscall.ESRCH
		}
		return syscall.Kill(id.PID, sig)
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if st, err := readStat(id.PID); err != nil || st.Start != id.Start {
		return syscall.ESRCH
	}
	return unix.PidfdSendSignal(fd, sig, nil, 0)
}

// signalGroup sends a signal to the group that a process leads.
func signalGroup(leader int, sig syscall.Signal) error { return syscall.Kill(-leader, sig) }

func number(s engines.Signal) syscall.Signal {
	switch s {
	case engines.SignalInt:
		return syscall.SIGINT
	case engines.SignalQuit:
		return syscall.SIGQUIT
	case engines.SignalTerm, engines.SignalUnset:
	}
	return syscall.SIGTERM
}

const sigKill = syscall.SIGKILL

// await returns when the process, which need not be our child, has ended; or
// the cause of ctx.
func await(ctx context.Context, id identity, poll time.Duration) error {
	fd, err := unix.PidfdOpen(id.PID, unix.PIDFD_NONBLOCK)
	if err != nil {
		return watch(ctx, id, poll)
	}
	f := os.NewFile(uintptr(fd), "pidfd")
	defer f.Close()
	if st, err := readStat(id.PID); err != nil || st.Start != id.Start {
		return nil
	}
	if f.SetReadDeadline(time.Time{}) != nil { // a kernel that does not tell of it
		return watch(ctx, id, poll)
	}
	stop := context.AfterFunc(ctx, func() { _ = f.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	conn, err := f.SyscallConn()
	if err != nil {
		return watch(ctx, id, poll)
	}
	err = conn.Read(func(fd uintptr) bool {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
		return err == nil && n > 0
	})
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		return watch(ctx, id, poll)
	}
	return nil
}

// watch is await for kernels without process descriptors.
func watch(ctx context.Context, id identity, poll time.Duration) error {
	for {
		if st, err := readStat(id.PID); errors.Is(err, fs.ErrNotExist) || err == nil && (st.Start != id.Start || st.dead()) {
			return nil
		}
		select {
		case <-time.After(poll):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// ownSession makes the process lead a session: a signal to the launcher's
// terminal or group does not reach it, and its children are known by it.
func ownSession(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }

func exitOf(state *os.ProcessState) Exit {
	if state == nil {
		return Exit{}
	}
	status, ok := state.Sys().(syscall.WaitStatus)
	switch {
	case !ok:
		return Exit{}
	case status.Signaled():
		return Exit{Known: true, Signal: unix.SignalName(status.Signal())}
	}
	return Exit{Known: true, Code: status.ExitStatus()}
}

// lockFile holds the file for as long as it is open, against other processes
// and against this one.
func lockFile(f *os.File) error {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return ErrAttended
	}
	return err
}
