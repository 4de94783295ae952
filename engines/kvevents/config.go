package kvevents

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Config says where an engine publishes. Start from [DefaultConfig].
type Config struct {
	// Endpoint is where rank 0 publishes, tcp://HOST:PORT. Rank r has the port
	// r higher. No default; required.
	Endpoint string `yaml:"endpoint"`
	// ReplayEndpoint is where rank 0 answers for batches that were missed,
	// tcp://HOST:PORT; rank r has the port r higher. Default empty: it does
	// not, and a gap or a lost connection empties what was learned.
	ReplayEndpoint string `yaml:"replay_endpoint"`
	// Topic is the beginning of the topics that are wanted. Default empty: all.
	Topic string `yaml:"topic"`
	// Ranks is how many data-parallel ranks publish. Default 1; 1 to 1024.
	Ranks int `yaml:"data_parallel_size"`
	// ConnectTimeout bounds a dial with its handshake. Default 5s; must be
	// positive.
	ConnectTimeout time.Duration `yaml:"connect_timeout"`
	// ReplayTimeout bounds the wait for each message of a replay, and ten times
	// it the whole. Default 5s; must be positive.
	ReplayTimeout time.Duration `yaml:"replay_timeout"`
	// MinBackoff is the pause before the first new try after a failure, give
	// or take a quarter. It doubles up to MaxBackoff. Default 100ms; must be
	// positive.
	MinBackoff time.Duration `yaml:"min_backoff"`
	// MaxBackoff is the longest pause. Default 5s; min_backoff or more.
	MaxBackoff time.Duration `yaml:"max_backoff"`
	// MaxMessageBytes bounds a message; a longer one ends the connection.
	// Default 16 MiB; 1 KiB to 1 GiB.
	MaxMessageBytes int `yaml:"max_message_bytes"`
}

// DefaultConfig returns the defaults; the endpoint has to be added.
func DefaultConfig() Config {
	return Config{
		Ranks:           1,
		ConnectTimeout:  5 * time.Second,
		ReplayTimeout:   5 * time.Second,
		MinBackoff:      100 * time.Millisecond,
		MaxBackoff:      5 * time.Second,
		MaxMessageBytes: 16 << 20,
	}
}

// Validate reports every problem, joined, each beginning with its key.
func (c Config) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	endpoint := func(key, v string) {
		a, err := parseEndpoint(v)
		switch {
		case err != nil:
			bad("%s: %w", key, err)
		case a.port == 0:
			bad("%s: %q has port 0; want the port at which the engine publishes", key, v)
		case a.port+c.Ranks-1 > 65535:
			bad("%s: %q leaves no ports for %d ranks; want port + rank up to 65535", key, v, c.Ranks)
		case a.host == "":
			bad("%s: %q has a wildcard for its host; want the engine's own, e.g. tcp://10.0.0.7:5557", key, v)
		}
	}
	endpoint("endpoint", c.Endpoint)
	if c.ReplayEndpoint != "" {
		endpoint("replay_endpoint", c.ReplayEndpoint)
	}
	if len(c.Topic) > 255 {
		bad("topic: %d bytes are too many; want at most 255", len(c.Topic))
	}
	if c.Ranks < 1 || c.Ranks > 1024 {
		bad("data_parallel_size: %d is out of range; want 1 to 1024", c.Ranks)
	}
	for _, d := range []struct {
		key string
		v   time.Duration
		eg  string
	}{{"connect_timeout", c.ConnectTimeout, "5s"}, {"replay_timeout", c.ReplayTimeout, "5s"}, {"min_backoff", c.MinBackoff, "100ms"}} {
		if d.v <= 0 {
			bad("%s: %v is not positive; want e.g. %s", d.key, d.v, d.eg)
		}
	}
	if c.MaxBackoff < c.MinBackoff {
		bad("max_backoff: %v is less than min_backoff %v; want that or more", c.MaxBackoff, c.MinBackoff)
	}
	if c.MaxMessageBytes < 1<<10 || c.MaxMessageBytes > 1<<30 {
		bad("max_message_bytes: %d is out of range; want 1024 to %d", c.MaxMessageBytes, 1<<30)
	}
	return errors.Join(errs...)
}

// Handler is told what an engine's cache holds.
type Handler interface {
	// Apply takes the next batch. Its slices are reused once Apply returned.
	// Calls of one rank do not overlap, those of several ranks may. While it
	// blocks, the engine's messages wait in the connection and then get lost
	// at the engine, which shows as a gap.
	Apply(b *Batch)
	// Reset says that nothing is known of the rank's cache: what earlier
	// batches of it said must be forgotten. Later batches are true again, but
	// begin in the middle: blocks may have parents that were never told.
	Reset(rank int, reason Reason)
}

// Watcher is a [Handler] that also wants to know whether it is being told.
type Watcher interface {
	// Following says that a rank's events are being followed, from where the
	// batches before it ended; or, that they no longer are, so that removals may
	// be missed. Calls of one rank alternate, and do not overlap with its Apply
	// and Reset.
	Following(rank int, yes bool)
}

// Deps are a subscriber's collaborators.
type Deps struct {
	// Handler gets the batches. Required; it may be a [Watcher], too.
	Handler Handler
	// Dial opens connections. Nil means TCP with keep-alive.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Logger gets connects, losses and resets; nil discards.
	Logger *slog.Logger
	// Registerer gets the metrics, which all subscribers with the same
	// registerer share; nil leaves them unregistered.
	Registerer prometheus.Registerer
}

// Reason is why what was learned of an engine's cache is void.
type Reason uint8

// The reasons.
const (
	// ReasonGap: batches were missed, and there is no replay or it failed.
	ReasonGap Reason = iota + 1
	// ReasonTooOld: batches were missed, and replay no longer has them all.
	ReasonTooOld
	// ReasonRestart: the engine counts from the beginning.
	ReasonRestart
	// ReasonMalformed: a batch cannot be read.
	ReasonMalformed
	// ReasonDisconnected: the connection was lost, and there is no replay.
	ReasonDisconnected

	reasons
)

// String returns the reason as metrics and logs name it.
func (r Reason) String() string {
	if r >= reasons {
		r = 0
	}
	return [reasons]string{"unset", "gap", "too_old", "restart", "malformed", "disconnected"}[r]
}
