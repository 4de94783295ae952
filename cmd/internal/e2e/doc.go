// Package e2e holds the tests of a whole fleet: agents, control planes, routers and
// engines as the processes that they are, killed and started anew in every order.
package e2e
