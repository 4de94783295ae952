// Package kvevents speaks the wire on which inference engines tell what their
// KV cache holds: vLLM's and SGLang's KV-cache events, msgpack in ZeroMQ
// messages over TCP.
//
//	engine ──PUB── [topic][sequence][batch] ──SUB──▶ Subscriber ─▶ Handler
//	       ◀─ROUTER── first sequence wanted ──DEALER── (after a gap)
//
// A [Subscriber] follows one engine and gives its batches to a [Handler] in
// order, each once. Where it cannot (a gap that replay does not fill, an engine
// that started anew, a batch that cannot be read), it calls [Handler.Reset]:
// what was learned of that engine is void and learning begins again. A handler
// that drops on Reset never believes in a block that the engine has evicted.
//
// A [Publisher] is the engine's side, used by the simulated engine and tests.
// [Decode] and [Append] are the encodings alone: the array form, which SGLang
// and vLLM up to v0.23 write, and the map form of vLLM from v0.24.
//
// # Block hashes
//
// An engine's hashes are opaque: seeds and algorithms differ between versions,
// processes even. They name blocks of one endpoint, parents included. To compare
// endpoints, hash [Event.Tokens] and [Event.Extra] of the chain yourself.
//
// # Transport
//
// The transport is ZMTP 3.0 without security, the part of ZeroMQ that engines
// use, on TCP. Engines that dial the collector (an endpoint without wildcard in
// vLLM) and ipc endpoints are not supported.
package kvevents
