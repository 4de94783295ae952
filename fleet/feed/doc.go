// Package feed is the only way by which routers learn from a control plane which
// engines they may use, which models there are and how they stand, and which keys
// count no more; and by which the control plane learns what routers do with that, and
// what they are asked for.
//
//	reconciler ─SetEntries─┐                             ┌─State──> gateway
//	reconciler ─SetStatuses┤                             │                │
//	catalog ────SetModels──┼> Publisher ══frames══> Follower <─Applied──┘
//	keys ───────Revoke─────┘      ^                      │  <─Reports, Demand──┘
//	reconciler <─Use, Demand──────┴───────reports────────┘     │
//	                                                        copy on disk
//
// A [Publisher] is told what is so, in whatever order and as often as one likes,
// and sends each router everything first and then what changes. A [Follower] keeps
// one stream to the first of its sources that leads, shows its router an immutable
// [State], and keeps a copy of it on the disk. Between them is a [Source]: the
// publisher's own in one process ([Publisher.Local]), or Connect over HTTP
// ([NewRemote] and [Publisher.Handler]). Both take the same way through the same
// code.
//
// # Rules
//
//   - A router forgets nothing because nobody tells it anything. A control plane
//     that is away, stands by, or has just come to lead empties no pool.
//   - Each frame has a version: a cluster, a term, a sequence. What is of another
//     cluster, or of a lower term than one that was heard of, is refused, also after
//     a restart. A change that does not follow from what is known is not applied:
//     everything is asked for.
//   - A router is told of as much as it reads. One that is slow gets what is newest,
//     not what it missed.
//   - What routers have not said is not known, and never nothing. An instance is
//     released when every router that lives has said that it goes by a version
//     without it. A router lives for [Lease] after its last report; for as long
//     after a publisher came to lead, routers may live that it does not know of.
//   - The feed has the secrets of engines in it: routers prove themselves, and the
//     copy is its owner's alone.
//
// The package does not route, and knows neither certificates nor who leads: it is
// told.
package feed
