package cli

import (
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/llmgw/llmgw/fleet/apipb"
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
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", r.GetId(), r.GetModel(), stateWord(r.GetState()), since(l.GetAt(), r.GetSince()),
			orDash(r.GetFabric()), orDash(r.GetAddress()), optional(r.InFlight), idle(r.GetIdleSeconds()))
	}
	fmt.Fprintln(t, "\nSHARD\tNODE\tCARDS\tSTATE\tFOR\tRUNNING\tWAITING")
	for _, r := range l.GetReplicas() {
		for rank, s := range r.GetShards() {
			state, running, waiting, began := "not reported", "-", "-", (*timestamppb.Timestamp)(nil)
			if status := s.GetStatus(); status != nil {
				state, running, waiting, began = status.GetState(), optional(status.Running), optional(status.Waiting), status.GetSince()
			}
			fmt.Fprintf(t, "%s/%d\t%s\t%s\t%s\t%s\t%s\t%s\n", r.GetId(), rank, s.GetNode(), cardNames(s.GetCards()), state,
				since(l.GetAt(), began), running, waiting)
		}
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, r := range l.GetReplicas() {
		for _, line := range replicaTroubles(r) {
			fmt.Fprintf(w, "\n%s", line)
		}
	}
	_, err := fmt.Fprint(w, "\n")
	return err
}

// replicaTroubles are what a person should know of a replica and its shards.
func replicaTroubles(r *apipb.Replica) []string {
	var out []string
	if text := replicaTrouble(r.GetReason(), r.GetHeld(), r.GetLeaving()); text != "" {
		out = append(out, r.GetId()+text)
	}
	for rank, s := range r.GetShards() {
		status := s.GetStatus()
		if text := orText([]string{status.GetReason(), status.GetAdvice()}, ""); text != "" {
			out = append(out, fmt.Sprintf("%s/%d on %s: %s", r.GetId(), rank, s.GetNode(), text))
		}
		for _, line := range status.GetLines() {
			out = append(out, "  | "+line)
		}
		if held := status.GetMemoryHeld(); held != "" {
			out = append(out, fmt.Sprintf("%s/%d on %s: its memory is held: %s", r.GetId(), rank, s.GetNode(), held))
		}
	}
	return out
}

// cardNames are IDs of cards, or how many there are of them if they are long.
func cardNames(ids []string) string {
	const some = 24
	text := strings.Join(ids, ", ")
	if len(ids) > 1 && len(text) > some {
		return fmt.Sprint(len(ids))
	}
	return orDash(text)
}

// optional is a number that may not be known.
func optional(n *uint32) string {
	if n == nil {
		return "-"
	}
	return fmt.Sprint(*n)
}
