package engines

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// ErrAnswer is the class of every [*AnswerError].
var ErrAnswer = errors.New("engines: adapter's answer is not valid")

// AnswerError says what is wrong with what an adapter returned, every fault of
// it: a mistake of the adapter, which a change of the profile may avoid but not
// mend. It unwraps to [ErrAnswer].
type AnswerError struct {
	// Of is what was returned: "description", "shape", "launch" or "check".
	Of string
	// Faults name their fields as in the Go types, lower case.
	Faults []Fault
}

// Error returns every fault on one line.
func (e *AnswerError) Error() string {
	texts := make([]string, len(e.Faults))
	for i, f := range e.Faults {
		texts[i] = f.String()
	}
	return fmt.Sprintf("the adapter's %s is not valid: %s", e.Of, strings.Join(texts, ", "))
}

// Unwrap returns [ErrAnswer].
func (e *AnswerError) Unwrap() error { return ErrAnswer }

func (fs Faults) answer(of string) error {
	if len(fs) == 0 {
		return nil
	}
	return &AnswerError{Of: of, Faults: fs}
}

// engineName is what the name of an engine looks like.
var engineName = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)

// Usable reports whether n can be an adapter's name: lower-case letters and
// digits, with single dashes between them, and not [Auto].
func (n Name) Usable() bool { return n != Auto && len(n) <= 64 && engineName.MatchString(string(n)) }

// Validate returns an [*AnswerError] with everything that is wrong with d by
// itself, or nil: a name that is none, modes, options or variables that cannot
// be told apart, a secret without a way to the engine, a contract that is not
// valid or is another engine's.
func (d Description) Validate() error {
	var fs Faults
	if !d.Engine.Usable() {
		fs.Add("engine", fmt.Sprintf("%q is no name", d.Engine), "use lower-case letters, digits and dashes")
	}
	if d.Title == "" {
		fs.Add("title", "is empty", "give the engine's name for people")
	}
	if d.Version == "" {
		fs.Add("version", "is empty", "give the adapter's own version")
	}
	modes := make([]string, len(d.Modes))
	for i, m := range d.Modes {
		modes[i] = m.Name
	}
	fs.distinct("modes", modes)
	keys := make([]string, len(d.Options))
	for i, o := range d.Options {
		keys[i] = o.Key
	}
	fs.distinct("options", keys)
	for i, flag := range d.ReservedFlags {
		if !strings.HasPrefix(flag, "-") {
			fs.Add(fmt.Sprintf("reserved_flags[%d]", i), fmt.Sprintf("%q does not begin with a dash", flag), "give it as it stands on the command line")
		}
	}
	fs.variables("reserved_env", d.ReservedEnv)
	if d.Capabilities.KeepAlive < 0 {
		fs.Add("capabilities.keep_alive", fmt.Sprintf("is %v", d.Capabilities.KeepAlive), "want 0 (unknown) or more")
	}
	if d.Metrics != nil {
		if err := d.Metrics.Validate(); err != nil {
			fs.Add("metrics", strings.ReplaceAll(err.Error(), "\n", ", "), "")
		}
		if d.Metrics.Engine != d.Engine {
			fs.Add("metrics.engine", fmt.Sprintf("is %q", d.Metrics.Engine), fmt.Sprintf("want %q", d.Engine))
		}
	}
	if d.Secret.Supported != (d.Secret.By == SecretByEnv || d.Secret.By == SecretByFile) {
		fs.Add("secret.by", fmt.Sprintf("is %s, and supported is %t", d.Secret.By, d.Secret.Supported), "say how the secret reaches the engine, or that it takes none")
	}
	return fs.answer("description")
}

// Validate returns an [*AnswerError] with everything that is wrong with s, or
// nil: no rank, requests served by another rank than the first, ports that
// cannot be told apart.
func (s Shape) Validate() error {
	var fs Faults
	if len(s.Ranks) == 0 {
		fs.Add("ranks", "is empty", "a replica has one rank or more")
	}
	for i, r := range s.Ranks {
		at := fmt.Sprintf("ranks[%d]", i)
		if r.Cards < 0 {
			fs.Add(at+".cards", fmt.Sprintf("is %d", r.Cards), "want 0 or more")
		}
		if r.ServesHTTP && i > 0 {
			fs.Add(at+".serves_http", "is true", "requests go to rank 0 alone")
		}
		names := make([]string, len(r.Ports))
		for j, p := range r.Ports {
			names[j] = p.Name
			if p.Count < 1 || p.Count > 65535 {
				fs.Add(fmt.Sprintf("%s.ports[%d].count", at, j), fmt.Sprintf("is %d", p.Count), "want 1 to 65535")
			}
		}
		fs.distinct(at+".ports", names)
		if r.ServesHTTP && !slices.Contains(names, PortHTTP) {
			fs.Add(at+".ports", "has none for requests", fmt.Sprintf("ask for one of the name %q", PortHTTP))
		}
	}
	return fs.answer("shape")
}

// Validate returns an [*AnswerError] with everything that is wrong with l, or
// nil: commands that cannot be started or show the secret, files outside of the
// shard's directory, readiness without an end, patterns that do not compile.
func (l Launch) Validate() error {
	var fs Faults
	fs.command("engine", l.Engine)
	names := make([]string, len(l.Files))
	for i, f := range l.Files {
		names[i] = filepath.Clean(f.Name)
		if !filepath.IsLocal(f.Name) || names[i] == "." || strings.ContainsRune(f.Name, 0) {
			fs.Add(fmt.Sprintf("files[%d].name", i), fmt.Sprintf("%q is not in the shard's directory", f.Name), "give a relative path without ..")
		}
	}
	fs.distinct("files", names)
	fs.ready("ready", l.Ready)
	fs.stop("stop", l.Stop)
	fs.logs("logs", l.Logs)
	names = make([]string, len(l.Sidecars))
	for i, s := range l.Sidecars {
		names[i] = s.Name
		at := fmt.Sprintf("sidecars[%d].", i)
		fs.command(at+"command", s.Command)
		fs.ready(at+"ready", s.Ready)
		fs.stop(at+"stop", s.Stop)
		fs.logs(at+"logs", s.Logs)
	}
	fs.distinct("sidecars", names)
	return fs.answer("launch")
}

// Validate returns an [*AnswerError] with everything that is wrong with c, or
// nil.
func (c Check) Validate() error {
	var fs Faults
	fs.distinct("name", []string{c.Name})
	fs.command("command", c.Command)
	if len(c.HelpArgs) == 0 {
		fs.Add("help_args", "is empty", "say what makes the executable print its help")
	}
	fs.words("help_args", c.HelpArgs)
	fs.words("version_args", c.VersionArgs)
	fs.variables("variables", c.Variables)
	if c.HelpLines < 0 {
		fs.Add("help_lines", fmt.Sprintf("is %d", c.HelpLines), "want 0 (not known) or more")
	}
	if c.Timeout <= 0 {
		fs.Add("timeout", fmt.Sprintf("is %v", c.Timeout), "want more than 0")
	}
	return fs.answer("check")
}

// distinct reports names that are empty or stand there twice.
func (fs *Faults) distinct(field string, names []string) {
	for i, name := range names {
		switch {
		case name == "" || strings.ContainsFunc(name, control):
			fs.Add(field, fmt.Sprintf("%q is no name", name), "use printable characters")
		case slices.Contains(names[:i], name):
			fs.Add(field, fmt.Sprintf("%q stands there twice", name), "give each a name of its own")
		}
	}
}

func (fs *Faults) command(field string, c Command) {
	switch {
	case c.Executable == "" || strings.ContainsFunc(c.Executable, control):
		fs.Add(field+".executable", fmt.Sprintf("%q is no program", c.Executable), "give an absolute path, or a name in PATH")
	case strings.ContainsRune(c.Executable, filepath.Separator) && !filepath.IsAbs(c.Executable):
		fs.Add(field+".executable", fmt.Sprintf("%q is relative", c.Executable), "give an absolute path, or a name in PATH")
	}
	fs.words(field+".args", append([]string{c.Executable}, c.Args...))
	fs.variables(field+".env", slices.Sorted(maps.Keys(c.Env)))
	for _, name := range slices.Sorted(maps.Keys(c.Env)) {
		if strings.ContainsRune(c.Env[name], 0) {
			fs.Add(field+".env."+name, "has a NUL byte", "remove it")
		}
	}
	fs.variables(field+".unset", c.Unset)
}

// words reports arguments that no process can be given, or must not be.
func (fs *Faults) words(field string, words []string) {
	for _, word := range words {
		if strings.ContainsRune(word, 0) {
			fs.Add(field, fmt.Sprintf("%q has a NUL byte", word), "remove it")
		}
		if strings.Contains(word, SecretPlaceholder) {
			fs.Add(field, "holds the secret's placeholder, and arguments are open to every user of the machine", "hand the secret on by a variable or a file")
		}
	}
}

func (fs *Faults) variables(field string, names []string) {
	for _, name := range names {
		if !variable.MatchString(name) {
			fs.Add(field, fmt.Sprintf("%q is no name of a variable", name), "use letters, digits and _")
		}
	}
}

func (fs *Faults) ready(field string, r Readiness) {
	if r.Timeout <= 0 {
		fs.Add(field+".timeout", fmt.Sprintf("is %v", r.Timeout), "want more than 0")
	}
	if r.Stalled < 0 {
		fs.Add(field+".stalled", fmt.Sprintf("is %v", r.Stalled), "want 0 (no bound) or more")
	}
	if r.Log != "" {
		fs.pattern(field+".log", r.Log)
	}
	if r.Probe == nil {
		return
	}
	if p := r.Probe.Port; p < 1 || p > 65535 {
		fs.Add(field+".probe.port", fmt.Sprintf("is %d", p), "want 1 to 65535")
	}
	if p := r.Probe.Path; !strings.HasPrefix(p, "/") || strings.ContainsFunc(p, func(r rune) bool { return r == ' ' || control(r) }) {
		fs.Add(field+".probe.path", fmt.Sprintf("%q is no path", p), "begin with /, without spaces")
	}
	if r.Probe.Timeout <= 0 {
		fs.Add(field+".probe.timeout", fmt.Sprintf("is %v", r.Probe.Timeout), "want more than 0")
	}
}

func (fs *Faults) stop(field string, s Stop) {
	if s.Signal < SignalTerm || s.Signal > SignalQuit {
		fs.Add(field+".signal", "is "+s.Signal.String(), "want SIGTERM, SIGINT or SIGQUIT")
	}
	if s.Grace < 0 {
		fs.Add(field+".grace", fmt.Sprintf("is %v", s.Grace), "want 0 or more")
	}
}

func (fs *Faults) logs(field string, rules []LogRule) {
	for i, r := range rules {
		at := fmt.Sprintf("%s[%d]", field, i)
		fs.pattern(at+".match", r.Match)
		if r.Phase < PhaseStarting || r.Phase > PhaseFailed {
			fs.Add(at+".phase", "is "+r.Phase.String(), "say what the line means")
		}
		if r.Phase == PhaseFailed && (r.Reason == "" || r.Advice == "") {
			fs.Add(at+".reason", "or advice is empty", "say why the engine failed, and what to do")
		}
	}
}

// pattern reports a regular expression that does not compile, or is so long
// that matching each line of a log would take its time.
func (fs *Faults) pattern(field, pattern string) {
	const longest = 2000
	switch _, err := regexp.Compile(pattern); {
	case pattern == "":
		fs.Add(field, "is empty", "give a regular expression")
	case len(pattern) > longest:
		fs.Add(field, fmt.Sprintf("is %d bytes long", len(pattern)), fmt.Sprintf("want at most %d", longest))
	case err != nil:
		fs.Add(field, err.Error(), "use the syntax of RE2")
	}
}

func control(r rune) bool { return r < ' ' || r == 0x7f }
