package controlplane

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/llmgw/llmgw/fleet/control"
	"github.com/llmgw/llmgw/placement"
	"github.com/llmgw/llmgw/placement/reconcile"
	"github.com/llmgw/llmgw/storage"
)

// gauges tells of a fleet when it is asked, but for its single cards, of which
// [cardGauges] tells. What nobody has reported is absent, and
// so is everything while another control plane leads: it tells of the fleet then.
type gauges struct {
	plane *Plane

	leads                                     *prometheus.Desc
	nodeReady, nodeWanted                     *prometheus.Desc
	nodeMemory, nodeAvailable                 *prometheus.Desc
	cards                                     *prometheus.Desc
	fabricNodes, fabricWhole, fabricFreeCards *prometheus.Desc
	wanted, ready, unplaced, failures         *prometheus.Desc
	awake, waiting, load, thrash              *prometheus.Desc
	replicas, idle, inFlight                  *prometheus.Desc
}

func newGauges(p *Plane) *gauges {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("llmgw_fleet_"+name, help, labels, nil)
	}
	return &gauges{
		plane: p,
		leads: desc("leads", "1 while this control plane gives orders. While another one leads, nothing else of the fleet is told here."),

		nodeReady:     desc("node_ready", "1 for a node that is heard, 0 for one that is silent or was not heard yet.", "node"),
		nodeWanted:    desc("node_cordoned", "1 for a node that operators keep new replicas off, by what they want of it: cordoned or drained.", "node", "target"),
		nodeMemory:    desc("node_memory_bytes", "A node's own memory.", "node"),
		nodeAvailable: desc("node_memory_available_bytes", "What of a node's own memory new processes can have.", "node"),

		cards:           desc("cards", "Cards by class and by what they are: free, taken, unusable, away, occupied.", "class", "state"),
		fabricNodes:     desc("fabric_nodes", "Nodes of a fabric, those included whose ports contradict it.", "fabric"),
		fabricWhole:     desc("fabric_whole_free_nodes", "Nodes of a fabric of which all cards are free: what replicas of several ranks can have.", "fabric"),
		fabricFreeCards: desc("fabric_free_cards", "Wholly free cards in a fabric, on whole nodes and others.", "fabric"),

		wanted:   desc("model_replicas_wanted", "Replicas of a model that are wanted.", "model"),
		ready:    desc("model_replicas_ready", "Replicas of a model that serve and are to stay.", "model"),
		unplaced: desc("model_unplaced", "1 for a model of which a replica is missing that no place was found for.", "model"),
		failures: desc("model_start_failures", "Starts of a model that failed in a row.", "model"),
		awake:    desc("model_state", "1 for the state that a model is in for who asks for it: off, asleep, loading, serving, failing, unplaced.", "model", "state"),
		waiting:  desc("model_waiting_requests", "Requests that wait for a replica of a model to come up, or for room at those that serve.", "model"),
		load:     desc("model_load_ratio", "How full the replicas of a model are, of what their engines run at once; above 1 where more waits. Absent where no router has said.", "model"),
		thrash:   desc("model_thrash_total", "How often a model was loaded again within ten minutes of making room for another one, since this control plane began to order.", "model"),
		replicas: desc("replicas", "Replicas by model and state; states of which there are none are absent.", "model", "state"),
		idle:     desc("replica_idle_seconds", "For how long nothing has shown that a replica works. Absent where nobody has seen it work, which is not idle.", "model", "replica"),
		inFlight: desc("replica_in_flight", "Requests that routers have at a replica. Absent where a router has not said.", "model", "replica"),
	}
}

// Describe implements [prometheus.Collector].
func (g *gauges) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		g.leads, g.nodeReady, g.nodeWanted, g.nodeMemory, g.nodeAvailable,
		g.cards, g.fabricNodes, g.fabricWhole, g.fabricFreeCards, g.wanted, g.ready, g.unplaced, g.failures,
		g.awake, g.waiting, g.load, g.thrash, g.replicas, g.idle, g.inFlight,
	} {
		ch <- d
	}
}

// Collect implements [prometheus.Collector].
func (g *gauges) Collect(ch chan<- prometheus.Metric) {
	to := sink{ch}
	mandate, _ := g.plane.Standing()
	to.flag(g.leads, mandate.Level == control.Leader)
	if mandate.Level == control.Standby {
		return
	}
	nodes := g.plane.control.Nodes()
	for i := range nodes {
		g.node(to, &nodes[i])
	}
	if g.plane.placing == nil {
		return
	}
	s := g.plane.placing.Snapshot()
	g.capacity(to, s.Cluster.Capacity())
	if s.Known { // before that nobody knows what runs
		g.models(to, s.View)
	}
}

func (g *gauges) node(to sink, n *control.Node) {
	to.flag(g.nodeReady, n.State == control.Ready, n.ID)
	if cordon, _ := g.plane.targets.of(n.ID); cordon != nil {
		target := "cordoned"
		if cordon.Target == storage.TargetDrained {
			target = "drained"
		}
		to.number(g.nodeWanted, 1, n.ID, target)
	}
	if n.Inventory == nil || n.State != control.Ready { // what was last heard of a silent node is no measurement
		return
	}
	measured(to, g.nodeMemory, pointer(n.Inventory.Memory.TotalBytes), n.ID)
	measured(to, g.nodeAvailable, pointer(n.Reading.MemoryAvailableBytes), n.ID)
}

func (g *gauges) capacity(to sink, c placement.Capacity) {
	for _, k := range c.Classes {
		for _, count := range []struct {
			state string
			n     int
		}{{"free", k.Free}, {"taken", k.Taken}, {"unusable", k.Unusable}, {"away", k.Away}, {"occupied", k.Occupied}} {
			to.number(g.cards, float64(count.n), k.Class, count.state)
		}
	}
	for _, f := range c.Fabrics {
		to.number(g.fabricNodes, float64(f.Members), f.Fabric)
		to.number(g.fabricWhole, float64(f.WholeFree), f.Fabric)
		to.number(g.fabricFreeCards, float64(f.FreeCards), f.Fabric)
	}
}

func (g *gauges) models(to sink, v *reconcile.View) {
	for i := range v.Models {
		m := &v.Models[i]
		to.number(g.wanted, float64(m.Wanted), m.Name)
		to.number(g.ready, float64(m.Ready), m.Name)
		to.flag(g.unplaced, m.Unplaced != nil || m.Problem != "", m.Name)
		to.number(g.failures, float64(m.Failures), m.Name)
		if m.Since.IsZero() {
			continue
		}
		to.number(g.awake, 1, m.Name, m.State.String())
		to.number(g.waiting, float64(m.Waiting+m.Queued), m.Name)
		measured(to, g.load, pointer(m.Load), m.Name)
		to.count(g.thrash, float64(m.Thrashed), m.Name)
	}
	counts := make(map[[2]string]int)
	for i := range v.Replicas {
		r := &v.Replicas[i]
		counts[[2]string{r.Model, r.State.String()}]++
		if d, known := r.Idle.Get(); known {
			to.number(g.idle, d.Seconds(), r.Model, r.ID)
		}
		measured(to, g.inFlight, pointer(r.Use.InFlight), r.Model, r.ID)
	}
	for key, n := range counts {
		to.number(g.replicas, float64(n), key[0], key[1])
	}
}

// sink takes gauges.
type sink struct{ ch chan<- prometheus.Metric }

func (s sink) number(d *prometheus.Desc, v float64, labels ...string) {
	s.ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
}

func (s sink) count(d *prometheus.Desc, v float64, labels ...string) {
	s.ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, v, labels...)
}

func (s sink) flag(d *prometheus.Desc, is bool, labels ...string) { s.number(d, value(is), labels...) }

func value(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// measured passes a value on, if there is one.
func measured[T int | uint64 | float64](s sink, d *prometheus.Desc, v *T, labels ...string) {
	if v != nil {
		s.number(d, float64(*v), labels...)
	}
}
