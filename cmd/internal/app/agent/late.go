package agent

import (
	"runtime/debug"
	"sync/atomic"
)

// late knows whose a process is once there is an agent: the hardware is read on
// its behalf, and it needs the hardware.
type late struct {
	agent atomic.Pointer[interface{ Owns(pid int) bool }]
}

func (l *late) set(a interface{ Owns(pid int) bool }) { l.agent.Store(&a) }

func (l *late) owns(pid int) bool {
	a := l.agent.Load()
	return a != nil && (*a).Owns(pid)
}

// tuneMemory keeps the agent small: a node's memory is for its engines, and an
// agent has little to do.
func tuneMemory() { debug.SetGCPercent(50) }
