package record_test

import (
	"encoding/binary"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/llmgw/llmgw/storage/record"
)

func newRing(tb testing.TB, key record.Key) *record.Ring {
	tb.Helper()
	r, err := record.NewRing(record.RingConfig{MaxBytes: 64 << 10}, key)
	if err != nil {
		tb.Fatal(err)
	}
	return r
}

func TestRingKeepsTheNewest(t *testing.T) {
	key := record.NewKey()
	r := newRing(t, key)
	if lines, _ := linesOf(r.Entries(time.Time{}, time.Time{})); len(lines) != 0 {
		t.Errorf("an empty ring has %d entries", len(lines))
	}
	const total = 5000
	for i := range total {
		if err := r.Append(1, base().Add(time.Duration(i)), binary.LittleEndian.AppendUint64(nil, uint64(i))); err != nil {
			t.Fatal(err)
		}
		if i == 9 {
			lines, _ := linesOf(r.Entries(base().Add(3), base().Add(6)))
			if len(lines) != 3 || lines[0].At != 3 {
				t.Errorf("of a range: %+v", lines)
			}
		}
	}
	var got []uint64
	bytes := 0
	for e, err := range r.Entries(time.Time{}, time.Time{}) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, binary.LittleEndian.Uint64(e.Payload))
		bytes += 20 + len(e.Payload)
		if e.Segment.Key != key.ID() {
			t.Fatalf("key %v, want %v", e.Segment.Key, key.ID())
		}
	}
	for i, v := range got {
		if want := uint64(total - len(got) + i); v != want {
			t.Fatalf("entry %d is %d, want %d", i, v, want)
		}
	}
	if bytes > 64<<10 || bytes < 64<<10*7/8 {
		t.Errorf("%d bytes are kept of %d", bytes, 64<<10)
	}
}

func TestRingRefuses(t *testing.T) {
	r := newRing(t, record.Key{})
	if err := r.Append(1, base(), make([]byte, 4<<10-20)); err != nil {
		t.Errorf("the longest payload: %v", err)
	}
	for name, err := range map[string]error{
		"too long": r.Append(1, base(), make([]byte, 4<<10-19)),
		"no type":  r.Append(0, base(), nil),
		"no time":  r.Append(1, time.Time{}, nil),
	} {
		if !errors.Is(err, record.ErrInvalid) {
			t.Errorf("%s: %v, want ErrInvalid", name, err)
		}
	}
	if _, err := record.NewRing(record.RingConfig{}, record.Key{}); !errors.Is(err, record.ErrInvalid) {
		t.Errorf("no size: %v, want ErrInvalid", err)
	}
	if err := record.DefaultRingConfig().Validate(); err != nil {
		t.Errorf("the defaults: %v", err)
	}
}

// A full ring writes over what it has, but not over what a reader was shown.
func TestRingAllocs(t *testing.T) {
	r := newRing(t, record.Key{})
	round := func() {
		for range 16 {
			if err := r.Append(1, base(), make([]byte, 4<<10-20)); err != nil {
				t.Fatal(err)
			}
		}
	}
	round()
	if n := testing.AllocsPerRun(100, round); n != 0 {
		t.Errorf("%v allocations by a full ring", n)
	}
	for range r.Entries(time.Time{}, time.Time{}) {
		break
	}
	if n := testing.AllocsPerRun(1, round); n != 0 { // after a round that replaces what was shown
		t.Errorf("%v allocations once nothing is left of what was shown", n)
	}
}

// A reader sees what was there when it began, whole, however much is appended
// meanwhile.
func TestRingReadersSeeWholeEntries(t *testing.T) {
	r := newRing(t, record.Key{})
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			payload := make([]byte, 100)
			for i := uint64(1); ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				for j := range payload {
					payload[j] = byte(i)
				}
				_ = r.Append(1, base(), payload)
			}
		})
	}
	var kept []record.Entry
	var copies []string
	for range 200 {
		for e := range r.Entries(time.Time{}, time.Time{}) {
			for _, b := range e.Payload {
				if b != e.Payload[0] {
					t.Fatalf("a torn payload: %x", e.Payload)
				}
			}
			if len(kept) < 50 {
				kept, copies = append(kept, e), append(copies, string(e.Payload))
			}
		}
	}
	close(stop)
	wg.Wait()
	for i, e := range kept {
		if diff := cmp.Diff(copies[i], string(e.Payload)); diff != "" {
			t.Fatalf("a payload changed (-want +got):\n%s", diff)
		}
	}
}
