// Package agent is agent.yaml: its keys, their defaults, what is refused and why.
// The parts that other packages own stand in those packages' Config structs.
package agent

//go:generate go test -run TestReferenceIsCurrent . -update
