//go:build !race

package gateway_test

import "testing"

func TestGovernedMixedOutcomes(t *testing.T) { governedMixed(t, 100_000) }

// awayRate is how many requests a second come while the store is away.
const awayRate = 40

// mixedRequests is how many requests end in every way.
const mixedRequests = 100_000

// queuedRequests is how many of them wait for admission.
const queuedRequests = 6_000

// manyStreams is how many streams run at once.
const manyStreams = 1000
