// Package scaling runs a fleet for a day under virtual time: models that are asked
// for more and less as the day goes, the control plane's core that decides what of
// them runs on simulated machines, and clients that wait, are refused and come again.
// It answers what a way of scaling costs and whom it keeps waiting, before machines
// are risked on it.
//
//	rates ─ arrivals ─> wake queue ─> admission.Core ─> schedule.Scheduler ─> sim.Core × n
//	   ^                    │               │                                      ^
//	   └── 503, come again ─┘               │ saturation, queue                    │ starts, stops
//	                        └─ who waits ─> reconcile.Core ─ orders ─> machines ───┘
//
// What decides is what decides in production: [reconcile.Core] with package scale
// and the solver, the admission core, the scheduler. What is simulated is machines,
// engines, the way of messages (none is lost or late) and clients, who come again as
// SDKs do. A [Twin] holds no goroutine, timer or clock, and all its chance comes from
// Config.Seed: the same configuration, policy and rates give the same [Report].
package scaling
