//go:build race

package gateway_test

import "testing"

func TestGovernedMixedOutcomes(t *testing.T) { governedMixed(t, 1_000) }

// awayRate is how many requests a second come while the store is away.
const awayRate = 5

// mixedRequests is how many requests end in every way; the race detector makes each
// ten times as dear.
const mixedRequests = 5_000

// queuedRequests is how many of them wait for admission.
const queuedRequests = 3_000

// manyStreams is how many streams run at once.
const manyStreams = 300
