package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/llmgw/llmgw/fleet/api"
	"github.com/llmgw/llmgw/fleet/apipb"
)

type auditCmd struct {
	keeperFlags
	From   string `default:"7d" placeholder:"WHEN" help:"From when on: how long ago, such as 7d or 12h, a day such as 2026-11-30, or a time such as 2026-11-30T12:00:00Z. Default ${default}."`
	To     string `placeholder:"WHEN" help:"Before when: as --from. Without it until now."`
	Actor  string `placeholder:"TEXT" help:"Only what that one did, such as cli:root@host."`
	Action string `placeholder:"TEXT" help:"Only that, such as key.revoke or node.drain."`
	Target string `placeholder:"ID" help:"Only what was done to that key, user, link or node, by its ID."`
	Limit  int    `default:"100" placeholder:"N" help:"At most so many rows, the newest. Default ${default}; 0 is all."`
	JSON   bool   `name:"json" help:"Print a JSON object a line, with the record before and after."`
}

// Validate makes a wrong number a matter of usage.
func (c *auditCmd) Validate() error {
	if c.Limit < 0 {
		return fmt.Errorf("--limit: %d; want 0 for all, or more", c.Limit)
	}
	return c.keeperFlags.Validate()
}

// Run says who changed what.
func (c *auditCmd) Run(ctx context.Context, streams Streams) error {
	req, err := c.request(time.Now())
	if err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	return c.with(ctx, streams, "audit", useExisting, func(k *keeper) error {
		write, flush := writeAudit(printable{streams.Out})
		if c.JSON {
			write, flush = writeAuditJSON(streams.Out), func() error { return nil }
		}
		for left := c.Limit; ; {
			req.PageSize = api.MaxPage
			if c.Limit > 0 {
				req.PageSize = uint32(min(left, api.MaxPage)) //nolint:gosec // at most MaxPage
			}
			page, err := k.audit.ListAudit(ctx, req)
			if err != nil {
				return k.failed(err)
			}
			for _, r := range page.GetRows() {
				if err := write(r); err != nil {
					return err
				}
			}
			left -= len(page.GetRows())
			if req.PageToken = page.GetNextPageToken(); req.GetPageToken() == "" || c.Limit > 0 && left <= 0 {
				return flush()
			}
		}
	})
}

// request is what the flags choose.
func (c *auditCmd) request(now time.Time) (*apipb.ListAuditRequest, error) {
	req := &apipb.ListAuditRequest{Actor: c.Actor, Action: c.Action, Target: c.Target}
	for _, t := range []struct {
		flag, text string
		to         **timestamppb.Timestamp
	}{{"from", c.From, &req.From}, {"to", c.To, &req.To}} {
		if t.text == "" {
			continue
		}
		at, err := parseWhen(t.text, now)
		if err != nil {
			return nil, fmt.Errorf("--%s: %w", t.flag, err)
		}
		*t.to = timestamppb.New(at)
	}
	if req.GetFrom() != nil && req.GetTo() != nil && !req.GetTo().AsTime().After(req.GetFrom().AsTime()) {
		return nil, fmt.Errorf("--to %s is not after --from %s", c.To, c.From)
	}
	return req, nil
}

// writeAudit prints a line a change, with what became of the record.
func writeAudit(w io.Writer) (write func(*apipb.AuditRow) error, flush func() error) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	rows := 0
	write = func(r *apipb.AuditRow) error {
		if rows++; rows == 1 {
			fmt.Fprintln(t, "AT\tACTOR\tACTION\tTARGET\tCHANGED")
		}
		_, err := fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", r.GetAt().AsTime().Format(time.RFC3339), r.GetActor(), r.GetAction(), r.GetTarget(), changed(r))
		return err
	}
	return write, func() error {
		if rows == 0 {
			_, err := fmt.Fprintln(w, "nothing was changed in that time, as far as it was asked for")
			return err
		}
		return t.Flush()
	}
}

// changed are the keys of a record whose values differ.
func changed(r *apipb.AuditRow) string {
	var before, after map[string]json.RawMessage
	if json.Unmarshal([]byte(r.GetBefore()), &before) != nil || json.Unmarshal([]byte(r.GetAfter()), &after) != nil {
		return "-" // one of them is not there, or no object
	}
	var names []string
	for name := range after {
		if string(before[name]) != string(after[name]) {
			names = append(names, name)
		}
	}
	for name := range before {
		if _, kept := after[name]; !kept {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return "-"
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// writeAuditJSON prints an object a line.
func writeAuditJSON(w io.Writer) func(*apipb.AuditRow) error {
	type row struct {
		ID        string          `json:"id"`
		At        time.Time       `json:"at"`
		Actor     string          `json:"actor"`
		Action    string          `json:"action"`
		Target    string          `json:"target"`
		Before    json.RawMessage `json:"before,omitempty"`
		After     json.RawMessage `json:"after,omitempty"`
		RequestID string          `json:"request_id,omitempty"`
	}
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return func(r *apipb.AuditRow) error {
		return enc.Encode(row{
			r.GetId(), r.GetAt().AsTime(), r.GetActor(), r.GetAction(), r.GetTarget(),
			json.RawMessage(r.GetBefore()), json.RawMessage(r.GetAfter()), r.GetRequestId(),
		})
	}
}
