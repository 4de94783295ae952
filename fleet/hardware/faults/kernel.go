package faults

import (
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/llmgw/llmgw/fleet/hardware/internal/pci"
)

// Event is a line of the kernel's log that says something of cards.
type Event struct {
	// Seq is the line's number since the machine started, from 1. 0: not known, as
	// from dmesg or journalctl.
	Seq uint64
	// SinceStart is when it was written, by the kernel's clock. 0: not known.
	SinceStart time.Duration
	// Kind says what happened.
	Kind EventKind
	// Bus is the card's PCI address as sysfs writes it. Empty with
	// [DriverLoaded], which is of all cards.
	Bus string
	// XID is the number of an [XID].
	XID int
	// Recovered: an XID 154 that takes the recovery action back to none, which
	// it does after a reset.
	Recovered bool
	// Text is what the line says after the card's address.
	Text string
}

// EventKind is what a line of the kernel's log is about.
type EventKind uint8

const (
	// EventUnset is the zero value: no event.
	EventUnset EventKind = iota
	// XID is a report of the NVIDIA driver's.
	XID
	// DriverLoaded: the NVIDIA driver was loaded.
	DriverLoaded
	// CardReset: the AMD driver has reset a card.
	CardReset
)

// String returns "xid", "driver-loaded", "card-reset" or "unset".
func (k EventKind) String() string {
	switch k {
	case XID:
		return "xid"
	case DriverLoaded:
		return "driver-loaded"
	case CardReset:
		return "card-reset"
	case EventUnset:
	}
	return "unset"
}

var (
	// What dmesg, dmesg -T and journalctl put before the kernel's own words.
	prefixed = regexp.MustCompile(`^(?:<\d+>)?(?:\S.{0,80}? kernel: )?(?:\[[^\]]{1,40}\]\s*)?`)
	// Old drivers leave "PCI:" out; an instance of a split card is named in the
	// same parentheses.
	xidLine   = regexp.MustCompile(`^NVRM: Xid \((?:PCI:)?([0-9A-Fa-f:.]{7,16})(?: [^)]{0,40})?\): (\d{1,3})(?:,|\s|$)\s*(.*)$`)
	recovered = regexp.MustCompile(`recovery action changed from \S+ \([^)]*\) to \S+ \(None\)`)
	resetLine = regexp.MustCompile(`^amdgpu (\S{7,16}): (?:amdgpu: )?(GPU reset ?\(\d+\) succeeded.*)$`)
)

// ParseLine reads a line of the kernel's log as /dev/kmsg, dmesg or journalctl
// gives it. It returns false for a line that says nothing of cards.
//
// The driver's words have to stand where a message begins: the name of a process
// stands in many messages, and anybody can choose one.
func ParseLine(line string) (Event, bool) {
	line = strings.TrimRight(line, "\r\n")
	seq, since, text, isRecord := record(line)
	if !isRecord {
		text = line[len(prefixed.FindString(line)):]
	}
	e, ok := parseMessage(text)
	if ok {
		e.Seq, e.SinceStart = seq, since
	}
	return e, ok
}

func parseMessage(text string) (Event, bool) {
	if strings.HasPrefix(text, "NVRM: loading NVIDIA UNIX") {
		return Event{Kind: DriverLoaded, Text: text}, true
	}
	if m := xidLine.FindStringSubmatch(text); m != nil {
		bus, ok := pci.Address(m[1])
		n, err := strconv.Atoi(m[2])
		if !ok || err != nil || n == 0 {
			return Event{}, false
		}
		return Event{Kind: XID, Bus: bus, XID: n, Text: m[3], Recovered: n == 154 && recovered.MatchString(m[3])}, true
	}
	if m := resetLine.FindStringSubmatch(text); m != nil {
		if bus, ok := pci.Address(m[1]); ok {
			return Event{Kind: CardReset, Bus: bus, Text: m[2]}, true
		}
	}
	return Event{}, false
}

// record takes a record of /dev/kmsg apart: "priority,sequence,time,flags;text".
// The kernel counts records from 0, here they count from 1.
func record(line string) (seq uint64, since time.Duration, text string, ok bool) {
	head, text, found := strings.Cut(line, ";")
	fields := strings.Split(head, ",")
	if !found || len(fields) < 4 {
		return 0, 0, "", false
	}
	var n [3]uint64
	for i := range n {
		v, err := strconv.ParseUint(fields[i], 10, 63)
		if err != nil {
			return 0, 0, "", false
		}
		n[i] = v
	}
	const most = math.MaxInt64 / uint64(time.Microsecond)
	return n[1] + 1, time.Duration(min(n[2], most)) * time.Microsecond, text, true
}
