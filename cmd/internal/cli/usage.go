package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/llmgw/llmgw/auth/usage"
	"github.com/llmgw/llmgw/fleet/apipb"
)

type usageCmd struct {
	keeperFlags
	By      *string `xor:"form" placeholder:"LIST" help:"What the lines of the table are of: any of day, key, owner and model, with commas between. Default day,key,model."`
	From    string  `default:"7d" placeholder:"WHEN" help:"From when on: how long ago, such as 7d (days of UTC, today's among them) or 12h, a day such as 2026-11-30, or a time such as 2026-11-30T12:00:00Z. Default ${default}."`
	To      string  `placeholder:"WHEN" help:"Before when: as --from. Without it until now."`
	Key     string  `placeholder:"ID" help:"Only that key's, by its ID."`
	Lineage string  `placeholder:"ID" help:"Only that of a key and of those that replaced it, by the ID of the first."`
	Owner   string  `placeholder:"TEXT" help:"Only that owner's."`
	Model   string  `placeholder:"NAME" help:"Only that model's, by its canonical name."`
	CSV     bool    `name:"csv" xor:"form" help:"Export a row a request instead of the table, as CSV."`
	JSON    bool    `name:"json" xor:"form" help:"Export a row a request instead of the table, as a JSON object a line."`
}

// Run says what was used.
func (c *usageCmd) Run(ctx context.Context, streams Streams) error {
	filter, hours, err := c.filter(time.Now())
	if err != nil {
		return fmt.Errorf("usage: %w", err)
	}
	columns := "day,key,model"
	if c.By != nil {
		columns = *c.By
	}
	by, err := parseBy(columns)
	if err != nil {
		return fmt.Errorf("usage: --by: %w", err)
	}
	return c.with(ctx, streams, "usage", useExisting, func(k *keeper) error {
		switch {
		case c.CSV:
			return usage.WriteCSV(streams.Out, k.rows(ctx, filter))
		case c.JSON:
			return usage.WriteJSON(streams.Out, k.rows(ctx, filter))
		}
		t, err := k.sums(ctx, filter, hours, by)
		if err == nil && len(t.lines) == 0 {
			err = k.unknown(ctx, filter)
		}
		if err != nil {
			return err
		}
		return t.write(streams.Out)
	})
}

// filter is what the flags choose, and whether hours must be added up since the
// time is not one of whole days.
func (c *usageCmd) filter(now time.Time) (f *apipb.UsageFilter, hours bool, err error) {
	f = &apipb.UsageFilter{KeyId: c.Key, Lineage: c.Lineage, Owner: c.Owner, Model: c.Model}
	for _, t := range []struct {
		flag, text string
		to         **timestamppb.Timestamp
	}{{"from", c.From, &f.From}, {"to", c.To, &f.To}} {
		if t.text == "" {
			continue
		}
		at, err := parseWhen(t.text, now)
		if err != nil {
			return nil, false, fmt.Errorf("--%s: %w", t.flag, err)
		}
		*t.to = timestamppb.New(at)
		hours = hours || !at.Equal(at.Truncate(24*time.Hour))
	}
	if f.From != nil && f.To != nil && !f.To.AsTime().After(f.From.AsTime()) {
		return nil, false, fmt.Errorf("--to %s is not after --from %s", c.To, c.From)
	}
	return f, hours, nil
}

// parseWhen reads a time, a day, or how long ago something was; whole days ago
// are days of UTC, of which today's is one.
func parseWhen(text string, now time.Time) (time.Time, error) {
	now = now.UTC()
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		if t, err := time.Parse(layout, text); err == nil {
			return t.UTC(), nil
		}
	}
	ago, err := parseTime(text)
	if err != nil {
		return time.Time{}, errors.New(strconv.Quote(text) + ": want how long ago, such as 7d or 12h, a day such as 2026-11-30, or a time such as 2026-11-30T12:00:00Z")
	}
	if strings.HasSuffix(text, "d") {
		return now.Truncate(24 * time.Hour).Add(24*time.Hour - max(ago, 24*time.Hour)), nil
	}
	return now.Add(-ago), nil
}

// parseTime reads a length of time, which may be in days.
func parseTime(text string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		if n, err := strconv.ParseUint(days, 10, 16); err == nil {
			return time.Duration(n) * 24 * time.Hour, nil //nolint:gosec // at most 65535
		}
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return 0, fmt.Errorf("%q; want such as 7d, 24h or 30m", text)
	}
	return d, nil
}

// unknown is an error if there is not what a filter names, so that a slip is not
// taken for a key that used nothing.
func (k *keeper) unknown(ctx context.Context, f *apipb.UsageFilter) error {
	if id := f.GetKeyId(); id != "" {
		if _, err := k.keys.GetKey(ctx, &apipb.GetKeyRequest{Id: id}); err != nil {
			return fmt.Errorf("--key: %w", k.failed(err))
		}
	}
	for _, t := range []struct {
		flag, value string
		only        *apipb.UsageFilter
		what        string
	}{
		{"owner", f.GetOwner(), &apipb.UsageFilter{Owner: f.GetOwner()}, "no key has that owner, and nothing that is kept was used by one"},
		{"model", f.GetModel(), &apipb.UsageFilter{Model: f.GetModel()}, "no request that is kept was served by a model of that name; want its canonical name, no alias"},
	} {
		if t.value == "" {
			continue
		}
		ever, err := k.usage.ListUsageSums(ctx, &apipb.ListUsageSumsRequest{Grain: apipb.UsageGrain_USAGE_GRAIN_DAY, Filter: t.only})
		if err != nil {
			return k.failed(err)
		}
		if len(ever.GetSums()) > 0 {
			continue
		}
		if t.flag == "owner" {
			list, err := k.keys.ListKeys(ctx, &apipb.ListKeysRequest{Owner: t.value, PageSize: 1})
			if err != nil {
				return k.failed(err)
			}
			if len(list.GetKeys()) > 0 {
				continue
			}
		}
		return fmt.Errorf("--%s: %q: %s", t.flag, t.value, t.what)
	}
	return nil
}

// rows are the rows that a filter chooses, page by page. After an error there
// are no more.
func (k *keeper) rows(ctx context.Context, f *apipb.UsageFilter) iter.Seq2[usage.Row, error] {
	return func(yield func(usage.Row, error) bool) {
		for req := (&apipb.ListUsageRequest{Filter: f}); ; {
			page, err := k.usage.ListUsage(ctx, req)
			if err != nil {
				yield(usage.Row{}, k.failed(err))
				return
			}
			for _, r := range page.GetRows() {
				if !yield(exported(r), nil) {
					return
				}
			}
			if req.PageToken = page.GetNextPageToken(); req.PageToken == "" {
				return
			}
		}
	}
}

// exported is a row of the API as package usage exports it.
func exported(r *apipb.UsageRow) usage.Row {
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	out := usage.Row{
		RequestID: r.GetRequestId(), At: r.GetAt().AsTime(), KeyID: r.GetKeyId(), Owner: r.GetOwner(), Asked: r.GetModelAsked(), Model: r.GetModel(),
		Endpoint: r.GetEndpoint(), Provider: r.GetProvider(), Path: r.GetPath(), Router: r.GetRouter(), Stream: r.GetStream(),
		Status: int(r.GetStatus()), Result: r.GetResult(), Code: r.GetCode(), Retries: int(r.GetRetries()), LatencyMS: ms(r.GetLatency().AsDuration()),
		Input: r.InputTokens, CachedInput: r.CachedInputTokens, Output: r.OutputTokens, Reasoning: r.ReasoningTokens,
		TokensSource: r.GetTokensSource(), CostNanos: r.CostNanos,
	}
	if r.GetTtft() != nil {
		out.TTFTMS = new(ms(r.GetTtft().AsDuration()))
	}
	return out
}

// column is what a line of the table is of.
type column struct {
	head string
	of   func(s *apipb.UsageSum) string
}

func parseBy(text string) ([]column, error) {
	known := map[string]column{
		"day":   {"DAY", func(s *apipb.UsageSum) string { return s.GetStart().AsTime().Format(time.DateOnly) }},
		"key":   {"KEY", (*apipb.UsageSum).GetKeyId},
		"owner": {"OWNER", (*apipb.UsageSum).GetOwner},
		"model": {"MODEL", (*apipb.UsageSum).GetModel},
	}
	var out []column
	for name := range strings.SplitSeq(text, ",") {
		c, ok := known[name]
		if !ok {
			return nil, fmt.Errorf("%q; want one or more of %s, with commas between", name, strings.Join(slices.Sorted(maps.Keys(known)), ", "))
		}
		if slices.ContainsFunc(out, func(o column) bool { return o.head == c.head }) {
			return nil, fmt.Errorf("%q is there twice", name)
		}
		out = append(out, c)
	}
	return out, nil
}

// usageTable is what was used, by some columns.
type usageTable struct {
	by    []column
	lines map[string]*usageLine // by what the columns say, NUL between
}

type usageLine struct {
	labels []string
	sum    *apipb.UsageSum
}

// sums adds up what a filter chooses.
func (k *keeper) sums(ctx context.Context, f *apipb.UsageFilter, hours bool, by []column) (*usageTable, error) {
	t := &usageTable{by: by, lines: make(map[string]*usageLine)}
	req := &apipb.ListUsageSumsRequest{Grain: apipb.UsageGrain_USAGE_GRAIN_DAY, Filter: f}
	if hours {
		// Sums are of whole hours: that in which the time is counts.
		req.Grain = apipb.UsageGrain_USAGE_GRAIN_HOUR
		if f.From != nil {
			f.From = timestamppb.New(f.GetFrom().AsTime().Truncate(time.Hour))
		}
	}
	for {
		page, err := k.usage.ListUsageSums(ctx, req)
		if err != nil {
			return nil, k.failed(err)
		}
		for _, s := range page.GetSums() {
			t.add(s)
		}
		if req.PageToken = page.GetNextPageToken(); req.PageToken == "" {
			return t, nil
		}
	}
}

func (t *usageTable) add(s *apipb.UsageSum) {
	labels := make([]string, 0, len(t.by))
	for _, c := range t.by {
		labels = append(labels, c.of(s))
	}
	id := strings.Join(labels, "\x00")
	if t.lines[id] == nil {
		t.lines[id] = &usageLine{labels: labels, sum: &apipb.UsageSum{}}
	}
	addTo(t.lines[id].sum, s)
}

func addTo(sum, s *apipb.UsageSum) {
	sum.Requests += s.GetRequests()
	sum.Failed += s.GetFailed()
	sum.InputTokens += s.GetInputTokens()
	sum.CachedInputTokens += s.GetCachedInputTokens()
	sum.OutputTokens += s.GetOutputTokens()
	sum.ReasoningTokens += s.GetReasoningTokens()
	sum.CostNanos += s.GetCostNanos()
}

// write prints the table, and what it comes to.
func (t *usageTable) write(w io.Writer) error {
	if len(t.lines) == 0 {
		_, err := fmt.Fprintln(w, "Nothing was used in that time.")
		return err
	}
	lines := slices.SortedFunc(maps.Values(t.lines), func(a, b *usageLine) int { return slices.Compare(a.labels, b.labels) })
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, c := range t.by {
		fmt.Fprintf(out, "%s\t", c.head)
	}
	fmt.Fprintln(out, "REQUESTS\tFAILED\tINPUT\tCACHED\tOUTPUT\tCOST")
	total := &apipb.UsageSum{}
	line := func(labels []string, s *apipb.UsageSum) {
		for _, l := range labels {
			fmt.Fprintf(out, "%s\t", cell(l))
		}
		fmt.Fprintf(out, "%d\t%d\t%d\t%d\t%d\t%s\n", s.GetRequests(), s.GetFailed(), s.GetInputTokens(), s.GetCachedInputTokens(), s.GetOutputTokens(), amount(s.GetCostNanos()))
	}
	for _, l := range lines {
		line(l.labels, l.sum)
		addTo(total, l.sum)
	}
	if len(lines) > 1 {
		labels := make([]string, len(t.by))
		labels[0] = "total"
		for i := range labels[1:] {
			labels[i+1] = " "
		}
		line(labels, total)
	}
	return out.Flush()
}
