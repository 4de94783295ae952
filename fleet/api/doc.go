// Package api is the management API: its services over the interfaces that it
// declares, as one http.Handler, and a client.
//
//	ctl, curl, programs --connect over HTTP--> Handler --> Routes, Keys, Limits, Usage,
//	                                                          Users, Nodes, Models, Placement, Audit (the joints)
//
// The protocol is connect's: POST /llmgw.api.v1.RoutingService/ExplainRoute with
// Content-Type application/json or application/proto; gRPC is understood, too.
// JSON has the names of the .proto files and tells zero from absent: what is not
// there is not known.
//
// Secrets of keys are in the answers of CreateKey and RotateKey, and links that open
// once in those of CreateKeyLink and ResetUser, and nowhere else:
// no call is logged with its request or answer, and what goes wrong is told
// without repeating them.
//
// What it does not do: it knows no caller. Who a change is by, the caller says,
// and that goes into the audit row. Who mounts the handler says who gets to
// it; llmgw server has it on the admin listener, which is on loopback. A browser's
// requests for pages of other origins must be refused before it, by
// [net/http.CrossOriginProtection].
package api
