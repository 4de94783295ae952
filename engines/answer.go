package engines

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"path/filepath"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// ErrAnswer is the class of every [*AnswerError].
var ErrAnswer = errors.New("engines: adapter's answer is not valid")

// AnswerError says what is wrong with what an adapter returned, every fault of
// it: a mistake of the adapter, which a change of the profile may avoid but not
// mend. It unwraps to [ErrAnswer].
type AnswerError struct {
	// Of is what was returned: "description", "shape", "launch", "check" or
	// "refusal".
	Of string
	// Faults name their fields as in the Go types, lower case.
	Faults []Fault
}

// Error returns the faults on one line: all of them, or of very many the first.
func (e *AnswerError) Error() string {
	return fmt.Sprintf("the adapter's %s is not valid: %s", e.Of, Faults(e.Faults).line())
}

// Unwrap returns [ErrAnswer].
func (e *AnswerError) Unwrap() error { return ErrAnswer }

func (fs Faults) answer(of string) error {
	if len(fs) == 0 {
		return nil
	}
	return &AnswerError{Of: of, Faults: fs}
}

// Bounds of what an adapter returns, far above what any engine needs: an answer
// beyond them is a mistake, and what is done with it would take its time.
const (
	mostRanks    = 1 << 16
	mostPorts    = 1024 // needs of one rank
	mostParts    = 64   // modes, sidecars, checks
	mostNames    = 4096 // options, flags, variables, files
	mostRules    = 256  // of one process's log
	mostText     = 2000 // bytes of a text for people
	mostPattern  = 2000 // bytes of a regular expression
	mostProgram  = 5000 // instructions that it becomes
	enoughFaults = 200  // after which no more are looked for
)

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
		fs.Add("engine", quoted(string(d.Engine))+" is no name", "use lower-case letters, digits and dashes")
	}
	if fs.text("title", d.Title); d.Title == "" {
		fs.Add("title", "is empty", "give the engine's name for people")
	}
	if fs.text("version", d.Version); d.Version == "" {
		fs.Add("version", "is empty", "give the adapter's own version")
	}
	if !fs.count("tested", len(d.Tested), mostNames) || !fs.count("modes", len(d.Modes), mostParts) || !fs.count("options", len(d.Options), mostNames) ||
		!fs.count("reserved_flags", len(d.ReservedFlags), mostNames) || !fs.count("reserved_env", len(d.ReservedEnv), mostNames) {
		return fs.answer("description")
	}
	for i, text := range d.Tested {
		fs.text(fmt.Sprintf("tested[%d]", i), text)
	}
	for i, m := range d.Modes {
		fs.text(fmt.Sprintf("modes[%d].doc", i), m.Doc)
	}
	for i, o := range d.Options {
		fs.text(fmt.Sprintf("options[%d].doc", i), o.Doc)
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
			fs.Add(fmt.Sprintf("reserved_flags[%d]", i), quoted(flag)+" does not begin with a dash", "give it as it stands on the command line")
		}
	}
	fs.variables("reserved_env", d.ReservedEnv)
	if d.Capabilities.KeepAlive < 0 {
		fs.Add("capabilities.keep_alive", fmt.Sprintf("is %v", d.Capabilities.KeepAlive), "want 0 (unknown) or more")
	}
	if d.Metrics != nil {
		if err := d.Metrics.Validate(); err != nil {
			text := strings.ReplaceAll(err.Error(), "\n", ", ")
			fs.Add("metrics", text[:min(len(text), mostText)], "")
		}
		if d.Metrics.Engine != d.Engine {
			fs.Add("metrics.engine", "is "+quoted(string(d.Metrics.Engine)), fmt.Sprintf("want %q", d.Engine))
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
	if !fs.count("ranks", len(s.Ranks), mostRanks) {
		return fs.answer("shape")
	}
	for i, r := range s.Ranks {
		at := fmt.Sprintf("ranks[%d]", i)
		if !fs.count(at+".ports", len(r.Ports), mostPorts) {
			continue
		}
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
	if !fs.count("files", len(l.Files), mostNames) || !fs.count("sidecars", len(l.Sidecars), mostParts) {
		return fs.answer("launch")
	}
	fs.command("engine", l.Engine)
	names := make([]string, len(l.Files))
	for i, f := range l.Files {
		names[i] = filepath.Clean(f.Name)
		if !filepath.IsLocal(f.Name) || names[i] == "." || strings.ContainsRune(f.Name, 0) {
			fs.Add(fmt.Sprintf("files[%d].name", i), quoted(f.Name)+" is not in the shard's directory", "give a relative path without ..")
		}
	}
	fs.distinct("files", names)
	fs.ready("ready", l.Ready)
	fs.stop("stop", l.Stop)
	fs.logs("logs", l.Logs)
	fs.sleeping(l)
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
	if fs.count("variables", len(c.Variables), mostNames) {
		fs.variables("variables", c.Variables)
	}
	if c.HelpLines < 0 {
		fs.Add("help_lines", fmt.Sprintf("is %d", c.HelpLines), "want 0 (not known) or more")
	}
	fs.wait("timeout", c.Timeout, 1)
	return fs.answer("check")
}

// ValidateChecks returns an [*AnswerError] with everything that is wrong with
// what [Adapter.Checks] returned, or nil.
func ValidateChecks(checks []Check) error {
	var fs Faults
	if !fs.count("checks", len(checks), mostParts) {
		return fs.answer("check")
	}
	names := make([]string, len(checks))
	errs := make([]error, len(checks))
	for i, c := range checks {
		names[i] = c.Name
		errs[i] = c.Validate()
	}
	fs.distinct("checks", names)
	return errors.Join(append(errs, fs.answer("check"))...)
}

// count reports a list that is too long, and whether it is not.
func (fs *Faults) count(field string, n, most int) bool {
	if n > most {
		fs.Add(field, fmt.Sprintf("has %d entries", n), fmt.Sprintf("want at most %d", most))
	}
	return n <= most
}

// text reports a text for people that is too long, or that a terminal or a log
// would take for more than text.
func (fs *Faults) text(field, text string) {
	if len(text) > mostText || !utf8.ValidString(text) || strings.ContainsFunc(text, unprintable) {
		fs.Add(field, quoted(text)+" is no text for people", fmt.Sprintf("use up to %d bytes of printable characters", mostText))
	}
}

// wait reports a time that is shorter than least or longer than [LongestWait].
func (fs *Faults) wait(field string, d, least time.Duration) {
	if d < least || d > LongestWait {
		want := "more than 0"
		if least == 0 {
			want = "0 or more"
		}
		fs.Add(field, fmt.Sprintf("is %v", d), fmt.Sprintf("want %s, at most %v", want, LongestWait))
	}
}

// distinct reports names that are empty or stand there twice.
func (fs *Faults) distinct(field string, names []string) {
	seen := make(map[string]bool, len(names))
	for _, name := range names {
		switch {
		case len(*fs) >= enoughFaults:
			return
		case name == "" || strings.ContainsFunc(name, unprintable):
			fs.Add(field, quoted(name)+" is no name", "use printable characters")
		case seen[name]:
			fs.Add(field, quoted(name)+" stands there twice", "give each a name of its own")
		}
		seen[name] = true
	}
}

func (fs *Faults) command(field string, c Command) {
	switch {
	case c.Executable == "" || strings.ContainsFunc(c.Executable, control):
		fs.Add(field+".executable", quoted(c.Executable)+" is no program", "give an absolute path, or a name in PATH")
	case strings.ContainsRune(c.Executable, filepath.Separator) && !filepath.IsAbs(c.Executable):
		fs.Add(field+".executable", quoted(c.Executable)+" is relative", "give an absolute path, or a name in PATH")
	}
	fs.words(field+".args", append([]string{c.Executable}, c.Args...))
	if !fs.count(field+".env", len(c.Env), mostNames) || !fs.count(field+".unset", len(c.Unset), mostNames) {
		return
	}
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
		if len(*fs) >= enoughFaults {
			return
		}
		if strings.ContainsRune(word, 0) {
			fs.Add(field, quoted(word)+" has a NUL byte", "remove it")
		}
		if strings.Contains(word, SecretPlaceholder) {
			fs.Add(field, "holds the secret's placeholder, and arguments are open to every user of the machine", "hand the secret on by a variable or a file")
		}
	}
}

func (fs *Faults) variables(field string, names []string) {
	for _, name := range names {
		if !variable.MatchString(name) {
			fs.Add(field, quoted(name)+" is no name of a variable", "use letters, digits and _")
		}
	}
}

func (fs *Faults) ready(field string, r Readiness) {
	fs.wait(field+".timeout", r.Timeout, 1)
	fs.wait(field+".stalled", r.Stalled, 0)
	if r.Log != "" {
		fs.pattern(field+".log", r.Log)
	}
	if r.Probe == nil {
		return
	}
	if p := r.Probe.Port; p < 1 || p > 65535 {
		fs.Add(field+".probe.port", fmt.Sprintf("is %d", p), "want 1 to 65535")
	}
	if p := r.Probe.Path; !isPath(p) {
		fs.Add(field+".probe.path", quoted(p)+" is no path", "begin with /, without spaces")
	}
	fs.wait(field+".probe.timeout", r.Probe.Timeout, 1)
}

// isPath reports whether an HTTP request for p can be made as it is.
func isPath(p string) bool {
	_, err := url.ParseRequestURI(p)
	return err == nil && strings.HasPrefix(p, "/") && len(p) <= mostText && !strings.ContainsFunc(p, func(r rune) bool { return r == ' ' || control(r) })
}

func (fs *Faults) stop(field string, s Stop) {
	if s.Signal < SignalTerm || s.Signal > SignalQuit {
		fs.Add(field+".signal", "is "+s.Signal.String(), "want SIGTERM, SIGINT or SIGQUIT")
	}
	fs.wait(field+".grace", s.Grace, 0)
}

func (fs *Faults) logs(field string, rules []LogRule) {
	if !fs.count(field, len(rules), mostRules) {
		return
	}
	for i, r := range rules {
		at := fmt.Sprintf("%s[%d]", field, i)
		fs.text(at+".reason", r.Reason)
		fs.text(at+".advice", r.Advice)
		fs.pattern(at+".match", r.Match)
		if r.Phase < PhaseStarting || r.Phase > PhaseFailed {
			fs.Add(at+".phase", "is "+r.Phase.String(), "say what the line means")
		}
		if r.Phase == PhaseFailed && (r.Reason == "" || r.Advice == "") {
			fs.Add(at+".reason", "or advice is empty", "say why the engine failed, and what to do")
		}
	}
}

// pattern reports a regular expression that does not compile, or is so large
// that matching each line of a log would take its time.
func (fs *Faults) pattern(field, pattern string) {
	switch {
	case len(*fs) >= enoughFaults:
		return
	case pattern == "":
		fs.Add(field, "is empty", "give a regular expression")
		return
	case len(pattern) > mostPattern:
		fs.Add(field, fmt.Sprintf("is %d bytes long", len(pattern)), fmt.Sprintf("want at most %d", mostPattern))
		return
	}
	parsed, err := syntax.Parse(pattern, syntax.Perl) // as package regexp does
	if err != nil {
		fs.Add(field, shortened(err.Error()), "use the syntax of RE2")
		return
	}
	if program, err := syntax.Compile(parsed.Simplify()); err != nil || len(program.Inst) > mostProgram {
		fs.Add(field, quoted(pattern)+" becomes too large by what it repeats", "repeat less, or use * and +")
	}
}

func control(r rune) bool { return r < ' ' || r == 0x7f }

// unprintable is what a terminal may obey.
func unprintable(r rune) bool { return control(r) || r >= 0x80 && r < 0xa0 }
