// Package openai holds the wire formats of OpenAI-compatible APIs as a relay
// needs them: what it must know of a request, what it may change, what passes
// by in an answer, and how errors look.
//
// Nothing here re-serialises JSON. A request is read once by [PeekBody], which
// finds the routing facts and their places; [Peek.Edit] changes those places
// and aliases every other byte. An answer is watched by a [Stream] (server-sent
// events) or a [Body] (one JSON document) while its bytes pass: both find the
// usage, and a Stream also the first content, the end and errors, and cuts out
// what the relay itself had asked for.
//
//	request  -> PeekBody -> Peek.Edit -> parts for writev -> engine
//	response <- bytes    <- Stream.Feed or Body.Feed      <- engine
//	              |
//	              +-> SawContent, Usage, Done, Failed
//
// [Error] is an error of ours with its constructors; [NormalizeError] brings an
// engine's own error into the API's shape; [ChatErrorEvent] and
// [ResponsesErrorEvent] end a stream that failed after its first byte.
//
// Engines serve the Anthropic Messages API too. Its events differ from those of
// the Responses API in names only, so Stream and Body read them as one more
// [Dialect]; errors and model lists in that shape are in package anthropic.
//
// Values are not safe for concurrent use; each belongs to one request. Peek,
// Stream and Body are meant to be pooled: they keep their buffers.
package openai
