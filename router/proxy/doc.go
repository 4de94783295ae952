// Package proxy relays one HTTP exchange between a client and an inference
// engine, as cheaply as the bytes allow.
//
// It decides nothing: the caller chose the [Target], and the caller retries.
// A [Proxy] opens and keeps connections, writes the request, reads the answer's
// head ([Proxy.Send]) and moves the body ([Response.Relay]).
//
//	caller            Proxy.Send                    engine
//	  |-- Target, Request ->| idle connection or dial    |
//	  |                     |-- head and body, 1 write ->|
//	  |<------ Response ----|<------- answer's head -----|
//	  |-- Relay(w, tap) --->|<------- body, 1 read ------|
//	  |   client <- 1 write, 1 flush per upstream read   |
//
// Towards http:// engines it is an HTTP/1.1 client of its own: the whole
// exchange runs on the caller's goroutine, with no goroutine a connection and no
// channel a chunk. https:// and h2c:// engines are reached through net/http's
// Transport behind the same types.
//
// An answer whose framing two parsers could read differently (a length beside a
// transfer coding, two lengths, a folded header line, an unknown coding) is
// refused, and its connection is closed.
package proxy
