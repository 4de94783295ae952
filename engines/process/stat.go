package process

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
)

// identity is a process for as long as the machine runs: numbers of processes
// are given out again, the moment of a start is not.
type identity struct {
	PID int `json:"pid"`
	// Start is in clock ticks since the machine started.
	Start uint64 `json:"start"`
}

// stat is what /proc/PID/stat says.
type stat struct {
	identity
	name                            string
	state                           byte
	parent, group, session, threads int
}

// dead reports whether nothing of the process runs any more and only its
// parent has to take note. A process of which the first thread has ended shows
// the same letter while others still give memory back to a driver.
func (s stat) dead() bool { return s.state == 'X' || s.state == 'Z' && s.threads <= 1 }

var errStat = errors.New("not what /proc/PID/stat looks like")

// parseStat reads a line of /proc/PID/stat. The name stands in parentheses and
// may hold any byte, parentheses and spaces included: the last one ends it.
func parseStat(line []byte) (stat, error) {
	open, shut := bytes.IndexByte(line, '('), bytes.LastIndexByte(line, ')')
	if open < 1 || shut < open {
		return stat{}, errStat
	}
	var s stat
	s.name = string(line[open+1 : shut])
	fields := bytes.Fields(line[shut+1:])
	const (
		state, parent, group, session, threads, start = 0, 1, 2, 3, 17, 19 // from the third field on
	)
	if len(fields) <= start || len(fields[state]) != 1 {
		return stat{}, errStat
	}
	s.state = fields[state][0]
	for _, f := range []struct {
		into *int
		text []byte
	}{
		{&s.PID, bytes.TrimSpace(line[:open])},
		{&s.parent, fields[parent]},
		{&s.group, fields[group]},
		{&s.session, fields[session]},
		{&s.threads, fields[threads]},
	} {
		n, err := strconv.Atoi(string(f.text))
		if err != nil {
			return stat{}, fmt.Errorf("%w: %w", errStat, err)
		}
		*f.into = n
	}
	n, err := strconv.ParseUint(string(fields[start]), 10, 64)
	if err != nil || s.PID < 1 {
		return stat{}, errStat
	}
	s.Start = n
	return s, nil
}
