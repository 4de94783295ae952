// Package hardware reads what a machine has: processors, memory, cards, the
// ports of its fabrics, network interfaces.
//
// [Reader.Inventory] reads everything, for a node that registers, and
// [Reader.State] what changes, for a heartbeat. A machine without cards, without
// a tool, without InfiniBand is a machine like any other: what is missing is
// missing in the answer, and what could not be read is named in it as a problem.
//
//	             /proc, /sys ──┐
//	nvidia-smi, rocm-smi ──────┼─► Reader ──► engines.Inventory, engines.NodeState
//	simulated cards (a file) ──┘     ▲ │
//	                                 │ └─► fabrics: labels held against ports
//	/dev/kmsg ──► WatchKernel ──► faults.Book: may a card be used
//
// # What hangs
//
// A driver that is wedged holds whoever asks it, beyond the reach of any
// signal. Each part of a machine is therefore read on its own with a deadline. A
// reading that passes it is left to itself, no second one begins beside it, and
// the last answer is told with its age.
//
// # Machines that do not exist
//
// Everything is read below [Config.Root], which may be a directory of the same
// shape; its directory commands then stands for the vendors' tools.
// [Config.Simulated] gives a real machine cards that it does not have, and
// [Config.InfiniBand] ports. Package hardwaretest makes such machines.
//
// # What it does not do
//
// It writes nothing, resets no card, and does not look at filesystems.
package hardware
