//go:build !race

package cli_test

import "github.com/llmgw/llmgw/engines"

// asProgram says which built-in adapters are held to the contract as programs.
func asProgram(engines.Name) bool { return true }
