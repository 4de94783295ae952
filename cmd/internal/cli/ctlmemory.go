package cli

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/llmgw/llmgw/fleet/apipb"
)

// writeMemory prints what memory a replica needs: how that is known, its parts, and
// how an estimate and what was measured compare.
func writeMemory(w io.Writer, m *apipb.MemoryNeed) error {
	if m == nil {
		return nil
	}
	stated := ""
	if m.StatedBytes != nil {
		stated = memoryText(m.StatedBytes) + " of each card, "
	}
	fmt.Fprintf(w, "\nmemory: %s%s\n", stated, m.GetWhy())
	switch {
	case m.GetWeights() != nil:
		fmt.Fprintf(w, "weights: %s\n", weightsText(m.GetWeights()))
	case m.GetWeightsMissing() != "":
		fmt.Fprintf(w, "weights: not known: %s\n", m.GetWeightsMissing())
	}
	if m.GetLooking() {
		fmt.Fprintln(w, "weights: nodes are looking, and not all have answered")
	}
	if m.HostBytes != nil {
		fmt.Fprintf(w, "of its machine's own memory a rank takes %s, as estimated\n", memoryText(m.HostBytes))
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
		fmt.Fprintf(t, "%s\t%s", cmp.Or(c.GetClass(), "any"), memoryText(c.CardBytes))
		for _, p := range c.GetParts() {
			fmt.Fprintf(t, "\t%s", memoryText(p.Bytes))
		}
		fmt.Fprintf(t, "\t%s\t%s\t%s\t%s\t%s\n", memoryText(c.NeedBytes), memoryText(c.EstimateBytes), memoryText(c.PeakBytes), offText(c), planned(m, c))
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

// planned is what is planned with on cards of a class.
func planned(m *apipb.MemoryNeed, c *apipb.ClassMemory) string {
	switch {
	case m.StatedBytes != nil:
		return memoryText(m.StatedBytes)
	case c.GetNever() != "":
		return "never"
	case c.Bytes != nil:
		return memoryText(c.Bytes)
	case c.GetClass() == "" && c.CardBytes == nil && len(m.GetClasses()) == 1:
		return "-"
	}
	return "whole card"
}

func offText(c *apipb.ClassMemory) string {
	if c.OffRatio == nil {
		return "-"
	}
	return fmt.Sprintf("%+.0f%%", 100*c.GetOffRatio())
}

// weightsText says what weights are, and where.
func weightsText(s *apipb.WeightsSeen) string {
	var what strings.Builder
	what.WriteString(s.GetFormat())
	for _, word := range []string{s.GetArchitecture(), s.GetQuantization()} {
		if word != "" {
			what.WriteString(", " + word)
		}
	}
	text := fmt.Sprintf("%s, %s in %s, at %s on %s", what.String(), memoryText(new(s.GetBytes())), several(s.GetFiles(), "file"), s.GetPath(), s.GetNode())
	if n := s.GetNodes(); n > 1 {
		text += fmt.Sprintf(" and %s more", several(n-1, "node"))
	}
	if n := s.GetOtherNodes(); n > 0 {
		text += fmt.Sprintf("; others of that name are on %s, and the largest count", several(n, "node"))
	}
	return text
}

// memoryText writes a size, or that it is not known.
func memoryText(n *uint64) string {
	switch {
	case n == nil:
		return "-"
	case *n == 0:
		return "0"
	case *n < 1<<20:
		return fmt.Sprintf("%.1f KiB", float64(*n)/(1<<10))
	case *n < 1<<30:
		return fmt.Sprintf("%.1f MiB", float64(*n)/(1<<20))
	}
	return fmt.Sprintf("%.2f GiB", float64(*n)/(1<<30))
}
