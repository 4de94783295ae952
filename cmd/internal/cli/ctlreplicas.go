package cli

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/llmgw/llmgw/fleet/apipb"
	"github.com/llmgw/llmgw/fleet/apipb/telling"
)

type ctlReplicasCmd struct {
	watchFlags
	Model string `arg:"" optional:"" help:"Only the replicas of this model. Default: of all."`
}

// Run shows the replicas and their shards.
func (c *ctlReplicasCmd) Run(ctx context.Context, streams Streams) error {
	client, err := c.client()
	if err == nil {
		err = follow(ctx, &c.watchFlags, streams, func(ctx context.Context) (*apipb.ListReplicasResponse, error) {
			return client.Placement.ListReplicas(ctx, &apipb.ListReplicasRequest{Model: c.Model})
		}, writeReplicas)
	}
	if err != nil {
		return fmt.Errorf("ctl replicas: %w", err)
	}
	return nil
}

// writeReplicas prints a line a replica, then one a shard, and below them what a
// person should look at.
func writeReplicas(w io.Writer, l *apipb.ListReplicasResponse) error {
	w = printable{w}
	if l.GetStanding().Term == nil || !l.GetStanding().GetReplicasKnown() {
		writeLeads(w, l.GetStanding())
	}
	if len(l.GetReplicas()) == 0 {
		if !l.GetStanding().GetReplicasKnown() {
			return nil
		}
		_, err := fmt.Fprintln(w, "there is no replica; llmgw ctl models says what is wanted, and why it is not there")
		return err
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "REPLICA\tMODEL\tSTATE\tFOR\tFABRIC\tADDRESS\tIN FLIGHT\tIDLE")
	for _, r := range l.GetReplicas() {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", r.GetId(), r.GetModel(), telling.ReplicaState(r.GetState()), telling.Since(l.GetAt(), r.GetSince()),
			telling.OrDash(r.GetFabric()), telling.OrDash(r.GetAddress()), telling.Optional(r.InFlight), telling.Idle(r.GetIdleSeconds()))
	}
	fmt.Fprintln(t, "\nSHARD\tNODE\tCARDS\tSTATE\tFOR\tRUNNING\tWAITING")
	for _, r := range l.GetReplicas() {
		for rank, s := range r.GetShards() {
			state, running, waiting, began := "not reported", "-", "-", (*timestamppb.Timestamp)(nil)
			if status := s.GetStatus(); status != nil {
				state, running, waiting, began = status.GetState(), telling.Optional(status.Running), telling.Optional(status.Waiting), status.GetSince()
			}
			fmt.Fprintf(t, "%s/%d\t%s\t%s\t%s\t%s\t%s\t%s\n", r.GetId(), rank, s.GetNode(), telling.CardNames(s.GetCards()), state,
				telling.Since(l.GetAt(), began), running, waiting)
		}
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, r := range l.GetReplicas() {
		for _, line := range telling.ReplicaTroubles(r) {
			fmt.Fprintf(w, "\n%s", line)
		}
	}
	_, err := fmt.Fprint(w, "\n")
	return err
}
