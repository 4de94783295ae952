package controlplane

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/fleet/control"
	"github.com/llmgw/llmgw/placement"
	"github.com/llmgw/llmgw/placement/reconcile"
	"github.com/llmgw/llmgw/storage"
)

// orderTimeout bounds the wait for a node's answer to one order.
const orderTimeout = 30 * time.Second

// maxReason bounds why a replica is as it is, as it is stored.
const maxReason = 256

// dispatcher carries a reconciler's orders to nodes and to the store, as
// [reconcile.Dispatcher] and [reconcile.Rows].
type dispatcher struct {
	plane     *control.Plane
	store     Store
	authority *authority
	timeout   time.Duration // of one question to the store
	log       *slog.Logger
}

// Dispatch implements [reconcile.Dispatcher].
func (d *dispatcher) Dispatch(ctx context.Context, o reconcile.Order) reconcile.Result {
	switch o.Kind {
	case reconcile.PutRow, reconcile.RemoveRow:
		return d.row(ctx, o)
	case reconcile.Start, reconcile.Drain, reconcile.Stop, reconcile.Sleep, reconcile.Wake:
	}
	ctx, cancel := context.WithTimeout(ctx, orderTimeout)
	defer cancel()
	var (
		answer control.Answer
		err    error
	)
	switch o.Kind {
	case reconcile.Start:
		answer, err = d.plane.Start(ctx, o.Node, *o.Spec)
	case reconcile.Drain:
		answer, err = d.plane.Drain(ctx, o.Node, o.Shard, o.Generation)
	case reconcile.Stop:
		answer, err = d.plane.Stop(ctx, o.Node, control.Stop{Shard: o.Shard, Generation: o.Generation, Reason: o.Reason})
	case reconcile.Sleep:
		answer, err = d.plane.Sleep(ctx, o.Node, o.Shard, o.Generation)
	case reconcile.Wake:
		answer, err = d.plane.Wake(ctx, o.Node, o.Shard, o.Generation)
	case reconcile.PutRow, reconcile.RemoveRow:
	}
	res := outcome(err)
	res.Order, res.Absent = o, err == nil && answer.Status == nil
	return res
}

// outcome is what an error of the streams' side means for an order.
func outcome(err error) reconcile.Result {
	if err == nil {
		return reconcile.Result{Outcome: reconcile.Done}
	}
	res := reconcile.Result{Outcome: reconcile.Again, Reason: err.Error()}
	if refused, is := errors.AsType[*control.RefusedError](err); is {
		res.Reason, res.Advice = refused.Reason, refused.Advice
		if !refused.Again {
			res.Outcome = reconcile.Refused
		}
		return res
	}
	if stale, is := errors.AsType[*control.StaleError](err); is {
		if stale.Term > stale.SentTerm {
			return res // a term above it is begun, and the order is given again
		}
		res.Outcome = reconcile.Refused
		return res
	}
	switch {
	case errors.Is(err, control.ErrUnanswered):
		res.Outcome = reconcile.Unknown
	case errors.Is(err, control.ErrNotLeader):
		res.Outcome = reconcile.Fenced
	case errors.Is(err, control.ErrOrder):
		res.Outcome = reconcile.Refused
	}
	return res
}

// row stores a replica's row, or removes it.
func (d *dispatcher) row(ctx context.Context, o reconcile.Order) reconcile.Result {
	res := reconcile.Result{Order: o, Outcome: reconcile.Done}
	fence, leads := d.authority.fence()
	if !leads {
		res.Outcome, res.Reason = reconcile.Fenced, "this control plane does not lead"
		return res
	}
	ctx, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	var err error
	if o.Kind == reconcile.RemoveRow {
		err = d.store.RemoveReplica(ctx, fence, o.Replica, o.Generation)
	} else {
		err = d.store.PutReplica(ctx, fence, rowToStorage(o.Row, time.Now()))
	}
	if err == nil {
		return res
	}
	res.Outcome, res.Reason = reconcile.Again, err.Error()
	if fenced, is := errors.AsType[*storage.FencedError](err); is {
		res.Outcome = reconcile.Fenced
		d.authority.fencedBy(fenced)
	}
	return res
}

// ListRows implements [reconcile.Rows].
func (d *dispatcher) ListRows(ctx context.Context) ([]reconcile.Row, error) {
	ctx, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	rows := []reconcile.Row{}
	var page storage.Page
	for {
		stored, next, err := d.store.ListReplicas(ctx, storage.ReplicaQuery{Page: page})
		if err != nil {
			return nil, err
		}
		for i := range stored {
			row, err := rowFromStorage(&stored[i])
			if err != nil {
				// Its shards are still its own: it is taken up by what its nodes say. What it
				// was ordered to be and what it asks of its callers is not known, so it is
				// nothing that is wanted, and another one takes its place.
				d.log.Error("a stored replica cannot be read whole, and is replaced", "replica", row.ID, "err", err)
				row.Command = ""
			}
			rows = append(rows, row)
		}
		if next == "" {
			return rows, nil
		}
		page.After = next
	}
}

// detail is what of a row stands in [storage.Replica.Detail].
type detail struct {
	Profile engines.Profile `json:"profile"`
	Fabric  string          `json:"fabric,omitempty"`
	Secret  string          `json:"secret,omitempty"`
	Address string          `json:"address,omitempty"`
	Start   string          `json:"start,omitempty"`
}

func rowToStorage(row *reconcile.Row, now time.Time) storage.Replica {
	text, err := json.Marshal(detail{row.Profile, row.Fabric, row.Secret, row.Address, row.Start})
	if err != nil {
		panic(err) // plain data always marshals
	}
	out := storage.Replica{
		ID: row.ID, Model: row.Model, Command: row.Command, Generation: row.Generation, State: row.State.String(),
		Reason: shortened(row.Reason, maxReason), Detail: text, CreatedAt: row.CreatedAt, ChangedAt: now,
	}
	for _, s := range row.Shards {
		out.Shards = append(out.Shards, storage.ReplicaShard{Node: s.Node, Cards: s.Cards})
	}
	return out
}

// rowFromStorage is a stored replica as a row. With an error what could be read is
// in it.
func rowFromStorage(r *storage.Replica) (reconcile.Row, error) {
	row := reconcile.Row{
		ID: r.ID, Model: r.Model, Command: r.Command, Generation: r.Generation, State: reconcile.ParseState(r.State),
		Reason: r.Reason, CreatedAt: r.CreatedAt,
	}
	for _, s := range r.Shards {
		row.Shards = append(row.Shards, placement.ShardPlace{Node: s.Node, Cards: s.Cards})
	}
	if len(r.Detail) == 0 {
		return row, nil
	}
	var d detail
	if err := json.Unmarshal(r.Detail, &d); err != nil {
		return row, fmt.Errorf("controlplane: replica %s: detail: %w", r.ID, err)
	}
	row.Profile, row.Fabric, row.Secret, row.Address, row.Start = d.Profile, d.Fabric, d.Secret, d.Address, d.Start
	return row, nil
}

// shortened is text of at most so many bytes.
func shortened(text string, most int) string {
	if len(text) <= most {
		return text
	}
	const cut = "…"
	end := most - len(cut)
	for end > 0 && text[end]&0xC0 == 0x80 {
		end--
	}
	return text[:end] + cut
}
