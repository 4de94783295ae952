// Package flight is the gateway's flight recorder: it writes down every decision
// of the data plane with all it was made on, and makes the decisions again from
// what it wrote.
//
//	                 Decided, Ended, Admission
//	gateway, twin ────────────► [Recorder] ──┬─► record.Ring ──► [Recorder.Recent]
//	                                         └─► record.Log ···► directory
//	                                                                 │
//	[Report] ◄── [Replay]: cores of the recorded configuration ◄─────┘
//
// There are five kinds of records. A [Setup] is what the deciding parts were made
// from; a [Pool] names the endpoints, which decisions know by hashes. Both stand
// in the log again every minute, so that they are there when the oldest segments
// have gone. A [Route] is one choice of an endpoint: each candidate's signals with
// their age, the draw and the pick. An admission record is one step of admission's
// core, what it was asked and what it answered. An [Outcome] is what became of a
// request.
//
// # What is written, and what is not
//
// Written are lengths, counts, times, hashes of endpoints, the operator's own
// names (models, bands, endpoints, profiles, filters), and fingerprints under a
// key that the log does not have: of request ids, tenants, sessions and of the
// prompt, one for each [BlockBytes] of it. Nothing of a prompt, an answer, an API
// key or a session is. The ring, which never leaves the process, keeps request ids
// and tenants as they are, since an operator asks by them.
//
// # What is replayed
//
// A route's record is complete: it is replayed by itself, from wherever one
// begins. An admission core's state comes from all its steps, so its records are
// replayed from the start of a process, and no further than to where one was
// dropped.
package flight
