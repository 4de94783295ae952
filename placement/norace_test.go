//go:build !race

package placement_test

// oracleFleets is how many random fleets are held against the oracle.
const oracleFleets = 10_000
