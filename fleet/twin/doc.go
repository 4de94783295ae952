// Package twin runs a whole data plane on simulated engines under virtual
// time: the scheduler, the prefix index and the admission core that serve in
// production, on engines of package sim, with the requests of a trace. It
// answers in seconds what would otherwise take an hour of GPUs: which routing
// policy suits a workload, how much load a fleet carries, whom a flood hurts.
//
//	trace ─ arrival ─> admission.Core ─ grant ─> schedule.Scheduler ─> sim.Core × n
//	                        ^    ^                  ^          ^            │
//	                        │    └── measurements ──┴─ scrape ────────────┤ steps
//	                        └──────── release ──────── prefix index <── finish
//
// A [Twin] is one event loop over arrivals, the engines' batch iterations,
// scrapes and the ticks of admission. It holds no goroutine, timer or clock,
// and all its chance comes from Config.Seed: the same configuration, policy and
// trace give the same [Report].
//
// What is the same as in production is the code that decides and what it may
// know: loads are as old as the last scrape, what an engine cached is learned
// when its answer ends. What is left out is the network, failures, retries and
// the text: prompts are identities of blocks ([workload.Trace.AppendBlockHashes])
// that are taken to have four bytes a token, so an index by bytes sees them
// share exactly what the trace says.
//
//	tw, err := twin.New(twin.DefaultConfig(), twin.Prefix, trace)
//	…
//	report, err := tw.Run(ctx)
package twin
