package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"slices"
	"strings"

	"github.com/llmgw/llmgw/storage"
	"github.com/llmgw/llmgw/storage/internal/backend"
)

// usagePacked is the schema that has both usage_rows and usage_packs: what is in the
// one is moved to the other as a file leaves it.
const usagePacked = 7

// oldRow is a row of usage_rows.
type oldRow struct {
	u            storage.Usage // what it has of its own
	at           int64         // microseconds
	id           requestID
	caller, kind int64
}

func scanOldRow(s scanner) (r oldRow, err error) {
	var id any
	var rest []byte
	if err := s.Scan(&id, &r.at, &r.caller, &r.kind, &rest); err != nil {
		return r, err
	}
	switch id := id.(type) {
	case []byte:
		if len(id) != len(r.id.own) {
			return r, backend.Damaged("usage row: an identity of %d bytes", len(id))
		}
		copy(r.id.own[:], id)
	case string:
		r.id = parseID(id)
	}
	r.u.RequestID = r.id.String()
	t := &r.u.Tokens
	if err := json.Unmarshal(rest, &[]any{&r.u.Latency, &r.u.TTFT, &t.Input, &t.CachedInput, &t.Output, &t.Reasoning, &r.u.CostNanos}); err != nil {
		return r, backend.Damaged("usage row %s: %v", r.u.RequestID, err)
	}
	return r, nil
}

// packUsage moves the rows of usage_rows to packs.
func packUsage(ctx context.Context, tx *sql.Tx) error {
	var st usageStatements
	err := st.each(func(to **sql.Stmt, text string) (err error) {
		*to, err = tx.PrepareContext(ctx, text)
		return err
	})
	if err != nil {
		return err
	}
	in := &usageInserter{st: st}
	var waiting []oldRow
	err = each(ctx, tx, scanOldRow, func(r oldRow) error {
		if n := len(waiting); n == mostPacked || n > 0 && r.at/microsPerMinute != waiting[0].at/microsPerMinute {
			if err := packOld(ctx, in, waiting); err != nil {
				return err
			}
			waiting = waiting[:0]
		}
		waiting = append(waiting, r)
		return nil
	}, `SELECT request_id, at, caller, kind, rest FROM usage_rows ORDER BY at, seq`)
	if err != nil || len(waiting) == 0 {
		return err
	}
	return packOld(ctx, in, waiting)
}

// packOld puts rows of one pack, in order of their time.
func packOld(ctx context.Context, in *usageInserter, pack []oldRow) error {
	slices.SortFunc(pack, func(a, b oldRow) int {
		return cmp.Or(cmp.Compare(a.at, b.at), strings.Compare(a.u.RequestID, b.u.RequestID))
	})
	in.packer.begin()
	for i := range pack {
		in.packer.add(&pack[i].u, pack[i].at, &pack[i].id, pack[i].caller, pack[i].kind)
	}
	slices.SortFunc(pack, func(a, b oldRow) int { return strings.Compare(a.u.RequestID, b.u.RequestID) })
	ids := make([]requestID, len(pack))
	for i := range pack {
		ids[i] = pack[i].id
	}
	if err := in.st.ids.newIDs(ctx, ids, make([]bool, len(ids))); err != nil {
		return err
	}
	return in.put(ctx)
}
