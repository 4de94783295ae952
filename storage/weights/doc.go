// Package weights reads what weights say of themselves, and estimates from that
// the memory that a model takes on a machine.
//
// [Read] looks at a GGUF file or set of files, at safetensors, or at a directory
// as Hugging Face lays one out. It reads headers alone: of a model of 100 GB some
// megabytes at most. What it returns, [Facts], is plain data that can be sent and
// stored. What the headers do not say stays unknown.
//
// [Estimate] says what one card of a replica needs for a profile, in parts, each
// with a sentence that says how it was computed. [Compare] puts an estimate beside
// what was measured.
//
// Files come from strangers, so nothing that a header claims is believed before it
// was read: counts and lengths are bounded, memory follows the bytes that are
// there, and what contradicts itself is an error that says where. Nothing here
// fetches, moves or deletes weights.
//
// docs/explanation/memory.md has the formulas and their sources.
package weights
