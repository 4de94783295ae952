// Package pluginpb is the protocol of engine adapters as code: messages, and the
// service with its gRPC client and server, generated from the .proto file below
// llmgw/engine/v1. Package plugin speaks it.
//
// Within v1 a field is never renumbered, renamed or given another type; the test of
// cmd/internal/protogen says so.
package pluginpb

//go:generate go run ../../../cmd/internal/protogen grpc .
