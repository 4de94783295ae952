package control

import (
	"errors"
	"fmt"

	"connectrpc.com/connect"
)

// reason is why a stream was refused or ended, as metrics name it.
type reason uint8

const (
	_                     reason = iota // unset
	reasonInvalid                       // invalid_argument: what it said cannot be
	reasonUnauthenticated               // unauthenticated: no certificate
	reasonIdentity                      // permission_denied: the certificate is not the node's
	reasonClash                         // already_exists: another agent has the id
	reasonCluster                       // failed_precondition: of another cluster
	reasonProtocol                      // failed_precondition: no version in common
	reasonFull                          // resource_exhausted: too many nodes
	reasonBusy                          // unavailable: too many register at once
	reasonSlow                          // deadline_exceeded: no Hello
	reasonBroken                        // the stream's own error
	reasonOutranked                     // unavailable: the node has heard of a higher term
	reasonStandby                       // unavailable: does not hold streams
	reasonEnding                        // unavailable: ends
	reasonInternal                      // internal: served in a wrong way

	reasons = int(reasonInternal) + 1
)

// String returns the value of the label.
func (r reason) String() string {
	return [...]string{
		"unset", "invalid", "unauthenticated", "identity", "clash", "cluster", "protocol", "full", "busy",
		"slow", "broken", "outranked", "standby", "ending", "internal",
	}[r]
}

func (r reason) code() connect.Code {
	return [...]connect.Code{
		connect.CodeUnknown, connect.CodeInvalidArgument, connect.CodeUnauthenticated, connect.CodePermissionDenied,
		connect.CodeAlreadyExists, connect.CodeFailedPrecondition, connect.CodeFailedPrecondition, connect.CodeResourceExhausted,
		connect.CodeUnavailable, connect.CodeDeadlineExceeded, connect.CodeUnknown, connect.CodeUnavailable,
		connect.CodeUnavailable, connect.CodeUnavailable, connect.CodeInternal,
	}[r]
}

var (
	errEnding  = errors.New("this control plane ends; try another address")
	errStandby = errors.New("this control plane does not lead; try another address")
)

// refusal is why a stream is refused.
type refusal struct {
	reason reason
	err    error
}

func refuse(r reason, err error) error { return &refusal{r, err} }

func (r *refusal) Error() string { return r.err.Error() }

func (r *refusal) Unwrap() error { return r.err }

// refused counts and logs why a stream ends, naming who claims what, and returns
// what the agent is told.
func (p *Plane) refused(at *wire, node string, err error) error {
	var r *refusal
	if !errors.As(err, &r) {
		r = &refusal{reasonInternal, err}
	}
	p.metrics.refused[r.reason].Inc()
	log := p.log.Warn
	switch r.reason {
	case reasonEnding, reasonStandby, reasonBroken, reasonBusy: // of many agents at once
		log = p.log.Debug
	}
	log("agent refused", "node", node, "remote", at.remote, "certificate", certificate(at), "reason", r.reason.String(), "err", r.err)
	if known := (*connect.Error)(nil); r.reason == reasonBroken && errors.As(r.err, &known) {
		return known
	}
	return connect.NewError(r.reason.code(), r.err)
}

// proves checks that the connection comes from the node.
func (p *Plane) proves(at *wire, node string) error {
	if p.deps.Verify == nil {
		return nil
	}
	if at.tls == nil || len(at.tls.PeerCertificates) == 0 {
		return refuse(reasonUnauthenticated, fmt.Errorf("the agent claims to be node %q and shows no certificate; give it one that was issued for this id", node))
	}
	if err := p.deps.Verify(at.tls, node); err != nil {
		return refuse(reasonIdentity, fmt.Errorf("the certificate of %s does not prove that the agent is node %q: %w", certificate(at), node, err))
	}
	return nil
}

// certificate names the certificate that a connection shows.
func certificate(at *wire) string {
	if at.tls == nil || len(at.tls.PeerCertificates) == 0 {
		return "none"
	}
	c := at.tls.PeerCertificates[0]
	return fmt.Sprintf("%q (serial %x)", c.Subject.CommonName, c.SerialNumber)
}
