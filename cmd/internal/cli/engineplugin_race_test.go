//go:build race

package cli_test

import "github.com/llmgw/llmgw/engines"

// asProgram says which built-in adapters are held to the contract as programs: one,
// for the host and the wire are the same for all, and the race detector makes each
// answer ten times as slow.
func asProgram(name engines.Name) bool { return name == engines.LlamaCPP }
