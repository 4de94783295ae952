package process

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/llmgw/llmgw/engines"
)

// Config is a Runner's tunable data. Start from DefaultConfig.
type Config struct {
	// HandOn names the variables that a process gets from its launcher where
	// its own launch neither sets nor refuses them. Everything else in the
	// launcher's environment stays there, secrets above all. Default PATH, HOME
	// and what says where libraries, caches and certificates are.
	HandOn []string `yaml:"hand_on"`
	// LogBytes bounds a log file; at that size it is copied to NAME.log.1 and
	// begins anew. Default 67108864 (64 MiB); at least 4096.
	LogBytes int64 `yaml:"log_bytes"`
	// LineBytes bounds a line that is looked at; the rest of a longer one is not.
	// Default 8192; at least 64.
	LineBytes int `yaml:"line_bytes"`
	// TailLines is how many of the last lines an error holds. Default 40; at
	// least 1.
	TailLines int `yaml:"tail_lines"`
	// Poll is how often logs are read. Default 250ms; must be positive.
	Poll time.Duration `yaml:"poll"`
	// ProbeEvery is the time from one answer of a probe to the next question.
	// Default 1s; must be positive.
	ProbeEvery time.Duration `yaml:"probe_every"`
	// GiveUp is how long a process that has said that it failed may go on
	// running, which lets it say why, before it counts as failed. Default 10s; 0 is
	// at once; not negative.
	GiveUp time.Duration `yaml:"give_up"`
	// Linger is how long children may outlive the process they belong to when
	// it was asked to end, within its grace. Default 3s; 0 is not at all; not
	// negative.
	Linger time.Duration `yaml:"linger"`
	// KillTimeout bounds the time from SIGKILL until nothing of a shard is
	// left, and then the time until its ports are free: a driver can hold a
	// process for long. Default 30s; must be positive.
	KillTimeout time.Duration `yaml:"kill_timeout"`
	// LockWait is how long the lock of a shard may take to come free. A process
	// that was forked holds it until it runs its own program, so that a launcher
	// which is killed in that moment leaves it held: to wait for it is to wait
	// until the process can be found. Default 2s; 0 is not at all; not negative.
	LockWait time.Duration `yaml:"lock_wait"`
}

// DefaultConfig returns the defaults.
func DefaultConfig() Config {
	return Config{
		HandOn: []string{
			"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "TZ", "TMPDIR", "LD_LIBRARY_PATH",
			"XDG_CACHE_HOME", "XDG_RUNTIME_DIR", "SSL_CERT_FILE", "SSL_CERT_DIR", "CUDA_HOME", "ROCM_PATH",
		},
		LogBytes:    64 << 20,
		LineBytes:   8 << 10,
		TailLines:   40,
		Poll:        250 * time.Millisecond,
		ProbeEvery:  time.Second,
		GiveUp:      10 * time.Second,
		Linger:      3 * time.Second,
		KillTimeout: 30 * time.Second,
		LockWait:    2 * time.Second,
	}
}

// Validate reports everything that is wrong with c, joined.
func (c Config) Validate() error {
	var errs []error
	least := func(key string, value, least int64) {
		if value < least {
			errs = append(errs, fmt.Errorf("%s: %d is too small; want %d or more", key, value, least))
		}
	}
	least("log_bytes", c.LogBytes, 4096)
	least("line_bytes", int64(c.LineBytes), 64)
	least("tail_lines", int64(c.TailLines), 1)
	for key, d := range map[string]time.Duration{"poll": c.Poll, "probe_every": c.ProbeEvery, "kill_timeout": c.KillTimeout} {
		if d <= 0 {
			errs = append(errs, fmt.Errorf("%s: %v; want more than 0", key, d))
		}
	}
	for key, d := range map[string]time.Duration{"give_up": c.GiveUp, "linger": c.Linger, "lock_wait": c.LockWait} {
		if d < 0 {
			errs = append(errs, fmt.Errorf("%s: %v; want 0 or more", key, d))
		}
	}
	for i, name := range c.HandOn {
		if !variable.MatchString(name) {
			errs = append(errs, fmt.Errorf("hand_on[%d]: %q is no name of a variable", i, name))
		}
	}
	return errors.Join(errs...)
}

// Deps are a Runner's collaborators.
type Deps struct {
	// Environ is the environment of which HandOn names the parts that go on.
	// Nil: that of this process.
	Environ func() []string
	// Logger is told of changes. Nil discards.
	Logger *slog.Logger
}

// Runner starts and adopts shards. It may be used by several goroutines.
type Runner struct {
	cfg    Config
	deps   Deps
	client *http.Client
}

// New returns a Runner, or what is wrong with cfg. It starts nothing.
func New(cfg Config, deps Deps) (*Runner, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("process: %w", err)
	}
	cfg.HandOn = slices.Clone(cfg.HandOn)
	if deps.Environ == nil {
		deps.Environ = os.Environ
	}
	if deps.Logger == nil {
		deps.Logger = slog.New(slog.DiscardHandler)
	}
	return &Runner{cfg: cfg, deps: deps, client: newClient()}, nil
}

// Spec is one shard to be started.
type Spec struct {
	// ID names the shard on its node: up to 128 letters, digits, dots, dashes
	// and underscores.
	ID string
	// Generation goes up with every start that the fleet orders.
	Generation uint64
	// Dir is the shard's own directory, absolute. It is made if it is missing.
	Dir string
	// Launch is what the adapter says.
	Launch engines.Launch
	// Secret goes where [engines.SecretPlaceholder] stands.
	Secret string
	// Address is what the engine binds, and where probes ask. Empty or
	// unspecified: 127.0.0.1.
	Address string
	// Ports are all the ports that were set aside for the shard. They must be
	// free before it starts, and are seen free before it counts as stopped.
	Ports []int
}

var (
	variable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	shardID  = regexp.MustCompile(`^[A-Za-z0-9._-]{1,128}$`)
	roleName = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,62}$`)
)

// Engine is the name of the engine's own process among those of its shard.
const Engine = "engine"

// ErrSpec is the class of errors that say what is wrong with a [Spec].
var ErrSpec = errors.New("process: shard cannot be started as it is described")

func (s Spec) validate() error {
	var errs []error
	fault := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if !shardID.MatchString(s.ID) {
		fault("id: %q; want up to 128 letters, digits, dots, dashes and underscores", s.ID)
	}
	if !filepath.IsAbs(s.Dir) {
		fault("dir: %q is not absolute", s.Dir)
	}
	if strings.ContainsFunc(s.Secret, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		fault("secret: has a space or a control character")
	}
	for i, p := range s.Ports {
		if p < 1 || p > 65535 {
			fault("ports[%d]: %d; want 1 to 65535", i, p)
		}
	}
	for i, f := range s.Launch.Files {
		switch {
		case !filepath.IsLocal(f.Name) || filepath.Clean(f.Name) == ".":
			fault("files[%d]: %q leaves the shard's directory", i, f.Name)
		case reserved(filepath.Clean(f.Name)):
			fault("files[%d]: %q is a name of the launcher's own", i, f.Name)
		case strings.Contains(f.Name, engines.SecretPlaceholder):
			fault("files[%d]: the secret's placeholder stands in the name", i)
		case s.Secret == "" && strings.Contains(f.Content, engines.SecretPlaceholder):
			fault("files[%d]: %q asks for a secret, and there is none", i, f.Name)
		}
	}
	names := map[string]bool{}
	for i, p := range s.processes() {
		key := "engine"
		if i < len(s.Launch.Sidecars) {
			key = fmt.Sprintf("sidecars[%d]", i)
			if !roleName.MatchString(p.name) || p.name == Engine || names[p.name] {
				fault("%s: name %q; want lower-case letters, digits and dashes, a name of its own", key, p.name)
			}
			names[p.name] = true
		}
		for _, err := range p.faults(s.Secret) {
			fault("%s: %w", key, err)
		}
	}
	if len(errs) == 0 {
		return nil
	}
	return fmt.Errorf("%w: shard %q: %w", ErrSpec, s.ID, errors.Join(errs...))
}

// reserved reports whether name is one of the files that this package keeps in
// a shard's directory, or in a directory of that name.
func reserved(name string) bool {
	name, _, _ = strings.Cut(filepath.ToSlash(name), "/")
	name = strings.TrimSuffix(name, draftSuffix)
	return name == recordName || name == SecretFile || name == lockName || strings.HasSuffix(name, ".log") || strings.HasSuffix(name, ".log.1")
}

// role is what a launch says of one process, engine or sidecar.
type role struct {
	name    string
	command engines.Command
	ready   engines.Readiness
	once    bool
	stop    engines.Stop
	logs    []engines.LogRule
}

// processes returns the processes of a shard in the order in which they start.
func (s Spec) processes() []role { return roles(s.Launch) }

func roles(l engines.Launch) []role {
	var all []role
	for _, c := range l.Sidecars {
		all = append(all, role{name: c.Name, command: c.Command, ready: c.Ready, once: c.RunsOnce, stop: c.Stop, logs: c.Logs})
	}
	return append(all, role{name: Engine, command: l.Engine, ready: l.Ready, stop: l.Stop, logs: l.Logs})
}

func (p role) faults(secret string) []error {
	var errs []error
	fault := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	c := p.command
	if c.Executable == "" || strings.Contains(c.Executable, "/") && !filepath.IsAbs(c.Executable) {
		fault("executable: %q; want an absolute path or a name that is looked up in PATH", c.Executable)
	}
	for i, word := range slices.Concat([]string{c.Executable}, c.Args) {
		if strings.ContainsRune(word, 0) {
			fault("word %d of the command has a NUL byte", i)
		}
		if strings.Contains(word, engines.SecretPlaceholder) || len(secret) >= 8 && strings.Contains(word, secret) {
			fault("word %d of the command has the secret in it; every user of the machine can read arguments", i)
		}
	}
	for name, value := range c.Env {
		switch {
		case !variable.MatchString(name) || name == Marker:
			fault("env: %q is no name of a variable that may be set", name)
		case strings.ContainsRune(value, 0):
			fault("env: %s has a NUL byte", name)
		case slices.Contains(c.Unset, name):
			fault("env: %s is both set and unset", name)
		case secret == "" && strings.Contains(value, engines.SecretPlaceholder):
			fault("env: %s asks for a secret, and there is none", name)
		}
	}
	if p.ready.Timeout <= 0 {
		fault("readiness: timeout is %v; want more than 0", p.ready.Timeout)
	}
	if p.ready.Stalled < 0 {
		fault("readiness: stalled is %v; want 0 or more", p.ready.Stalled)
	}
	if q := p.ready.Probe; q != nil && (q.Port < 1 || q.Port > 65535 || !strings.HasPrefix(q.Path, "/") || q.Timeout <= 0) {
		fault("readiness: probe of port %d, path %q, timeout %v; want 1 to 65535, a path from /, more than 0", q.Port, q.Path, q.Timeout)
	}
	if _, err := regexp.Compile(p.ready.Log); err != nil {
		fault("readiness: log: %w", err)
	}
	if p.stop.Signal == engines.SignalUnset || p.stop.Signal > engines.SignalQuit || p.stop.Grace < 0 {
		fault("stop: signal %v, grace %v; want SIGTERM, SIGINT or SIGQUIT, 0 or more", p.stop.Signal, p.stop.Grace)
	}
	if _, err := compile(p.logs); err != nil {
		errs = append(errs, err)
	}
	return errs
}
