package faults_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/llmgw/llmgw/fleet/hardware/faults"
)

const bus = "0000:3b:00.0"

func xid(n int, text string) faults.Event {
	return faults.Event{Kind: faults.XID, Bus: bus, XID: n, Text: text}
}

func TestParseLine(t *testing.T) {
	numbered := func(e faults.Event, seq uint64, since time.Duration) faults.Event {
		e.Seq, e.SinceStart = seq, since
		return e
	}
	fell := xid(79, "pid=1234, name=python3, GPU has fallen off the bus.")
	none := faults.Event{}
	tests := []struct {
		name, line string
		want       faults.Event
	}{
		{"kmsg", "4,339,5140900,-;NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, name=python3, GPU has fallen off the bus.", numbered(fell, 340, 5140900*time.Microsecond)},
		{"kmsg, first record", "4,0,0,-;NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, name=python3, GPU has fallen off the bus.", numbered(fell, 1, 0)},
		{"kmsg, more fields", "4,9,1,c,caller=T77;NVRM: Xid (PCI:0000:3b:00): 31, x; y", numbered(xid(31, "x; y"), 10, time.Microsecond)},
		{"dmesg", "[ 5140.900123] NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, name=python3, GPU has fallen off the bus.\n", fell},
		{"dmesg -T", "[Tue Sep  1 10:00:00 2026] NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, name=python3, GPU has fallen off the bus.", fell},
		{"dmesg --raw", "<4>[ 5140.9] NVRM: Xid (PCI:0000:3b:00): 43, pid=7", xid(43, "pid=7")},
		{"journalctl -k", "Sep 01 10:00:00 node-7 kernel: NVRM: Xid (PCI:0000:3b:00): 43, pid=7", xid(43, "pid=7")},
		{"journalctl -k -o cat", "NVRM: Xid (PCI:0000:3b:00): 43, pid=7", xid(43, "pid=7")},
		{"with a function", "NVRM: Xid (PCI:0000:3b:00.0): 48, pid='<unknown>', name=<unknown>, DBE", xid(48, "pid='<unknown>', name=<unknown>, DBE")},
		{"old driver", "NVRM: Xid (0000:3b:00): 14, Channel 00000001", xid(14, "Channel 00000001")},
		{"upper case, long domain", "NVRM: Xid (PCI:00000000:3B:00): 95, x", xid(95, "x")},
		{"instance of a split card", "NVRM: Xid (PCI:0000:3b:00 GPU-I:05): 94, pid=7194, name=, Contained: SM", xid(94, "pid=7194, name=, Contained: SM")},
		{"no text", "NVRM: Xid (PCI:0000:3b:00): 63", xid(63, "")},
		{"recovery asked", "NVRM: Xid (PCI:0000:3b:00): 154, GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)", xid(154, "GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)")},
		{
			"recovered", "NVRM: Xid (PCI:0000:3b:00): 154, GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)",
			faults.Event{Kind: faults.XID, Bus: bus, XID: 154, Recovered: true, Text: "GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)"},
		},
		{"driver", "6,1,1,-;NVRM: loading NVIDIA UNIX x86_64 Kernel Module  550.54.15", faults.Event{Seq: 2, SinceStart: time.Microsecond, Kind: faults.DriverLoaded, Text: "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  550.54.15"}},
		{"amdgpu", "6,1,1,-;amdgpu 0000:3b:00.0: amdgpu: GPU reset(2) succeeded!", faults.Event{Seq: 2, SinceStart: time.Microsecond, Kind: faults.CardReset, Bus: bus, Text: "GPU reset(2) succeeded!"}},

		{"something else", "6,1,1,-;usb 1-1: new high-speed USB device", none},
		{"empty", "", none},
		{"no address", "NVRM: Xid (PCI:): 79, x", none},
		{"not an address", "NVRM: Xid (PCI:0000:3b:20): 79, x", none},
		{"number 0", "NVRM: Xid (PCI:0000:3b:00): 0, x", none},
		{"no number", "NVRM: Xid (PCI:0000:3b:00): many", none},
		{"huge number", "NVRM: Xid (PCI:0000:3b:00): 79797979797979797979, x", none},
		// A process may call itself what it likes, and its name is in many messages.
		{"a name", "6,1,1,-;NVRM: Xid (PCI:[7]: segfault at 0", none},
		{"a quoted line", "6,1,1,-;audit: comm=\"NVRM: Xid (PCI:0000:3b:00): 79, x\"", none},
		{"a quoted record", "6,1,1,-;audit: ] NVRM: Xid (PCI:0000:3b:00): 79, x", none},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, ok := faults.ParseLine(tt.line)
			if tt.want.Kind == faults.EventUnset {
				if ok {
					t.Fatalf("taken for %+v", got)
				}
				return
			}
			if diff := cmp.Diff(tt.want, got); diff != "" || !ok {
				t.Errorf("ok %v (-want +got):\n%s", ok, diff)
			}
		})
	}
}

func FuzzParseLine(f *testing.F) {
	f.Add("4,339,5140900,-;NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, name=python3, GPU has fallen off the bus.")
	f.Add("[Tue Sep  1 10:00:00 2026] NVRM: Xid (0000:3b:00): 14, Channel 00000001")
	f.Add("6,1,1,-;amdgpu 0000:3b:00.0: amdgpu: GPU reset(2) succeeded!")
	f.Fuzz(func(t *testing.T, line string) {
		e, ok := faults.ParseLine(line)
		if ok != (e.Kind != faults.EventUnset) {
			t.Fatalf("%v with %+v", ok, e)
		}
		if ok && e.Kind == faults.XID && (e.XID < 1 || e.XID > 999 || e.Bus == "") {
			t.Errorf("%+v", e)
		}
	})
}

func watched(t *testing.T, log io.Reader) ([]int, error) {
	t.Helper()
	var got []int
	err := faults.Watch(t.Context(), log, func(e faults.Event) { got = append(got, e.XID) })
	return got, err
}

func TestWatch(t *testing.T) {
	log := "NVRM: Xid (PCI:0000:3b:00): 1, a\n SUBSYSTEM=pci\n\nother\nNVRM: Xid (PCI:0000:3b:00): 2, b\n" +
		"NVRM: Xid (PCI:0000:3b:00): 3, " + strings.Repeat("x", 40<<10) + "\nNVRM: Xid (PCI:0000:3b:00): 4, c"
	for name, r := range map[string]io.Reader{
		"at once":      strings.NewReader(log),
		"byte by byte": iotest.OneByteReader(strings.NewReader(log)),
		"in halves":    iotest.HalfReader(strings.NewReader(log)),
		"with the end": iotest.DataErrReader(strings.NewReader(log)),
	} {
		t.Run(name, func(t *testing.T) {
			got, err := watched(t, r)
			if diff := cmp.Diff([]int{1, 2, 4}, got); diff != "" || err != nil {
				t.Errorf("error %v, XIDs (-want +got):\n%s", err, diff)
			}
		})
	}
}

// A kernel that writes faster than it is read says so with EPIPE.
func TestWatchGoesOnAfterOverrun(t *testing.T) {
	got, err := watched(t, io.MultiReader(
		strings.NewReader("4,1,1,-;NVRM: Xid (PCI:0000:3b:00): 1, a\n"),
		&once{err: syscall.EPIPE},
		strings.NewReader("4,9,1,-;NVRM: Xid (PCI:0000:3b:00): 2, a\n"),
	))
	if diff := cmp.Diff([]int{1, 2}, got); diff != "" || err != nil {
		t.Errorf("error %v, XIDs (-want +got):\n%s", err, diff)
	}
}

type once struct{ err error }

func (o *once) Read([]byte) (int, error) {
	err := o.err
	o.err = io.EOF
	return 0, err
}

func TestWatchEnds(t *testing.T) {
	broken := errors.New("broken")
	if _, err := watched(t, iotest.ErrReader(broken)); !errors.Is(err, broken) {
		t.Errorf("error %v, want %v", err, broken)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	over := errors.New("over")
	cancel(over)
	if err := faults.Watch(ctx, strings.NewReader("x\n"), nil); !errors.Is(err, over) {
		t.Errorf("error %v, want %v", err, over)
	}
}
