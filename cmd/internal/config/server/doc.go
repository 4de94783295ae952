// Package server is server.yaml: its keys, their defaults, what is refused and
// why. The parts that other packages own stand in those packages' Config
// structs; this one adds what belongs to the process: listeners, their limits,
// shutdown and the log.
package server

//go:generate go test -run TestReferenceIsCurrent . -update
