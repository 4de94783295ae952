// Package generate is a load generator for any server that speaks the OpenAI
// API: a router, an engine, a cloud. It sends the requests of a
// [workload.Trace] at their times (an open loop) or by so many callers that
// wait for their answers (a closed one), and says what came of them.
//
//	Trace ─→ pace ─→ exchange ─→ sample ─→ recorder ─→ Report
//	        open or   one HTTP    times,     histograms,
//	        closed    request     verdict    counts
//
// # What is measured
//
// Each request is measured from when it was sent, and in an open loop also from
// when it was due: a target that makes the generator late cannot hide it
// (coordinated omission). An event counts as content when it brings output; a
// role alone does not.
//
// # What a complete answer is
//
// Status 200; of a stream: events that are JSON, content, a finish_reason,
// [DONE] and the end of the HTTP body; as many tokens as were asked for, where
// the target says how many it made and [Config.ExactLength] is set. Anything
// else is a [RequestError] with a [Kind]. No request is tried again, but for
// one on a kept connection that the target closed before any byte of an answer:
// it goes out again on another.
//
// # What is kept
//
// Answers may be without end, so each is left at a bound, with [KindTooLong]:
// 1 MiB an event, four events a token asked for and 1024 more, 1 MiB and 4 KiB
// a token of an unstreamed answer, 256 KiB of a head, and 256 MiB of all answers
// under way beyond 64 KiB each. Times are kept in histograms.
package generate
