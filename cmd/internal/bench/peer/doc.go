// Package peer starts the processes that the bench compares, each of them in
// front of the same engines, and reads what they cost: CPU time, memory, open
// files. It knows llmgw, Go's httputil.ReverseProxy, nginx and HAProxy. The
// engines, the reverse proxy and the load generator are this very program,
// started again in a role ([RunRole]), so that each has a process, a scheduler
// and a garbage collector of its own.
//
// Linux only: CPU time is read from the clocks of processes, the rest from /proc.
package peer
