package cli

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/llmgw/llmgw/auth"
	"github.com/llmgw/llmgw/fleet/apipb"
)

type ctlLimitsCmd struct {
	ctlFlags
	ID string `arg:"" name:"key-id" help:"ID of the key, such as key_abcdefghijklmnopqrst."`
}

// Run says where the limits of a key stand.
func (c *ctlLimitsCmd) Run(ctx context.Context, streams Streams) error {
	client, err := c.client()
	if err != nil {
		return fmt.Errorf("ctl limits: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, ctlTime)
	defer cancel()
	resp, err := client.Limits.GetLimits(ctx, &apipb.GetLimitsRequest{KeyId: c.ID})
	if err != nil {
		return fmt.Errorf("ctl limits: %w", c.failed(err))
	}
	return show(&c.ctlFlags, streams.Out, resp, func(w io.Writer, l *apipb.GetLimitsResponse) error {
		t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		fmt.Fprintf(t, "key\t%s\n", l.GetKeyId())
		if l.GetLineage() != l.GetKeyId() {
			fmt.Fprintf(t, "lineage\t%s, with which all below is counted together\n", l.GetLineage())
		}
		if read := l.GetKeyReadAt(); read != nil {
			ago := l.GetAt().AsTime().Sub(read.AsTime()).Round(time.Second)
			fmt.Fprintf(t, "store\tdoes not answer; limits are those of %v ago, and whether the key was changed or ended since is not known\n", ago)
		}
		writeStanding(t, l)
		return t.Flush()
	})
}

// writeStanding prints where limits stand for people.
func writeStanding(t *tabwriter.Writer, l *apipb.GetLimitsResponse) {
	rate := func(name string, r *apipb.RateState, more string) {
		if r == nil {
			fmt.Fprintf(t, "%s\tno bound\n", name)
			return
		}
		text := fmt.Sprintf("%d of %d left in this minute", r.GetRemaining(), r.GetLimit())
		if d := r.GetReset_().AsDuration(); d > 0 {
			text += ", all of them in " + tenths(d)
		}
		fmt.Fprintf(t, "%s\t%s%s\n", name, text, more)
	}
	debt := ""
	if l.GetTokenDebt() > 0 {
		debt = fmt.Sprintf("; %d were used beyond that and come first, nothing passes before", l.GetTokenDebt())
	}
	rate("requests", l.GetRequests(), "")
	rate("tokens", l.GetTokens(), debt)
	if l.Concurrency == nil {
		fmt.Fprintf(t, "under way\t%d, no bound\n", l.GetInFlight())
	} else {
		fmt.Fprintf(t, "under way\t%d of %d\n", l.GetInFlight(), l.GetConcurrency())
	}
	b := l.GetBudget()
	switch {
	case b == nil:
		fmt.Fprintln(t, "budget\tno bound")
		return
	case !b.GetKnown():
		fmt.Fprintf(t, "budget\t%s%s; the server has not asked yet what is left of it\n", amount(b.GetLimitNanos()), periodText(b.GetStart(), b.GetEnd()))
		return
	}
	who, free := "", " free"
	if !b.GetWhole() {
		who, free = " by this server, others may spend too", " free here without asking for more"
	}
	fmt.Fprintf(t, "budget\t%s of %s spent%s%s; %s set aside for requests under way, %s%s\n", amount(b.GetSpentNanos()), amount(b.GetLimitNanos()), who,
		periodText(b.GetStart(), b.GetEnd()), amount(b.GetReservedNanos()), amount(max(b.GetFreeNanos(), 0)), free)
}

// amount is an amount of money for people.
func amount(nanos int64) string { return auth.FormatAmount(nanos) }
