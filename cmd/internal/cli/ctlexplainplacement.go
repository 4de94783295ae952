package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/llmgw/llmgw/fleet/apipb"
)

type explainPlacementCmd struct {
	ctlFlags
	Model string `arg:"" help:"Name or alias of the model."`
}

// Run says why a model's replicas are where they are, and where one more would go.
func (c *explainPlacementCmd) Run(ctx context.Context, streams Streams) error {
	client, err := c.client()
	if err != nil {
		return fmt.Errorf("ctl explain-placement: %w", err)
	}
	ctx, cancel := withTime(ctx)
	defer cancel()
	resp, err := client.Placement.ExplainPlacement(ctx, &apipb.ExplainPlacementRequest{Model: c.Model})
	if err != nil {
		return fmt.Errorf("ctl explain-placement: %w", c.failed(err))
	}
	return show(&c.ctlFlags, streams.Out, resp, writeExplained)
}

// writeExplained prints what a replica needs, where its replicas are, where one
// more would go, and of every other node why not.
func writeExplained(w io.Writer, e *apipb.ExplainPlacementResponse) error {
	w = printable{w}
	m := e.GetModel()
	if e.GetStanding().Term == nil || !e.GetStanding().GetReplicasKnown() {
		writeLeads(w, e.GetStanding())
	}
	fmt.Fprintf(w, "%s: %d wanted, %d ready, %d coming, %d leaving, %d lost\n", m.GetName(), m.GetWanted(), m.GetReady(), m.GetComing(), m.GetLeaving(), m.GetLost())
	if text := scalingText(m, e.GetAt()); text != "" {
		fmt.Fprintln(w, text)
	}
	for _, line := range modelTroubles(m, e.GetAt()) {
		fmt.Fprintln(w, line)
	}
	if n := e.GetNeed(); n != nil {
		fmt.Fprintf(w, "one replica needs %s\n", needText(n))
		if err := writeMemory(w, n.GetMemory()); err != nil {
			return err
		}
	}
	for _, r := range e.GetReplicas() {
		fmt.Fprintf(w, "\n%s is %s on %s\n", r.GetReplica(), stateWord(r.GetState()), places(r.GetShards()))
		switch today := r.GetToday(); {
		case today == nil:
		case r.GetSame():
			fmt.Fprintf(w, "  asked again as things are now, it would go there: %s\n", today.GetWhy())
		case today.GetPlaced():
			fmt.Fprintf(w, "  asked again as things are now, it would go to %s: %s\n", where(today), today.GetWhy())
		default:
			fmt.Fprintf(w, "  asked again as things are now, it would have no place: %s\n", today.GetWhy())
		}
		writeRunners(w, r.GetToday())
	}
	next := e.GetNext()
	if next == nil {
		return nil
	}
	switch {
	case next.GetPlaced():
		fmt.Fprintf(w, "\none more would go to %s: %s\n", where(next), next.GetWhy())
	case next.GetCouldEver():
		fmt.Fprintf(w, "\none more has no place: %s\n", next.GetWhy())
	default:
		fmt.Fprintf(w, "\none more has no place, not even on empty nodes: %s\n", next.GetWhy())
	}
	writeRunners(w, next)
	return writeCandidates(w, next)
}

func writeRunners(w io.Writer, d *apipb.PlacementDecision) {
	for _, r := range d.GetRunners() {
		at := strings.Join(r.GetNodes(), ", ")
		if r.GetFabric() != "" {
			at += " in " + r.GetFabric()
		}
		fmt.Fprintf(w, "  then to %s, which is behind by %s\n", at, r.GetBehindBy())
	}
}

// writeCandidates prints every fabric and node that was looked at.
func writeCandidates(w io.Writer, d *apipb.PlacementDecision) error {
	if len(d.GetFabrics()) > 0 {
		fmt.Fprint(w, "\n")
	}
	for _, f := range d.GetFabrics() {
		fmt.Fprintln(w, f.GetText())
	}
	if len(d.GetOthers()) > 0 {
		fmt.Fprintf(w, "\nnot taken, and would do: %s\n", strings.Join(d.GetOthers(), ", "))
	}
	if len(d.GetRejected()) == 0 {
		return nil
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "\nNODE\tREASON\tWHY IT WOULD NOT DO")
	for _, n := range d.GetRejected() {
		name := n.GetNode()
		for _, r := range n.GetReasons() {
			fmt.Fprintf(t, "%s\t%s\t%s\n", name, r.GetKind(), r.GetText())
			name = ""
		}
	}
	return t.Flush()
}

// where is the place of a decision.
func where(d *apipb.PlacementDecision) string {
	text := places(d.GetShards())
	if d.GetFabric() != "" {
		text += " in " + d.GetFabric()
	}
	return text
}

// places are the nodes of shards, by rank, with their cards.
func places(shards []*apipb.PlacementShard) string {
	var out []string
	for _, s := range shards {
		text := s.GetNode()
		switch n := len(s.GetCards()); n {
		case 0:
		case 1:
			text += " (" + s.GetCards()[0] + ")"
		default:
			text += fmt.Sprintf(" (%d cards)", n)
		}
		out = append(out, text)
	}
	return cmp.Or(strings.Join(out, ", "), "no node")
}

// needText is what one replica takes.
func needText(n *apipb.ReplicaNeed) string {
	var parts []string
	add := func(format string, args ...any) { parts = append(parts, fmt.Sprintf(format, args...)) }
	for rank := 0; rank < len(n.GetRanks()); {
		r, same := n.GetRanks()[rank], 1
		for rank+same < len(n.GetRanks()) && sameNeed(r, n.GetRanks()[rank+same]) {
			same++
		}
		text := fmt.Sprintf("%d nodes with ", same)
		if same == 1 {
			text = "a node with "
		}
		add("%s%s", text, rankText(r))
		rank += same
	}
	if len(n.GetRanks()) > 1 {
		add("all in one fabric")
	}
	switch {
	case n.CardMemoryBytes != nil:
		add("%s free on each card", gibibytes(n.CardMemoryBytes))
	case !slices.ContainsFunc(n.GetRanks(), func(r *apipb.RankNeed) bool { return r.GetCards() > 0 }):
	case slices.ContainsFunc(n.GetMemory().GetClasses(), func(c *apipb.ClassMemory) bool { return c.Bytes != nil }):
		add("as much free on each card as is told below, by class")
	case n.GetMemory().GetSource() == apipb.MemorySource_MEMORY_SOURCE_ESTIMATED || n.GetMemory().GetSource() == apipb.MemorySource_MEMORY_SOURCE_LEARNED:
		add("cards that are wholly free, since the engine takes all of a card")
	default:
		add("cards that are wholly free, since how much of them it needs is not known")
	}
	if len(n.GetClasses()) > 0 {
		add("cards that are %s", strings.Join(n.GetClasses(), " or "))
	}
	if n.GetEngine() != "" {
		add("the engine %s", n.GetEngine())
	}
	if len(n.GetNodes()) > 0 {
		add("nodes out of %s", strings.Join(n.GetNodes(), ", "))
	}
	for _, key := range slices.Sorted(maps.Keys(n.GetLabels())) {
		add("the label %s=%s", key, n.GetLabels()[key])
	}
	if len(n.GetApart()) > 0 {
		add("no replica of %s beside it", strings.Join(n.GetApart(), ", "))
	}
	if n.GetSpread() != "" {
		add("replicas spread by the label %s", n.GetSpread())
	}
	return strings.Join(parts, "; ")
}

// rankText is what one rank takes of its node.
func rankText(r *apipb.RankNeed) string {
	parts := []string{several(r.GetCards(), "card")}
	if r.GetPorts() > 0 {
		parts = append(parts, several(r.GetPorts(), "port"))
	}
	if r.GetHostMemoryBytes() > 0 {
		parts = append(parts, gibibytes(&r.HostMemoryBytes)+" of its own memory")
	}
	return strings.Join(parts, " and ")
}

func several(n uint32, what string) string {
	switch n {
	case 0:
		return "no " + what
	case 1:
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func sameNeed(a, b *apipb.RankNeed) bool {
	return a.GetCards() == b.GetCards() && a.GetPorts() == b.GetPorts() && a.GetHostMemoryBytes() == b.GetHostMemoryBytes()
}
