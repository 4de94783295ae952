package controlplane

import (
	"bufio"
	"io"
	"slices"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/fleet/control"
)

// cardGauges tell of single cards when they are asked: tens of thousands of series
// in a large fleet. It is a collector as any other, and besides writes its part of a
// page itself, from what is known of the nodes and with nothing built between: as
// metrics of a registry's, the cards of 2,000 nodes are some 20 MB for each page.
type cardGauges struct {
	plane    *Plane
	families []cardFamily
}

// cardFamily is a metric that cards have.
type cardFamily struct {
	name, help string
	desc       *prometheus.Desc
	// value is a card's, if it is known. The state is nil for one that is not in
	// the newest reading.
	value func(gpu *engines.GPU, state *engines.GPUState) (v float64, known bool)
}

func newCardGauges(p *Plane) *cardGauges {
	family := func(name, help string, value func(*engines.GPU, *engines.GPUState) (float64, bool)) cardFamily {
		name = "llmgw_fleet_" + name
		return cardFamily{name, help, prometheus.NewDesc(name, help, []string{"node", "gpu", "class"}, nil), value}
	}
	return &cardGauges{plane: p, families: []cardFamily{
		family("gpu_memory_bytes", "A card's memory.", func(gpu *engines.GPU, _ *engines.GPUState) (float64, bool) {
			v, known := gpu.MemoryBytes.Get()
			return float64(v), known
		}),
		family("gpu_memory_used_bytes", "What of a card's memory is used, whoever uses it.", ofState(func(s *engines.GPUState) (float64, bool) {
			v, known := s.MemoryUsedBytes.Get()
			return float64(v), known
		})),
		family("gpu_usable", "1 for a card that replicas may be placed on, 0 for one that is excluded.", ofState(func(s *engines.GPUState) (float64, bool) {
			return value(s.Health.Usable()), s.Health.State != ""
		})),
		family("gpu_utilization_ratio", "How busy a card is, 0 to 1, as its driver says.", ofState(func(s *engines.GPUState) (float64, bool) {
			return s.UtilizationRatio.Get()
		})),
	}}
}

func ofState(value func(*engines.GPUState) (float64, bool)) func(*engines.GPU, *engines.GPUState) (float64, bool) {
	return func(_ *engines.GPU, state *engines.GPUState) (float64, bool) {
		if state == nil {
			return 0, false
		}
		return value(state)
	}
}

// Describe implements [prometheus.Collector].
func (g *cardGauges) Describe(ch chan<- *prometheus.Desc) {
	for i := range g.families {
		ch <- g.families[i].desc
	}
}

// Collect implements [prometheus.Collector].
func (g *cardGauges) Collect(ch chan<- prometheus.Metric) {
	for _, n := range g.nodes() {
		eachCard(&n, func(gpu *engines.GPU, state *engines.GPUState) {
			var labels []*dto.LabelPair // all of a card's metrics share them
			for i := range g.families {
				f := &g.families[i]
				v, known := f.value(gpu, state)
				if !known {
					continue
				}
				if labels == nil {
					labels = prometheus.MakeLabelPairs(f.desc, []string{n.ID, gpu.ID(), gpu.Name})
				}
				ch <- &cardGauge{f.desc, labels, v}
			}
		})
	}
}

// WriteText writes in Prometheus' text format what [cardGauges.Collect] would tell of
// the families that are wanted.
func (g *cardGauges) WriteText(to io.Writer, wanted func(family string) bool) error {
	w := bufio.NewWriterSize(to, 16<<10)
	nodes := g.nodes()
	for i := range g.families {
		f := &g.families[i]
		if !wanted(f.name) {
			continue
		}
		begun := false
		for j := range nodes {
			eachCard(&nodes[j], func(gpu *engines.GPU, state *engines.GPUState) {
				v, known := f.value(gpu, state)
				if !known {
					return
				}
				line := w.AvailableBuffer()
				if !begun { // a family without a series is not there
					begun = true
					line = append(line, "# HELP "+f.name+" "+f.help+"\n# TYPE "+f.name+" gauge\n"...)
				}
				line = appendLabel(append(line, f.name...), `{class="`, gpu.Name)
				line = appendLabel(line, `",gpu="`, gpu.ID())
				line = appendLabel(line, `",node="`, nodes[j].ID)
				line = strconv.AppendFloat(append(line, `"} `...), v, 'g', -1, 64)
				_, _ = w.Write(append(line, '\n')) // Flush returns the error
			})
		}
	}
	return w.Flush()
}

// appendLabel appends what is before a label's value, and that as the format wants it.
func appendLabel(to []byte, before, text string) []byte {
	to = append(to, before...)
	for i := range len(text) {
		switch c := text[i]; c {
		case '\\', '"':
			to = append(to, '\\', c)
		case '\n':
			to = append(to, `\n`...)
		default:
			to = append(to, c)
		}
	}
	return to
}

// nodes are those of which the cards are told. What was last heard of a silent node
// is no measurement, and a standby tells of none.
func (g *cardGauges) nodes() []control.Node {
	if mandate, _ := g.plane.Standing(); mandate.Level == control.Standby {
		return nil
	}
	return slices.DeleteFunc(g.plane.control.Nodes(), func(n control.Node) bool { return n.State != control.Ready || n.Inventory == nil })
}

// eachCard calls do for each card of a node: of two with one ID for the first, since
// a page with two of a kind is refused whole. State is nil for one that is not in the
// newest reading.
func eachCard(n *control.Node, do func(gpu *engines.GPU, state *engines.GPUState)) {
	gpus := n.Inventory.GPUs
	for i := range gpus {
		gpu := &gpus[i]
		if slices.ContainsFunc(gpus[:i], func(g engines.GPU) bool { return g.ID() == gpu.ID() }) {
			continue
		}
		var state *engines.GPUState
		if at := slices.IndexFunc(n.Reading.GPUs, func(s engines.GPUState) bool { return s.GPU == gpu.ID() }); at >= 0 {
			state = &n.Reading.GPUs[at]
		}
		do(gpu, state)
	}
}

// cardGauge is a gauge of a card as [prometheus.Metric].
type cardGauge struct {
	desc   *prometheus.Desc
	labels []*dto.LabelPair
	value  float64
}

// Desc implements [prometheus.Metric].
func (g *cardGauge) Desc() *prometheus.Desc { return g.desc }

// Write implements [prometheus.Metric].
func (g *cardGauge) Write(out *dto.Metric) error {
	out.Label, out.Gauge = g.labels, &dto.Gauge{Value: &g.value}
	return nil
}
