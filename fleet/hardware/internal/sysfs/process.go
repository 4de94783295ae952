package sysfs

import (
	"strconv"
	"strings"
)

// Process is what /proc says of a process.
type Process struct {
	Name            string
	Parent, Session int
}

// Process returns a process. It returns false where there is none, which is so
// too for one of another container.
func (r Root) Process(pid int) (Process, bool) {
	return ParseStat(r.Text("proc/" + strconv.Itoa(pid) + "/stat"))
}

// ParseStat reads a line of /proc/PID/stat. The name stands in parentheses and
// may hold any byte, parentheses and spaces included: the last one ends it.
func ParseStat(line string) (Process, bool) {
	open, shut := strings.IndexByte(line, '('), strings.LastIndexByte(line, ')')
	if open < 0 || shut < open {
		return Process{}, false
	}
	fields := strings.Fields(line[shut+1:])
	if len(fields) < 4 {
		return Process{}, false
	}
	parent, err1 := strconv.Atoi(fields[1])
	session, err2 := strconv.Atoi(fields[3])
	if err1 != nil || err2 != nil {
		return Process{}, false
	}
	return Process{Name: line[open+1 : shut], Parent: parent, Session: session}, true
}

// Descends reports whether a process, one of its forebears, or the leader of its
// session is known. Engines have a session of their own, so that a process which
// outlived its parent is found too.
func (r Root) Descends(pid int, known func(pid int) bool) bool {
	for range 64 { // a tree that is read while it changes could go in circles
		if pid <= 1 {
			return false
		}
		if known(pid) {
			return true
		}
		p, ok := r.Process(pid)
		if !ok {
			return false
		}
		if p.Session > 1 && known(p.Session) {
			return true
		}
		pid = p.Parent
	}
	return false
}
