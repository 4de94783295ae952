// Package kube lists where engines in a Kubernetes cluster can be reached from
// outside it: a source of candidates for package discover.
//
// It reads Services, Pods and Nodes, and needs the verb list on these and nothing
// else: it writes nothing and watches nothing. Nothing in the cluster has to be
// labelled. Whether a candidate is an engine is not decided here; a cluster that
// shows databases to the outside has candidates and no engines.
//
// [Candidates] is the rule, a function of the three lists; [Lister] reads them from
// an API server. This package alone knows client-go.
package kube
