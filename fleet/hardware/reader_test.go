package hardware_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"go.yaml.in/yaml/v3"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/fleet/hardware"
	"github.com/llmgw/llmgw/fleet/hardware/faults"
	"github.com/llmgw/llmgw/fleet/hardware/hardwaretest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func state(tb testing.TB, r *hardware.Reader) engines.NodeState {
	tb.Helper()
	s, err := r.State(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

func changed(t *testing.T, r *hardware.Reader) bool {
	t.Helper()
	c, err := r.Changed(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// problems returns what a state says could not be read, as one text.
func problems(s engines.NodeState) string {
	var b strings.Builder
	for _, p := range s.Problems {
		b.WriteString(p.Part + ": " + p.Problem + "\n")
	}
	return b.String()
}

func TestCardIsLostWhileTheNodeRuns(t *testing.T) {
	m := hardwaretest.H100x8(t, hardwaretest.Options{})
	r := newReader(t, config(m), hardware.Deps{})
	before := inventory(t, r)
	m.LoseCard(3)

	s := state(t, r)
	g, ok := s.GPU(m.GPU(3))
	if !ok || g.Health.State != engines.Excluded || g.Health.Reasons[0].Kind != "not-answering" || g.MemoryFreeBytes != (engines.Opt[uint64]{}) {
		t.Errorf("the lost card is %+v, %v", g, ok)
	}
	if len(s.GPUs) != 8 || !s.GPUs[4].Health.Usable() {
		t.Errorf("%d cards, the next one is %+v", len(s.GPUs), s.GPUs[4])
	}
	if changed(t, r) {
		t.Error("a lost card counts as another one")
	}
	after := inventory(t, r)
	if !after.SameHardware(before) {
		t.Errorf("the inventory forgets what the lost card was: %+v", after.GPUs[3])
	}

	// Taken out of the machine it is gone.
	m.Remove("sys/bus/pci/devices/" + before.GPUs[3].BusID)
	table := filepath.Join(m.Root, "commands/nvidia-smi/query-gpu.csv")
	text, err := os.ReadFile(table)
	if err != nil {
		t.Fatal(err)
	}
	m.Write("commands/nvidia-smi/query-gpu.csv", strings.Split(string(text), "Unable")[0])
	if got := inventory(t, r); len(got.GPUs) != 7 || len(got.State.GPUs) != 7 {
		t.Errorf("%d cards, %d states; want 7", len(got.GPUs), len(got.State.GPUs))
	}
}

func TestAnotherCardIsNoticed(t *testing.T) {
	m := hardwaretest.H100x8(t, hardwaretest.Options{})
	r := newReader(t, config(m), hardware.Deps{})
	inventory(t, r)
	m.SetGPU(2, "uuid", "GPU-new")
	state(t, r)
	if !changed(t, r) {
		t.Error("a card with another UUID is not noticed")
	}
	if _, ok := inventory(t, r).GPU("GPU-new"); !ok || changed(t, r) {
		t.Error("a new inventory does not have it")
	}
}

// What the driver says instead of rows.
func TestDriverProblems(t *testing.T) {
	tests := map[string]struct{ said, status, want string }{
		"not reachable": {"NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.", "9", "exits 9"},
		"mismatch":      {"Failed to initialize NVML: Driver/library version mismatch", "18", "different versions"},
		"something":     {"Failed to initialize NVML: Unknown Error", "255", "exits 255 and says: Failed to initialize NVML: Unknown Error"},
		"nothing":       {"", "1", "says nothing and exits 1"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			m := hardwaretest.LostCard(t, hardwaretest.Options{})
			m.Remove("commands/nvidia-smi")
			m.Write("commands/nvidia-smi/any", tt.said)
			m.Write("commands/nvidia-smi/any.exit", tt.status)
			inv := inventory(t, newReader(t, config(m), hardware.Deps{}))
			if !strings.Contains(problems(inv.State), tt.want) {
				t.Errorf("problems %q, want one with %q", problems(inv.State), tt.want)
			}
			if len(inv.GPUs) != 2 || inv.State.GPUs[0].Health.State != engines.Excluded {
				t.Errorf("cards on PCI are %+v in state %+v; want two, excluded", inv.GPUs, inv.State.GPUs)
			}
		})
	}
}

// A driver that is away, as while it is updated, is no fault of the cards: they
// cannot be used meanwhile, and can at once when it is back.
func TestDriverIsAwayForAWhile(t *testing.T) {
	m := hardwaretest.H100x8(t, hardwaretest.Options{})
	r := newReader(t, config(m), hardware.Deps{})
	inventory(t, r)
	table := string(must(os.ReadFile(filepath.Join(m.Root, "commands/nvidia-smi/query-gpu.csv"))))
	for _, away := range []func(){
		func() {
			m.Remove("commands/nvidia-smi/query-gpu.csv")
			m.Write("commands/nvidia-smi/any", "NVIDIA-SMI has failed")
			m.Write("commands/nvidia-smi/any.exit", "9")
		},
		func() { m.Remove("commands/nvidia-smi") },
	} {
		for range 5 {
			away()
			s := state(t, r)
			if h := s.GPUs[7].Health; len(s.GPUs) != 8 || h.Usable() || h.Reasons[0].Kind != "driver" {
				t.Fatalf("meanwhile %d cards, health %+v", len(s.GPUs), h)
			}
			m.Write("commands/nvidia-smi/query-gpu.csv", table)
			if s := state(t, r); !s.GPUs[7].Health.Usable() {
				t.Fatalf("afterwards %+v", s.GPUs[7].Health)
			}
		}
	}
}

func TestNoNVIDIA(t *testing.T) {
	m := hardwaretest.CPUOnly(t, hardwaretest.Options{})
	m.Write("commands/nvidia-smi/any", "No devices were found")
	m.Write("commands/nvidia-smi/any.exit", "6")
	if inv := inventory(t, newReader(t, config(m), hardware.Deps{})); len(inv.GPUs) != 0 || len(inv.State.Problems) != 0 {
		t.Errorf("without a card: %+v, %+v", inv.GPUs, inv.State.Problems)
	}

	m = hardwaretest.LostCard(t, hardwaretest.Options{})
	m.Remove("commands/nvidia-smi")
	inv := inventory(t, newReader(t, config(m), hardware.Deps{}))
	if len(inv.GPUs) != 0 || len(inv.Warnings) != 1 || !strings.Contains(inv.Warnings[0].Problem, "no nvidia-smi") {
		t.Errorf("without nvidia-smi: %+v, %+v", inv.GPUs, inv.Warnings)
	}
}

// Without a card that it lost the driver counts the others anew.
func TestIndexesMoveWhenACardIsLost(t *testing.T) {
	m := hardwaretest.H100x8(t, hardwaretest.Options{})
	r := newReader(t, config(m), hardware.Deps{})
	inventory(t, r)
	m.LoseCard(3)
	for i := 4; i < 8; i++ {
		m.SetGPU(i, "index", string(rune('0'+i-1)))
	}
	inv := inventory(t, r)
	var uuids []string
	for i, g := range inv.GPUs {
		if g.Index != i || inv.State.GPUs[i].GPU != g.UUID {
			t.Errorf("card %d has index %d, and state %d is of %s", i, g.Index, i, inv.State.GPUs[i].GPU)
		}
		uuids = append(uuids, g.UUID)
	}
	if len(uuids) != 8 || uuids[7] != m.GPU(3) || uuids[3] != m.GPU(4) {
		t.Errorf("cards in order: %q", uuids)
	}
}

// A script that never answers is killed, and the answer before it told.
func TestHungCommand(t *testing.T) {
	m := hardwaretest.H100x8(t, hardwaretest.Options{})
	cfg := config(m)
	cfg.CommandTimeout = time.Second
	r := newReader(t, cfg, hardware.Deps{})
	good := inventory(t, r)
	children := filepath.Join(m.Root, "children")
	m.Script("nvidia-smi", "sleep 300 & echo $! >>"+children+"; wait")

	began := time.Now()
	s := state(t, r)
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("it took %v", took)
	}
	if s.GPUsAge < cfg.CommandTimeout*9/10 || s.GPUsAge > time.Minute || !strings.Contains(problems(s), "no answer within 1s") {
		t.Errorf("age %v, problems %q", s.GPUsAge, problems(s))
	}
	if len(s.GPUs) != 8 || s.GPUs[0].MemoryFreeBytes != good.State.GPUs[0].MemoryFreeBytes || !s.GPUs[0].Health.Usable() {
		t.Errorf("the last answer is not told: %+v", s.GPUs)
	}
	// Its child went with it: a zombie that nobody has waited for is gone too.
	pid := strings.TrimSpace(string(must(os.ReadFile(children))))
	poll(t, func() bool {
		text, err := os.ReadFile("/proc/" + pid + "/stat")
		return err != nil || strings.Contains(string(text), ") Z ")
	})
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// poll waits for what another process does.
func poll(t *testing.T, done func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !done(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it did not happen within 20 s")
		}
	}
}

// wedged is a driver that holds who asks it beyond the reach of a signal.
type wedged struct {
	hardware.Runner
	mu      sync.Mutex
	release chan struct{} // not nil: calls wait for it
	calls   int
}

func (w *wedged) Run(ctx context.Context, name string, _ ...string) (hardware.Output, error) {
	if name != "nvidia-smi" {
		return hardware.Output{}, hardware.ErrNoCommand
	}
	w.mu.Lock()
	release := w.release
	w.calls++
	w.mu.Unlock()
	if release != nil {
		<-release
		return hardware.Output{}, context.Cause(ctx)
	}
	return hardware.Output{Stdout: "0, NVIDIA H100 80GB HBM3, GPU-a, 00000000:1A:00.0, 81559, 1, 81558, 550.90.07, 700.00, 30, 0\n"}, nil
}

func (w *wedged) set(release chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.release, w.calls = release, 0
}

func (w *wedged) asked() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.calls
}

func TestWedgedDriverIsNeverAskedTwice(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w := new(wedged)
		cfg := hardware.DefaultConfig()
		cfg.Root = dir
		r := newReader(t, cfg, hardware.Deps{Runner: w})
		state(t, r)

		release := make(chan struct{})
		w.set(release)
		began := time.Now()
		for i := range 5 {
			s := state(t, r)
			if took, want := time.Since(began), 10*time.Second; i == 0 && took != want {
				t.Errorf("the first reading took %v, want %v", took, want)
			}
			if want := time.Since(began); s.GPUsAge != want || len(s.GPUs) != 1 || !s.GPUs[0].Health.Usable() {
				t.Errorf("reading %d: age %v, want %v: %+v", i, s.GPUsAge, want, s.GPUs)
			}
			if i > 0 && !strings.Contains(problems(s), "an earlier reading has not ended") {
				t.Errorf("reading %d: problems %q", i, problems(s))
			}
			time.Sleep(5 * time.Second)
		}
		if n := w.asked(); n != 1 {
			t.Errorf("the wedged driver was asked %d times, want once", n)
		}

		w.set(nil)
		close(release)
		synctest.Wait()
		if s := state(t, r); s.GPUsAge != 0 || len(s.Problems) != 0 {
			t.Errorf("after it came free: age %v, problems %q", s.GPUsAge, problems(s))
		}
	})
}

// Cards of a driver that hangs from the first moment on are not taken for
// healthy ones.
func TestNeverAnsweredIsUnknown(t *testing.T) {
	m := hardwaretest.LostCard(t, hardwaretest.Options{})
	synctest.Test(t, func(t *testing.T) {
		w := &wedged{release: make(chan struct{})}
		r := newReader(t, config(m), hardware.Deps{Runner: w})
		inv := inventory(t, r)
		if len(inv.GPUs) != 2 || inv.State.GPUs[0].Health.State != "" || inv.State.GPUs[0].Health.Usable() {
			t.Errorf("cards %+v, state %+v", inv.GPUs, inv.State.GPUs)
		}
		close(w.release)
		synctest.Wait()
	})
}

func TestReadingsEndWithTheirContext(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w := &wedged{release: make(chan struct{})}
		cfg := hardware.DefaultConfig()
		cfg.Root = dir
		r := newReader(t, cfg, hardware.Deps{Runner: w})
		stop := errors.New("the agent stops")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(stop) })
		began := time.Now()
		var wg sync.WaitGroup
		for range 2 { // one reads, the other waits for it
			wg.Go(func() {
				if _, err := r.Inventory(ctx); !errors.Is(err, stop) {
					t.Errorf("error %v, want %v", err, stop)
				}
			})
		}
		wg.Wait()
		if took := time.Since(began); took != time.Second {
			t.Errorf("it took %v, want 1s", took)
		}
		close(w.release)
		synctest.Wait()
	})
}

func TestForeignProcesses(t *testing.T) {
	m := hardwaretest.H100x8(t, hardwaretest.Options{})
	m.Process(100, 1, 100, "vllm")
	m.Process(101, 100, 100, "VLLM::Worker")
	m.Process(102, 1, 100, "orphan") // its parent is gone, its session is not
	m.Process(900, 1, 900, "python train.py")
	m.Run(
		m.GPU(0)+", 100, 512", m.GPU(0)+", 101, 70000", m.GPU(0)+", 102, 10",
		m.GPU(1)+", 900, 40000", m.GPU(1)+", 901, [N/A]",
	)
	r := newReader(t, config(m), hardware.Deps{Known: func(pid int) bool { return pid == 100 }})
	for _, s := range []engines.NodeState{inventory(t, r).State, state(t, r)} {
		if g := s.GPUs[0]; len(g.Foreign) != 0 {
			t.Errorf("the agent's own are foreign: %+v", g.Foreign)
		}
		want := []engines.GPUProcess{{PID: 900, Name: "python train.py", MemoryBytes: engines.Known[uint64](40000 << 20)}, {PID: 901}}
		if g := s.GPUs[1]; len(g.Foreign) != 2 || g.Foreign[0] != want[0] || g.Foreign[1] != want[1] {
			t.Errorf("foreign %+v, want %+v", g.Foreign, want)
		}
	}
}

// What the kernel says reaches the card's health, survives the agent and is not
// heeded twice.
func TestKernelFaults(t *testing.T) {
	m := hardwaretest.H100x8(t, hardwaretest.Options{})
	r := newReader(t, config(m), hardware.Deps{})
	bus := inventory(t, r).GPUs[5].BusID
	m.Write("dev/kmsg", "6,7,1,-;usb 1-1: new device\n4,8,2,-;NVRM: Xid (PCI:"+strings.TrimSuffix(bus, ".0")+"): 79, pid=1, GPU has fallen off the bus.")
	watch := func(r *hardware.Reader) {
		t.Helper()
		if err := r.WatchKernel(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	watch(r)
	if g := state(t, r).GPUs[5]; g.Health.State != engines.Excluded || g.Health.Reasons[0].Kind != "xid-79" {
		t.Fatalf("health %+v", g.Health)
	}
	if !state(t, r).GPUs[4].Health.Usable() {
		t.Error("the card beside it is excluded too")
	}

	record, err := r.SaveFaults()
	if err != nil {
		t.Fatal(err)
	}
	r = newReader(t, config(m), hardware.Deps{})
	if err := r.LoadFaults(record); err != nil {
		t.Fatal(err)
	}
	watch(r)
	if g := inventory(t, r).State.GPUs[5]; g.Health.State != engines.Excluded || strings.Contains(g.Health.Reasons[0].Detail, "times") {
		t.Errorf("after a restart of the agent: %+v", g.Health)
	}

	m.Write("proc/sys/kernel/random/boot_id", "another")
	m.Write("dev/kmsg", "6,7,1,-;usb 1-1: new device")
	r = newReader(t, config(m), hardware.Deps{})
	if err := r.LoadFaults(record); err != nil {
		t.Fatal(err)
	}
	watch(r)
	if g := inventory(t, r).State.GPUs[5]; g.Health.State != engines.Excluded || !strings.Contains(g.Health.Reasons[0].Ends, "the machine was restarted") {
		t.Errorf("after a restart of the machine: %+v", g.Health)
	}
	if !r.Faults().Clear(m.GPU(5)) || !state(t, r).GPUs[5].Health.Usable() {
		t.Error("an operator cannot bring it back")
	}
}

// A fault is of the time at which the kernel told it, not of that at which it was
// read, so that engines which were started since are not started anew.
func TestOldFaultsAreOld(t *testing.T) {
	m := hardwaretest.H100x8(t, hardwaretest.Options{})
	m.Write("proc/uptime", "7200.00 1.00")
	r := newReader(t, config(m), hardware.Deps{})
	bus := inventory(t, r).GPUs[0].BusID
	m.Write("dev/kmsg", "4,8,3600000000,-;NVRM: Xid (PCI:"+bus+"): 94, pid=1, Contained")
	if err := r.WatchKernel(t.Context()); err != nil {
		t.Fatal(err)
	}
	restarted := func(ago time.Duration) engines.HealthState {
		r.Faults().EnginesRestarted(m.GPU(0), time.Now().Add(-ago))
		return state(t, r).GPUs[0].Health.State
	}
	if got := restarted(61 * time.Minute); got != engines.RestartEngine {
		t.Errorf("with engines from before the fault: %s", got)
	}
	if got := restarted(59 * time.Minute); got != engines.Healthy {
		t.Errorf("with engines from after it: %s", got)
	}
}

func TestKernelLogCannotBeRead(t *testing.T) {
	m := hardwaretest.CPUOnly(t, hardwaretest.Options{})
	r := newReader(t, config(m), hardware.Deps{})
	if err := r.WatchKernel(t.Context()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error %v, want %v", err, os.ErrNotExist)
	}
	if w := inventory(t, r).Warnings; len(w) != 1 || w[0].Part != "kernel" || !strings.Contains(w[0].Advice, "CAP_SYSLOG") {
		t.Errorf("warnings %+v", w)
	}
}

func TestUncorrectedErrorsExclude(t *testing.T) {
	m := hardwaretest.H100x8(t, hardwaretest.Options{})
	r := newReader(t, config(m), hardware.Deps{})
	inventory(t, r)
	m.SetGPU(0, "ecc.errors.uncorrected.volatile.total", "1")
	m.SetGPU(1, "remapped_rows.failure", "Yes")
	m.SetGPU(2, "gpu_recovery_action", "Reset")
	m.SetGPU(3, "name", "[GPU requires reset]")
	s := state(t, r)
	for i, want := range []string{"ecc-uncorrected", "remap-failed", "recovery", "not-answering"} {
		if h := s.GPUs[i].Health; h.State != engines.Excluded || h.Reasons[0].Kind != want {
			t.Errorf("card %d: %+v, want %s", i, h, want)
		}
	}
	if !s.GPUs[4].Health.Usable() {
		t.Errorf("card 4: %+v", s.GPUs[4].Health)
	}
}

// A driver that is updated while the agent runs is asked for everything again.
func TestNewDriverIsAskedAgain(t *testing.T) {
	m := hardwaretest.OldDriver(t, hardwaretest.Options{})
	r := newReader(t, config(m), hardware.Deps{})
	if g := inventory(t, r).GPUs[0]; g.ComputeCapability != "" {
		t.Fatalf("compute capability %q of a driver that does not tell it", g.ComputeCapability)
	}
	newer := hardwaretest.H100x8(t, hardwaretest.Options{})
	newer.SetGPU(0, "driver_version", "560.1")
	text := must(os.ReadFile(filepath.Join(newer.Root, "commands/nvidia-smi/query-gpu.csv")))
	m.Write("commands/nvidia-smi/query-gpu.csv", string(text))
	inventory(t, r)
	if g := inventory(t, r).GPUs[0]; g.ComputeCapability != "9.0" {
		t.Errorf("compute capability %q after the update", g.ComputeCapability)
	}
}

func TestConfigValidate(t *testing.T) {
	cfg := hardware.DefaultConfig()
	if err := cfg.Validate(); err != nil {
		t.Errorf("the default: %v", err)
	}
	cfg.Fabrics = []engines.Fabric{
		{Name: "a", Devices: []string{"mlx5_0", "mlx5_1"}},
		{RateGbps: 400},
		{Name: "a", RateGbps: -1, LinkLayer: "token-ring", Devices: []string{"mlx5_1", "mlx5_2", "mlx5_2"}},
	}
	cfg.Root, cfg.ReadTimeout, cfg.Faults.OtherXIDs = "", 0, "explode"
	_, err := hardware.New(cfg, hardware.Deps{})
	for _, want := range []string{
		"root:", "read_timeout:", "fabrics[1].name: must not be empty", `fabrics[2].name: "a" is that of fabrics[0] too`,
		"fabrics[2].rate_gbps", `fabrics[2].link_layer: "token-ring"`, `fabrics[2].devices[0]: "mlx5_1" is in fabrics[0]`,
		`fabrics[2].devices[2]: "mlx5_2" is in fabrics[2]`, "faults: other_xids",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
	if _, err := faults.New(hardware.DefaultConfig().Faults); err != nil {
		t.Error(err)
	}
}

// What an operator writes reaches the configuration.
func TestConfigFromYAML(t *testing.T) {
	cfg := hardware.DefaultConfig()
	text := `
simulated: cards.yaml
read_timeout: 2s
faults: {clean_for: 20m}
`
	if err := yaml.Unmarshal([]byte(text), &cfg); err != nil {
		t.Fatal(err)
	}
	want := hardware.DefaultConfig()
	want.Simulated, want.ReadTimeout, want.Faults.CleanFor = "cards.yaml", 2*time.Second, 20*time.Minute
	if diff := cmp.Diff(want, cfg); diff != "" || cfg.Validate() != nil {
		t.Errorf("valid: %v, (-want +got):\n%s", cfg.Validate(), diff)
	}
	// A label stands at the top of an agent's file, beside this.
	var labels []engines.Fabric
	list := "- name: ib-a\n  rate_gbps: 400\n- {name: roce, rate_gbps: 100, link_layer: ethernet, devices: [mlx5_8, ens1]}\n"
	if err := yaml.Unmarshal([]byte(list), &labels); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]engines.Fabric{
		{Name: "ib-a", RateGbps: 400},
		{Name: "roce", RateGbps: 100, LinkLayer: engines.Ethernet, Devices: []string{"mlx5_8", "ens1"}},
	}, labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
}

// The machine that runs the tests is one too.
func TestThisMachine(t *testing.T) {
	inv := inventory(t, newReader(t, hardware.DefaultConfig(), hardware.Deps{}))
	if inv.Host.Kernel == "" || inv.Host.BootID == "" || inv.Memory.TotalBytes.Or(0) < 1<<20 || inv.CPU.Threads.Or(0) < 1 {
		t.Errorf("%+v", inv)
	}
	found := false
	for _, n := range inv.Interfaces {
		for _, a := range n.Addresses {
			found = found || a.Prefix.Addr().IsLoopback()
		}
	}
	if !found {
		t.Errorf("no loopback among %+v", inv.Interfaces)
	}
}
