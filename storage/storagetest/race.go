//go:build race

package storagetest

// raced says that the race detector makes each call ten times as slow, where the
// database is in the same process: what one goroutine does is done less often.
const raced = true
