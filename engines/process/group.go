package process

import (
	"errors"
	"os"
	"slices"
	"strings"
)

// Marker is the variable that every process of a shard has in its environment,
// and every child that inherits it. Its value names the shard, the generation,
// the process and the start.
const Marker = "LLMGW_SHARD"

// ErrUnsupported says that processes are attended to only on Linux.
var ErrUnsupported = errors.New("process: not supported on this system")

// BootID names the boot of the machine: in another one no process of a shard's
// runs any more.
func BootID() (string, error) { return bootID() }

// group finds everything that belongs to one process of a shard. No sign alone
// is enough: a child can leave the session, clear its environment, write a
// title over it, or send its output elsewhere; to escape it has to do it all,
// and its parent has to end before anybody looks.
type group struct {
	leader identity // zero: not known
	marker string   // what its marker is, or, with a / at its end, begins with
	log    string   // where its output goes
	since  uint64   // no process of it is older, in clock ticks as in identity
	known  map[identity]bool
}

// scan returns what runs of the group, the leader first.
func (g *group) scan() ([]stat, error) {
	all, err := allStats()
	if err != nil {
		return nil, err
	}
	if g.known == nil {
		g.known = map[identity]bool{}
	}
	log, err := os.Stat(g.log)
	if err != nil {
		log = nil
	}
	slot, taken := all[g.leader.PID]
	leads := taken && slot.Start == g.leader.Start
	// A number that names a session is not given out while somebody is in it.
	gone := taken && !leads || g.leader.PID == 0
	mine := map[int]bool{}
	self := os.Getpid()
	for pid, st := range all {
		if pid <= 1 || pid == self || st.dead() || st.Start < max(g.since, g.leader.Start) {
			continue
		}
		mine[pid] = g.known[st.identity] || st.identity == g.leader ||
			leads && (st.session == g.leader.PID || st.group == g.leader.PID) ||
			g.marked(st, !gone) || log != nil && prints(pid, log)
	}
	var found []stat
	for pid, st := range all {
		if g.descends(all, mine, pid) {
			g.known[st.identity] = true
			found = append(found, st)
		}
	}
	slices.SortFunc(found, func(a, b stat) int {
		switch {
		case a.identity == g.leader:
			return -1
		case b.identity == g.leader:
			return 1
		}
		return a.PID - b.PID
	})
	return found, nil
}

// marked reports whether the process carries the marker, or, where the leader
// is gone and left its session, is in that session and carries no sign that it
// is a stranger's.
func (g *group) marked(st stat, session bool) bool {
	value, whole := markerOf(st.PID)
	if value != "" {
		return value == g.marker || strings.HasSuffix(g.marker, "/") && strings.HasPrefix(value, g.marker)
	}
	return session && !whole && (st.session == g.leader.PID || st.group == g.leader.PID)
}

// descends reports whether pid or one of its forebears is mine.
func (g *group) descends(all map[int]stat, mine map[int]bool, pid int) bool {
	self := os.Getpid()
	for step := 0; pid > 1 && pid != self && step < len(all); step++ {
		st, ok := all[pid]
		switch {
		case !ok || st.dead() && step == 0:
			return false
		case mine[pid]:
			return true
		}
		pid = st.parent
	}
	return false
}
