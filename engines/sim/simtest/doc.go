// Package simtest has what tests with simulated engines need besides them: a
// network in memory.
//
// Sockets know real time only. In a bubble of testing/synctest clients, routers
// and engines therefore talk over a [Network]: time passes when all of them
// wait, so minutes take milliseconds and durations are the same in every run.
// Whatever takes a [net.Listener] and a function that dials can use it; it knows
// nothing of engines.
package simtest
