package placement

// Decision is where a replica is to go, or why it can go nowhere. It is the same
// for the same nodes, claims and wish, whatever order they were given in. What it
// refers to must not be changed.
type Decision struct {
	Model, Replica string
	// Placed: there is a place, and Fabric, Class, Shards and Score say which.
	Placed bool
	// Fabric is the one that all nodes are in. Empty: one node needs none.
	Fabric string
	// Class is that of the cards. Empty: it takes none, or theirs is not known.
	Class string
	// Shards are the ranks' places, by rank.
	Shards []ShardPlace
	Score  Score
	// Why says in a sentence what decided, or what is missing.
	Why string
	// Runners are the places that would have been taken instead, the best first:
	// for a replica of one rank other nodes, for a gang other fabrics or classes
	// of cards. At most [MaxRunners].
	Runners []Runner
	// Others are all nodes that would have done and were not taken, the best
	// first.
	Others []string
	// Rejected are all other nodes, by ID: each with every reason. A node is used,
	// or one of Others, or rejected.
	Rejected []Rejection
	// Fabrics says of each fabric, by name, how far it is from holding a gang. Nil
	// for a replica of one rank.
	Fabrics []Standing
	// CouldEver: known nodes could hold the replica if they were empty and well,
	// or too little is known to deny it. See [Cluster.Fits].
	CouldEver bool
}

// MaxRunners bounds [Decision.Runners].
const MaxRunners = 8

// Runner is a place that was not taken.
type Runner struct {
	Fabric, Class string
	// Nodes are its nodes, by ID.
	Nodes []string
	Score Score
}

// Standing is how far a fabric is from holding a gang, with cards of the class of
// which it has most nodes that fit.
type Standing struct {
	Fabric, Class string
	// Members are its nodes, those included whose ports contradict it.
	Members, Contradicted int
	// WholeFree are the members that are ready, and of which all cards are free.
	WholeFree int
	// Needs is how many nodes the gang takes, Fits how many can each hold a rank,
	// and Short how many more would have to for the gang to fit. 0: it fits.
	Needs, Fits, Short int
	// WeightSources is how many places in the fabric have the weights: each node
	// that holds them, and each shared filer once, however many nodes see it.
	WeightSources int

	need    *Need
	weights bool // they were asked for
	empty   bool // this is of an empty fleet
}

// Rejection is why a node is not used.
type Rejection struct {
	Node string
	// Reasons are all there are, at least one, in the order of the kinds.
	Reasons []Reason
}
