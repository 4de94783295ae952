package prefix

// ghosts remember the last beginnings that were taken from an endpoint because
// they went beyond its estimated capacity, each by the hash of its first chunk. If
// the engine then still has one, the estimate was too low; that an engine has more
// than was believed for another reason, as its own answers, says nothing about it.
type ghosts []uint64

const (
	ghostCount = 1024
	ghostBytes = 8 * ghostCount
)

func (g ghosts) add(hash uint64) { g[hash%ghostCount] = hash }

// has is false for the nil ghosts.
func (g ghosts) has(hash uint64) bool { return g != nil && g[hash%ghostCount] == hash }
