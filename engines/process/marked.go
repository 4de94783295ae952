package process

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Mark is what the [Marker] of a process says.
type Mark struct {
	ID         string
	Generation uint64
	// Start is the random name of the start, Process the name of the process.
	Start, Process string
}

// String returns the value of [Marker].
func (m Mark) String() string {
	return fmt.Sprintf("%s/%d/%s/%s", m.ID, m.Generation, m.Start, m.Process)
}

// parseMark reads what String writes.
func parseMark(value string) (Mark, bool) {
	parts := strings.Split(value, "/")
	if len(parts) != 4 || !shardID.MatchString(parts[0]) {
		return Mark{}, false
	}
	generation, err := strconv.ParseUint(parts[1], 10, 64)
	m := Mark{ID: parts[0], Generation: generation, Start: parts[2], Process: parts[3]}
	return m, err == nil && m.String() == value
}

// Marked is a process that carries a mark.
type Marked struct {
	Mark
	Member
}

// FindMarked returns every process on this machine that carries a mark and can
// be seen, whoever started it, sorted by mark: also those of which no record is
// left. A child that wrote over its environment is not among them.
func FindMarked() ([]Marked, error) {
	all, err := allStats()
	if err != nil {
		return nil, err
	}
	var found []Marked
	for pid, st := range all {
		value, _ := markerOf(pid)
		if mark, ok := parseMark(value); ok && !st.dead() {
			found = append(found, Marked{Mark: mark, Member: member(st)})
		}
	}
	slices.SortFunc(found, func(a, b Marked) int {
		return cmp.Or(cmp.Compare(a.Mark.String(), b.Mark.String()), cmp.Compare(a.PID, b.PID))
	})
	return found, nil
}

// Sweep ends at once, with SIGKILL, what carries a mark of the shard, of any
// generation, and what belongs to that. It is for a shard whose record is lost;
// one that has its record is adopted and stopped. It returns what was killed.
func (r *Runner) Sweep(ctx context.Context, id string) ([]Member, error) {
	if err := supported(); err != nil {
		return nil, err
	}
	if !shardID.MatchString(id) {
		return nil, fmt.Errorf("%w: id: %q", ErrSpec, id)
	}
	killed, err := r.kill(ctx, id, &group{marker: id + "/"}, time.Now())
	if err != nil {
		return killed, fmt.Errorf("process: sweep shard %s: %w", id, err)
	}
	return killed, nil
}
