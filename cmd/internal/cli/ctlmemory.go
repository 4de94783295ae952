package cli

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/llmgw/llmgw/fleet/apipb"
	"github.com/llmgw/llmgw/fleet/apipb/telling"
)

// writeMemory prints what memory a replica needs: how that is known, its parts, and
// how an estimate and what was measured compare.
func writeMemory(w io.Writer, m *apipb.MemoryNeed) error {
	if m == nil {
		return nil
	}
	stated := ""
	if m.StatedBytes != nil {
		stated = telling.Memory(m.StatedBytes) + " of each card, "
	}
	fmt.Fprintf(w, "\nmemory: %s%s\n", stated, m.GetWhy())
	switch {
	case m.GetWeights() != nil:
		fmt.Fprintf(w, "weights: %s\n", telling.Weights(m.GetWeights()))
	case m.GetWeightsMissing() != "":
		fmt.Fprintf(w, "weights: not known: %s\n", m.GetWeightsMissing())
	}
	if m.GetLooking() {
		fmt.Fprintln(w, "weights: nodes are looking, and not all have answered")
	}
	if m.HostBytes != nil {
		fmt.Fprintf(w, "of its machine's own memory a rank takes %s, as estimated\n", telling.Memory(m.HostBytes))
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprint(t, "\nCARDS\tSIZE")
	if len(m.GetClasses()) > 0 {
		for _, p := range m.GetClasses()[0].GetParts() {
			fmt.Fprintf(t, "\t%s", strings.ToUpper(p.GetName()))
		}
	}
	fmt.Fprintln(t, "\tSUM\tESTIMATE\tPEAK\tOFF\tPLANNED")
	for _, c := range m.GetClasses() {
		fmt.Fprintf(t, "%s\t%s", cmp.Or(c.GetClass(), "any"), telling.Memory(c.CardBytes))
		for _, p := range c.GetParts() {
			fmt.Fprintf(t, "\t%s", telling.Memory(p.Bytes))
		}
		fmt.Fprintf(t, "\t%s\t%s\t%s\t%s\t%s\n", telling.Memory(c.NeedBytes), telling.Memory(c.EstimateBytes), telling.Memory(c.PeakBytes), telling.MemoryOff(c), telling.PlannedMemory(m, c))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, c := range m.GetClasses() {
		why := c.GetWhy()
		if c.GetNever() != "" {
			why = "none can ever hold it: " + c.GetNever()
		}
		fmt.Fprintf(w, "  %s: %s\n", cmp.Or(c.GetClass(), "any"), why)
	}
	if len(m.GetClasses()) > 0 {
		for _, p := range m.GetClasses()[0].GetParts() {
			fmt.Fprintf(w, "  %s: %s\n", p.GetName(), p.GetHow())
		}
	}
	return nil
}
