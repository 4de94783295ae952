//go:build !race

package limit_test

const mixedRequests = 100_000
