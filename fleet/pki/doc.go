// Package pki is the certificates of a fleet: an authority of its own that
// issues them, what a certificate says of its owner, and certificates on disk
// that are read again while a process serves with them.
//
// An [Authority] is a key and a root that lives for ten years. The key stays on
// one machine; the root goes to everybody. What it issues names its owner three
// times, and all three must agree: the common name is the id, the organisational
// unit is the cluster, and a URI, spiffe://CLUSTER/ROLE/ID, is all of it. The
// role is in the URI and in the extended key usage, so that a node can pose
// neither as a router nor as a server:
//
//	role    may prove itself as    names to dial
//	node    a client               none
//	router  a client               none
//	server  a client and a server  every one, by --host; the common name counts for nothing
//
// A server may be a client too, since one that stands by follows the leader.
//
// A [Reloader] holds a certificate with its key, a bundle of roots, or both, and
// makes TLS configurations that always use the newest that was good. Over these,
// [PeerIdentity] says who is at the other end, and [CheckNode] and [CheckRouter] hold
// that against a claim.
//
// There are no lists of revoked certificates. A certificate ends by its date, or
// with its root: see [Reloader] for how one is taken out of a fleet that runs.
//
// The root has no name constraints: which names agents will dial in ten years is
// not known when it is made, and a root whose constraints are wrong ends a
// fleet. It is therefore not for the trust store of an operating system; every
// program of the fleet is given it as a file.
//
// The package uses the standard library and the Prometheus client, since it is
// part of what runs on every node.
package pki
