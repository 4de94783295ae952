package faults_test

import (
	"errors"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/fleet/hardware/faults"
)

// bench is a book with one card and a clock.
type bench struct {
	t    *testing.T
	book *faults.Book
	now  time.Time
	seq  uint64
	boot string
}

func newBench(t *testing.T, p faults.Policy) *bench {
	t.Helper()
	book, err := faults.New(p)
	if err != nil {
		t.Fatal(err)
	}
	return &bench{t: t, book: book, now: time.Unix(1_800_000_000, 0), boot: "boot-1"}
}

// good is what a card in order reads like.
func good() faults.Observation {
	return faults.Observation{
		UUID: "GPU-1", Driver: "550.54.15", Recovery: "None",
		Errors: engines.MemoryErrors{
			Uncorrected: engines.Known[uint64](0), Corrected: engines.Known[uint64](0),
			RemapPending: engines.Known(false), RemapFailed: engines.Known(false),
		},
	}
}

func (b *bench) observe(o faults.Observation) { b.book.Observe(b.now, bus, o) }

// clean lets the card read well for d, twice a minute.
func (b *bench) clean(d time.Duration) {
	for end := b.now.Add(d); ; b.now = b.now.Add(30 * time.Second) {
		b.observe(good())
		if !b.now.Before(end) {
			return
		}
	}
}

func (b *bench) kernel(e faults.Event) {
	b.seq++
	e.Seq = b.seq
	b.book.Kernel(b.now, e)
}

// again puts the book through its record, as a restart of the agent does.
func (b *bench) again(boot string) {
	b.t.Helper()
	record, err := b.book.Marshal(b.boot)
	if err != nil {
		b.t.Fatal(err)
	}
	book, err := faults.New(faults.DefaultPolicy())
	if err != nil {
		b.t.Fatal(err)
	}
	if err := book.Load(record, boot); err != nil {
		b.t.Fatal(err)
	}
	if boot != b.boot {
		b.seq = 0
	}
	b.book, b.boot = book, boot
}

func (b *bench) want(state engines.HealthState, kinds ...string) {
	b.t.Helper()
	h := b.book.Health(b.now, bus)
	var got []string
	for _, r := range h.Reasons {
		got = append(got, r.Kind)
	}
	if h.State != state || strings.Join(got, " ") != strings.Join(kinds, " ") {
		b.t.Fatalf("state %q for %q, want %q for %q", h.State, got, state, kinds)
	}
}

func TestUnknownUntilItAnswers(t *testing.T) {
	b := newBench(t, faults.DefaultPolicy())
	b.want("")
	b.observe(faults.Observation{Unread: true})
	b.want("")
	b.observe(good())
	b.want(engines.Healthy)
	b.observe(faults.Observation{Unread: true}) // its age says how far this holds
	b.want(engines.Healthy)
}

func TestXIDs(t *testing.T) {
	for _, tt := range []struct {
		xid  int
		want engines.HealthState
	}{
		{13, engines.Healthy},
		{31, engines.Healthy},
		{43, engines.Healthy},
		{45, engines.Healthy},
		{63, engines.Healthy},
		{68, engines.Healthy},
		{109, engines.Healthy},
		{154, engines.Healthy},
		{777, engines.Healthy}, // not in the table
		{94, engines.RestartEngine},
		{48, engines.Excluded},
		{64, engines.Excluded},
		{74, engines.Excluded},
		{79, engines.Excluded},
		{95, engines.Excluded},
		{119, engines.Excluded},
		{120, engines.Excluded},
		{140, engines.Excluded},
	} {
		b := newBench(t, faults.DefaultPolicy())
		b.observe(good())
		b.kernel(xid(tt.xid, "text"))
		if h := b.book.Health(b.now, bus); h.State != tt.want || len(h.Reasons) != 1 || h.Reasons[0].Detail != "text" {
			t.Errorf("XID %d: %+v, want %s", tt.xid, h, tt.want)
		}
	}
}

func TestXIDsOfTheConfiguration(t *testing.T) {
	p := faults.DefaultPolicy()
	if err := yaml.Unmarshal([]byte("xids: {ignore: [79], exclude: [31]}\nother_xids: restart-engine\nclean_for: 3m\n"), &p); err != nil {
		t.Fatal(err)
	}
	b := newBench(t, p)
	b.observe(good())
	b.kernel(xid(79, "ignored"))
	b.want(engines.Healthy, "xid-79")
	b.kernel(xid(777, "another"))
	b.want(engines.RestartEngine, "xid-777", "xid-79")
	b.kernel(xid(31, "excludes"))
	b.kernel(xid(48, "as ever"))
	b.want(engines.Excluded, "xid-31", "xid-48", "xid-777", "xid-79")
}

// The reference page has the table as it is.
func TestReferenceOfXIDs(t *testing.T) {
	page, err := os.ReadFile("../../../docs/reference/hardware.md")
	if err != nil {
		t.Fatal(err)
	}
	got := make(map[int]faults.Action)
	for _, row := range regexp.MustCompile("(?m)^\\| (\\d[\\d, ]*) \\|.*\\| `([a-z-]+)` \\|$").FindAllStringSubmatch(string(page), -1) {
		for number := range strings.SplitSeq(row[1], ", ") {
			n, err := strconv.Atoi(number)
			if err != nil {
				t.Fatal(err)
			}
			got[n] = faults.Action(row[2])
		}
	}
	if diff := cmp.Diff(faults.DefaultXIDs(), got); diff != "" {
		t.Errorf("the page differs (-code +page):\n%s", diff)
	}
}

// An XID that excludes does not end by itself, however well the card reads.
func TestExclusionNeedsARepair(t *testing.T) {
	repairs := map[string]func(b *bench){
		"reboot":         func(b *bench) { b.again("boot-2") },
		"driver loaded":  func(b *bench) { b.kernel(faults.Event{Kind: faults.DriverLoaded}) },
		"card reset":     func(b *bench) { b.kernel(faults.Event{Kind: faults.CardReset, Bus: bus}) },
		"recovered":      func(b *bench) { b.kernel(faults.Event{Kind: faults.XID, XID: 154, Bus: bus, Recovered: true}) },
		"another driver": func(b *bench) { o := good(); o.Driver = "560.1"; b.observe(o); o.Driver = "550.54.15"; b.observe(o) },
		"recovery done":  func(b *bench) { o := good(); o.Recovery = "Reset"; b.observe(o); b.observe(good()) },
		"counters anew": func(b *bench) {
			o := good()
			o.Errors.Uncorrected = engines.Known[uint64](2)
			b.observe(o)
			b.observe(good())
		},
	}
	for name, repair := range repairs {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, faults.DefaultPolicy())
			b.observe(good())
			b.kernel(xid(79, "fell off"))
			b.clean(10 * time.Hour)
			b.want(engines.Excluded, "xid-79")
			repair(b)
			if b.book.Health(b.now, bus).Usable() {
				t.Fatal("usable at once")
			}
			b.clean(9 * time.Minute)
			if b.book.Health(b.now, bus).Usable() {
				t.Fatal("usable after 9 clean minutes")
			}
			b.clean(time.Minute)
			if h := b.book.Health(b.now, bus); !h.Usable() {
				t.Fatalf("not usable after 10 clean minutes: %+v", h)
			}
		})
	}
}

func TestCleanTimeHasNoGaps(t *testing.T) {
	interruptions := map[string]func(b *bench){
		"not read":        func(b *bench) { b.observe(faults.Observation{Unread: true}) },
		"not looked at":   func(b *bench) { b.now = b.now.Add(5 * time.Minute) },
		"another XID":     func(b *bench) { b.kernel(xid(94, "contained")) },
		"not answering":   func(b *bench) { b.observe(faults.Observation{NotAnswering: "lost"}) },
		"agent restarted": func(b *bench) { b.again("boot-1") },
		"clock set back":  func(b *bench) { b.now = b.now.Add(-time.Hour) },
	}
	for name, interrupt := range interruptions {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, faults.DefaultPolicy())
			b.observe(good())
			b.kernel(xid(95, "uncontained"))
			b.kernel(faults.Event{Kind: faults.DriverLoaded})
			b.clean(9 * time.Minute)
			interrupt(b)
			b.clean(9 * time.Minute)
			if b.book.Health(b.now, bus).Usable() {
				t.Error("usable before ten minutes in a row were clean")
			}
		})
	}
}

func TestWhatIsRead(t *testing.T) {
	tests := map[string]struct {
		o    faults.Observation
		kind string
	}{
		"uncorrected": {func() faults.Observation { o := good(); o.Errors.Uncorrected = engines.Known[uint64](1); return o }(), "ecc-uncorrected"},
		"pending":     {func() faults.Observation { o := good(); o.Errors.RemapPending = engines.Known(true); return o }(), "remap-pending"},
		"failed":      {func() faults.Observation { o := good(); o.Errors.RemapFailed = engines.Known(true); return o }(), "remap-failed"},
		"recovery":    {func() faults.Observation { o := good(); o.Recovery = "Reset"; return o }(), "recovery"},
		"lost":        {faults.Observation{NotAnswering: "GPU is lost"}, "not-answering"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, faults.DefaultPolicy())
			b.observe(good())
			b.observe(tt.o)
			b.want(engines.Excluded, tt.kind)

			// A reading that lacks the value ends nothing.
			for range 60 {
				b.now = b.now.Add(30 * time.Second)
				b.observe(faults.Observation{UUID: "GPU-1"})
			}
			if tt.kind != "not-answering" {
				b.want(engines.Excluded, tt.kind)
			}
			b.observe(tt.o)
			b.again("boot-1")
			b.observe(tt.o)
			b.want(engines.Excluded, tt.kind)

			b.clean(9 * time.Minute)
			b.want(engines.Excluded, tt.kind)
			b.clean(time.Minute)
			b.want(engines.Healthy)
		})
	}
}

// A reading that lacks values does not begin a fault either.
func TestNothingReadIsNoFault(t *testing.T) {
	b := newBench(t, faults.DefaultPolicy())
	b.observe(faults.Observation{})
	b.want(engines.Healthy)
}

func TestEnginesRestarted(t *testing.T) {
	b := newBench(t, faults.DefaultPolicy())
	b.observe(good())
	before := b.now
	b.now = b.now.Add(time.Second)
	b.kernel(xid(94, "contained"))
	b.want(engines.RestartEngine, "xid-94")
	b.book.EnginesRestarted(bus, before) // a start before the fault
	b.want(engines.RestartEngine, "xid-94")
	b.again("boot-1")
	b.observe(good())
	b.want(engines.RestartEngine, "xid-94")
	b.book.EnginesRestarted("GPU-1", b.now)
	b.want(engines.Healthy)

	b.kernel(xid(94, "contained"))
	b.kernel(xid(79, "fell off"))
	b.book.EnginesRestarted(bus, b.now.Add(time.Hour))
	b.want(engines.Excluded, "xid-79")
}

func TestOperatorClears(t *testing.T) {
	b := newBench(t, faults.DefaultPolicy())
	if b.book.Clear("GPU-1") {
		t.Error("a card that is not known was cleared")
	}
	two := good()
	two.Errors.Uncorrected = engines.Known[uint64](2)
	b.observe(two)
	b.kernel(xid(48, "DBE"))
	b.want(engines.Excluded, "ecc-uncorrected", "xid-48")
	if !b.book.Clear("GPU-1") {
		t.Fatal("the card is not known by its UUID")
	}
	b.want(engines.Healthy)
	b.observe(two) // accepted
	b.again("boot-1")
	b.observe(two)
	b.want(engines.Healthy)
	two.Errors.Uncorrected = engines.Known[uint64](3)
	b.observe(two)
	b.want(engines.Excluded, "ecc-uncorrected")
}

// What an operator accepted of one start of the machine is not accepted of the
// next, where the counter began anew.
func TestForgivenCountsBeginAnew(t *testing.T) {
	one, two := good(), good()
	one.Errors.Uncorrected, two.Errors.Uncorrected = engines.Known[uint64](1), engines.Known[uint64](2)
	b := newBench(t, faults.DefaultPolicy())
	b.observe(two)
	b.book.Clear(bus)
	b.observe(two)
	b.again("boot-2")
	b.observe(one)
	b.want(engines.Excluded, "ecc-uncorrected")
}

func TestReturnsAreCounted(t *testing.T) {
	b := newBench(t, faults.DefaultPolicy())
	for range 3 {
		b.kernel(xid(79, "fell off"))
		b.again("boot-2")
		b.clean(11 * time.Minute)
		b.want(engines.Healthy)
		b.again("boot-1")
	}
	b.kernel(xid(79, "fell off"))
	b.again("boot-2")
	b.clean(24 * time.Hour)
	b.want(engines.Excluded, "xid-79")
	if ends := b.book.Health(b.now, bus).Reasons[0].Ends; !strings.Contains(ends, "3 times") || !strings.Contains(ends, "operator") {
		t.Errorf("it ends: %s", ends)
	}
	b.clean(7 * 24 * time.Hour) // the returns are a week ago
	b.want(engines.Healthy)
}

func TestAnotherCardStartsWithoutFaults(t *testing.T) {
	b := newBench(t, faults.DefaultPolicy())
	b.observe(good())
	b.kernel(xid(79, "fell off"))
	b.again("boot-2")
	b.kernel(xid(48, "in the new card, before it was read"))
	other := good()
	other.UUID = "GPU-2"
	b.observe(other)
	b.want(engines.Excluded, "xid-48")
}

func TestKernelLogMayBeReadAgain(t *testing.T) {
	b := newBench(t, faults.DefaultPolicy())
	b.observe(good())
	b.kernel(xid(79, "fell off"))
	b.book.Clear(bus)
	b.again("boot-1")
	b.observe(good())
	b.book.Kernel(b.now, faults.Event{Seq: 1, Kind: faults.XID, Bus: bus, XID: 79})
	b.want(engines.Healthy)
	b.again("boot-2") // the kernel counts anew
	b.observe(good())
	b.book.Kernel(b.now, faults.Event{Seq: 1, Kind: faults.XID, Bus: bus, XID: 79})
	b.want(engines.Excluded, "xid-79")
}

func TestNotedFaultsFade(t *testing.T) {
	b := newBench(t, faults.DefaultPolicy())
	b.observe(good())
	b.kernel(xid(31, "page fault"))
	b.kernel(xid(31, "page fault"))
	b.want(engines.Healthy, "xid-31")
	if d := b.book.Health(b.now, bus).Reasons[0].Detail; d != "page fault (2 times)" {
		t.Errorf("detail %q", d)
	}
	b.clean(11 * time.Minute)
	b.want(engines.Healthy)
}

// A record outlives the policy and the program that wrote it.
func TestLoad(t *testing.T) {
	b := newBench(t, faults.DefaultPolicy())
	b.observe(good())
	b.kernel(xid(79, "fell off"))
	for name, record := range map[string]string{
		"empty": "", "cut off": `{"version":1,"cards":[{"key"`, "another version": `{"version":2}`, "no version": `{}`,
		"no key": `{"version":1,"cards":[{}]}`, "something else": `[1]`,
	} {
		if err := b.book.Load([]byte(record), "boot-1"); !errors.Is(err, faults.ErrRecord) {
			t.Errorf("%s: error %v, want %v", name, err, faults.ErrRecord)
		}
	}
	b.want(engines.Excluded, "xid-79") // as it was

	record := `{"version":1,"boot_id":"boot-1","new":1,"cards":[{"key":"` + bus + `","faults":[{"kind":"xid-31"},{"kind":"smoke"}]}]}`
	if err := b.book.Load([]byte(record), "boot-1"); err != nil {
		t.Fatal(err)
	}
	b.want(engines.Excluded, "smoke") // not known, so grave; xid-31 is ignored by now

	// Without knowing the machine's start nothing counts as a repair.
	for _, boots := range [][2]string{{"", "boot-1"}, {"boot-1", ""}} {
		b := newBench(t, faults.DefaultPolicy())
		b.kernel(xid(79, "fell off"))
		b.boot = boots[0]
		b.again(boots[1])
		b.clean(time.Hour)
		b.want(engines.Excluded, "xid-79")
	}
}

func FuzzLoad(f *testing.F) {
	f.Add([]byte(`{"version":1,"boot_id":"b","kernel_seq":7,"cards":[{"key":"k","uuid":"u","faults":[{"kind":"xid-79","first":"2026-01-01T00:00:00Z","last":"2026-01-01T00:00:00Z","count":2}],"returns":["2026-01-01T00:00:00Z"]}]}`))
	f.Fuzz(func(t *testing.T, record []byte) {
		book, err := faults.New(faults.DefaultPolicy())
		if err != nil {
			t.Fatal(err)
		}
		if book.Load(record, "boot") != nil {
			return
		}
		again, err := book.Marshal("boot")
		if err != nil {
			t.Fatalf("what was loaded cannot be kept: %v", err)
		}
		if err := book.Load(again, "boot"); err != nil {
			t.Fatalf("what was kept cannot be loaded: %v\n%s", err, again)
		}
	})
}

func TestRevision(t *testing.T) {
	b := newBench(t, faults.DefaultPolicy())
	b.observe(good())
	still := b.book.Revision()
	b.clean(time.Hour)
	if got := b.book.Revision(); got != still {
		t.Errorf("revision went from %d to %d while nothing happened", still, got)
	}
	b.kernel(xid(79, "fell off"))
	if b.book.Revision() == still {
		t.Error("a fault does not change the revision")
	}
}

func TestPolicyValidate(t *testing.T) {
	if err := faults.DefaultPolicy().Validate(); err != nil {
		t.Errorf("the default: %v", err)
	}
	p := faults.DefaultPolicy()
	p.XIDs = faults.XIDs{Ignore: []int{79, -1}, Exclude: []int{31, 79}}
	p.OtherXIDs, p.UncorrectedECC, p.MaxReturns = "explode", faults.RestartEngine, -1
	err := p.Validate()
	for _, want := range []string{`other_xids: "explode"`, "xids.ignore[1]: -1 is no XID", "xids.exclude[1]: 79 stands in xids.ignore[0] already", "uncorrected_ecc", "max_returns"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
	if _, err := faults.New(faults.Policy{}); err == nil {
		t.Error("the zero value is accepted")
	}
}
