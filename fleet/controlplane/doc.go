// Package controlplane is the whole control plane as one part: the agents'
// streams, the term in whose name it orders, what a store keeps of the fleet, and
// the nodes of the management API.
//
//	agents ==stream==> control.Plane <── mandate ── authority ──> store: terms
//	                        │                                      │
//	                        └── journal ─────────────────────────> ├─ nodes
//	ctl, curl ── api.Nodes ─┴── cordons ─────────────────────────> └─ cordons, audit
//
// It is a joint: [New] puts package control and a store together, and [Plane.Run]
// runs both. It opens no listener and no store; who embeds it mounts
// [Plane.Handler] and passes the store in.
//
// # Terms
//
// It begins a term in the store before it leads, and until it has one it sends
// agents away. A store that goes away later changes nothing: it goes on in its
// term. When an agent has heard of a higher term, it begins one above that. When
// the store says that another process has begun a later one, it steps back, says
// so, and takes no agents until it is started anew.
package controlplane
