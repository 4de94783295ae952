package hardware

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/fleet/hardware/faults"
	"github.com/llmgw/llmgw/fleet/hardware/internal/sysfs"
)

// Reader reads one machine. Make it with New. Its methods may be called
// concurrently; readings wait for one another.
type Reader struct {
	cfg     Config
	root    sysfs.Root
	runner  Runner
	network Network
	known   func(pid int) bool
	log     *slog.Logger
	book    *faults.Book
	// kernel is why the kernel's log is not read; nil: it is, or nobody tried.
	kernel atomic.Pointer[engines.Warning]

	host       section[hostReading]
	memory     section[memoryReading]
	bus        section[[]sysfs.Device]
	nvidiaTool nvidia // the goroutine of section nvidia only
	nvidia     section[nvidiaReading]
	amd        section[amdReading]
	simulated  section[*simulation]
	ports      section[[]sysfs.Port]
	net        section[[]engines.NetInterface]

	// turn is held by the one reading that runs.
	turn chan struct{}
	// The fields below belong to who holds turn.
	read     bool // there was a full reading
	hostname string
	onBus    []sysfs.Device
	seen     map[string]engines.GPU // cards that answered, by key
	cards    []engines.GPU          // those of the last inventory
	health   map[string]engines.HealthState
	changed  bool
}

type hostReading struct {
	host engines.Host
	cpu  engines.CPU
	numa []engines.NUMANode
}

type memoryReading struct {
	memory    engines.Memory
	available engines.Opt[uint64]
}

// New validates cfg and returns a Reader. It reads nothing yet.
func New(cfg Config, deps Deps) (*Reader, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("hardware: %w", err)
	}
	book, err := faults.New(cfg.Faults)
	if err != nil {
		return nil, fmt.Errorf("hardware: %w", err)
	}
	r := &Reader{
		cfg: cfg, root: sysfs.Root(cfg.Root), book: book,
		runner: deps.Runner, network: deps.Network, known: deps.Known, log: deps.Logger,
		turn: make(chan struct{}, 1), seen: make(map[string]engines.GPU), health: make(map[string]engines.HealthState),
	}
	machine := filepath.Clean(cfg.Root) == string(filepath.Separator)
	if r.runner == nil {
		r.runner = canned{dir: filepath.Join(cfg.Root, "commands")}
		if machine {
			r.runner = programs{}
		}
	}
	if r.network == nil {
		r.network = rootNetwork{root: r.root, runner: r.runner}
		if machine {
			r.network = machineNetwork{}
		}
	}
	if r.known == nil {
		r.known = func(int) bool { return false }
	}
	if r.log == nil {
		r.log = slog.New(slog.DiscardHandler)
	}
	r.nvidiaTool.runner = r.runner
	files, tools := cfg.ReadTimeout, cfg.CommandTimeout
	r.host.timeout, r.memory.timeout, r.bus.timeout = files, files, files
	r.simulated.timeout, r.ports.timeout, r.net.timeout = files, files, files
	r.nvidia.timeout, r.amd.timeout = tools, tools
	return r, nil
}

// Inventory reads everything. It returns an error that wraps ctx's cause when
// ctx is done, and one that wraps [ErrSimulated] when there is a file of
// simulated cards that was never read well; whatever else cannot be read is a
// problem in the inventory's state. The caller owns the inventory.
//
// It returns within [Config.CommandTimeout] and [Config.ReadTimeout], whichever
// is longer, counted from when no other reading runs.
func (r *Reader) Inventory(ctx context.Context) (*engines.Inventory, error) {
	return r.take(ctx, true)
}

// State reads what changes: of the cards of the last [Reader.Inventory], which
// it reads first if there was none. Errors and time are as there. The caller owns
// the state.
func (r *Reader) State(ctx context.Context) (engines.NodeState, error) {
	inv, err := r.take(ctx, false)
	if err != nil {
		return engines.NodeState{}, err
	}
	return inv.State, nil
}

// Changed reports whether the last State saw a card that the last Inventory
// lacks or that is another one. A node then has to register anew.
func (r *Reader) Changed(ctx context.Context) (bool, error) {
	release, err := r.myTurn(ctx)
	if err != nil {
		return false, err
	}
	defer release()
	return r.changed, nil
}

func (r *Reader) myTurn(ctx context.Context) (release func(), err error) {
	select {
	case r.turn <- struct{}{}:
		return func() { <-r.turn }, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("hardware: read the machine: %w", context.Cause(ctx))
	}
}

func (r *Reader) take(ctx context.Context, full bool) (*engines.Inventory, error) {
	release, err := r.myTurn(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	full = full || !r.read
	b := &builder{Reader: r, now: time.Now(), full: full, inv: new(engines.Inventory)}
	if err := b.build(ctx); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("hardware: read the machine: %w", context.Cause(ctx))
	}
	r.read = true
	return b.inv.Clone(), nil // what is kept for the next reading stays ours
}

// builder puts one reading together.
type builder struct {
	*Reader
	now  time.Time
	full bool
	inv  *engines.Inventory
	// noDriver says why there is no card of NVIDIA's at all.
	noDriver string
}

// build begins every section before it waits for the first, so that what hangs
// costs its own time only once.
func (b *builder) build(ctx context.Context) error {
	memory := b.memory.begin(ctx, func(context.Context) (memoryReading, error) {
		m, available := b.root.Memory()
		return memoryReading{m, available}, nil
	})
	ports := b.ports.begin(ctx, func(context.Context) ([]sysfs.Port, error) { return b.readPorts() })
	host, bus, net := nothing[hostReading], nothing[[]sysfs.Device], nothing[[]engines.NetInterface]
	if b.full {
		host = b.host.begin(ctx, func(context.Context) (hostReading, error) {
			return hostReading{b.root.Host(), b.root.CPU(), b.root.NUMA()}, nil
		})
		bus = b.bus.begin(ctx, func(context.Context) ([]sysfs.Device, error) { return b.readBus(), nil })
	}
	if b.full || b.interfacesJudged() {
		net = b.net.begin(ctx, b.readInterfaces)
	}
	nvidia, amd, simulated := nothing[nvidiaReading], nothing[amdReading], nothing[*simulation]
	if b.cfg.Simulated != "" {
		simulated = b.simulated.begin(ctx, func(context.Context) (*simulation, error) { return readSimulation(b.cfg.Simulated) })
	} else {
		nvidia = b.nvidia.begin(ctx, func(ctx context.Context) (nvidiaReading, error) { return b.nvidiaTool.read(ctx, b.full) })
		amd = b.amd.begin(ctx, func(ctx context.Context) (amdReading, error) { return readAMD(ctx, b.root, b.runner, b.full) })
	}

	h, m, p, n := host(), memory(), ports(), net()
	b.problem("host", h.err)
	b.problem("memory", m.err)
	b.problem("network", n.err)
	b.inv.Host, b.inv.CPU, b.inv.NUMA = h.value.host, h.value.cpu, h.value.numa
	if b.full {
		b.hostname = h.value.host.Hostname
	}
	b.inv.Memory, b.inv.State.MemoryAvailableBytes = m.value.memory, m.value.available
	b.inv.Interfaces = n.value
	b.addPorts(p)

	var cards []cardReading
	devices := bus()
	b.problem("pci", devices.err)
	if b.full && devices.known {
		b.onBus = devices.value
	}
	if b.cfg.Simulated != "" {
		s := simulated()
		if !s.known {
			return s.err
		}
		cards = b.simulatedCards(s)
	} else {
		cards = append(b.nvidiaCards(nvidia()), b.amdCards(amd())...)
	}
	b.addCards(cards)
	if b.full {
		b.warn()
	}
	b.inv.Sort()
	b.addLinks(cards)
	return nil
}

// nothing is a section that is not read now.
func nothing[T any]() told[T] { return told[T]{} }

// problem notes what could not be read now.
func (b *builder) problem(part string, err error) {
	if err == nil {
		return
	}
	w := engines.Warning{Part: part, Problem: err.Error()}
	if errors.Is(err, errStuck) || errors.Is(err, context.DeadlineExceeded) {
		w.Advice = "what it asks hangs: look for processes in state D, and at the kernel's log"
	}
	b.inv.State.Problems = append(b.inv.State.Problems, w)
}

func (b *builder) readBus() []sysfs.Device {
	var out []sysfs.Device
	for _, address := range b.root.Cards(sysfs.VendorNVIDIA) {
		out = append(out, b.root.Device(address))
	}
	return out
}

func (b *builder) readPorts() ([]sysfs.Port, error) {
	if b.cfg.InfiniBand == "" {
		return b.root.Ports(sysfs.InfiniBandDir)
	}
	if _, err := os.Stat(b.cfg.InfiniBand); err != nil {
		return nil, err // one that was named has to be there
	}
	return sysfs.Root(b.cfg.InfiniBand).Ports(".")
}

// interfacesJudged reports whether a label names a device that may be a network
// interface, so that heartbeats need them too.
func (b *builder) interfacesJudged() bool {
	return slices.ContainsFunc(b.cfg.Fabrics, func(f engines.Fabric) bool { return layer(f) == engines.Ethernet && len(f.Devices) > 0 })
}

func (b *builder) addPorts(p told[[]sysfs.Port]) {
	b.problem("ports", p.err)
	b.inv.Fabrics = b.cfg.Fabrics
	if !p.known {
		b.inv.State.Fabrics = unjudged(b.cfg.Fabrics, p.err)
		return
	}
	for _, port := range p.value {
		b.inv.Ports = append(b.inv.Ports, port.FabricPort)
		b.inv.State.Ports = append(b.inv.State.Ports, port.State)
	}
	b.inv.State.PortsAge = p.age
	b.inv.State.Fabrics = judge(b.cfg.Fabrics, p.value, b.inv.Interfaces)
}

// warn adds what a person should know of the machine.
func (b *builder) warn() {
	add := func(part, problem, advice string) {
		b.inv.Warnings = append(b.inv.Warnings, engines.Warning{Part: part, Problem: problem, Advice: advice})
	}
	if b.inv.Host.Arch == "amd64" && b.inv.CPU.Model != "" && !slices.Contains(b.inv.CPU.Features, "avx2") {
		add("cpu", "the processor shows no AVX2: engines that compute on it are 7 to 19 times slower, and some do not start",
			"a virtual machine needs a CPU model that passes the host's instructions on, not a generic one such as kvm64 or qemu64")
	}
	if b.cfg.Simulated != "" {
		add("cards", "the cards are simulated, by "+b.cfg.Simulated, "")
	}
	if w := b.kernel.Load(); w != nil {
		b.inv.Warnings = append(b.inv.Warnings, *w)
	}
}

// Faults is the book of the cards' faults, for what an operator says of them.
func (r *Reader) Faults() *faults.Book { return r.book }

// LoadFaults takes up what [Reader.SaveFaults] returned, before the first
// reading. It reads the name of the machine's present start. Errors are those of
// [faults.Book.Load].
func (r *Reader) LoadFaults(record []byte) error { return r.book.Load(record, r.root.BootID()) }

// SaveFaults returns what has to be kept of the cards' faults. It changes when
// [faults.Book.Revision] does.
func (r *Reader) SaveFaults() ([]byte, error) { return r.book.Marshal(r.root.BootID()) }
