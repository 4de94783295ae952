package engines

import (
	"context"
	"errors"
	"time"
)

// Adapter describes how one engine is launched, watched and measured. It only
// describes: it starts no process, opens no port and reads no file, so that its
// crash, hang or upgrade touches no running engine. The same profile and shard
// give the same answer every time.
//
// In process the methods do not block; across engines/plugin each one is a
// call with a deadline, and an error may also be one of the transport, found by
// [ErrUnavailable]. Every method may be called by several goroutines at once.
type Adapter interface {
	// Describe says what the adapter is. The answer does not change while the
	// adapter runs.
	Describe(ctx context.Context) (Description, error)
	// Validate checks a profile without starting anything, and returns what a
	// replica of it needs. A profile that cannot run is a [*ProfileError] with
	// every fault in it.
	Validate(ctx context.Context, p Profile) (Shape, error)
	// Launch builds the launch of one rank. A profile that cannot run is a
	// [*ProfileError], as is a shard that lacks what the profile's [Shape]
	// asks for.
	Launch(ctx context.Context, s Shard) (Launch, error)
	// Checks returns, for every executable that the adapter ever starts, the
	// widest command it would give it: every flag and variable that a profile
	// can lead to, multi-node included.
	Checks(ctx context.Context) ([]Check, error)
}

// ErrUnavailable is the class of errors that are the adapter's own condition,
// not the profile's: it is not running, it did not answer in time, or it went
// away during the call. The call may be made again.
var ErrUnavailable = errors.New("engines: adapter is not available")

// Description says what an adapter is and what its engine can do.
type Description struct {
	// Engine is the name by which profiles ask for the adapter, such as
	// "vllm": lower-case letters, digits and dashes.
	Engine Name
	// Title is the engine's name for people, such as "vLLM".
	Title string
	// Version is the adapter's own version.
	Version string
	// Tested are the engine versions that the adapter's flags were held
	// against, as the engine spells them. Others may work: see [Check].
	Tested []string
	// Modes are the ways to spread a replica over ranks, the default first,
	// such as "mp" and "ray". Empty: one rank only, one way.
	Modes []Mode
	// Options are the keys of [Profile.Options] that the adapter knows.
	Options []Option
	// ReservedFlags are the flags that the adapter alone sets (address, port,
	// key, ranks), with their dashes; in [Profile.ExtraArgs] they are a fault.
	ReservedFlags []string
	// ReservedEnv are the variables that the adapter alone sets; in
	// [Profile.Env] they are a fault.
	ReservedEnv []string
	// Capabilities is what a router may rely on in the engine as the adapter
	// launches it.
	Capabilities Capabilities
	// Metrics is where the engine's load stands; nil: it exports none.
	Metrics *MetricContract
	// Secret says how the engine is kept from strangers.
	Secret SecretUse
}

// Mode is one way to spread a replica over ranks.
type Mode struct {
	// Name is what [Profile.Mode] says.
	Name string
	// MultiNode: ranks may run on several nodes.
	MultiNode bool
	// Doc says in one sentence what the mode does.
	Doc string
}

// Option is a key of [Profile.Options].
type Option struct {
	// Key is lower-case letters, digits and underscores.
	Key string
	// Values are those accepted; empty: any text, which the adapter checks.
	Values []string
	// Doc says in one sentence what the option does, with its default.
	Doc string
}

// SecretUse says what an engine does with the secret of a replica generation,
// by which a router knows that the answer comes from the replica it means.
type SecretUse struct {
	// Supported: the engine can ask its callers for a key. If not, a router has
	// to probe what is behind the port before it trusts it.
	Supported bool
	// By says how the key reaches the engine, never on its command line.
	By SecretDelivery
	// OpenPaths are the routes that the engine answers without the key. An
	// entry that ends in / is a prefix. "*" alone: everything is open but
	// ClosedPaths.
	OpenPaths []string
	// ClosedPaths are the routes that need the key where OpenPaths is "*".
	ClosedPaths []string
}

// SecretDelivery is a way for a secret to reach an engine.
type SecretDelivery uint8

const (
	// SecretUnset is the zero value: the engine takes no secret.
	SecretUnset SecretDelivery = iota
	// SecretByEnv is an environment variable of the engine's process.
	SecretByEnv
	// SecretByFile is a file that only the engine's user can read.
	SecretByFile
)

// String returns "environment", "file" or "none".
func (d SecretDelivery) String() string {
	switch d {
	case SecretByEnv:
		return "environment"
	case SecretByFile:
		return "file"
	case SecretUnset:
	}
	return "none"
}

// Check is a command that is held against the engine's own help text, which
// needs no model, and of most engines no GPU.
type Check struct {
	// Name tells the checks of one adapter apart, such as "serve" and "ray".
	Name string
	// Command is the widest command that the adapter would start. Values in it
	// are examples.
	Command Command
	// HelpArgs make the executable print its help, such as "serve" and
	// "--help=all".
	HelpArgs []string
	// VersionArgs make the executable print its version; nil: it cannot.
	VersionArgs []string
	// Variables are the names of environment variables that the help text
	// must name, for engines that are configured by them.
	Variables []string
	// Since are the flags that only some versions have, each with the first
	// version that does, as [CompareVersions] reads it; the adapter passes such
	// a flag only to an engine known to be that new. A check does not miss it
	// in the help of an older one.
	Since map[string]string
	// HelpLines is how many lines the help text has at least where it is
	// whole; fewer are suspected to be cut off. 0: not known.
	HelpLines int
	// Timeout bounds one run of the executable: help that imports a GPU library
	// takes tens of seconds.
	Timeout time.Duration
}
