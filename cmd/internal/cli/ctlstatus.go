package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/llmgw/llmgw/fleet/apipb"
	"github.com/llmgw/llmgw/fleet/apipb/telling"
)

type ctlStatusCmd struct{ watchFlags }

// Run shows what the fleet has, what of it is free, and what is wrong.
func (c *ctlStatusCmd) Run(ctx context.Context, streams Streams) error {
	return c.status(ctx, streams, "status", writeStatus)
}

type ctlModelsCmd struct{ watchFlags }

// Run shows the models that are placed.
func (c *ctlModelsCmd) Run(ctx context.Context, streams Streams) error {
	return c.status(ctx, streams, "models", writePlacedModels)
}

// status asks how everything stands: the tables of models are of the same answer.
func (f *watchFlags) status(ctx context.Context, streams Streams, verb string, text func(io.Writer, *apipb.GetStatusResponse) error) error {
	client, err := f.client()
	if err == nil {
		err = follow(ctx, f, streams, func(ctx context.Context) (*apipb.GetStatusResponse, error) {
			return client.Placement.GetStatus(ctx, &apipb.GetStatusRequest{})
		}, text)
	}
	if err != nil {
		return fmt.Errorf("ctl %s: %w", verb, err)
	}
	return nil
}

// writeStatus prints capacity, counts, and a line for each thing that a person
// should look at.
func writeStatus(w io.Writer, s *apipb.GetStatusResponse) error {
	w = printable{w}
	writeLeads(w, s.GetStanding())
	fmt.Fprintf(w, "nodes: %s\n", telling.NodeCounts(s.GetNodes()))
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	if len(s.GetClasses()) > 0 {
		fmt.Fprint(t, "\nCLASS\tCARDS\t\tTAKEN\tFREE\tUNUSABLE\tAWAY\tOCCUPIED\tMEMORY USED\n")
	}
	for _, k := range s.GetClasses() {
		fmt.Fprintf(t, "%s\t%s\t%d\t%d\t%d\t%d\t%d\t%d\t%s\n", cmp.Or(k.GetClass(), "not known"), bar(k), k.GetTotal(), k.GetTaken(), k.GetFree(),
			k.GetUnusable(), k.GetAway(), k.GetOccupied(), telling.MemoryUsed(k))
	}
	if len(s.GetFabrics()) > 0 {
		fmt.Fprint(t, "\nFABRIC\tNODES\tWHOLE FREE\tFREE CARDS\tHOLDS\tWEIGHTS OF\n")
	}
	for _, f := range s.GetFabrics() {
		nodes := fmt.Sprint(f.GetMembers())
		if n := f.GetContradicted(); n > 0 {
			nodes += fmt.Sprintf(", %d contradicted", n)
		}
		fmt.Fprintf(t, "%s\t%s\t%d\t%d\t%s\t%s\n", f.GetFabric(), nodes, f.GetWholeFree(), f.GetFreeCards(), telling.Counts(f.GetHolds(), "-"), telling.FabricWeights(f.GetWeights()))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if len(s.GetFabrics()) > 0 {
		fmt.Fprintln(w, "A model of several nodes needs whole free nodes of one fabric; free cards elsewhere are no capacity for it.")
	}
	writeCounts(w, s)
	for _, line := range telling.StatusTroubles(s).All() {
		fmt.Fprintf(w, "\n%s", line)
	}
	_, err := fmt.Fprint(w, "\n")
	return err
}

// writeLeads says who leads, and what is not known for that.
func writeLeads(w io.Writer, s *apipb.PlacementStanding) {
	for _, line := range telling.Leads(s) {
		fmt.Fprintln(w, line)
	}
}

// writeCounts sums up replicas and models.
func writeCounts(w io.Writer, s *apipb.GetStatusResponse) {
	if s.GetStanding().GetReplicasKnown() {
		fmt.Fprintf(w, "\nreplicas: %s\nmodels: %s\n", telling.ReplicaCounts(s), telling.ModelCounts(s))
	}
}

// writePlacedModels prints a line a model, and below them why some have not what
// is wanted.
func writePlacedModels(w io.Writer, s *apipb.GetStatusResponse) error {
	w = printable{w}
	if s.GetStanding().Term == nil || !s.GetStanding().GetReplicasKnown() {
		writeLeads(w, s.GetStanding())
	}
	if len(s.GetModels()) == 0 {
		_, err := fmt.Fprintln(w, "no model of the catalog has a profile, so nothing is placed; llmgw ctl model list shows the catalog")
		return err
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "MODEL\tSTATE\tWANTED\tOF\tREADY\tCOMING\tLEAVING\tLOST\tASLEEP\tFULL\tWAITING\tIDLE\tNEXT TRY")
	for _, m := range s.GetModels() {
		next := "-"
		if m.GetNextTry() != nil {
			next = telling.Since(m.GetNextTry(), s.GetAt())
		}
		fmt.Fprintf(t, "%s\t%s\t%d\t%s\t%d\t%d\t%d\t%d\t%d\t%s\t%d\t%s\t%s\n", m.GetName(), telling.Standing(m.GetScaling()), m.GetWanted(), telling.Bounds(m.GetScaling()),
			m.GetReady(), m.GetComing(), m.GetLeaving(), m.GetLost(), m.GetAsleep(), telling.Full(m.GetScaling()), m.GetScaling().GetWaiting()+m.GetScaling().GetQueued(), telling.Idle(m.GetIdleSeconds()), next)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, m := range s.GetModels() {
		for _, line := range telling.ModelTroubles(m, s.GetAt()) {
			fmt.Fprintf(w, "\n%s", line)
		}
	}
	_, err := fmt.Fprint(w, "\n")
	return err
}

// bar shows what cards of a class are: # taken, o occupied by others, x unusable,
// - away, . free.
func bar(k *apipb.CardClass) string {
	var b strings.Builder
	for i, n := range telling.Shares(k, 20) {
		b.WriteString(strings.Repeat("#ox-."[i:i+1], n))
	}
	return "[" + b.String() + "]"
}
