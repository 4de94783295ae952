// Package fleetpb is the protocol between a control plane and the agents of its
// nodes as code: messages, and the service with its connect client and handler,
// generated from the .proto files below llmgw/fleet/v1. Packages control and
// agent speak it.
//
// A client that gives a stream up cancels the context it was made with and calls
// CloseRequest: net/http notices the end of a context only when the request's body
// has something to say, and until then neither end is told.
//
// Within v1 a field is never renumbered, renamed or given another type; the test
// of cmd/internal/protogen says so.
package fleetpb

//go:generate go run ../../cmd/internal/protogen connect .
