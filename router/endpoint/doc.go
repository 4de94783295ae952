// Package endpoint holds what a router knows about the engines it can send
// to: a [Set] of [Endpoint] instances, each with its requests in flight, its
// last measured load, and a breaker.
//
// An instance is one life of one address. When a [Spec] changes, or leaves the
// set and comes back, a new instance begins with every counter at zero, and
// requests of the old one give back to the old one. Nothing here is keyed by
// name, so nothing can be counted on the wrong instance.
//
// # Reading
//
// [Set.Snapshot] is one atomic load. A request takes it once and works on it;
// a [Set.Replace] in the meantime is invisible to it.
//
// # Counting
//
// [Endpoint.Begin] admits one request: it passes the breaker and counts the
// request in flight at once, so that the next decision sees it. The
// [Reservation] gives both back, exactly once. Nothing ages out: a request of
// ten minutes is still one request.
//
// # Breaker
//
//	         threshold failures in a row
//	Closed -----------------------------> Open ------+
//	  ^  |                                 ^         | cooldown is over
//	  |  | 429, 503 with Retry-After       | failure v
//	  |  +------> CoolingDown ---------> HalfOpen <-> Probing
//	  |                                                  |
//	  +---------------------- success -------------------+
//
// A tripped endpoint lets exactly one request through when its time is over,
// the probe. While the breaker is closed, asking it is one atomic load.
//
// Each method that depends on time takes now; only the metrics read a clock.
package endpoint
