// Package hardwaretest makes machines for tests of package hardware and of
// whatever stands on it: directories of the shape of /proc and /sys, with the
// answers of vendors' tools. The answers have the form of real ones; names,
// addresses and sizes are those of the machines they are called after, and
// identities are made of the machine's name, so that a test can have many.
//
//	m := hardwaretest.H100x8(t, hardwaretest.Options{Hostname: "a1"})
//	cfg := hardware.DefaultConfig()
//	cfg.Root = m.Root
package hardwaretest
