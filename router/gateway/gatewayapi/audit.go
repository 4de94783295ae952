package gatewayapi

import (
	"context"

	"github.com/llmgw/llmgw/fleet/api"
	"github.com/llmgw/llmgw/fleet/apipb"
	"github.com/llmgw/llmgw/storage"
)

// AuditStore is what Audit needs of a store. See [storage.Store] for its promises.
type AuditStore interface {
	ListAudit(ctx context.Context, q storage.AuditQuery) (rows []storage.Audit, next string, err error)
}

// Audit is the audit rows of a store as [api.Audit].
type Audit struct{ Store AuditStore }

var _ api.Audit = Audit{}

// ListAudit implements api.Audit.
func (a Audit) ListAudit(ctx context.Context, req *apipb.ListAuditRequest) (*apipb.ListAuditResponse, error) {
	if err := noSecret(req.GetTarget()); err != nil {
		return nil, err
	}
	rows, next, err := a.Store.ListAudit(ctx, storage.AuditQuery{
		From: at(req.GetFrom()), To: at(req.GetTo()), Actor: req.GetActor(), Action: req.GetAction(), Target: req.GetTarget(),
		Page: page(req.GetPageToken(), req.GetPageSize()),
	})
	if err != nil {
		return nil, storeError(err)
	}
	out := &apipb.ListAuditResponse{NextPageToken: next}
	for i := range rows {
		r := &rows[i]
		row := &apipb.AuditRow{Id: r.ID, At: stamp(r.At), Actor: r.Actor, Action: r.Action, Target: r.Target, RequestId: r.RequestID}
		if r.Before != nil {
			row.Before = new(string(r.Before))
		}
		if r.After != nil {
			row.After = new(string(r.After))
		}
		out.Rows = append(out.Rows, row)
	}
	return out, nil
}
