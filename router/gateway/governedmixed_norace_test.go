//go:build !race

package gateway_test

import "testing"

func TestGovernedMixedOutcomes(t *testing.T) { governedMixed(t, 100_000) }

// awayRate is how many requests a second come while the store is away.
const awayRate = 40
