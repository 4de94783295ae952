package twin

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"
)

// WriteText prints the reports of one trace as a table, a policy a line, and a
// second one of tenants and bands where there are any. What is not known is a
// dash. Errors are those of w.
func WriteText(w io.Writer, reports []*Report) error {
	if len(reports) == 0 {
		return nil
	}
	r := reports[0]
	if _, err := fmt.Fprintf(w, "%s: %s, %s, seed %d\n\n", r.Trace, count(r.Requests, "request"), count(r.Engines, "engine"), r.Seed); err != nil {
		return err
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "policy\tspeed-up\tdone\trefused\tTTFT p50\tp90\tp99\tTPOT p50\tE2E p50\thits\tagreement\tgood\tgoodput/s\tload peak\twall")
	for _, r := range reports {
		fmt.Fprintf(t, "%s\t%s\t%d\t%d\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%.1fs\n",
			r.Policy, number(positive(r.Speedup), "%.3g"), r.Completed, r.Refused.Total(),
			span(r.TTFTP50), span(r.TTFTP90), span(r.TTFTP99), span(r.TPOTP50), span(r.E2EP50),
			number(r.HitShare, "%.3f"), number(r.Agreement, "%.3f"), number(r.GoodShare, "%.3f"), number(r.GoodputRPS, "%.2f"),
			number(r.LoadPeak, "%.2f"), r.WallS)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if len(r.Tenants) == 0 {
		return nil
	}
	fmt.Fprintln(t, "\npolicy\tof\tname\tdone\trefused\tTTFT p50\tp90\tgood\tfairness")
	for _, r := range reports {
		for _, list := range []struct {
			of    string
			parts []Part
			jain  *float64
		}{{"tenant", r.Tenants, r.TenantFairness}, {"band", r.Bands, r.BandFairness}} {
			for _, p := range list.parts {
				fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%d\t%s\t%s\t%s\t%s\n", r.Policy, list.of, p.Name, p.Completed, p.Refused,
					span(p.TTFTP50), span(p.TTFTP90), number(p.GoodShare, "%.3f"), number(list.jain, "%.3f"))
			}
		}
	}
	return t.Flush()
}

func positive(v float64) *float64 {
	if v <= 0 {
		return nil
	}
	return &v
}

func number(v *float64, format string) string {
	if v == nil {
		return "-"
	}
	return fmt.Sprintf(format, *v)
}

func span(ms *float64) string {
	switch {
	case ms == nil:
		return "-"
	case *ms < 1000:
		return fmt.Sprintf("%.1fms", *ms)
	}
	return time.Duration(*ms * float64(time.Millisecond)).Round(10 * time.Millisecond).String()
}

func count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
