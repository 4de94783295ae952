package engines

import "time"

// Shape is what a replica of a profile needs, rank by rank.
type Shape struct {
	// Ranks has one entry per rank; rank 0 leads.
	Ranks []RankShape
}

// RankShape is what one rank needs of its node.
type RankShape struct {
	// Cards is how many cards the rank takes; 0 with [Profile.CPU].
	Cards int
	// ServesHTTP: requests may be sent to the rank. Rank 0 alone.
	ServesHTTP bool
	// Ports are the ports that the launcher must set aside for the rank.
	Ports []PortNeed
}

// PortNeed is a run of consecutive free ports.
type PortNeed struct {
	// Name is what the ports are for; [PortHTTP] or one of the adapter's own.
	Name string
	// Count is how many, 1 or more.
	Count int
}

// PortHTTP is the name of the port on which a rank answers HTTP.
const PortHTTP = "http"

// Shard is one rank that is to be launched, and where.
type Shard struct {
	Profile Profile
	// Replica and Generation say whose rank it is, for names and logs.
	Replica    string
	Generation uint64
	// Rank is 0 up to Profile.Ranks - 1.
	Rank int
	// Leader is the address of rank 0's node that other nodes reach.
	Leader string
	// Address is the address of this rank's node that other nodes reach.
	Address string
	// Bind is the address that the engine's HTTP server listens on.
	Bind string
	// Interface is the network interface between the nodes, and HCAs are its
	// InfiniBand adapters. Empty: one node, or left to the engine.
	Interface string
	HCAs      []string
	// Cards are the cards of this rank, in order.
	Cards []Card
	// Ports has the first port of each [PortNeed] of the rank, by name, and
	// LeaderPorts those of rank 0.
	Ports       map[string]int
	LeaderPorts map[string]int
	// Dir is a directory of the shard's own on its node: absolute.
	Dir string
	// Keyed: the engine is to ask for the secret of its generation. The
	// adapter puts [SecretPlaceholder] where the secret goes; it never sees
	// the secret itself.
	Keyed bool
	// EngineVersion is what the executable says it is. Empty: not known, and
	// the adapter passes no flag that only some versions have.
	EngineVersion string
}

// Card is one device of a node.
type Card struct {
	// Vendor says which variables name the card.
	Vendor Vendor
	// Index is its number on the node, from 0.
	Index int
	// UUID is its lasting name; empty: not known.
	UUID string
}

// Vendor is who made a card.
type Vendor string

// The vendors whose cards adapters know how to name.
const (
	NVIDIA Vendor = "nvidia"
	AMD    Vendor = "amd"
	// SimulatedCard is a card that does not exist.
	SimulatedCard Vendor = "sim"
)

// SecretPlaceholder stands where the secret of the replica's generation goes, in
// a value of [Command.Env] or the content of a [File], never in an argument:
// arguments are open to every user of the machine. Who launches replaces it.
const SecretPlaceholder = "{{llmgw.secret}}"

// Launch is everything that is needed to start, watch and stop one rank.
type Launch struct {
	// Engine is the command of the rank itself.
	Engine Command
	// Files are written into the shard's directory before anything starts.
	Files []File
	// Sidecars run beside the engine. They start in order, before it, each only
	// when the one before is ready, and stop after it in reverse order.
	Sidecars []Sidecar
	// ServesHTTP: requests may be sent to the rank once it is ready.
	ServesHTTP bool
	// Ready says when the rank is ready.
	Ready Readiness
	// Stop says how the rank is ended.
	Stop Stop
	// Logs says what lines of the engine's output mean. The first rule that
	// matches a line counts.
	Logs []LogRule
	// Sleep says how the engine sleeps and is woken. Nil: it cannot. Set where
	// [Profile.Sleep] asks for it, and not elsewhere.
	Sleep *Sleep `json:",omitempty"` // so that launches without it keep their hash
}

// Command is a process to start. It inherits no variable but those that its
// launcher hands on by name.
type Command struct {
	// Executable is an absolute path, or a name looked up in PATH.
	Executable string
	// Args leaves out the executable itself.
	Args []string
	// Env are the variables of the process, by name.
	Env map[string]string
	// Unset are variables that the process must not have, whatever its
	// launcher hands on.
	Unset []string
}

// File is a file of the shard's own.
type File struct {
	// Name is relative to the shard's directory and stays in it.
	Name string
	// Content may hold [SecretPlaceholder]. The file can be read by the
	// engine's user alone.
	Content string
}

// Sidecar is a process that the engine needs beside it.
type Sidecar struct {
	// Name tells the sidecars of a shard apart.
	Name    string
	Command Command
	// Ready says when the engine may start. Required: a sidecar that is not
	// ready in time fails the shard.
	Ready Readiness
	// RunsOnce: the process ends by itself with status 0, and is ready then.
	RunsOnce bool
	Stop     Stop
	Logs     []LogRule
}

// Readiness says when a process is ready, and when it has failed to become so.
type Readiness struct {
	// Probe is asked over HTTP. Nil: nothing can be asked; the process is
	// ready when Log says so, or, without a rule, as long as it runs.
	Probe *Probe
	// Log is a regular expression (RE2); a line that matches makes a process
	// without a probe ready. Empty: none.
	Log string
	// Timeout bounds the time from start to ready. More than 0, at most
	// [LongestWait].
	Timeout time.Duration
	// Stalled bounds the time in which neither a line of output nor an answer
	// of the probe shows progress. 0: no bound but Timeout.
	Stalled time.Duration
}

// Probe is a GET of which the answer says whether a process is ready. A
// refused connection says nothing: most engines listen only when they are
// loaded.
type Probe struct {
	// Port is on the loopback or on the address that the shard binds.
	Port int
	// Path begins with /.
	Path string
	// Contains is what the body must hold; empty: any body with status 200.
	Contains string
	// Keyed: the probe carries the shard's secret.
	Keyed bool
	// Timeout bounds one answer. More than 0.
	Timeout time.Duration
}

// Stop says how a process is ended: Signal to its group, then, after Grace,
// SIGKILL.
type Stop struct {
	Signal Signal
	// Grace is 0 or more, at most [LongestWait].
	Grace time.Duration
}

// Signal asks a process to end.
type Signal uint8

const (
	// SignalUnset is the zero value and not valid in a [Stop].
	SignalUnset Signal = iota
	// SignalTerm is SIGTERM.
	SignalTerm
	// SignalInt is SIGINT.
	SignalInt
	// SignalQuit is SIGQUIT.
	SignalQuit
)

// String returns "SIGTERM", "SIGINT", "SIGQUIT" or "unset".
func (s Signal) String() string {
	switch s {
	case SignalTerm:
		return "SIGTERM"
	case SignalInt:
		return "SIGINT"
	case SignalQuit:
		return "SIGQUIT"
	case SignalUnset:
	}
	return "unset"
}

// LogRule says what a line of an engine's output means.
type LogRule struct {
	// Match is a regular expression (RE2), searched for in the line.
	Match string
	// Phase is where in its life the process is when it prints the line.
	Phase Phase
	// Reason and Advice are for people, with the groups of Match as $1 or
	// ${name}. Required where Phase is [PhaseFailed].
	Reason, Advice string
}

// Phase is how far a process has come.
type Phase uint8

const (
	// PhaseUnset is the zero value: nothing is known yet.
	PhaseUnset Phase = iota
	// PhaseStarting: the process runs and has said nothing of note.
	PhaseStarting
	// PhaseRendezvous: it waits for other ranks.
	PhaseRendezvous
	// PhaseLoading: weights are read.
	PhaseLoading
	// PhaseWarming: weights are in; caches, graphs and kernels are made.
	PhaseWarming
	// PhaseListening: it is about to answer, or does.
	PhaseListening
	// PhaseStopping: it was asked to end and finishes.
	PhaseStopping
	// PhaseFailed: it has given up, or will.
	PhaseFailed
)

// String returns the phase in one word, lower case.
func (p Phase) String() string {
	names := [...]string{"unset", "starting", "rendezvous", "loading", "warming", "listening", "stopping", "failed"}
	if int(p) < len(names) {
		return names[p]
	}
	return "unset"
}
