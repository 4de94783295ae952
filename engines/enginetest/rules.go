package enginetest

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/engines/flagcheck"
)

// launched is one launch and what was asked for.
type launched struct {
	at    string // for people: the profile, the circumstances, the rank
	shape engines.Shape
	shard engines.Shard
	engines.Launch
}

// rules are what holds for every launch.
func (s *subject) rules(fs *findings, l launched) {
	s.logs(fs, &l)
	fs.err(contractValid, l.at, l.Validate())
	s.serving(fs, l)
	s.secret(fs, l)
	s.sleep(fs, l)
	s.own(fs, l)
	s.cards(fs, l)
	s.times(fs, l)
	for _, c := range l.commands() {
		s.covered(fs, l, c)
	}
}

// named is a command of a launch with its name for people.
type named struct {
	name string
	engines.Command
}

func (l launched) commands() []named {
	out := []named{{"engine", l.Engine}}
	for _, sc := range l.Sidecars {
		out = append(out, named{"sidecar " + sc.Name, sc.Command})
	}
	return out
}

// serving: rank 0 answers HTTP, where its shape says so and on the port that it
// was given, and can be asked whether it is ready.
func (s *subject) serving(fs *findings, l launched) {
	want := l.shape.Ranks[l.shard.Rank].ServesHTTP
	if l.ServesHTTP != want {
		fs.add("a launch serves HTTP where the shape says so", fmt.Sprintf("%s: ServesHTTP is %t, and %t in the shape", l.at, l.ServesHTTP, want), "make Launch and Validate agree")
	}
	probe := l.Ready.Probe
	if probe != nil {
		if l.Ready.Log != "" {
			fs.add("a process is ready by its probe or by a line, not by both", l.at+": Ready has Probe and Log", "leave Log out: a process with a probe is ready by that alone")
		}
		if !l.hasPort(probe.Port) {
			fs.add("a probe asks a port that was set aside for the rank", fmt.Sprintf("%s: port %d; the rank has %v", l.at, probe.Port, l.shard.Ports), "take it from Shard.Ports")
		}
		if probe.Timeout > l.Ready.Timeout {
			fs.add("one answer of a probe takes less time than the start", fmt.Sprintf("%s: %v of %v", l.at, probe.Timeout, l.Ready.Timeout), "shorten Probe.Timeout")
		}
	}
	if !l.ServesHTTP {
		return
	}
	if probe == nil {
		fs.add("a rank that serves HTTP has a probe", l.at+": Ready.Probe is nil", "ask the engine's health route")
	}
	port := strconv.Itoa(l.shard.Ports[engines.PortHTTP])
	if !l.mentions(port) {
		fs.add("the engine listens on the port that was set aside for it", l.at+": port "+port+" is in no argument, variable or file", "pass Shard.Ports[engines.PortHTTP], never the engine's default")
	}
	s.reserved(fs, l, "address or port", func(value string) bool { return value == l.shard.Bind || hasNumber(value, port) })
}

// hasPort reports whether port lies in a run that was set aside for the rank.
func (l launched) hasPort(port int) bool {
	return slices.ContainsFunc(l.shape.Ranks[l.shard.Rank].Ports, func(n engines.PortNeed) bool {
		first := l.shard.Ports[n.Name]
		return port >= first && port < first+n.Count
	})
}

// mentions reports whether a number stands in anything that is started.
func (l launched) mentions(number string) bool {
	for _, c := range l.commands() {
		if slices.ContainsFunc(c.Args, func(a string) bool { return hasNumber(a, number) }) {
			return true
		}
		for _, value := range c.Env {
			if hasNumber(value, number) {
				return true
			}
		}
	}
	return slices.ContainsFunc(l.Files, func(f engines.File) bool { return hasNumber(f.Content, number) })
}

// hasNumber reports whether number stands in text, and is no part of another.
func hasNumber(text, number string) bool {
	for word := range strings.FieldsFuncSeq(text, func(r rune) bool { return r < '0' || r > '9' }) {
		if word == number {
			return true
		}
	}
	return false
}

// reserved: what decides where the engine listens, and by what key, a profile
// cannot change behind the launcher's back.
func (s *subject) reserved(fs *findings, l launched, what string, carries func(value string) bool) {
	const contract = "flags and variables that carry what the launcher decides are reserved"
	args := l.Engine.Args[:len(l.Engine.Args)-l.extra()]
	for i, arg := range args {
		flag, value, joined := strings.Cut(arg, "=")
		if !joined {
			flag, value = "", arg
			if i > 0 {
				flag = args[i-1]
			}
		}
		if carries(value) && strings.HasPrefix(flag, "-") && !s.reserves(flag) {
			fs.add(contract, fmt.Sprintf("%s: %s carries the %s", l.at, flag, what), "add "+flag+" to Description.ReservedFlags")
		}
	}
	for name, value := range l.Engine.Env {
		if _, theirs := l.shard.Profile.Env[name]; carries(value) && !theirs && !slices.Contains(s.d.ReservedEnv, name) {
			fs.add(contract, fmt.Sprintf("%s: %s carries the %s", l.at, name, what), "add "+name+" to Description.ReservedEnv")
		}
	}
}

func (s *subject) reserves(flag string) bool {
	p := engines.Profile{Engine: s.d.Engine, ServedNames: []string{"m"}, ExtraArgs: []string{flag}}
	return slices.ContainsFunc(s.d.Faults(p), func(f engines.Fault) bool { return f.Field == "extra_args[0]" })
}

// extra is how many arguments of the profile's own end the engine's command.
func (l launched) extra() int {
	extra := l.shard.Profile.ExtraArgs
	if n := len(l.Engine.Args) - len(extra); n >= 0 && slices.Equal(l.Engine.Args[n:], extra) {
		return len(extra)
	}
	return 0
}

// secret: it reaches the engine in the way that the description names, and only
// where it was asked for.
func (s *subject) secret(fs *findings, l launched) {
	const contract = "the secret reaches the engine as Description.Secret says, where Shard.Keyed asks for it, and in no other way"
	var env, files []string
	for name, value := range l.Engine.Env {
		if strings.Contains(value, engines.SecretPlaceholder) {
			env = append(env, name)
		}
	}
	for _, f := range l.Files {
		if strings.Contains(f.Content, engines.SecretPlaceholder) {
			files = append(files, f.Name)
		}
	}
	use, asked := s.d.Secret, l.shard.Keyed
	switch {
	case !asked || !use.Supported:
		if len(env)+len(files) > 0 {
			fs.add(contract, fmt.Sprintf("%s: the placeholder is in %q, with Keyed %t and Supported %t", l.at, append(env, files...), asked, use.Supported), "put it there only if both are true")
		}
		if p := l.Ready.Probe; p != nil && p.Keyed {
			fs.add(contract, l.at+": the probe is keyed, and the engine has no key", "set Probe.Keyed only where the engine asks for one")
		}
		return
	case use.By == engines.SecretByEnv && len(files) > 0, use.By == engines.SecretByFile && len(env) > 0:
		fs.add(contract, fmt.Sprintf("%s: the placeholder is in %q, and Secret.By is %s", l.at, append(env, files...), use.By), "say how the key really reaches the engine")
	}
	if !l.ServesHTTP {
		return
	}
	if len(env)+len(files) == 0 {
		fs.add(contract, l.at+": the placeholder is nowhere, so the engine answers everyone", "put engines.SecretPlaceholder in a variable or a file")
	}
	for _, name := range files {
		file := path.Join(l.shard.Dir, name)
		refers := func(text string) bool { return strings.Contains(text, file) }
		known := slices.ContainsFunc(l.Engine.Args, refers)
		for _, value := range l.Engine.Env {
			known = known || refers(value)
		}
		if !known {
			fs.add(contract, fmt.Sprintf("%s: nothing tells the engine of %s", l.at, file), "pass the file's path, Shard.Dir and its name")
		}
		s.reserved(fs, l, "file of the secret", refers)
	}
	s.reserved(fs, l, "secret", func(value string) bool { return strings.Contains(value, engines.SecretPlaceholder) })
	if p := l.Ready.Probe; p != nil && p.Keyed == open(use, p.Path) {
		fs.add(contract, fmt.Sprintf("%s: the probe of %s is keyed: %t, and by OpenPaths and ClosedPaths the route is open: %t", l.at, p.Path, p.Keyed, open(use, p.Path)), "key the probes of closed routes and no others")
	}
}

// sleep: who serves says how it is put to sleep where the profile asks for that, on
// its own port and with the key where a route asks for it, and nobody else does.
func (s *subject) sleep(fs *findings, l launched) {
	const contract = "a launch says how the engine sleeps where the profile asks for it, on the rank that serves, and nowhere else"
	asked := l.shard.Profile.Sleep && l.ServesHTTP
	if asked != (l.Sleep != nil) {
		fs.add(contract, fmt.Sprintf("%s: Sleep is set: %t, and asked for: %t", l.at, l.Sleep != nil, asked), "set Launch.Sleep on rank 0 where Profile.Sleep is true; without Capabilities.Sleeps the profile is a fault")
	}
	if l.shard.Profile.Sleep && !s.d.Capabilities.Sleeps {
		fs.add("an engine that cannot sleep is not launched to", l.at+": Profile.Sleep is true, and Capabilities.Sleeps false", "begin Validate with Description.Faults")
	}
	if l.Sleep == nil {
		return
	}
	if !l.hasPort(l.Sleep.Port) {
		fs.add("an engine is put to sleep on a port that was set aside for the rank", fmt.Sprintf("%s: port %d; the rank has %v", l.at, l.Sleep.Port, l.shard.Ports), "take it from Shard.Ports")
	}
	keyed := l.shard.Keyed && s.d.Secret.Supported
	for _, p := range []string{l.Sleep.Sleep, l.Sleep.Wake, l.Sleep.Check} {
		route, _, _ := strings.Cut(p, "?")
		if l.Sleep.Keyed && !keyed || !l.Sleep.Keyed && keyed && !open(s.d.Secret, route) {
			fs.add("sleep is asked for with the key where a route asks for one, and not where there is none", fmt.Sprintf("%s: %s, keyed: %t", l.at, route, l.Sleep.Keyed), "set Sleep.Keyed to Shard.Keyed")
		}
	}
}

// open reports whether a route is answered without the key.
func open(use engines.SecretUse, route string) bool {
	among := func(paths []string) bool {
		return slices.ContainsFunc(paths, func(p string) bool { return p == route || strings.HasSuffix(p, "/") && strings.HasPrefix(route, p) })
	}
	if slices.Contains(use.OpenPaths, "*") {
		return !among(use.ClosedPaths)
	}
	return among(use.OpenPaths)
}

// own: what the profile says of arguments and variables is done, last.
func (s *subject) own(fs *findings, l launched) {
	p := l.shard.Profile
	if l.shard.Rank == 0 {
		if len(p.ExtraArgs) > 0 && l.extra() == 0 {
			fs.add("extra_args go last, as they are", fmt.Sprintf("%s: the arguments end with %q", l.at, tail(l.Engine.Args, len(p.ExtraArgs))), "append Profile.ExtraArgs after everything else")
		}
		for name, value := range p.Env {
			if got, ok := l.Engine.Env[name]; !ok || got != value {
				fs.add("variables of the profile reach the engine as they are", fmt.Sprintf("%s: %s is %q, want %q", l.at, name, got, value), "copy Profile.Env into Command.Env")
			}
		}
	}
	if p.Executable != "" && l.shard.Rank == 0 && l.Engine.Executable != p.Executable {
		fs.add("the executable of a profile is the one that is started", fmt.Sprintf("%s: it is %s", l.at, l.Engine.Executable), "start Profile.Executable")
	}
	for _, c := range l.commands() {
		for _, name := range c.Unset {
			if _, set := c.Env[name]; set {
				fs.add("a variable is set or unset, not both", fmt.Sprintf("%s, %s: %s", l.at, c.name, name), "leave out of Unset what Env has")
			}
		}
	}
}

func tail(args []string, n int) []string { return args[max(0, len(args)-n):] }

// cards: the engine sees its own cards and no others.
func (s *subject) cards(fs *findings, l launched) {
	const contract = "a rank is told which cards are its own, by a variable that ends in VISIBLE_DEVICES"
	cards := l.shard.Cards
	if len(cards) == 0 || cards[0].Vendor == engines.SimulatedCard {
		return
	}
	found := false
	for _, c := range l.commands() {
		for name, value := range c.Env {
			if !strings.HasSuffix(name, "VISIBLE_DEVICES") || value == "" {
				continue
			}
			found = true
			if have := strings.Split(value, ","); !sameCards(have, cards) {
				fs.add(contract, fmt.Sprintf("%s, %s: %s is %q, and the cards are %v", l.at, c.name, name, value, cards), "name each card by its UUID or its index, in order")
			}
			if !slices.Contains(s.d.ReservedEnv, name) {
				fs.add("flags and variables that carry what the launcher decides are reserved", fmt.Sprintf("%s: %s carries the cards", l.at, name), "add "+name+" to Description.ReservedEnv")
			}
		}
	}
	if !found {
		fs.add(contract, fmt.Sprintf("%s: there is none for %s %v", l.at, plural(len(cards), string(cards[0].Vendor)+" card"), cards), "set CUDA_VISIBLE_DEVICES or what the vendor of Shard.Cards reads, or the rank takes the cards of others")
	}
}

func sameCards(have []string, cards []engines.Card) bool {
	return slices.EqualFunc(have, cards, func(name string, c engines.Card) bool {
		return name == strconv.Itoa(c.Index) || c.UUID != "" && name == c.UUID
	})
}

// times: what the profile says of them wins over the adapter's own.
func (s *subject) times(fs *findings, l launched) {
	p := l.shard.Profile
	const contract = "load_timeout and stop_grace of a profile win over the adapter's own"
	if p.LoadTimeout > 0 && l.Ready.Timeout != p.LoadTimeout {
		fs.add(contract, fmt.Sprintf("%s: Ready.Timeout is %v, want %v", l.at, l.Ready.Timeout, p.LoadTimeout), "set Ready.Timeout to Profile.LoadTimeout where it is given")
	}
	if p.StopGrace > 0 && l.Stop.Grace != p.StopGrace {
		fs.add(contract, fmt.Sprintf("%s: Stop.Grace is %v, want %v", l.at, l.Stop.Grace, p.StopGrace), "set Stop.Grace to Profile.StopGrace where it is given")
	}
}

// reference is $1 or ${name} in a text for people.
var reference = regexp.MustCompile(`\$(?:\{(\w+)\}|(\w+))`)

// logs: rules match lines that say something, and what they tell people has no
// holes. Rules that were judged before, as those of nearly all launches, are
// taken out of l, for patterns take long to compile.
func (s *subject) logs(fs *findings, l *launched) {
	if slices.ContainsFunc(s.judged, func(rules []engines.LogRule) bool { return slices.Equal(rules, l.Logs) }) {
		l.Logs = nil
		return
	}
	s.judged = append(s.judged, l.Logs)
	for _, r := range l.Logs {
		match, err := regexp.Compile(r.Match)
		if err != nil {
			continue // Validate has said so
		}
		if match.MatchString("") {
			fs.add("a log rule matches lines that say something", fmt.Sprintf("%s: %q matches the empty line", l.at, r.Match), "anchor it to words of the engine's")
		}
		for _, text := range []string{r.Reason, r.Advice} {
			for _, ref := range reference.FindAllStringSubmatch(text, -1) {
				name := ref[1] + ref[2]
				n, err := strconv.Atoi(name)
				if known := err == nil && n <= match.NumSubexp() || err != nil && match.SubexpIndex(name) >= 0; !known {
					fs.add("reason and advice name groups of the rule's pattern", fmt.Sprintf("%s: %q has no group %s for %q", l.at, r.Match, name, text), "name the group, as (?P<name>…)")
				}
			}
		}
	}
}

// covered: everything that a command has stands in a check, so that nothing
// that a profile leads to escapes the engine's help; and flags that only some
// versions have are passed to those alone.
func (s *subject) covered(fs *findings, l launched, c named) {
	const contract = "everything that a profile leads to is in the widest command of a check"
	p := l.shard.Profile
	check, args, ok := s.checkOf(c.Command, p)
	if !ok {
		fs.add(contract, fmt.Sprintf("%s, %s: no check has the executable %s and begins as %q", l.at, c.name, c.Executable, c.Args[:min(len(c.Args), 3)]), "add a check for it")
		return
	}
	if n := len(p.ExtraArgs); c.name == "engine" {
		if l.extra() == n {
			args = args[:max(0, len(args)-n)]
		}
	}
	wide := flagcheck.Flags(flagcheck.Rest(check))
	for _, flag := range flagcheck.Flags(args) {
		whole, _, _ := strings.Cut(flag, ".")
		if !slices.Contains(wide, flag) && !slices.Contains(wide, whole) {
			fs.add(contract, fmt.Sprintf("%s, %s: %s is not in check %q", l.at, c.name, flag, check.Name), "add the flag to the check's Command.Args")
		}
		if since, newer := check.Since[flag]; newer && (l.shard.EngineVersion == "" || engines.CompareVersions(l.shard.EngineVersion, since) < 0) {
			fs.add("a flag that only some versions have is passed to an engine known to be that new",
				fmt.Sprintf("%s, %s: %s, which is there since %s, is passed to version %q", l.at, c.name, flag, since, l.shard.EngineVersion), "ask engines.CompareVersions before it is added; an empty version is not known")
		}
	}
	for name := range c.Env {
		_, wideEnv := check.Command.Env[name]
		_, theirs := p.Env[name]
		if !wideEnv && !theirs && !slices.Contains(check.Variables, name) {
			fs.add(contract, fmt.Sprintf("%s, %s: variable %s is not in check %q", l.at, c.name, name, check.Name), "add the variable to the check's Command.Env")
		}
	}
}

// checkOf returns the check that a command falls under, and the arguments that
// follow those that lead to the help.
func (s *subject) checkOf(c engines.Command, p engines.Profile) (engines.Check, []string, bool) {
	best, longest := engines.Check{}, -1
	for _, check := range s.checks {
		lead := check.Command.Args[:len(check.Command.Args)-len(flagcheck.Rest(check))]
		same := path.Base(c.Executable) == path.Base(check.Command.Executable) || c.Executable == p.Executable
		if same && len(lead) > longest && len(c.Args) >= len(lead) && slices.Equal(c.Args[:len(lead)], lead) {
			best, longest = check, len(lead)
		}
	}
	if longest < 0 {
		return engines.Check{}, nil, false
	}
	return best, c.Args[longest:], true
}
