// Package admission decides whether a request may run now: it gets a lease, it
// waits, or it is refused. It knows nothing of HTTP, of routing, or of where a
// request will run.
package admission
