package control

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Config is what an operator may set. Start from [DefaultConfig].
type Config struct {
	// Heartbeat is how often agents are asked to say that they live. Default 5s;
	// must be positive.
	Heartbeat time.Duration `yaml:"heartbeat"`
	// UnreachableAfter is the silence after which a node counts as unreachable.
	// Default 15s; at least twice Heartbeat.
	UnreachableAfter time.Duration `yaml:"unreachable_after"`
	// LostAfter is the silence after which a node counts as lost. Default 60s;
	// longer than UnreachableAfter, and 4s at least where models are placed.
	LostAfter time.Duration `yaml:"lost_after"`
	// Tick is how often silence is judged. A gap of more than two ticks between
	// two judgements was this process's own stall, and counts as two. Default 1s;
	// positive, and at most a quarter of UnreachableAfter.
	Tick time.Duration `yaml:"tick"`
	// ClockSkewWarn is the difference between a node's clock and this one's that
	// is worth a warning. Nothing is decided by it. Default 30s; must be positive.
	ClockSkewWarn time.Duration `yaml:"clock_skew_warn"`

	// MgmtInterface is the network interface whose address a node tells others,
	// unless its own configuration names one. A node without it tells the address
	// that leads here, and says so. Default eth0; 1 to 15 bytes.
	MgmtInterface string `yaml:"mgmt_interface"`
	// PortRange is the first and the last port that engines get on a node whose own
	// configuration names none. Another range holds for engines that are started
	// from then on. Default [20000, 20999]; 1024 to 65535.
	PortRange []int `yaml:"port_range"`

	// HelloTimeout is how long an agent may take from the opening of a stream to
	// its registration. Default 10s; must be positive.
	HelloTimeout time.Duration `yaml:"hello_timeout"`
	// WriteTimeout is how long one message may take to be written to an agent;
	// the stream of one that does not read is ended. Default 10s; must be
	// positive.
	WriteTimeout time.Duration `yaml:"write_timeout"`
	// CommandRetry is after which time a command that has no answer is sent again
	// on the same stream. Default 5s; must be positive.
	CommandRetry time.Duration `yaml:"command_retry"`
	// JournalInterval is how long registrations are gathered before they are
	// saved together, and how long to wait after the journal failed. Default 5s;
	// must be positive.
	JournalInterval time.Duration `yaml:"journal_interval"`

	// MaxMessageBytes bounds one message of an agent's. Default 4194304, 4 MiB; at
	// least 64 KiB.
	MaxMessageBytes int `yaml:"max_message_bytes"`
	// MaxMessagesPerSecond bounds the messages of one agent's that are taken in a
	// second, after as many as would be in four; further ones wait in its stream.
	// Default 500; must be positive.
	MaxMessagesPerSecond int `yaml:"max_messages_per_second"`
	// MaxNodes bounds the nodes that are known; a further one is refused. Default
	// 5000; must be positive.
	MaxNodes int `yaml:"max_nodes"`
	// MaxShardsPerNode bounds the shards of one node. Default 512; must be positive.
	MaxShardsPerNode int `yaml:"max_shards_per_node"`
	// MaxCommandsPerNode bounds the commands without an answer of one node. Default
	// 512; must be positive.
	MaxCommandsPerNode int `yaml:"max_commands_per_node"`
	// MaxUnregistered bounds the streams that have not registered, each of which
	// may hold a message in memory. Default 256; must be positive.
	MaxUnregistered int `yaml:"max_unregistered"`
	// MaxWatched bounds the changes that wait for one watcher; beyond it the
	// watcher is told that everything may have changed. Default 65536; must be
	// positive.
	MaxWatched int `yaml:"max_watched"`
}

// DefaultConfig returns the defaults.
func DefaultConfig() Config {
	return Config{
		Heartbeat:            5 * time.Second,
		UnreachableAfter:     15 * time.Second,
		LostAfter:            60 * time.Second,
		Tick:                 time.Second,
		ClockSkewWarn:        30 * time.Second,
		MgmtInterface:        "eth0",
		PortRange:            []int{20000, 20999},
		HelloTimeout:         10 * time.Second,
		WriteTimeout:         10 * time.Second,
		CommandRetry:         5 * time.Second,
		JournalInterval:      5 * time.Second,
		MaxMessageBytes:      4 << 20,
		MaxNodes:             5000,
		MaxMessagesPerSecond: 500,
		MaxShardsPerNode:     512,
		MaxCommandsPerNode:   512,
		MaxUnregistered:      256,
		MaxWatched:           65536,
	}
}

// Validate returns every problem of c, joined, each with the key, the value and
// what would be accepted.
func (c Config) Validate() error {
	var errs []error
	fault := func(key string, value any, want string) {
		errs = append(errs, fmt.Errorf("%s: %v; want %s", key, value, want))
	}
	for _, d := range []struct {
		key   string
		value time.Duration
	}{
		{"heartbeat", c.Heartbeat},
		{"tick", c.Tick},
		{"clock_skew_warn", c.ClockSkewWarn},
		{"hello_timeout", c.HelloTimeout},
		{"write_timeout", c.WriteTimeout},
		{"command_retry", c.CommandRetry},
		{"journal_interval", c.JournalInterval},
	} {
		if d.value <= 0 {
			fault(d.key, d.value, "more than 0s")
		}
	}
	if c.UnreachableAfter < 2*c.Heartbeat {
		fault("unreachable_after", c.UnreachableAfter, fmt.Sprintf("at least twice heartbeat, %v: one heartbeat may be late", 2*c.Heartbeat))
	}
	if c.LostAfter <= c.UnreachableAfter {
		fault("lost_after", c.LostAfter, fmt.Sprintf("more than unreachable_after, %v", c.UnreachableAfter))
	}
	if c.Tick > c.UnreachableAfter/4 {
		fault("tick", c.Tick, fmt.Sprintf("at most a quarter of unreachable_after, %v", c.UnreachableAfter/4))
	}
	if name := c.MgmtInterface; name == "" || len(name) > 15 || strings.ContainsAny(name, "/ \t\n") {
		fault("mgmt_interface", fmt.Sprintf("%q", name), "the name of a network interface, such as eth0")
	}
	if r := c.PortRange; len(r) != 2 || r[0] < 1024 || r[1] > 65535 || !slices.IsSorted(r) {
		fault("port_range", r, "the first and the last port, of 1024 to 65535, such as [20000, 20999]")
	}
	if c.MaxMessageBytes < 64<<10 {
		fault("max_message_bytes", c.MaxMessageBytes, "at least 65536")
	}
	for _, n := range []struct {
		key   string
		value int
	}{
		{"max_messages_per_second", c.MaxMessagesPerSecond},
		{"max_nodes", c.MaxNodes},
		{"max_shards_per_node", c.MaxShardsPerNode},
		{"max_commands_per_node", c.MaxCommandsPerNode},
		{"max_unregistered", c.MaxUnregistered},
		{"max_watched", c.MaxWatched},
	} {
		if n.value <= 0 {
			fault(n.key, n.value, "1 or more")
		}
	}
	return errors.Join(errs...)
}
