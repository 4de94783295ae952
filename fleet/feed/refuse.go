package feed

import (
	"errors"

	"connectrpc.com/connect"
)

// reason is why a router was refused, or its stream ended, as metrics name it.
type reason uint8

const (
	_                     reason = iota // unset
	reasonInvalid                       // invalid_argument: what it said cannot be
	reasonUnauthenticated               // unauthenticated: it proves nothing
	reasonIdentity                      // permission_denied: it is not who it says
	reasonCluster                       // failed_precondition: of another cluster
	reasonProtocol                      // failed_precondition: no version in common
	reasonFull                          // resource_exhausted: too many routers
	reasonOutranked                     // unavailable: it has heard of a higher term
	reasonStandby                       // unavailable: does not lead, or ends
	reasonReplaced                      // aborted: a newer stream of the same run
	reasonSession                       // not_found: the session is over

	reasons = int(reasonSession) + 1
)

// String returns the value of the label.
func (r reason) String() string {
	return [...]string{
		"unset", "invalid", "unauthenticated", "identity", "cluster", "protocol", "full", "outranked", "standby", "replaced", "session",
	}[r]
}

func (r reason) code() connect.Code {
	return [...]connect.Code{
		connect.CodeUnknown, connect.CodeInvalidArgument, connect.CodeUnauthenticated, connect.CodePermissionDenied,
		connect.CodeFailedPrecondition, connect.CodeFailedPrecondition, connect.CodeResourceExhausted,
		connect.CodeUnavailable, connect.CodeUnavailable, connect.CodeAborted, connect.CodeNotFound,
	}[r]
}

var (
	errStandby  = errors.New("feed: this control plane does not lead; try another address")
	errEnding   = errors.New("feed: this control plane ends; try another address")
	errReplaced = errors.New("feed: this router has opened another stream")
	errSession  = errors.New("feed: this session is over; open another stream")
)

// refusal is why a router is refused. Its error has the code that a router tells
// refusals apart by, whatever carried it.
type refusal struct {
	reason reason
	err    *connect.Error
}

func refuse(r reason, err error) error { return &refusal{r, connect.NewError(r.code(), err)} }

// Error says why.
func (r *refusal) Error() string { return r.err.Message() }

// Unwrap returns the error as carriers know it.
func (r *refusal) Unwrap() error { return r.err }

// bare returns an error as carriers know it.
func bare(err error) error {
	if r, ok := errors.AsType[*refusal](err); ok {
		return r.err
	}
	return err
}

// refused counts and logs a refusal, and returns it.
func (p *Publisher) refused(router, remote string, err error) error {
	r, ok := errors.AsType[*refusal](err)
	if !ok {
		return err
	}
	p.metrics.refused[r.reason].Inc()
	log := p.log.Warn
	if r.reason == reasonStandby || r.reason == reasonSession { // of all routers at once
		log = p.log.Debug
	}
	log("router refused", "router", router, "remote", remote, "reason", r.reason.String(), "err", r.err.Unwrap())
	return r.err
}
