package discover

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// ErrPorts is of every text that names no ports.
var ErrPorts = errors.New("discover: no list of ports")

// maxPorts is how many ports one host is asked at: more is a mistake, and takes
// minutes where a firewall drops what it refuses.
const maxPorts = 1024

// DefaultPorts returns where engines listen unless told otherwise: 8000, 8001,
// 8080 and 8890.
func DefaultPorts() []int { return []int{8000, 8001, 8080, 8890} }

// ParsePorts reads ports and ranges of them, as 8000,8001,8890-8899, and returns
// each port once, in order. Spaces around a number are let pass. Ports are 1 to
// 65535, and 1024 of them at the most. Errors wrap [ErrPorts] and say which item
// is wrong.
func ParsePorts(text string) ([]int, error) {
	var out []int
	for item := range strings.SplitSeq(text, ",") {
		first, last, ranged := strings.Cut(item, "-")
		from, err := parsePort(first)
		to := from
		if err == nil && ranged {
			to, err = parsePort(last)
		}
		switch {
		case err != nil:
			return nil, fmt.Errorf("%w: %.40q: %w; want e.g. 8000,8001,8890-8899", ErrPorts, item, err)
		case to < from:
			return nil, fmt.Errorf("%w: %.40q ends before it begins; want e.g. %d-%d", ErrPorts, item, to, from)
		case to-from >= maxPorts:
			return nil, fmt.Errorf("%w: %.40q are %d ports; %d are the most", ErrPorts, item, to-from+1, maxPorts)
		}
		for p := from; p <= to; p++ {
			out = append(out, p)
		}
		// Bounds the work on a text that repeats a range.
		if len(out) > 2*maxPorts {
			out = distinct(out)
		}
		if len(out) > 2*maxPorts {
			break
		}
	}
	if out = distinct(out); len(out) > maxPorts {
		return nil, fmt.Errorf("%w: more than %d ports", ErrPorts, maxPorts)
	}
	return out, nil
}

func distinct(ports []int) []int {
	slices.Sort(ports)
	return slices.Compact(ports)
}

func parsePort(text string) (int, error) {
	text = strings.Trim(text, " ")
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil || n == 0 {
		return 0, fmt.Errorf("%.20q is no port, 1 to 65535", text)
	}
	return int(n), nil
}
