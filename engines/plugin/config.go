package plugin

import (
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	"github.com/llmgw/llmgw/engines"
)

// Config is how adapters are found and run. Start from [DefaultConfig].
type Config struct {
	// Dir holds the programs of adapters that are not built in, each named
	// llmgw-adapter-NAME after the engine. It is read again at every start, so
	// that one can be added while the host runs. Default empty: there are none.
	Dir string `yaml:"dir"`
	// ChecksumFile has a line for each program of Dir, as `sha256sum` writes them;
	// a program that is not in it, or differs, is not started. Default empty: only
	// what Checksums names is pinned.
	ChecksumFile string `yaml:"checksum_file"`
	// Checksums pins programs of Dir: SHA-256 in hexadecimal by an adapter's name.
	// It goes before ChecksumFile. Default empty.
	Checksums map[string]string `yaml:"checksums"`
	// Environment names the variables that are handed on to adapters, of those
	// that the host has; they get no others, so that no secret leaks. Default
	// PATH, HOME, LANG, TZ and SYSTEMROOT. Empty hands on none.
	Environment []string `yaml:"environment"`
	// SocketDir is where the sockets to adapters are made, each in a directory of
	// its own. It must exist, and its path be at most 64 bytes long, as sockets'
	// own are limited. Default empty: the system's directory for temporary files.
	SocketDir string `yaml:"socket_dir"`

	// StartTimeout bounds the start of a program up to the handshake, and then its
	// description. Default 5s; must be positive.
	StartTimeout time.Duration `yaml:"start_timeout"`
	// CallTimeout bounds one call. Default 10s; must be positive.
	CallTimeout time.Duration `yaml:"call_timeout"`
	// PingInterval is how often an adapter is asked whether it lives. Default 2s;
	// must be positive.
	PingInterval time.Duration `yaml:"ping_interval"`
	// PingTimeout is how long it may take to answer before it is taken for hung
	// and replaced. Default 5s; must be positive.
	PingTimeout time.Duration `yaml:"ping_timeout"`
	// RestartDelay is how long an adapter that died stays away; it doubles each
	// time up to MaxRestartDelay, and begins anew when one has lived for a minute.
	// Default 100ms; must be positive.
	RestartDelay time.Duration `yaml:"restart_delay"`
	// MaxRestartDelay is the longest that an adapter that dies again and again
	// stays away. Default 4s; must be positive.
	MaxRestartDelay time.Duration `yaml:"max_restart_delay"`
	// DrainTimeout bounds how long calls in flight are waited for when an adapter
	// is to end. Default 2s; must be positive.
	DrainTimeout time.Duration `yaml:"drain_timeout"`
	// IdleTimeout is how long an adapter runs without a call before it is ended;
	// the next call starts it again. Default 15m; 0 ends none.
	IdleTimeout time.Duration `yaml:"idle_timeout"`
}

// DefaultConfig returns the defaults that the fields name.
func DefaultConfig() Config {
	return Config{
		Checksums:       map[string]string{},
		Environment:     []string{"PATH", "HOME", "LANG", "TZ", "SYSTEMROOT"},
		StartTimeout:    5 * time.Second,
		CallTimeout:     10 * time.Second,
		PingInterval:    2 * time.Second,
		PingTimeout:     5 * time.Second,
		RestartDelay:    100 * time.Millisecond,
		MaxRestartDelay: 4 * time.Second,
		DrainTimeout:    2 * time.Second,
		IdleTimeout:     15 * time.Minute,
	}
}

var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// Validate reports every problem of c, joined. It reads no file.
func (c Config) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	for _, p := range []struct{ key, path string }{{"dir", c.Dir}, {"checksum_file", c.ChecksumFile}, {"socket_dir", c.SocketDir}} {
		if p.path != "" && !filepath.IsAbs(p.path) {
			bad("%s: %q is relative; give an absolute path", p.key, p.path)
		}
	}
	if len(c.SocketDir) > longestSocketDir {
		bad("socket_dir: %q is %d bytes long; want at most %d, as the path of a socket is limited", c.SocketDir, len(c.SocketDir), longestSocketDir)
	}
	for _, name := range slices.Sorted(maps.Keys(c.Checksums)) {
		if !engines.Name(name).Usable() {
			bad("checksums.%s: is no adapter's name; use lower-case letters, digits and dashes", name)
		}
		if sum, err := hex.DecodeString(c.Checksums[name]); err != nil || len(sum) != 32 {
			bad("checksums.%s: %q is no SHA-256; want 64 hexadecimal digits, as sha256sum prints them", name, c.Checksums[name])
		}
	}
	for i, name := range c.Environment {
		if !variableName.MatchString(name) {
			bad("environment[%d]: %q is no name of a variable", i, name)
		}
	}
	for _, d := range []struct {
		key   string
		value time.Duration
	}{
		{"start_timeout", c.StartTimeout}, {"call_timeout", c.CallTimeout}, {"ping_interval", c.PingInterval}, {"ping_timeout", c.PingTimeout},
		{"restart_delay", c.RestartDelay}, {"max_restart_delay", c.MaxRestartDelay}, {"drain_timeout", c.DrainTimeout},
	} {
		if d.value <= 0 {
			bad("%s: %v must be more than 0", d.key, d.value)
		}
	}
	if c.IdleTimeout < 0 {
		bad("idle_timeout: %v is negative; want 0 (never) or more", c.IdleTimeout)
	}
	return errors.Join(errs...)
}
