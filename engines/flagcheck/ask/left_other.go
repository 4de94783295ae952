//go:build !linux

package ask

// endMarked does nothing where the environment of processes cannot be read.
func endMarked(string) {}
