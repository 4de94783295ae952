// Package workload describes what clients send to engines: which request
// arrives when, how long it is, and which beginning it shares with others.
// A [Trace] is read from a recorded file ([Open], [Read]) or drawn from
// distributions ([Synthesize]), changed as an experiment needs
// ([Trace.First], [Trace.Repeat], [Trace.Speedup], [Trace.Scale],
// [Trace.WithArrivals]), summed up ([Trace.Stats]), and turned into prompts
// by a [Prompter].
//
//	file ── Open, Read ──┐
//	                     ├─→ Trace ─→ First, Repeat, … ─→ Trace ─→ Prompter ─→ text
//	Synthetic ─ Synthesize┘                                └─→ Stats
//
// Simulations need no text; [Trace.AppendBlockHashes] gives them what is shared.
//
// It sends nothing, knows no HTTP and keeps no clock: the load generator
// paces real requests by it, the simulation virtual ones.
//
// # Files
//
// [Formats] are known, plain or gzipped; both are told from the content.
//
//	mooncake  JSON lines: timestamp (ms), input_length, output_length,
//	          hash_ids, one for each 512 tokens
//	qwen      JSON lines: chat_id, parent_chat_id, timestamp (s),
//	          input_length, output_length, hash_ids, one for each 16 tokens
//	azure     CSV: TIMESTAMP, ContextTokens, GeneratedTokens
//	burstgpt  CSV: Timestamp (s), Request tokens, Response tokens, and
//	          perhaps Session ID; rows of failed calls, without response
//	          tokens, must be taken out before
//	aibrix    JSON lines: timestamp (ms), requests: one object with
//	          "Prompt Length", "Output Length", prompt
//
// Other columns and keys are ignored. A file is taken whole or not at all:
// the first thing wrong is a [RowError] that names its line and field.
//
// # Prompts
//
// Recorded traces have lengths and identities of blocks, not texts. A
// [Prompter] makes a text with as many tokens, in the count of the simulated
// tokenizer ([sim.CountTokens]), that shares with other texts exactly the
// blocks that the trace says. With another seed ([Prompter.Seeded]) it makes
// other texts that share as much.
//
// Engines with a tokenizer of their own count a little more, since only the
// word that spells a block's id is not a common English one. With the
// vocabularies cl100k_base and o200k_base it is 0.5 % with the 512-token
// blocks of mooncake, 0.2 % without blocks, and 15 % with the 16-token blocks
// of qwen.
package workload
