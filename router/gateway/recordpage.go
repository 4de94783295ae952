package gateway

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/llmgw/llmgw/router/gateway/flight"
)

// DecisionsHandler serves [Gateway.Decisions] to operators: GET with the
// parameters n, model and request, as JSON or, where Accept or format=text asks
// for it, as text. It names tenants, request ids and endpoints, so it belongs on a
// listener of the operator's own.
func (g *Gateway) DecisionsHandler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		values := r.URL.Query()
		q := flight.Query{Model: values.Get("model"), Request: values.Get("request")}
		format := values.Get("format")
		if text := values.Get("n"); text != "" {
			n, err := strconv.Atoi(text)
			if err != nil || n < 1 || n > flight.MaxRecent {
				http.Error(w, fmt.Sprintf("n: %q is no number of decisions; want 1 to %d", text, flight.MaxRecent), http.StatusBadRequest)
				return
			}
			q.N = n
		}
		switch format {
		case "":
			if strings.HasPrefix(r.Header.Get("Accept"), "text/plain") {
				format = "text"
			}
		case "text", "json":
		default:
			http.Error(w, fmt.Sprintf("format: %q is unknown; want json or text", format), http.StatusBadRequest)
			return
		}
		if g.recorder == nil || !g.recorder.Remembers() {
			http.Error(w, "recent decisions are not kept: recorder.ring_bytes is 0", http.StatusNotFound)
			return
		}
		list := g.Decisions(q)
		w.Header().Set("Cache-Control", "no-store")
		if format == "text" {
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			writeDecisions(w, list)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		_ = enc.Encode(struct { // an error is the client's end
			Decisions []flight.Recent `json:"decisions"`
		}{list})
	})
}

// writeDecisions writes each decision in a few lines. Errors are those of w, which
// has nobody to tell.
func writeDecisions(w io.Writer, list []flight.Recent) {
	if len(list) == 0 {
		fmt.Fprintln(w, "none is remembered")
	}
	for i := range list {
		d := &list[i]
		x := d.Decision
		fmt.Fprintf(w, "%s  %s  %s", x.At.Format("2006-01-02T15:04:05.000Z07:00"), d.Request, x.Model)
		if d.Attempt > 1 {
			fmt.Fprintf(w, "  attempt %d", d.Attempt)
		}
		if d.Pinned {
			fmt.Fprint(w, "  pinned")
		}
		fmt.Fprintf(w, "\n  %s\n", x)
		switch o := d.Outcome; {
		case o == nil:
			fmt.Fprint(w, "  under way\n\n")
		default:
			fmt.Fprintf(w, "  %s\n\n", outcomeText(o))
		}
	}
}

// outcomeText is what became of a request in one line.
func outcomeText(o *flight.RecentOutcome) string {
	var b strings.Builder
	b.WriteString(o.Result)
	if o.Status != 0 {
		fmt.Fprintf(&b, " %d", o.Status)
	}
	if o.Code != "" {
		fmt.Fprintf(&b, " %s", o.Code)
	}
	if o.Endpoint != "" {
		fmt.Fprintf(&b, " by %s", o.Endpoint)
	}
	seconds := func(s float64) time.Duration {
		return time.Duration(s * float64(time.Second)).Round(100 * time.Microsecond)
	}
	if o.TTFTSeconds != nil {
		fmt.Fprintf(&b, ", first token after %v", seconds(*o.TTFTSeconds))
	}
	fmt.Fprintf(&b, ", took %v, %d tried", seconds(o.Seconds), o.Attempts)
	for _, t := range []struct {
		name string
		n    *int64
	}{{"prompt", o.PromptTokens}, {"cached", o.CachedTokens}, {"output", o.OutputTokens}} {
		if t.n != nil {
			fmt.Fprintf(&b, ", %s tokens %d", t.name, *t.n)
		}
	}
	return b.String()
}
