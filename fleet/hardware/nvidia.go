package hardware

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/fleet/hardware/faults"
	"github.com/llmgw/llmgw/fleet/hardware/internal/pci"
	"github.com/llmgw/llmgw/fleet/hardware/internal/smi"
)

// nvidia reads NVIDIA's cards with nvidia-smi. One reading at a time: see
// section.
type nvidia struct {
	runner Runner
	// refused has the fields that the driver does not know, by query and name.
	// It begins anew with another driver.
	refused map[string]bool
	driver  string
}

// nvidiaReading is one answer of nvidia-smi.
type nvidiaReading struct {
	// absent: there is no nvidia-smi, and so no card to be used.
	absent bool
	// driver says why the driver answered nothing; "" where it did.
	driver string
	cards  []cardReading
	// lost has what is said of cards of which there is no row, by address.
	lost map[string]string
	// apps are the processes on cards, by the UUID of the card.
	apps  map[string][]engines.GPUProcess
	links map[[2]int]string
	notes []engines.Warning
}

// cardReading is one card as it was read.
type cardReading struct {
	gpu   engines.GPU
	state engines.GPUState
	// unified: the card has no memory of its own.
	unified bool
	// driver says why the vendor's driver tells nothing of any card. That is no
	// fault of this one: it cannot be used now, and can as soon as the driver
	// answers.
	driver string
	// seen is what the policy of faults is told. Its NotAnswering says that of
	// gpu and state nothing but what is set there is known.
	seen faults.Observation
	// links has the kind of the link to other cards by what the vendor counts
	// them by, and node that count of this card.
	links map[int]string
	node  int
}

const nvidiaSMI = "nvidia-smi"

// The fields of the queries. What is asked last may be missing from the rows of
// old drivers, which leave it out. The first field says which card a row is of.
// Fields that take long, such as inforom.checksum_validation, are not asked for.
func baseFields() []string {
	return []string{
		"index", "name", "uuid", "pci.bus_id", "memory.total", "memory.used", "memory.free",
		"driver_version", "power.limit", "temperature.gpu", "utilization.gpu",
	}
}

func factFields() []string { return []string{"pci.bus_id", "compute_cap", "mig.mode.current"} }

func errorFields() []string {
	return []string{
		"pci.bus_id", "ecc.errors.uncorrected.volatile.total", "ecc.errors.corrected.volatile.total",
		"retired_pages.pending", "remapped_rows.pending", "remapped_rows.failure", "gpu_recovery_action",
	}
}

func remapFields() []string {
	return []string{"gpu_bus_id", "remapped_rows.pending", "remapped_rows.failure"}
}

func appFields() []string { return []string{"gpu_uuid", "pid", "used_memory"} }

// read asks nvidia-smi. Without full it leaves out what does not change. When
// ctx ends after the cards were named it returns what it has.
func (n *nvidia) read(ctx context.Context, full bool) (nvidiaReading, error) {
	r := nvidiaReading{lost: make(map[string]string)}
	rows, said, out, err := n.query(ctx, "gpu", baseFields())
	if errors.Is(err, ErrNoCommand) {
		return nvidiaReading{absent: true}, nil
	}
	if err != nil {
		return nvidiaReading{}, err
	}
	r.hear(said, out)
	for _, row := range rows {
		r.cards = append(r.cards, cardOf(row))
	}
	if len(rows) == 0 {
		if !strings.Contains(out.Stdout, "No devices were found") && len(r.lost) == 0 {
			r.driver = driverProblem(out)
		}
		return r, nil
	}
	n.heedDriver(&r)

	r.addErrors(ctx, n)
	r.addApps(ctx, n)
	if full {
		r.addFacts(ctx, n)
		r.addInstances(ctx, n)
		r.addLinks(ctx, n)
	}
	return r, nil
}

// query asks for fields of one kind, without those that the driver refuses.
func (n *nvidia) query(ctx context.Context, kind string, fields []string) ([]smi.Row, []string, Output, error) {
	if n.refused == nil {
		n.refused = make(map[string]bool)
	}
	want := slices.DeleteFunc(slices.Clone(fields), func(f string) bool { return n.refused[kind+"/"+f] })
	for len(want) > 1 {
		out, err := n.runner.Run(ctx, nvidiaSMI, "--query-"+kind+"="+strings.Join(want, ","), "--format=csv,noheader,nounits")
		if err != nil {
			return nil, nil, out, err
		}
		// One field that a driver does not know makes the whole query fail.
		field, refused := smi.UnknownField(out.Stdout)
		if at := slices.Index(want, field); refused && at > 0 {
			n.refused[kind+"/"+field] = true
			want = slices.Delete(want, at, at+1)
			continue
		}
		rows, said := smi.Rows(want, out.Stdout)
		return rows, said, out, nil
	}
	return nil, nil, Output{}, nil
}

// heedDriver asks for everything again once another driver is loaded.
func (n *nvidia) heedDriver(r *nvidiaReading) {
	for _, c := range r.cards {
		if c.gpu.Driver != "" && c.gpu.Driver != n.driver {
			if n.driver != "" {
				clear(n.refused)
			}
			n.driver = c.gpu.Driver
			return
		}
	}
}

// hear keeps what nvidia-smi says beside its rows.
func (r *nvidiaReading) hear(said []string, out Output) {
	for _, line := range said {
		if bus, why, ok := smi.LostCard(line); ok {
			r.lost[bus] = why
		} else if out.Status == 0 {
			r.notes = append(r.notes, engines.Warning{Part: "nvidia", Problem: nvidiaSMI + " says: " + shorten(line)})
		}
	}
}

// shorten bounds what is passed on of a foreign program's words.
func shorten(s string) string {
	if len(s) > 300 {
		return strings.ToValidUTF8(s[:300], "") + "…"
	}
	return s
}

// driverProblem says why there are no rows.
func driverProblem(out Output) string {
	said := shorten(strings.Join(strings.Fields(out.Stdout), " "))
	switch {
	case strings.Contains(out.Stdout, "version mismatch"):
		return "the driver in the kernel and its library are of different versions, as after an update without a restart: restart the machine or load the driver anew"
	case out.Status == 9:
		return "the driver cannot be reached (" + nvidiaSMI + " exits 9): is the kernel module loaded? It says: " + said
	case said == "":
		return fmt.Sprintf("%s says nothing and exits %d", nvidiaSMI, out.Status)
	}
	return fmt.Sprintf("%s exits %d and says: %s", nvidiaSMI, out.Status, said)
}

// cardOf reads a row of the base query.
func cardOf(row smi.Row) cardReading {
	bus, _ := pci.Address(row["pci.bus_id"].Text())
	c := cardReading{gpu: engines.GPU{
		Index:           row["index"].Int().Or(-1),
		UUID:            row["uuid"].Text(),
		Name:            row["name"].Text(),
		Vendor:          engines.NVIDIA,
		BusID:           bus,
		Driver:          row["driver_version"].Text(),
		MemoryBytes:     row["memory.total"].MiB(),
		PowerLimitWatts: row["power.limit"].Float(),
	}}
	c.state = engines.GPUState{
		MemoryUsedBytes:  row["memory.used"].MiB(),
		MemoryFreeBytes:  row["memory.free"].MiB(),
		UtilizationRatio: row["utilization.gpu"].Percent(),
		TemperatureC:     row["temperature.gpu"].Float(),
	}
	c.seen = faults.Observation{UUID: c.gpu.UUID, Driver: c.gpu.Driver, NotAnswering: brokenRow(row)}
	total, given := row["memory.total"]
	c.unified = given && total.Text() == "" && c.seen.NotAnswering == ""
	return c
}

// brokenRow says what is wrong with a card of which the row shows that it cannot
// be used. An error in a value that some cards never have is none.
func brokenRow(row smi.Row) string {
	for _, field := range baseFields() {
		said := row[field].Broken()
		lower := strings.ToLower(said)
		essential := field == "name" || field == "uuid" || field == "memory.total"
		if said != "" && (essential || strings.Contains(lower, "lost") || strings.Contains(lower, "reset")) {
			return fmt.Sprintf("%s says of its %s: %s", nvidiaSMI, field, said)
		}
	}
	return ""
}

// at returns the card with an address.
func (r *nvidiaReading) at(bus string) *cardReading {
	address, ok := pci.Address(bus)
	if !ok {
		return nil
	}
	i := slices.IndexFunc(r.cards, func(c cardReading) bool { return c.gpu.BusID == address })
	if i < 0 {
		return nil
	}
	return &r.cards[i]
}

// addErrors adds what is read of errors. That of a query which fails is not
// known, which ends no fault and begins none.
func (r *nvidiaReading) addErrors(ctx context.Context, n *nvidia) {
	rows, _, _, err := n.query(ctx, "gpu", errorFields())
	if err != nil {
		r.note(err)
		return
	}
	for _, row := range rows {
		c := r.at(row["pci.bus_id"].Text())
		if c == nil {
			continue
		}
		c.state.Memory = engines.MemoryErrors{
			Uncorrected:  row["ecc.errors.uncorrected.volatile.total"].Uint(),
			Corrected:    row["ecc.errors.corrected.volatile.total"].Uint(),
			RemapPending: either(row["retired_pages.pending"].Flag(), row["remapped_rows.pending"].Flag()),
			RemapFailed:  row["remapped_rows.failure"].Flag(),
		}
		c.seen.Errors, c.seen.Recovery = c.state.Memory, row["gpu_recovery_action"].Text()
	}
	if n.refused["gpu/remapped_rows.pending"] {
		r.addRemaps(ctx, n)
	}
}

// addRemaps adds remapped rows by the query of their own that drivers have
// which do not know them as fields of a card.
func (r *nvidiaReading) addRemaps(ctx context.Context, n *nvidia) {
	rows, _, _, err := n.query(ctx, "remapped-rows", remapFields())
	if err != nil {
		r.note(err)
		return
	}
	for _, row := range rows {
		if c := r.at(row["gpu_bus_id"].Text()); c != nil {
			c.state.Memory.RemapPending = either(c.state.Memory.RemapPending, row["remapped_rows.pending"].Flag())
			c.state.Memory.RemapFailed = row["remapped_rows.failure"].Flag()
			c.seen.Errors = c.state.Memory
		}
	}
}

// either returns whether one of two flags is set, as far as they are known.
func either(a, b engines.Opt[bool]) engines.Opt[bool] {
	if _, known := a.Get(); !known || b.Is(true) {
		return b
	}
	return a
}

func (r *nvidiaReading) addApps(ctx context.Context, n *nvidia) {
	rows, said, out, err := n.query(ctx, "compute-apps", appFields())
	if err == nil && out.Status != 0 {
		err = fmt.Errorf("which processes use the cards is not known: %s", shorten(strings.Join(said, " ")))
	}
	if err != nil {
		r.note(err)
		return
	}
	r.apps = make(map[string][]engines.GPUProcess)
	for _, row := range rows {
		uuid := row["gpu_uuid"].Text()
		if pid, known := row["pid"].Int().Get(); known && uuid != "" {
			r.apps[uuid] = append(r.apps[uuid], engines.GPUProcess{PID: pid, MemoryBytes: row["used_memory"].MiB()})
		}
	}
}

func (r *nvidiaReading) addFacts(ctx context.Context, n *nvidia) {
	rows, _, _, err := n.query(ctx, "gpu", factFields())
	if err != nil {
		r.note(err)
		return
	}
	for _, row := range rows {
		if c := r.at(row["pci.bus_id"].Text()); c != nil {
			c.gpu.ComputeCapability = row["compute_cap"].Text()
			c.gpu.Architecture = architecture(c.gpu.ComputeCapability)
			c.gpu.MIG = row["mig.mode.current"].Flag()
		}
	}
}

// architecture names the generation of a compute capability, which all drivers
// that tell one tell alike. Source: NVIDIA, CUDA GPU Compute Capability.
func architecture(capability string) string {
	major, _, _ := strings.Cut(capability, ".")
	switch capability {
	case "7.5":
		return "Turing"
	case "8.9":
		return "Ada Lovelace"
	}
	return map[string]string{
		"5": "Maxwell", "6": "Pascal", "7": "Volta", "8": "Ampere", "9": "Hopper", "10": "Blackwell", "11": "Blackwell", "12": "Blackwell",
	}[major]
}

func (r *nvidiaReading) addInstances(ctx context.Context, n *nvidia) {
	if !slices.ContainsFunc(r.cards, func(c cardReading) bool { return c.gpu.MIG.Is(true) }) {
		return
	}
	out, err := n.runner.Run(ctx, nvidiaSMI, "-L")
	if err != nil {
		r.note(err)
		return
	}
	instances := smi.Instances(out.Stdout)
	for i := range r.cards {
		if g := &r.cards[i].gpu; g.MIG.Is(true) {
			g.Instances = instances[g.UUID]
		}
	}
}

func (r *nvidiaReading) addLinks(ctx context.Context, n *nvidia) {
	if len(r.cards) < 2 {
		return
	}
	out, err := n.runner.Run(ctx, nvidiaSMI, "topo", "-m")
	if err != nil {
		r.note(err)
		return
	}
	r.links = smi.Topology(out.Stdout)
}

// note keeps why a part of the reading is missing.
func (r *nvidiaReading) note(err error) {
	r.notes = append(r.notes, engines.Warning{Part: "nvidia", Problem: err.Error()})
}
