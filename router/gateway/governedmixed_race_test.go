//go:build race

package gateway_test

import "testing"

func TestGovernedMixedOutcomes(t *testing.T) { governedMixed(t, 1_000) }
