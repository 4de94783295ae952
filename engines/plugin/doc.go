// Package plugin runs engine adapters as programs of their own, so that the crash,
// hang or upgrade of one touches neither the agent nor a running engine.
//
// Its two sides are [Serve], which is the whole main of an adapter,
//
//	func main() { plugin.Serve(myengine.Adapter{}) }
//
// and [Host], which finds the programs, starts those that are in use, watches them,
// starts them again when they die or hang, and hands each out as an
// [engines.Adapter] whose calls go over the wire:
//
//	host.Adapter("vllm") ── call, deadline ──> process llmgw-adapter-vllm
//	     │ away: engines.ErrUnavailable,             Serve(adapter)
//	     │ with its cause                            ends when its standard
//	     └─ supervise: start, check, ping, restart   input does: the host is gone
//
// What an adapter returns is input from outside: it is checked before a caller sees
// it. The protocol is pluginpb's, spoken over a Unix socket with certificates that
// are made for each start; underneath stands hashicorp/go-plugin. The package does
// not start engines: a Launch is only described here.
package plugin
