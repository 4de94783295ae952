//go:build race

package limit_test

// mixedRequests is fewer where the race detector makes each ten times as slow.
const mixedRequests = 16_000
