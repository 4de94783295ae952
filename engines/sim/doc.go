// Package sim is a simulated inference engine. It behaves like vLLM in what a
// router can see: the HTTP API, streams, errors, metrics, and the times and
// loads that continuous batching, a paged KV cache and a prefix cache give.
// It computes nothing; a token costs what a cost model says (see [Timing]).
//
// # Parts
//
//	http.Handler  Engine ── routes, dialects, faults, /metrics
//	                 │ one goroutine while there is work
//	              Core.Step(now) → Batch, next
//	                 │
//	     queue (FIFO) → running batch → KV blocks, prefix cache
//
// [Core] is a discrete-event model without goroutine, timer or clock. Drive it
// alone to simulate many engines in little time: an iteration costs about as
// much as its batch has sequences, in nanoseconds.
//
// [Engine] is the shell. It uses package time and therefore runs under
// virtual time in a testing/synctest bubble, in process or over any
// connection; [Engine.Serve] answers on a listener, such as one of package
// simtest, which has a network in memory.
//
// With [KVEvents] enabled the core's steps return what happened to the prefix
// cache, and the engine publishes it as vLLM does (package kvevents).
//
// # Text
//
// An answer's text is [Text] of a key that depends on the prompt alone, one
// word per token; [CheckText] tells from the text whether any of it is
// missing. With seed and configuration equal, equal requests get equal
// answers.
//
// # Calls of tools
//
// An answer is a call of a tool, its arguments {"text": …}, if tool_choice
// demands one or the last user message contains "call " and a tool's name.
//
// # Limits
//
// Sampling parameters, logprobs, structured output and LoRA are not simulated;
// such fields are ignored. Nor are speech and images. The last 1,024 responses
// are stored; vLLM keeps all. GET /metrics shows what runs and waits; it has no
// cache of multimodal input and no KV connector. Of an engine over several nodes
// package gang has how the ranks meet and are lost; the work is rank 0's alone.
package sim
