package cli

import (
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/llmgw/llmgw/fleet/apipb"
	"github.com/llmgw/llmgw/fleet/apipb/telling"
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
	if text := telling.Scaling(m, e.GetAt()); text != "" {
		fmt.Fprintln(w, text)
	}
	for _, line := range telling.ModelTroubles(m, e.GetAt()) {
		fmt.Fprintln(w, line)
	}
	if n := e.GetNeed(); n != nil {
		fmt.Fprintf(w, "one replica needs %s\n", telling.Need(n))
		if err := writeMemory(w, n.GetMemory()); err != nil {
			return err
		}
	}
	for _, r := range e.GetReplicas() {
		fmt.Fprintf(w, "\n%s is %s on %s\n", r.GetReplica(), telling.ReplicaState(r.GetState()), telling.Places(r.GetShards()))
		switch today := r.GetToday(); {
		case today == nil:
		case r.GetSame():
			fmt.Fprintf(w, "  asked again as things are now, it would go there: %s\n", today.GetWhy())
		case today.GetPlaced():
			fmt.Fprintf(w, "  asked again as things are now, it would go to %s: %s\n", telling.Place(today), today.GetWhy())
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
		fmt.Fprintf(w, "\none more would go to %s: %s\n", telling.Place(next), next.GetWhy())
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
