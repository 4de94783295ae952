// Package apipb is the management API as code: messages, and the services with
// their connect clients and handlers, generated from the .proto files below
// llmgw/api/v1. Package api serves and calls them.
//
// A subject has a .proto file of its own with one service, named for it. Within
// v1 a field is never renumbered, renamed or given another type; the test of
// cmd/internal/protogen says so.
package apipb

//go:generate go run ../../cmd/internal/protogen connect .
