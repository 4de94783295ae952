package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/llmgw/llmgw/fleet/api"
	"github.com/llmgw/llmgw/fleet/apipb"
)

type explainRouteCmd struct {
	ctlFlags
	Body    string `placeholder:"FILE" help:"File with the request's body, JSON as a client sends it; without it, or with -, standard input."`
	Path    string `default:"/v1/chat/completions" help:"Path of the request. Default ${default}."`
	Session string `placeholder:"KEY" help:"What the session header (router.session_header) would say."`
	Band    string `placeholder:"NAME" help:"What the band header (admission.band_header) would say."`
}

// Run asks a server and prints its answer.
func (c *explainRouteCmd) Run(ctx context.Context, streams Streams) error {
	body, err := input(streams, c.Body, "the request's body", api.MaxBodyBytes)
	if err != nil {
		return fmt.Errorf("ctl explain-route: %w", err)
	}
	if len(strings.TrimSpace(string(body))) == 0 {
		return errors.New(`ctl explain-route: the request's body is empty; want JSON such as {"model": "m", "messages": []}`)
	}
	client, err := c.client()
	if err != nil {
		return fmt.Errorf("ctl explain-route: %w", err)
	}
	ctx, cancel := withTime(ctx)
	defer cancel()
	req := &apipb.ExplainRouteRequest{Path: &c.Path, Body: body}
	if c.Session != "" {
		req.Session = &c.Session
	}
	if c.Band != "" {
		req.Band = &c.Band
	}
	resp, err := client.Routing.ExplainRoute(ctx, req)
	if err != nil {
		return fmt.Errorf("ctl explain-route: %w", c.failed(err))
	}
	return show(&c.ctlFlags, streams.Out, resp, writeRoute)
}

// writeRoute prints an answer for people.
func writeRoute(w io.Writer, x *apipb.ExplainRouteResponse) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, s := range x.GetSummary() {
		fmt.Fprintln(t, s)
	}
	fmt.Fprintf(t, "\nrequest\t%s\n", requestText(x.GetRequest()))
	fmt.Fprintf(t, "retries\t%d a model, %d left of the router's budget\n", x.GetRetries(), x.GetRetriesLeft())
	if x.GetCharged() {
		fmt.Fprint(t, "limits\twould be checked; they were not\n")
	}
	for i, turn := range x.GetTurns() {
		fmt.Fprintf(t, "\n%d. %s\t%s\n", i+1, turn.GetModel(), turn.GetWhy())
		if turn.Profile != nil {
			fmt.Fprintf(t, "profile\t%s, %s\n", turn.GetProfile(), cmp.Or(turn.GetDecision().GetPicker(), "no picker"))
		}
		if a := turn.GetAdmission(); a != nil {
			fmt.Fprintf(t, "admission\t%s\n", admissionText(a))
		}
		writeDecision(t, turn.GetDecision())
	}
	return t.Flush()
}

func requestText(r *apipb.RouteRequest) string {
	parts := []string{r.GetPath(), "model " + r.GetModel(), fmt.Sprintf("%d B of prompt", r.GetPromptBytes())}
	if r.MaxTokens != nil {
		parts = append(parts, fmt.Sprintf("at most %d tokens", r.GetMaxTokens()))
	}
	if r.GetStream() {
		parts = append(parts, "streamed")
	}
	if r.GetSession() {
		parts = append(parts, "with a session")
	}
	if r.PinnedEndpoint != nil {
		parts = append(parts, "only at "+r.GetPinnedEndpoint())
	}
	return strings.Join(parts, ", ")
}

var fates = map[apipb.AdmissionFate]string{ //nolint:gochecknoglobals // constant table
	apipb.AdmissionFate_ADMISSION_FATE_PASSES: "runs at once",
	apipb.AdmissionFate_ADMISSION_FATE_HELD:   "waits: above its ceiling",
	apipb.AdmissionFate_ADMISSION_FATE_QUEUED: "waits: others go first",
	apipb.AdmissionFate_ADMISSION_FATE_FULL:   "refused: its queue is full",
	apipb.AdmissionFate_ADMISSION_FATE_CLOSED: "refused: shutting down",
}

func admissionText(a *apipb.AdmissionOutlook) string {
	parts := []string{
		cmp.Or(fates[a.GetFate()], a.GetFate().String()),
		fmt.Sprintf("band %s, priority %d, ceiling %.2f", a.GetBand(), a.GetPriority(), a.GetSaturationCeiling()),
	}
	if a.Saturation == nil {
		parts = append(parts, "saturation unknown")
	} else {
		text := fmt.Sprintf("saturation %.2f", a.GetSaturation())
		if a.Occupancy != nil {
			text += fmt.Sprintf(" (occupancy %.2f, queue %.2f, kv %.2f)", a.GetOccupancy(), a.GetQueue(), a.GetKv())
		}
		parts = append(parts, text)
	}
	return strings.Join(append(parts,
		fmt.Sprintf("%d run, %d of the band wait, %d ahead", a.GetRunning(), a.GetWaiting(), a.GetAhead())), "; ")
}

// shownEndpoints bounds the rows for people; a program gets all.
const shownEndpoints = 20

func writeDecision(t *tabwriter.Writer, d *apipb.RouteDecision) {
	if d == nil {
		return
	}
	if d.NoEndpoint != nil {
		text := d.GetNoEndpoint()
		if d.GetRetryAfter() != nil {
			text += "; the first breaker lets one through in " + tenths(d.GetRetryAfter().AsDuration())
		}
		fmt.Fprintf(t, "nowhere\t%s\n", text)
	}
	if d.Sample != nil {
		fmt.Fprintf(t, "pool\t%d endpoints, of which each decision looks at %d and those that hold the prompt or the session\n", d.GetPool(), d.GetSample())
	}
	if d.ChanceDraws != nil {
		fmt.Fprintf(t, "chances\testimated from %d decisions\n", d.GetChanceDraws())
	}
	rows := slices.Clone(d.GetCandidates())
	slices.SortStableFunc(rows, func(a, b *apipb.RouteCandidate) int {
		return cmp.Or(cmp.Compare(b.GetChance(), a.GetChance()), cmp.Compare(b.GetScore(), a.GetScore()))
	})
	if len(rows) > 0 {
		fmt.Fprint(t, "\n  ENDPOINT\tCHANCE\tSCORE\tWEIGHT\tIN FLIGHT\tRUNNING\tWAITING\tKV\tAGE\tFAILURES\tPREFIX\n")
	}
	for _, c := range rows[:min(len(rows), shownEndpoints)] {
		fmt.Fprintf(t, "  %s\t%s\t%.3f\t%g\t%d\t%s\t%s\t%s\t%s\t%.2g\t%s\n", c.GetEndpoint(), wholePercent(c.GetChance()), c.GetScore(), c.GetWeight(),
			c.GetInFlight(), reading(c.Running), reading(c.Waiting), ratio(c.KvUsedRatio), age(c), c.GetRecentFailures(), held(d, c.GetPrefix()))
	}
	writeVotes(t, rows[:min(len(rows), shownEndpoints)])
	for i, drop := range d.GetDropped() {
		if i == 0 {
			fmt.Fprint(t, "\n  DROPPED\tBY\n")
		}
		if i == shownEndpoints {
			break
		}
		text := drop.GetFilter()
		if b := drop.GetBreaker(); b != "" && b != "closed" {
			text += ": " + b
		}
		if drop.GetAdmitsIn() != nil {
			text += ", lets one through in " + tenths(drop.GetAdmitsIn().AsDuration())
		}
		fmt.Fprintf(t, "  %s\t%s\n", drop.GetEndpoint(), text)
	}
	if more := max(len(rows)-shownEndpoints, 0) + max(len(d.GetDropped())-shownEndpoints, 0); more > 0 {
		fmt.Fprintf(t, "\n  and %d more, which --json shows\n", more)
	}
}

// writeVotes prints the votes of the candidates in a table of its own, the
// weights in its head.
func writeVotes(t *tabwriter.Writer, rows []*apipb.RouteCandidate) {
	if len(rows) == 0 || len(rows[0].GetVotes()) == 0 {
		return
	}
	fmt.Fprint(t, "\n  VOTES")
	for _, v := range rows[0].GetVotes() {
		fmt.Fprintf(t, "\t%s*%g", v.GetScorer(), v.GetWeight())
	}
	fmt.Fprintln(t)
	for _, c := range rows {
		fmt.Fprintf(t, "  %s", c.GetEndpoint())
		for _, v := range c.GetVotes() {
			fmt.Fprintf(t, "\t%.3f", v.GetVote())
		}
		fmt.Fprintln(t)
	}
}

// unknown stands for what nobody has said.
const unknown = "?"

func reading(v *float64) string {
	if v == nil {
		return unknown
	}
	return strconv.FormatFloat(*v, 'g', 4, 64)
}

func ratio(v *float64) string {
	if v == nil {
		return unknown
	}
	return wholePercent(*v)
}

func wholePercent(v float64) string { return fmt.Sprintf("%.0f%%", 100*v) }

func tenths(d time.Duration) string { return d.Round(time.Second / 10).String() }

func age(c *apipb.RouteCandidate) string {
	switch {
	case c.GetLoadAge() == nil:
		return unknown
	case c.GetStale():
		return tenths(c.GetLoadAge().AsDuration()) + " stale"
	}
	return tenths(c.GetLoadAge().AsDuration())
}

func held(d *apipb.RouteDecision, p *apipb.HeldPrefix) string {
	if p == nil {
		return "-"
	}
	text := fmt.Sprintf("%d of %d B", p.GetBytes(), d.GetPromptBytes())
	if p.GetExact() {
		text += ", by the engine's word"
	}
	if p.GetYields() {
		text += ", too busy"
	}
	return text
}
