package telling

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/llmgw/llmgw/fleet/apipb"
)

// Times writes "once" or "3 times".
func Times(n uint32) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

// Counts writes "3 ready, 1 lost".
func Counts(list []*apipb.NamedCount, none string) string {
	var parts []string
	for _, c := range list {
		parts = append(parts, fmt.Sprintf("%d %s", c.GetCount(), c.GetName()))
	}
	return cmp.Or(strings.Join(parts, ", "), none)
}

// IdleTime is an idle time of the API's; negative: not known.
func IdleTime(seconds float64) time.Duration { return time.Duration(seconds * float64(time.Second)) }

// Idle is an idle time for people.
func Idle(seconds float64) string {
	if seconds < 0 {
		return "-"
	}
	return Lasting(IdleTime(seconds))
}

// Lasting is a time for people.
func Lasting(d time.Duration) string {
	switch {
	case d < time.Minute:
		return d.Round(time.Second).String()
	case d < 48*time.Hour:
		return strings.TrimSuffix(d.Round(time.Minute).String(), "0s")
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}

// Gibibytes is a size for people.
func Gibibytes(n *uint64) string {
	if n == nil {
		return "not known"
	}
	return fmt.Sprintf("%.1f GiB", float64(*n)/(1<<30))
}

// Since is the time from one moment to another for people.
func Since(now, then *timestamppb.Timestamp) string {
	if now == nil || then == nil {
		return "-"
	}
	return Lasting(now.AsTime().Sub(then.AsTime()))
}

// OrDash is a text, or "-" where there is none.
func OrDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// OrText joins those of parts that there are by semicolons; none: there is none.
func OrText(parts []string, none string) string {
	var there []string
	for _, p := range parts {
		if p != "" {
			there = append(there, p)
		}
	}
	if len(there) == 0 {
		return none
	}
	return strings.Join(there, "; ")
}

// Optional is a number that may not be known.
func Optional(n *uint32) string {
	if n == nil {
		return "-"
	}
	return fmt.Sprint(*n)
}

// Several writes "no card", "1 card" or "2 cards".
func Several(n uint32, what string) string {
	switch n {
	case 0:
		return "no " + what
	case 1:
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// Memory writes a size, or that it is not known.
func Memory(n *uint64) string {
	switch {
	case n == nil:
		return "-"
	case *n == 0:
		return "0"
	case *n < 1<<20:
		return fmt.Sprintf("%.1f KiB", float64(*n)/(1<<10))
	case *n < 1<<30:
		return fmt.Sprintf("%.1f MiB", float64(*n)/(1<<20))
	}
	return fmt.Sprintf("%.2f GiB", float64(*n)/(1<<30))
}
