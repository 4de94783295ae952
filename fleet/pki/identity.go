package pki

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// Errors of what a certificate says of its owner.
var (
	// ErrNoCertificate: the other side showed none, or none that was verified
	// against the fleet's authority.
	ErrNoCertificate = errors.New("pki: no verified certificate")
	// ErrNoIdentity: it is not a certificate of a fleet.
	ErrNoIdentity = errors.New("pki: the certificate says nothing of a cluster and a role")
	// ErrWrongRole: its owner is something else than is let in here.
	ErrWrongRole = errors.New("pki: wrong role")
	// ErrWrongCluster: its owner belongs to another cluster.
	ErrWrongCluster = errors.New("pki: wrong cluster")
	// ErrWrongNode: its owner is another node.
	ErrWrongNode = errors.New("pki: wrong node")
	// ErrWrongRouter: its owner is another router.
	ErrWrongRouter = errors.New("pki: wrong router")
)

// Role is what the owner of a certificate is in its fleet.
type Role int

// The roles. The zero Role is none: a certificate of another authority.
const (
	RoleNone   Role = iota
	RoleNode        // an agent
	RoleRouter      // a router that follows the feed
	RoleServer      // a control plane or a mirror, with names to dial
)

// String returns the role as it stands in a certificate; "none" for the zero
// Role.
func (r Role) String() string {
	switch r {
	case RoleNode:
		return "node"
	case RoleRouter:
		return "router"
	case RoleServer:
		return "server"
	case RoleNone:
	}
	return "none"
}

// ParseRole reads what String wrote; "none" is no role.
func ParseRole(text string) (Role, error) {
	for _, r := range []Role{RoleNode, RoleRouter, RoleServer} {
		if r.String() == text {
			return r, nil
		}
	}
	return RoleNone, fmt.Errorf("pki: %q is no role; want node, router or server", text)
}

// Identity is who the owner of a certificate is.
type Identity struct {
	Cluster string
	Role    Role
	ID      string // of the node, router or server; also the common name
}

// String says it in words: node gpu-17 of cluster prod.
func (i Identity) String() string {
	return fmt.Sprintf("%s %s of cluster %s", i.Role, i.ID, i.Cluster)
}

// URI is the identity as it stands in a certificate: spiffe://CLUSTER/ROLE/ID.
func (i Identity) URI() string { return "spiffe://" + i.Cluster + "/" + i.Role.String() + "/" + i.ID }

// check reports what is wrong with an identity that is to be certified.
func (i Identity) check() error {
	if _, err := ParseRole(i.Role.String()); err != nil {
		return err
	}
	return errors.Join(CheckID(i.Cluster), CheckID(i.ID))
}

// IdentityOf returns who a certificate says its owner is. It verifies nothing:
// use [PeerIdentity] for the other end of a connection. The certificate must have
// exactly one URI of scheme spiffe, spelled as Identity.URI spells it, and its id
// as common name, or the error wraps ErrNoIdentity.
func IdentityOf(cert *x509.Certificate) (Identity, error) {
	none := func(why string) (Identity, error) {
		return Identity{}, fmt.Errorf("%w: the certificate of %q %s", ErrNoIdentity, cert.Subject.CommonName, why)
	}
	uris := spiffeURIs(cert)
	if len(uris) != 1 {
		return none(fmt.Sprintf("has %d URIs of scheme spiffe; want one, such as spiffe://CLUSTER/node/ID", len(uris)))
	}
	text := uris[0].String()
	rest, _ := strings.CutPrefix(text, "spiffe://")
	cluster, rest, _ := strings.Cut(rest, "/")
	roleText, id, _ := strings.Cut(rest, "/")
	role, _ := ParseRole(roleText)
	identity := Identity{Cluster: cluster, Role: role, ID: id}
	if err := identity.check(); err != nil || identity.URI() != text {
		return none(fmt.Sprintf("has the URI %q; want spiffe://CLUSTER/ROLE/ID with the role node, router or server", text))
	}
	if cert.Subject.CommonName != id {
		return none(fmt.Sprintf("has another id in its URI, %q", text))
	}
	return identity, nil
}

func spiffeURIs(cert *x509.Certificate) []*url.URL {
	return slices.DeleteFunc(slices.Clone(cert.URIs), func(u *url.URL) bool { return u.Scheme != "spiffe" })
}

// clusterOf returns whose authority a root is. There is none in a root that
// another program made.
func clusterOf(root *x509.Certificate) (cluster string, ok bool) {
	for _, u := range spiffeURIs(root) {
		if cluster := u.Host; u.String() == "spiffe://"+cluster && CheckID(cluster) == nil {
			return cluster, true
		}
	}
	return "", false
}

// PeerIdentity returns who is at the other end of a connection that verified
// its certificate, as those of a [Reloader] do. Without a verified certificate
// the error wraps ErrNoCertificate, with one of another kind ErrNoIdentity, and
// where an authority vouches for a cluster that is not its own, ErrWrongCluster.
func PeerIdentity(state tls.ConnectionState) (Identity, error) {
	if len(state.VerifiedChains) == 0 || len(state.PeerCertificates) == 0 {
		return Identity{}, fmt.Errorf("%w: give the program a certificate of this cluster's authority (llmgw ctl cert)", ErrNoCertificate)
	}
	identity, err := IdentityOf(state.PeerCertificates[0])
	if err != nil {
		return Identity{}, err
	}
	var others []string
	for _, chain := range state.VerifiedChains {
		cluster, known := clusterOf(chain[len(chain)-1])
		if !known || cluster == identity.Cluster {
			return identity, nil
		}
		others = append(others, cluster)
	}
	return Identity{}, fmt.Errorf("%w: the certificate of %s was issued by the authority of cluster %s", ErrWrongCluster, identity, strings.Join(others, ", "))
}

// NodeError says that a node claims an id that its certificate does not prove.
type NodeError struct {
	// CommonName is the name in the certificate; empty without one.
	CommonName string
	// Claimed is the id that the node says it has.
	Claimed string
	// Cause wraps ErrNoCertificate, ErrNoIdentity, ErrWrongCluster, ErrWrongRole
	// or ErrWrongNode.
	Cause error
}

// Error names both.
func (e *NodeError) Error() string {
	return fmt.Sprintf("node %q is claimed with the certificate of %q: %v", e.Claimed, e.CommonName, e.Cause)
}

// Unwrap returns the cause.
func (e *NodeError) Unwrap() error { return e.Cause }

// CheckNode returns the identity at the other end of a connection if it is a
// node's and its common name is claimed, byte for byte: no case is folded and
// nothing is a pattern. The error is a *NodeError. Which cluster it is of is for
// the caller to compare, where roots of several are trusted.
func CheckNode(state tls.ConnectionState, claimed string) (Identity, error) {
	refuse := func(cause error) (Identity, error) {
		e := &NodeError{Claimed: claimed, Cause: cause}
		if len(state.PeerCertificates) > 0 {
			e.CommonName = state.PeerCertificates[0].Subject.CommonName
		}
		return Identity{}, e
	}
	identity, err := PeerIdentity(state)
	switch {
	case err != nil:
		return refuse(err)
	case identity.Role != RoleNode:
		return refuse(fmt.Errorf("%w: it is that of a %s; issue one with llmgw ctl cert node", ErrWrongRole, identity.Role))
	case identity.ID != claimed:
		return refuse(fmt.Errorf("%w: give the node a certificate of its own, or start its agent under the certificate's name", ErrWrongNode))
	}
	return identity, nil
}

// CheckRouter returns the identity at the other end of a connection if it is a
// router's, or that of a server, which is a router too while it stands by; and its
// common name is claimed, byte for byte. The error wraps ErrNoCertificate,
// ErrNoIdentity, ErrWrongCluster, ErrWrongRole or ErrWrongRouter.
func CheckRouter(state tls.ConnectionState, claimed string) (Identity, error) {
	identity, err := PeerIdentity(state)
	switch {
	case err != nil:
		return Identity{}, err
	case identity.Role != RoleRouter && identity.Role != RoleServer:
		return Identity{}, fmt.Errorf("%w: it is that of a %s; issue one with llmgw ctl cert router", ErrWrongRole, identity.Role)
	case identity.ID != claimed:
		return Identity{}, fmt.Errorf("%w: it is that of %q; give the router a certificate of its own, or the certificate's name", ErrWrongRouter, identity.ID)
	}
	return identity, nil
}
