package api

import (
	"context"
	"errors"
	"fmt"

	"github.com/llmgw/llmgw/fleet/apipb"
)

// Audit says who changed what. Its method answers as AuditService's of that name,
// with errors as those of [Keys].
type Audit interface {
	ListAudit(ctx context.Context, req *apipb.ListAuditRequest) (*apipb.ListAuditResponse, error)
}

var errNoAudit = errors.New("this server has no store: auth.enabled is false in its configuration, and it is no control plane")

// audit is AuditService.
type audit struct{ *service }

func goodAudit(req *apipb.ListAuditRequest) error {
	var errs []error
	for _, t := range []struct{ field, value string }{{"actor", req.GetActor()}, {"action", req.GetAction()}, {"target", req.GetTarget()}} {
		if len(t.value) > maxTextBytes {
			errs = append(errs, fmt.Errorf("%s has %d bytes; want at most %d", t.field, len(t.value), maxTextBytes))
		}
	}
	if t := req.GetFrom(); t != nil {
		errs = append(errs, t.CheckValid())
	}
	if t := req.GetTo(); t != nil {
		errs = append(errs, t.CheckValid())
	}
	return errors.Join(errs...)
}

// ListAudit implements apipb.AuditServiceHandler.
func (s audit) ListAudit(ctx context.Context, req *apipb.ListAuditRequest) (*apipb.ListAuditResponse, error) {
	return checked(ctx, s.service, "ListAudit", missing(s.deps.Audit != nil, errNoAudit), req,
		func(ctx context.Context, req *apipb.ListAuditRequest) (*apipb.ListAuditResponse, error) {
			return s.deps.Audit.ListAudit(ctx, req)
		}, goodPage(req.GetPageToken(), req.GetPageSize()), goodAudit(req))
}
