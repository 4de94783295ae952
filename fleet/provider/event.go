package provider

import (
	"errors"
	"time"

	"github.com/llmgw/llmgw/storage"
)

// What the core answers to an event that it refuses. The texts say what to do.
var (
	// ErrHeld: another principal registered that address and its lease lives.
	ErrHeld = errors.New("provider: registered by another principal")
	// ErrNameTaken: another provider has that name.
	ErrNameTaken = errors.New("provider: the name is another provider's")
	// ErrExists: there is a provider at that address.
	ErrExists = errors.New("provider: there is one at that address")
	// ErrNotFound: there is no such provider.
	ErrNotFound = errors.New("provider: not found")
	// ErrFull: there are as many providers as may be.
	ErrFull = errors.New("provider: as many as may be")
	// ErrInvalid: what was asked for cannot be.
	ErrInvalid = errors.New("provider: invalid")
)

// Event is something that happens to providers: one of the types below.
type Event interface{ event() }

// Register is an agent's word that an engine is at an address, for as long as TTL.
type Register struct {
	// BaseURL is as ParseBaseURL writes it.
	BaseURL string
	// Principal is whose key it came with. Not empty.
	Principal string
	// Node, Name and Engine are what the agent says. An empty Name is the host and port
	// of the address.
	Node, Name, Engine string
	// TTL is 10s to 24h; 0 is the default.
	TTL time.Duration
	// NewID is the ID that the provider gets if it is new.
	NewID string
}

// Answered is what came of asking a provider for its models.
type Answered struct {
	ID string
	// Models are by name, each once; nil with a Failure.
	Models []Listed
	// Failure says why there was no answer; empty if there was one.
	Failure string
}

// Tick says that time has passed. It is to come every second or so.
type Tick struct{}

// Add is an operator's word that there is a provider, static or cloud.
type Add struct {
	NewID         string
	BaseURL       string
	Kind          storage.ProviderKind
	Name          string // empty: the vendor's of a cloud, the host of a static one
	Vendor        string // of a cloud
	Node          string
	Engine        string
	Credential    []byte // sealed
	CredentialKey string
	Actor         string
}

// Patch changes what is not nil of a provider.
type Patch struct {
	ID         string
	Kind       *storage.ProviderKind
	Name       *string
	Credential *SealedCredential
	Actor      string
	// Quiet is for a credential that was sealed anew: nobody changed anything.
	Quiet bool
}

// SealedCredential is a credential as a store keeps it. The zero value is none.
type SealedCredential struct {
	Sealed []byte
	KeyID  string
}

// Delete is an operator's word that a provider shall be forgotten.
type Delete struct {
	ID    string
	Actor string
}

func (Register) event() {}
func (Answered) event() {}
func (Tick) event()     {}
func (Add) event()      {}
func (Patch) event()    {}
func (Delete) event()   {}

// Registration is the answer to a Register.
type Registration struct {
	ID       string
	Name     string
	Kind     storage.ProviderKind
	Leased   bool // false: the provider is static or a cloud, and nothing was changed
	Degraded bool
	// Warning says what was declined, for the agent's log; empty if nothing was.
	Warning string
}

// Decision is what a step decided.
type Decision struct {
	// ID is the provider's that the event was about; empty for Tick.
	ID string
	// Registration answers a Register.
	Registration Registration
	// Writes are what a store has to keep, in order.
	Writes []Write
	// Probe are the IDs of providers that should be asked soon.
	Probe []string
	// Visible says that somebody who looks sees a difference: routes, names, states.
	Visible bool
	// Notes are what a log should have.
	Notes []Note
}

// Note is one change of one provider, for a log.
type Note struct {
	Provider storage.Provider // without its models
	Change   Change
	Why      string
}

// Change is what became of a provider. Each is a word of metrics and logs.
type Change uint8

// The changes.
const (
	ChangeRegistered Change = iota + 1 // "registered"
	ChangeAdded                        // "added"
	ChangeChanged                      // "changed": name, kind, credential, or who registers it
	ChangeDegraded                     // "degraded": its models left rotation
	ChangeRecovered                    // "recovered": they are back
	ChangeDrifted                      // "drifted": it serves less than it did
	ChangeRemoved                      // "removed": nobody renewed it for long enough
	ChangeDeleted                      // "deleted": by an operator

	changes = int(ChangeDeleted) + 1
)

// String is the change's word.
func (c Change) String() string {
	words := [changes]string{"unset", "registered", "added", "changed", "degraded", "recovered", "drifted", "removed", "deleted"}
	if int(c) < len(words) {
		return words[c]
	}
	return "unknown"
}

// Write is one write of a store.
type Write struct {
	Op WriteOp
	// Provider is the record: with the revision that it replaces or deletes, 0 for a new
	// one.
	Provider storage.Provider
	// Before is what it replaces or deletes; nil for a new one.
	Before *storage.Provider
	// Action and Actor are the audit row's; empty for WriteSeen, which has none.
	Action, Actor string
}

// WriteOp is which method of the store writes it. The zero value is none.
type WriteOp uint8

// The writes.
const (
	WriteCreate WriteOp = iota + 1 // CreateProvider
	WriteUpdate                    // UpdateProvider
	WriteSeen                      // SeeProviders
	WriteDelete                    // DeleteProvider
)

// View is a provider as it stands.
type View struct {
	storage.Provider
	// LeaseUntil is when the lease ends; zero for static and cloud ones.
	LeaseUntil time.Time
	// ProbedAt is when it was asked last; zero: not since the registry was loaded.
	ProbedAt time.Time
	// ProbeFailure is why it did not answer then; empty if it did. Of static and cloud
	// providers it is all that comes of a failure.
	ProbeFailure string
	// Contest is who else registers the address; zero for nobody.
	Contest Contest
}

// Contest is somebody who registers an address that another one holds.
type Contest struct {
	Node, Name, Principal string
	At                    time.Time // last
}

// Rotates reports whether requests for a model may go to the provider, as far as the
// registry knows. A dynamic one must be well and have the model in its last answer.
// Static and cloud ones are taken at the operator's word.
func (v *View) Rotates(model string) bool {
	if v.Kind != storage.ProviderDynamic {
		return true
	}
	if !v.DegradedAt.IsZero() {
		return false
	}
	m := findModel(v.Models, model)
	return m != nil && m.GoneAt.IsZero()
}

// Drifted reports whether a model that was served is not served now.
func (v *View) Drifted() bool {
	for i := range v.Models {
		if !v.Models[i].GoneAt.IsZero() {
			return true
		}
	}
	return false
}

// State is one word for how the provider is: "degraded", a dynamic one that serves
// nothing; "failing", another one that did not answer; "drifted", one that serves less
// than it did; or "well".
func (v *View) State() string {
	switch {
	case !v.DegradedAt.IsZero():
		return "degraded"
	case v.Kind != storage.ProviderDynamic && v.ProbeFailure != "":
		return "failing"
	case v.Drifted():
		return "drifted"
	}
	return "well"
}
