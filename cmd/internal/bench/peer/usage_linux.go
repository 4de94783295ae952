package peer

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"
)

// CPU returns the user and system time that the process and its descendants
// have used so far, to the nanosecond. Descendants that have ended do not count.
func (p *Process) CPU() (time.Duration, error) {
	var total time.Duration
	for _, pid := range p.tree() {
		d, err := cpuOf(pid)
		if err != nil && pid == p.PID() {
			return 0, fmt.Errorf("cpu time of %s: %w", p.name, err)
		}
		total += d
	}
	return total, nil
}

// Freeze stops the process and its descendants, as a disk that hangs does, until
// Thaw.
func (p *Process) Freeze() { p.signalTree(syscall.SIGSTOP) }

// Thaw lets them go on.
func (p *Process) Thaw() { p.signalTree(syscall.SIGCONT) }

func (p *Process) signalTree(sig syscall.Signal) {
	for _, pid := range p.tree() {
		_ = syscall.Kill(pid, sig) // it may have ended
	}
}

// cpuOf reads the CPU-time clock of a process, threads that have ended
// included. Unlike the ticks of 10 ms in /proc/PID/stat it is exact.
func cpuOf(pid int) (time.Duration, error) {
	// See clock_getcpuclockid(3) and the kernel's include/linux/posix-timers.h:
	// the id of a process's scheduling clock is its inverted id and this tag.
	const schedulingClock = 2
	clock := int32(^pid)<<3 | schedulingClock
	var ts syscall.Timespec
	_, _, errno := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, uintptr(clock), uintptr(unsafe.Pointer(&ts)), 0)
	if errno != 0 {
		return 0, errno
	}
	return time.Duration(ts.Nano()), nil
}

// tree lists the process and its descendants.
func (p *Process) tree() []int {
	children := map[int][]int{}
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, name := range stats {
		b, err := os.ReadFile(name)
		if err != nil { // it has ended
			continue
		}
		// "PID (NAME) STATE PPID": the name may hold anything.
		fields := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
		pid, err1 := strconv.Atoi(filepath.Base(filepath.Dir(name)))
		parent, err2 := strconv.Atoi(fields[1])
		if errors.Join(err1, err2) == nil {
			children[parent] = append(children[parent], pid)
		}
	}
	all := []int{p.PID()}
	for i := 0; i < len(all); i++ {
		all = append(all, children[all[i]]...)
	}
	return all
}

// ResetPeakRSS makes the kernel start anew with the peaks that PeakRSS reads.
func (p *Process) ResetPeakRSS() {
	for _, pid := range p.tree() {
		// Refused in some sandboxes; the peak is then that since the start.
		_ = os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0)
	}
}

// PeakRSS is the sum of the greatest resident sizes of the process and its
// descendants, in bytes.
func (p *Process) PeakRSS() int64 { return p.memory("VmHWM:") }

// RSS is the sum of the resident sizes of the process and its descendants, in
// bytes.
func (p *Process) RSS() int64 { return p.memory("VmRSS:") }

// memory adds up a line of the processes' status.
func (p *Process) memory(field string) int64 {
	var total int64
	for _, pid := range p.tree() {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err != nil {
			continue
		}
		_, rest, _ := strings.Cut(string(b), field)
		line, _, _ := strings.Cut(rest, "kB")
		kib, err := strconv.ParseInt(strings.TrimSpace(line), 10, 64)
		if err == nil {
			total += kib << 10
		}
	}
	return total
}

// OpenFiles is the number of file descriptors that the process has open, its
// descendants not included.
func (p *Process) OpenFiles() (int, error) {
	names, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", p.PID()))
	return len(names), err
}

// MachineCPU is the user and system time of the whole machine since its start,
// niced processes left out, since they give way.
func MachineCPU() (time.Duration, error) {
	b, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, err
	}
	// "cpu USER NICE SYSTEM …" in hundredths of a second.
	fields := strings.Fields(string(b))
	if len(fields) < 4 {
		return 0, errors.New("/proc/stat is short")
	}
	user, err1 := strconv.ParseInt(fields[1], 10, 64)
	system, err2 := strconv.ParseInt(fields[3], 10, 64)
	return time.Duration(user+system) * 10 * time.Millisecond, errors.Join(err1, err2)
}

// RaiseFileLimit lifts the limit of open files to want, as far as allowed, for
// this process and those it starts. It is an error when fewer than least remain.
func RaiseFileLimit(want, least uint64) error {
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
		return fmt.Errorf("limit of open files: %w", err)
	}
	// Only root may lift the hard limit; for others it is the end.
	higher := syscall.Rlimit{Cur: max(l.Cur, want), Max: max(l.Max, want)}
	if syscall.Setrlimit(syscall.RLIMIT_NOFILE, &higher) == nil {
		return nil
	}
	l.Cur = max(l.Cur, min(want, l.Max))
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
		return fmt.Errorf("limit of open files: %w", err)
	}
	if l.Cur < least {
		return fmt.Errorf("limit of open files is %d; raise it to %d or more", l.Cur, least)
	}
	return nil
}
