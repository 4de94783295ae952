// Package fleettest is fake agents for tests of what talks to agents: hundreds or
// thousands in one process, over the real protocol, with as many real connections.
//
//	fleet, err := fleettest.New(fleettest.Config{URL: "http://127.0.0.1:7443", Nodes: 500})
//	…
//	go fleet.Run(ctx)
//	…
//	fleet.Agent("node-17").Silence(true)
//
// A fake agent keeps what an agent has to keep: the cluster it belongs to, the
// highest term and generation it has heard of, its shards. It starts no process:
// a shard loads for a while and is ready. How often shards were started is
// counted, since that is what a test of restarts asks.
//
// Faults are drawn for each message but the first of a stream, in both
// directions: it is dropped, doubled, or delayed, which also changes the order.
// The same seed draws the same faults; when messages come is up to the network.
// With package testing/synctest and a network in memory the time is virtual.
//
// A server's Close waits for streams that are under way: end Run's context first,
// as the example does.
package fleettest
