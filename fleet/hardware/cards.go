package hardware

import (
	"cmp"
	"slices"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/fleet/hardware/faults"
	"github.com/llmgw/llmgw/fleet/hardware/internal/sysfs"
)

// key is what faults of a card are kept by: the kernel knows only addresses.
func key(g engines.GPU) string { return cmp.Or(g.BusID, g.ID()) }

// nvidiaCards returns NVIDIA's cards: those that the driver names, and those
// that it should.
func (b *builder) nvidiaCards(t told[nvidiaReading]) []cardReading {
	b.problem("nvidia", t.err)
	r := t.value
	if r.absent {
		b.noDriver = nvidiaSMI + " is not there any more"
		if b.full && len(b.onBus) > 0 {
			b.inv.Warnings = append(b.inv.Warnings, engines.Warning{
				Part: "nvidia", Problem: "there are NVIDIA cards on PCI, and no nvidia-smi: they cannot be used",
				Advice: "install NVIDIA's driver, or put nvidia-smi into the agent's PATH",
			})
		}
		return nil
	}
	b.inv.State.Problems = append(b.inv.State.Problems, r.notes...)
	if r.driver != "" {
		b.inv.State.Problems = append(b.inv.State.Problems, engines.Warning{Part: "nvidia", Problem: r.driver})
	}
	b.inv.State.GPUsAge = max(b.inv.State.GPUsAge, t.age)

	cards := slices.Clone(r.cards)
	for _, address := range b.unnamed(r) {
		c := cardReading{gpu: engines.GPU{Index: -1, Vendor: engines.NVIDIA, BusID: address}, driver: r.driver}
		c.seen.NotAnswering = cmp.Or(r.lost[address], r.driver, "it is on PCI, and "+nvidiaSMI+" does not name it")
		cards = append(cards, c)
	}
	for i := range cards {
		c := &cards[i]
		if d := slices.IndexFunc(b.onBus, func(d sysfs.Device) bool { return d.BusID == c.gpu.BusID }); d >= 0 {
			c.gpu.NUMA, c.gpu.PCIPath = b.onBus[d].NUMA, b.onBus[d].Path
		}
		b.recall(c)
		if t.age > 0 || !t.known || c.driver != "" {
			c.seen = faults.Observation{Unread: true}
		}
		c.state.Foreign = b.foreign(r.apps, c.gpu)
		if c.unified {
			b.unify(c, r.apps)
		}
	}
	number(cards)
	for i := range cards {
		cards[i].node = cards[i].gpu.Index
		cards[i].links = row(r.links, cards[i].node)
	}
	return cards
}

// unnamed returns the addresses of cards that are there and of which there is no
// row.
func (b *builder) unnamed(r nvidiaReading) []string {
	var out []string
	add := func(address string) {
		if r.at(address) == nil && !slices.Contains(out, address) {
			out = append(out, address)
		}
	}
	for _, d := range b.onBus {
		add(d.BusID)
	}
	for address := range r.lost {
		add(address)
	}
	slices.Sort(out)
	return out
}

// recall fills in what a card said of itself in an earlier reading: all of it
// for one that does not answer, and what this reading did not ask for or get.
func (b *builder) recall(c *cardReading) {
	old, ok := b.seen[key(c.gpu)]
	if !ok || c.gpu.UUID != "" && c.gpu.UUID != old.UUID {
		return
	}
	if _, asked := c.gpu.MIG.Get(); !asked && c.gpu.ComputeCapability == "" {
		c.gpu.ComputeCapability, c.gpu.Architecture = old.ComputeCapability, old.Architecture
		c.gpu.MIG, c.gpu.Instances = old.MIG, old.Instances
	}
	if c.seen.NotAnswering == "" {
		return
	}
	now := c.gpu
	c.gpu = old
	c.gpu.NUMA, c.gpu.PCIPath = now.NUMA, now.PCIPath
	if now.Index >= 0 {
		c.gpu.Index = now.Index
	}
}

// number gives an index to cards of which none is known, behind the others. The
// driver counts anew without a card that is lost, so that the index which such a
// card had may be another's.
func number(cards []cardReading) {
	taken := make(map[int]bool)
	for _, c := range cards {
		if c.seen.NotAnswering == "" {
			taken[c.gpu.Index] = true
		}
	}
	next := 0
	for i := range cards {
		g := &cards[i].gpu
		if cards[i].seen.NotAnswering != "" && taken[g.Index] {
			g.Index = -1
		}
		taken[g.Index] = true
		next = max(next, g.Index+1)
	}
	for i := range cards {
		if cards[i].gpu.Index < 0 {
			cards[i].gpu.Index = next
			next++
		}
	}
}

// unify gives a card without memory of its own that of the machine. What its
// processes hold is told apart from what others do.
func (b *builder) unify(c *cardReading, apps map[string][]engines.GPUProcess) {
	b.inv.Memory.Unified = true
	c.gpu.MemoryBytes = b.inv.Memory.TotalBytes
	c.state.MemoryFreeBytes = b.inv.State.MemoryAvailableBytes
	if apps == nil {
		return
	}
	var used uint64
	for _, p := range apps[c.gpu.UUID] {
		n, known := p.MemoryBytes.Get()
		if !known {
			return
		}
		used += n
	}
	c.state.MemoryUsedBytes = engines.Known(used)
}

// foreign returns the processes on a card that the agent did not start.
func (b *builder) foreign(apps map[string][]engines.GPUProcess, g engines.GPU) []engines.GPUProcess {
	names := []string{g.UUID}
	for _, i := range g.Instances {
		names = append(names, i.UUID)
	}
	var out []engines.GPUProcess
	for _, name := range names {
		for _, p := range apps[name] {
			if b.root.Descends(p.PID, b.known) {
				continue
			}
			if info, ok := b.root.Process(p.PID); ok {
				p.Name = info.Name
			}
			out = append(out, p)
		}
	}
	return out
}

func (b *builder) amdCards(t told[amdReading]) []cardReading {
	b.problem("amd", t.err)
	b.inv.State.Problems = append(b.inv.State.Problems, t.value.notes...)
	b.inv.State.GPUsAge = max(b.inv.State.GPUsAge, t.age)
	cards := slices.Clone(t.value.cards)
	for i := range cards {
		if t.age > 0 {
			cards[i].seen = faults.Observation{Unread: true}
		}
	}
	return cards
}

// simulatedCards returns the cards of a file, and puts the rest that it says in
// place of what was read.
func (b *builder) simulatedCards(t told[*simulation]) []cardReading {
	b.problem("simulated cards", t.err)
	s := t.value
	b.inv.State.GPUsAge = t.age
	if s.Host != nil && s.Host.Hostname != "" {
		b.hostname = s.Host.Hostname
	}
	b.inv.Host.Hostname = b.hostname
	if s.CPU != nil {
		b.inv.CPU = *s.CPU
	}
	if s.Memory != nil {
		b.inv.Memory = *s.Memory
		b.inv.State.MemoryAvailableBytes = s.Memory.TotalBytes
	}
	if s.NUMA != nil {
		b.inv.NUMA = s.NUMA
	}
	cards := s.cards(b.hostname, b.inv.Memory)
	for i := range cards {
		c := &cards[i]
		if c.unified {
			c.gpu.MemoryBytes = b.inv.Memory.TotalBytes
		}
		if i < len(s.Links) {
			c.links = make(map[int]string)
			for j, kind := range s.Links[i] {
				c.links[j] = kind
			}
		}
	}
	return cards
}

// addCards tells the book what was seen and puts the cards with their states
// into the inventory. A state is of the cards of the last inventory, whatever
// came or went since.
func (b *builder) addCards(cards []cardReading) {
	for _, c := range cards {
		b.book.Observe(b.now, key(c.gpu), c.seen)
		if c.seen.NotAnswering == "" && !c.seen.Unread && b.full {
			b.seen[key(c.gpu)] = c.gpu
		}
	}
	if b.full {
		b.changed = false
		for _, c := range cards {
			b.inv.GPUs = append(b.inv.GPUs, c.gpu)
			b.addState(c)
		}
		b.cards = slices.Clone(b.inv.GPUs)
		return
	}
	b.changed = slices.ContainsFunc(cards, b.isNew)
	b.inv.GPUs = slices.Clone(b.cards)
	for _, g := range b.cards {
		i := slices.IndexFunc(cards, func(c cardReading) bool { return key(c.gpu) == key(g) })
		if i < 0 {
			gone := cardReading{gpu: g, seen: faults.Observation{NotAnswering: "it was there when the node registered, and is not any more"}}
			if g.Vendor == engines.NVIDIA && b.noDriver != "" {
				gone.driver, gone.seen = b.noDriver, faults.Observation{Unread: true}
			}
			b.book.Observe(b.now, key(g), gone.seen)
			b.addState(gone)
			continue
		}
		cards[i].gpu = g // by its lasting name, also while it does not tell it
		b.addState(cards[i])
	}
}

// isNew reports whether the last inventory lacks a card, or has another one in
// its place.
func (b *builder) isNew(c cardReading) bool {
	i := slices.IndexFunc(b.cards, func(g engines.GPU) bool { return key(g) == key(c.gpu) })
	return i < 0 || c.gpu.UUID != "" && b.cards[i].UUID != c.gpu.UUID
}

func (b *builder) addState(c cardReading) {
	s := c.state
	s.GPU = c.gpu.ID()
	s.Health = b.book.Health(b.now, key(c.gpu))
	if c.driver != "" {
		s.Health.State = engines.Excluded
		s.Health.Reasons = slices.Insert(s.Health.Reasons, 0, engines.HealthReason{
			Kind: "driver", Action: engines.Excluded, Detail: c.driver, Ends: "the driver answers again",
		})
	}
	if before := b.health[key(c.gpu)]; before != s.Health.State {
		level := b.log.Info
		switch {
		case s.Health.State == engines.Excluded || s.Health.State == engines.RestartEngine:
			level = b.log.Warn
		case before == "" && s.Health.State == engines.Healthy:
			level = b.log.Debug // as it should be, of every card at every start
		}
		level("a card's health changed", "gpu", s.GPU, "bus_id", c.gpu.BusID, "from", before, "to", s.Health.State, "reasons", s.Health.Reasons)
		b.health[key(c.gpu)] = s.Health.State
	}
	b.inv.State.GPUs = append(b.inv.State.GPUs, s)
}

// row returns the links of one card.
func row(links map[[2]int]string, from int) map[int]string {
	out := make(map[int]string)
	for pair, kind := range links {
		if pair[0] == from {
			out[pair[1]] = kind
		}
	}
	return out
}

// addLinks makes the matrix of links, once the cards are in order.
func (b *builder) addLinks(cards []cardReading) {
	known := false
	matrix := make([][]string, 0, len(b.inv.GPUs))
	for _, g := range b.inv.GPUs {
		from := of(cards, g)
		line := make([]string, len(b.inv.GPUs))
		for j, o := range b.inv.GPUs {
			to := of(cards, o)
			switch {
			case g.ID() == o.ID():
				line[j] = "X"
			case from != nil && to != nil && g.Vendor == o.Vendor && from.links[to.node] != "":
				line[j] = from.links[to.node]
				known = true
			}
		}
		matrix = append(matrix, line)
	}
	if known {
		b.inv.Links = matrix
	}
}

func of(cards []cardReading, g engines.GPU) *cardReading {
	i := slices.IndexFunc(cards, func(c cardReading) bool { return key(c.gpu) == key(g) })
	if i < 0 {
		return nil
	}
	return &cards[i]
}
