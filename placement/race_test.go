//go:build race

package placement_test

// oracleFleets is fewer where the race detector makes each ten times as slow.
const oracleFleets = 500
