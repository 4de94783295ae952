package console

import (
	"cmp"
	"fmt"
	"html/template"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/llmgw/llmgw/auth/webui"
	"github.com/llmgw/llmgw/fleet/apipb"
	"github.com/llmgw/llmgw/fleet/apipb/telling"
)

const (
	// cardsInRow is how many cards of a node are drawn side by side.
	cardsInRow = 8
	// mostRowTroubles is how many sentences a row of a table has.
	mostRowTroubles = 2
	// maxInventory bounds what is shown of a node's hardware, in bytes.
	maxInventory = 32 << 10
	// mostParts bounds what is shown of one node, replica or model of a kind.
	mostParts = 100
	// maxLine bounds a line of an engine's output, and mostLines how many there are.
	maxLine   = 500
	mostLines = 40
)

// nodeRow is a node in the table.
type nodeRow struct {
	ID, Since, Target, Cards, Shards, Address, Agent, Fabrics string

	State    webui.Status
	Picture  template.HTML
	Troubles some
}

// nodesView is all nodes.
type nodesView struct {
	List   list
	Why    string // why nothing is ordered; empty: orders are given
	Nodes  []nodeRow
	Legend []legendEntry
	Known  bool
}

// nodes shows the nodes, those that are broken first.
func (c *Console) nodes(w http.ResponseWriter, r *http.Request, _ webui.Visit) error {
	var missing []string
	l, page := asked(r, "nodes")
	v := nodesView{Legend: legend()}
	if answer, ok := ask(r.Context(), c, &missing, "the nodes", c.deps.Nodes.ListNodes, &apipb.ListNodesRequest{}); ok {
		v.Known, v.Why = true, answer.GetWhy()
		taken := c.claims(r, &missing)
		shown := cut(&l, page, c.cfg.Rows, sortedNodes(answer.GetNodes()), nodeWords)
		for _, n := range shown {
			v.Nodes = append(v.Nodes, rowOf(n, answer.GetAt(), taken))
		}
	}
	v.List = l
	return c.show(w, r, "nodes.html", "Nodes", missing, v)
}

// claims are the cards that replicas have, by node: those that the control plane has
// given and that no shard may have told of yet.
func (c *Console) claims(r *http.Request, missing *[]string) map[string]map[string]bool {
	taken := map[string]map[string]bool{}
	if c.deps.Placement == nil {
		return taken
	}
	answer, _ := ask(r.Context(), c, missing, "the replicas", c.deps.Placement.ListReplicas, &apipb.ListReplicasRequest{})
	for _, replica := range answer.GetReplicas() {
		for _, s := range replica.GetShards() {
			for _, id := range s.GetCards() {
				if taken[s.GetNode()] == nil {
					taken[s.GetNode()] = map[string]bool{}
				}
				taken[s.GetNode()][id] = true
			}
		}
	}
	return taken
}

// sortedNodes are the nodes, those first that a person should look at.
func sortedNodes(nodes []*apipb.Node) []*apipb.Node {
	type ranked struct {
		rank int
		node *apipb.Node
	}
	all := make([]ranked, len(nodes))
	for i, n := range nodes {
		all[i] = ranked{nodeRank(n), n}
	}
	slices.SortStableFunc(all, func(a, b ranked) int {
		return cmp.Or(cmp.Compare(a.rank, b.rank), strings.Compare(a.node.GetId(), b.node.GetId()))
	})
	out := make([]*apipb.Node, len(all))
	for i := range all {
		out[i] = all[i].node
	}
	return out
}

// nodeRank is how soon a person should look at a node; 0 is first.
func nodeRank(n *apipb.Node) int {
	switch state := n.GetState(); {
	case state == apipb.NodeState_NODE_STATE_LOST:
		return 0
	case state == apipb.NodeState_NODE_STATE_UNREACHABLE:
		return 1
	case state == apipb.NodeState_NODE_STATE_READY && !n.GetConnected():
		return 2
	case len(telling.NodeTroubles(n)) > 0:
		return 3
	case n.GetTarget() != apipb.NodeTarget_NODE_TARGET_ACTIVE:
		return 4
	case state != apipb.NodeState_NODE_STATE_READY:
		return 5
	}
	return 6
}

// nodeStatus is a node's state with a mark.
func nodeStatus(n *apipb.Node) webui.Status {
	kinds := [...]webui.Kind{webui.Bad, webui.Bad, webui.Warn, webui.Warn, webui.Idle, webui.Busy, webui.Good}
	return webui.Status{Kind: kinds[nodeRank(n)], Text: telling.NodeState(n)}
}

// nodeWords is what a node is searched by.
func nodeWords(b *strings.Builder, n *apipb.Node) {
	words(b, n.GetId(), telling.NodeState(n), telling.NodeTarget(n.GetTarget()), n.GetTargetReason(), n.GetAddress(), n.GetAgentVersion())
	for _, g := range n.GetGpus() {
		words(b, g.GetName(), g.GetId())
	}
	for _, f := range n.GetFabrics() {
		words(b, f.GetName())
	}
	for _, s := range n.GetShards() {
		words(b, s.GetReplica())
	}
	for key, value := range n.GetLabels() {
		words(b, key+"="+value)
	}
	words(b, telling.NodeTroubles(n)...)
}

// statesOf are what the cards of a node are, as the counts of the overview have it.
// Of a node that was not heard nothing is known of them.
func statesOf(n *apipb.Node, taken map[string]bool) []card {
	out := make([]card, 0, len(n.GetGpus()))
	takes := n.GetState() == apipb.NodeState_NODE_STATE_READY && n.GetTarget() == apipb.NodeTarget_NODE_TARGET_ACTIVE
	for _, g := range n.GetGpus() {
		switch {
		case n.GetHeard() == nil:
			out = append(out, cardUnknown)
		case !g.GetUsable():
			out = append(out, cardUnusable)
		case taken[g.GetId()]:
			out = append(out, cardTaken)
		case !takes:
			out = append(out, cardAway)
		case len(g.GetForeign()) > 0, g.MemoryBytes != nil && g.MemoryUsedBytes != nil && g.GetMemoryUsedBytes() > g.GetMemoryBytes()/10:
			out = append(out, cardOccupied)
		default:
			out = append(out, cardFree)
		}
	}
	return out
}

func rowOf(n *apipb.Node, at *timestamppb.Timestamp, taken map[string]map[string]bool) nodeRow {
	states := statesOf(n, taken[n.GetId()])
	row := nodeRow{
		ID: n.GetId(), Since: telling.Since(at, n.GetSince()), Cards: telling.Cards(n), Shards: telling.Shards(n), State: nodeStatus(n),
		Address: telling.OrDash(n.GetAddress()), Agent: telling.OrDash(n.GetAgentVersion()),
		Picture: cells(states[:min(len(states), 4*cardsInRow)], cardsInRow, countStates(states)), Troubles: first(telling.NodeTroubles(n), mostRowTroubles, ""),
	}
	if n.GetTarget() != apipb.NodeTarget_NODE_TARGET_ACTIVE {
		row.Target = telling.NodeTarget(n.GetTarget())
	}
	var fabrics []string
	for _, f := range n.GetFabrics() {
		fabrics = append(fabrics, f.GetName())
	}
	row.Fabrics = short(telling.OrDash(strings.Join(fabrics, ", ")), maxText)
	return row
}

// fact is a line of what is known of something.
type fact struct{ Name, Text string }

// cardRow is a card of a node.
type cardRow struct {
	Index       uint32
	Name, ID    string
	Sign        template.HTML
	State       string
	Memory      string
	MemoryUsed  *webui.Bar // nil: not known
	Temperature string
	Busy        string
	Reasons     []string
}

// shardRow is a shard, on its node or of its replica.
type shardRow struct {
	Replica, Node, Rank, State, Since, Work, Cards string

	Kind    webui.Kind
	Why     string
	Lines   []string
	Held    string
	Phase   string
	Adopted bool
}

// nodeView is a node.
type nodeView struct {
	ID                    string
	State                 webui.Status
	Facts                 []fact
	Picture               template.HTML
	Legend                []legendEntry
	Cards                 []cardRow
	Fabrics               []fact
	Engines               []fact
	Shards                []shardRow
	MoreCards, MoreShards int
	Troubles              some
	Inventory             string
	Cut                   bool
}

// node shows a node with all that is known of it.
func (c *Console) node(w http.ResponseWriter, r *http.Request, _ webui.Visit) error {
	id := r.URL.Query().Get("id")
	if id == "" || len(id) > maxFilter {
		return none("node", id, c.deps.Root+"nodes")
	}
	var missing []string
	ctx := r.Context()
	answer, err := c.deps.Nodes.GetNode(ctx, &apipb.GetNodeRequest{Node: id})
	if err != nil {
		if c.fault(err).NotFound {
			return none("node", id, c.deps.Root+"nodes")
		}
		missing = append(missing, "the node could not be read: "+c.reason(ctx, "a node", err))
		return c.show(w, r, "node.html", "Node "+short(id, 100), missing, nil)
	}
	n, at := answer.GetNode(), answer.GetAt()
	states := statesOf(n, c.claims(r, &missing)[n.GetId()])
	v := nodeView{
		ID: n.GetId(), State: nodeStatus(n), Facts: nodeFacts(n, at), Legend: legend(), Picture: cells(states, cardsInRow, countStates(states)),
		Troubles: first(telling.NodeTroubles(n), mostParts, ""),
	}
	for i, g := range n.GetGpus() {
		if i < mostParts {
			v.Cards = append(v.Cards, cardOf(g, states[i]))
		}
	}
	v.MoreCards = len(n.GetGpus()) - len(v.Cards)
	for _, f := range n.GetFabrics() {
		v.Fabrics = append(v.Fabrics, fact{f.GetName(), telling.OrText(append([]string{f.GetVerdict()}, f.GetReasons()...), "-")})
	}
	for _, e := range n.GetEngines() {
		v.Engines = append(v.Engines, fact{e.GetEngine(), telling.OrText([]string{cmp.Or(e.GetExecutable(), "by the executable that its adapter knows"), e.GetProblem()}, "-")})
	}
	shards := slices.Clone(n.GetShards())
	slices.SortStableFunc(shards, func(a, b *apipb.NodeShard) int { return cmp.Compare(shardRank(a), shardRank(b)) })
	for _, s := range shards[:min(len(shards), mostParts)] {
		row := shardOf(s, at)
		row.Replica = s.GetReplica()
		v.Shards = append(v.Shards, row)
	}
	v.MoreShards = len(shards) - len(v.Shards)
	v.inventory(answer)
	return c.show(w, r, "node.html", "Node "+n.GetId(), missing, v)
}

// inventory is the hardware as the agent's own JSON has it.
func (v *nodeView) inventory(answer *apipb.GetNodeResponse) {
	if answer.GetInventory() == nil {
		return
	}
	text, err := protojson.MarshalOptions{Multiline: true, Indent: " "}.Marshal(answer.GetInventory())
	if err != nil {
		return // what came over the wire can be written
	}
	v.Cut = len(text) > maxInventory
	v.Inventory = short(string(text), maxInventory)
}

func nodeFacts(n *apipb.Node, at *timestamppb.Timestamp) []fact {
	facts := []fact{{"State", telling.NodeState(n) + " for " + telling.Since(at, n.GetSince())}}
	add := func(name, text string) { facts = append(facts, fact{name, short(text, maxText)}) }
	if n.GetHeard() != nil {
		add("Heard", telling.Since(at, n.GetHeard())+" ago")
	} else {
		add("Heard", "not since this control plane began")
	}
	add("Target", telling.OrText([]string{telling.NodeTarget(n.GetTarget()), n.GetTargetReason()}, "-"))
	if n.GetTargetAt() != nil {
		add("Target set", telling.Since(at, n.GetTargetAt())+" ago")
	}
	add("Address", telling.OrDash(n.GetAddress()))
	add("Agent", telling.OrDash(n.GetAgentVersion()))
	if n.GetGoodbye() != "" {
		add("Goodbye", n.GetGoodbye())
	}
	if n.ClockSkew != nil {
		add("Clock", fmt.Sprintf("%v ahead", n.GetClockSkew().AsDuration().Round(time.Millisecond)))
	}
	add("CPU", telling.OrDash(n.GetCpu()))
	add("Memory", telling.Gibibytes(n.MemoryBytes)+", "+telling.Gibibytes(n.MemoryAvailableBytes)+" available")
	var labels []string
	for _, key := range slices.Sorted(maps.Keys(n.GetLabels())) {
		labels = append(labels, key+"="+n.GetLabels()[key])
	}
	if len(labels) > 0 {
		add("Labels", strings.Join(labels, ", "))
	}
	return facts
}

func cardOf(g *apipb.NodeGPU, state card) cardRow {
	row := cardRow{
		Index: g.GetIndex(), Name: telling.OrDash(short(g.GetName(), maxText)), ID: short(g.GetId(), maxText), Sign: cells([]card{state}, 1, ""), State: state.String(),
		Memory: telling.Gibibytes(g.MemoryUsedBytes) + " of " + telling.Gibibytes(g.MemoryBytes), Temperature: "-", Busy: "-",
	}
	if g.MemoryBytes != nil && g.MemoryUsedBytes != nil {
		row.MemoryUsed = &webui.Bar{
			Label: fmt.Sprintf("memory of card %d in use", g.GetIndex()), Used: float64(g.GetMemoryUsedBytes()), Of: float64(g.GetMemoryBytes()), Text: row.Memory,
		}
	}
	if g.TemperatureC != nil {
		row.Temperature = fmt.Sprintf("%.0f °C", g.GetTemperatureC())
	}
	if g.UtilizationRatio != nil {
		row.Busy = fmt.Sprintf("%.0f%%", 100*g.GetUtilizationRatio())
	}
	for _, text := range g.GetReasons()[:min(len(g.GetReasons()), mostLines)] {
		row.Reasons = append(row.Reasons, short(text, maxText))
	}
	for _, p := range g.GetForeign()[:min(len(g.GetForeign()), mostLines)] {
		row.Reasons = append(row.Reasons, short("a process that the agent did not start: "+telling.Process(p), maxText))
	}
	return row
}

// shardRank is how soon a person should look at a shard.
func shardRank(s *apipb.NodeShard) int {
	switch {
	case s.GetState() == "failed", s.GetMemoryHeld() != "":
		return 0
	case s.GetState() == "stopped":
		return 3
	case s.GetState() == "ready":
		return 2
	}
	return 1
}

func shardOf(s *apipb.NodeShard, at *timestamppb.Timestamp) shardRow {
	kinds := [...]webui.Kind{webui.Bad, webui.Busy, webui.Good, webui.Idle}
	row := shardRow{
		Rank: fmt.Sprint(s.GetRank()), State: cmp.Or(short(s.GetState(), maxText), "not known"), Since: telling.Since(at, s.GetSince()), Kind: kinds[shardRank(s)],
		Work: short(strings.TrimPrefix(telling.ShardWork(s), ", "), maxText), Cards: short(telling.CardNames(s.GetCards()), maxText),
		Why: short(telling.OrText([]string{s.GetReason(), s.GetAdvice()}, ""), 4*maxText), Held: short(s.GetMemoryHeld(), maxText),
		Phase: short(s.GetPhase(), maxText), Adopted: s.GetAdopted(),
	}
	lines := s.GetLines()
	for _, line := range lines[max(0, len(lines)-mostLines):] { // the last ones say what happened
		row.Lines = append(row.Lines, short(line, maxLine))
	}
	return row
}
