// Package placement decides which nodes and cards a replica gets, and says why.
//
// It is a pure function of a snapshot: [NewCluster] takes the nodes as they are
// and the [Claim] of each replica that holds something, [Cluster.Place] answers
// one [Wish] with a [Decision], and changes nothing. Whoever acts on the decision
// claims it, so that the next one sees it. The same snapshot gives the same
// decision byte for byte; what if a node were gone or came is asked of a
// [Cluster.Clone].
//
//	nodes, claims --> Cluster --Place(wish)--> filters --> nodes that fit --> Score, less is better --> Decision
//	                     ^                        |                                                      |
//	                     +--- Claim, Release      +--> Rejected: every reason of every other node        +--> Shards
//
// Filters are hard: each [Kind] of reason keeps a replica off a node, and says so.
// Criteria are soft: each [Criterion] prefers, in order, and never refuses. A
// replica of several ranks is placed whole or not at all, inside one fabric, each
// rank on a node of its own, with cards of one class.
//
// The package starts, stops and evicts nothing, knows no time and no store, and
// does not decide how many replicas there should be.
package placement
