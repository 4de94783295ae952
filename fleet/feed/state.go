package feed

import (
	"cmp"
	"slices"
	"time"

	"github.com/llmgw/llmgw/placement/catalog"
)

// State is everything that a router knows from the feed at one moment. It never
// changes, and is shared: its reader must not change what it refers to either.
type State struct {
	// Version is what it is of. The zero Version: nothing was heard yet, and nothing
	// is known, which is not the same as a fleet without replicas.
	Version Version
	// Unverified: it is the copy on the router's disk, and no control plane has said
	// since the router's start that it still holds. Each entry has to be probed
	// before it is used first.
	Unverified bool
	// Entries are by replica, each of which has one at most.
	Entries []Entry
	// Models are the catalog's, by name.
	Models []catalog.Model
	// Unread are the models that this router cannot read, by name, since a newer
	// control plane wrote what it does not know. They are missing in Models.
	Unread []string
	// Statuses are how models stand, by name; those of which no control plane has said
	// are left out.
	Statuses []ModelStatus
	// Revoked are the keys that count no more or were changed, by id.
	Revoked []Revocation

	models []modelled // all of them
}

// Known reports whether the router has heard anything.
func (s *State) Known() bool { return s.Version != (Version{}) }

// Entry returns the entry of a replica.
func (s *State) Entry(replica string) (Entry, bool) {
	i, found := slices.BinarySearchFunc(s.Entries, replica, func(e Entry, replica string) int { return cmp.Compare(e.Replica, replica) })
	if !found {
		return Entry{}, false
	}
	return s.Entries[i], true
}

// Revocation is a key that counts no more, or was changed.
type Revocation struct {
	KeyID string
	// At is when it was revoked or changed last, by the control plane's clock.
	At time.Time
	// Changed: the key may count, and is to be looked up anew. Else it counts no more,
	// whatever the store says, which may not have heard of that yet.
	Changed bool
}
