package load

import (
	"runtime"
	"syscall"
	"time"
	"unsafe"
)

// sleepUntil sleeps in the kernel: a goroutine's timer is served by epoll, which
// rounds up to a millisecond when nothing else happens.
func sleepUntil(t time.Time) {
	d := time.Until(t)
	if d <= 0 {
		return
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	const monotonic = 1 // CLOCK_MONOTONIC
	left := syscall.NsecToTimespec(int64(d))
	// Woken early by a signal, the call is early by less than that matters.
	syscall.Syscall6(syscall.SYS_CLOCK_NANOSLEEP, monotonic, 0, uintptr(unsafe.Pointer(&left)), 0, 0, 0)
}

// processCPU is the user and system time of this process.
func processCPU() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
