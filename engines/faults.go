package engines

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// ErrProfile is the class of every [*ProfileError].
var ErrProfile = errors.New("engines: profile cannot run")

// Fault is one thing that is wrong with a profile or a shard.
type Fault struct {
	// Field is the key of the profile as YAML spells it, such as
	// "extra_args[2]" or "options.launcher".
	Field string
	// Problem says what is wrong, with the value.
	Problem string
	// Advice says what to do.
	Advice string
}

// String returns "field: problem; advice".
func (f Fault) String() string {
	s := f.Field + ": " + f.Problem
	if f.Advice != "" {
		s += "; " + f.Advice
	}
	return s
}

// Faults collects what is wrong. The zero value has none.
type Faults []Fault

// Add notes one fault.
func (fs *Faults) Add(field, problem, advice string) {
	*fs = append(*fs, Fault{Field: field, Problem: problem, Advice: advice})
}

// mostShown is how many faults stand in the text of an error.
const mostShown = 30

// line returns the faults on one line.
func (fs Faults) line() string {
	texts := make([]string, 0, mostShown+1)
	for i, f := range fs {
		if i == mostShown {
			texts = append(texts, fmt.Sprintf("and %d more", len(fs)-i))
			break
		}
		texts = append(texts, f.String())
	}
	return strings.Join(texts, ", ")
}

// Err returns a [*ProfileError] with the faults, or nil if there are none.
func (fs Faults) Err(engine Name) error {
	if len(fs) == 0 {
		return nil
	}
	return &ProfileError{Engine: engine, Faults: fs}
}

// ProfileError says why a profile cannot run, every fault of it. It unwraps to
// [ErrProfile].
type ProfileError struct {
	Engine Name
	Faults []Fault
}

// Error returns the faults on one line: all of them, or of very many the first.
func (e *ProfileError) Error() string {
	return fmt.Sprintf("%s: profile cannot run: %s", e.Engine, Faults(e.Faults).line())
}

// Unwrap returns [ErrProfile].
func (e *ProfileError) Unwrap() error { return ErrProfile }

// variable is a name that every shell and engine accepts for a variable.
var variable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// LongestWait bounds how long an engine may be waited for, to become ready and
// to end: a longer time is taken for a slip.
const LongestWait = 24 * time.Hour

// Faults returns what is wrong with p whatever engine is to run it: text that would
// be read as a flag or cannot be passed on, numbers that no engine accepts, and
// ranks over which the cards cannot be divided.
func (p Profile) Faults() Faults {
	var fs Faults
	p = p.WithDefaults()
	switch {
	case p.Executable == "":
	case !word(p.Executable):
		fs.Add("executable", fmt.Sprintf("%s would be read as a flag or cannot be passed on", quoted(p.Executable)), "give an absolute path, or a name in PATH")
	case strings.ContainsRune(p.Executable, filepath.Separator) && !filepath.IsAbs(p.Executable):
		fs.Add("executable", fmt.Sprintf("%s is relative", quoted(p.Executable)), "give an absolute path, or a name in PATH")
	}
	fs.names(p)
	fs.numbers(p)
	for i, arg := range p.ExtraArgs {
		fs.passable(fmt.Sprintf("extra_args[%d]", i), arg)
	}
	for _, name := range slices.Sorted(maps.Keys(p.Env)) {
		if !variable.MatchString(name) {
			fs.Add("env."+shortened(name), "is no name of a variable", "use letters, digits and _")
			continue
		}
		fs.passable("env."+name, p.Env[name])
	}
	return fs
}

// Faults returns what is wrong with p by what d says of its engine, and by
// [Profile.Faults]: an engine other than d's, a mode or option that d does not
// know, sleep where the engine or the profile cannot, and arguments or variables
// that d keeps for itself. What is special to an engine its adapter adds.
func (d Description) Faults(p Profile) Faults {
	var fs Faults
	p = p.WithDefaults()
	if p.Engine != d.Engine {
		fs.Add("engine", fmt.Sprintf("is %q", p.Engine), fmt.Sprintf("want %q for this adapter", d.Engine))
	}
	fs.mode(d, p)
	fs = append(fs, p.Faults()...)
	fs.sleeps(d, p)
	fs.options(d, p)
	fs.reserved(d, p)
	return fs
}

func (fs *Faults) mode(d Description, p Profile) {
	names := make([]string, len(d.Modes))
	multi := false
	for i, m := range d.Modes {
		names[i] = m.Name
		if m.Name == p.Mode || p.Mode == "" && i == 0 {
			multi = m.MultiNode
		}
	}
	if p.Mode != "" && !slices.Contains(names, p.Mode) {
		advice := "leave it out: " + d.Title + " is run in one way only"
		if len(names) > 0 {
			advice = "want one of " + strings.Join(names, ", ")
		}
		fs.Add("mode", quoted(p.Mode)+" is not known", advice)
		return
	}
	if p.Ranks > 1 && !multi {
		fs.Add("ranks", fmt.Sprintf("is %d, and the engine runs on one node here", p.Ranks), "set it to 1, or choose a mode that spreads over nodes")
	}
}

func (fs *Faults) names(p Profile) {
	if len(p.ServedNames) == 0 {
		fs.Add("served_names", "is empty", "name what callers ask for, such as the model's name in the catalog")
	}
	// An engine that takes several names behind one flag reads one that begins
	// with a dash as the next flag.
	for i, name := range p.ServedNames {
		if name == "" || !word(name) || strings.ContainsRune(name, ' ') {
			fs.Add(fmt.Sprintf("served_names[%d]", i), fmt.Sprintf("%s is no name", quoted(name)), "use letters, digits and punctuation without spaces, no dash at the beginning")
		}
	}
	if !word(p.Model) {
		fs.Add("model", fmt.Sprintf("%s would be read as a flag or cannot be passed on", quoted(p.Model)), "give a path or a name")
	}
	for _, t := range []struct{ key, text string }{
		{"revision", p.Revision}, {"dtype", p.DType}, {"kv_cache_dtype", p.KVCacheDType}, {"quantization", p.Quantization},
	} {
		if !word(t.text) || strings.ContainsRune(t.text, ' ') {
			fs.Add(t.key, fmt.Sprintf("%s would be read as a flag or cannot be passed on", quoted(t.text)), "give one word")
		}
	}
	switch p.Task {
	case TaskGenerate, TaskEmbed, TaskRerank, TaskClassify:
	default:
		fs.Add("task", quoted(string(p.Task))+" is not known", "want generate, embed, rerank or classify")
	}
}

func (fs *Faults) numbers(p Profile) {
	const (
		mostCards  = 1 << 16
		mostTokens = 1 << 30
	)
	counts := []struct {
		field              string
		value, least, most int
	}{
		{"ranks", p.Ranks, 1, mostCards},
		{"tensor_parallel", p.TensorParallel, 1, mostCards},
		{"pipeline_parallel", p.PipelineParallel, 1, mostCards},
		{"data_parallel", p.DataParallel, 1, mostCards},
		{"context_tokens", p.ContextTokens, 0, mostTokens},
		{"max_running", p.MaxRunning, 0, mostTokens},
	}
	sane := true
	for _, c := range counts {
		if c.value < c.least || c.value > c.most {
			fs.Add(c.field, fmt.Sprintf("is %d", c.value), fmt.Sprintf("want %d to %d", c.least, c.most))
			sane = false
		}
	}
	if sane && p.Cards()%p.Ranks != 0 {
		fs.Add("ranks", fmt.Sprintf("%d cards cannot be divided over %d ranks", p.Cards(), p.Ranks), "make tensor × pipeline × data a multiple of it")
	}
	if r := p.MemoryRatio; !(r >= 0 && r <= 1) {
		fs.Add("memory_ratio", fmt.Sprintf("is %v", r), "want more than 0, at most 1")
	}
	for _, t := range []struct {
		key   string
		value time.Duration
	}{{"load_timeout", p.LoadTimeout}, {"stop_grace", p.StopGrace}} {
		if t.value < 0 || t.value > LongestWait {
			fs.Add(t.key, fmt.Sprintf("is %v", t.value), fmt.Sprintf("want more than 0, at most %v, or leave it out", LongestWait))
		}
	}
}

func (fs *Faults) options(d Description, p Profile) {
	for _, key := range slices.Sorted(maps.Keys(p.Options)) {
		value := p.Options[key]
		i := slices.IndexFunc(d.Options, func(o Option) bool { return o.Key == key })
		switch {
		case i < 0:
			known := make([]string, len(d.Options))
			for j, o := range d.Options {
				known[j] = o.Key
			}
			advice := "remove it: the adapter has none"
			if len(known) > 0 {
				advice = "want one of " + strings.Join(known, ", ")
			}
			fs.Add("options."+key, "is not known", advice)
		case len(d.Options[i].Values) > 0 && !slices.Contains(d.Options[i].Values, value):
			fs.Add("options."+key, "is "+quoted(value), "want one of "+strings.Join(d.Options[i].Values, ", "))
		case !word(value) && !negative.MatchString(value):
			fs.Add("options."+key, fmt.Sprintf("%s would be read as a flag or cannot be passed on", quoted(value)), "give it without a dash at the beginning and without control characters")
		}
	}
}

func (fs *Faults) reserved(d Description, p Profile) {
	for i, arg := range p.ExtraArgs {
		if flag, reserved := d.reserves(arg); reserved {
			fs.Add(fmt.Sprintf("extra_args[%d]", i), shortened(flag)+" is set by the launcher", "remove it; see the fields of the profile")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(p.Env)) {
		if slices.Contains(d.ReservedEnv, name) {
			fs.Add("env."+name, "is set by the launcher", "remove it; see the fields of the profile")
		}
	}
}

// passable reports text that no process can be given, or that asks for the
// secret, which the adapter alone places.
func (fs *Faults) passable(field, text string) {
	if strings.ContainsRune(text, 0) {
		fs.Add(field, "has a NUL byte", "remove it")
	}
	if strings.Contains(text, SecretPlaceholder) {
		fs.Add(field, "asks for the secret of the replica", "remove it: the adapter hands the secret on")
	}
}

// negative is a value that begins with a dash and is no flag.
var negative = regexp.MustCompile(`^-[0-9.]+$`)

// word reports whether text can be an argument that is a value: it does not
// begin as a flag does, has no control character, and does not ask for the
// secret.
func word(text string) bool {
	return !strings.HasPrefix(text, "-") && !strings.ContainsFunc(text, control) && !strings.Contains(text, SecretPlaceholder)
}

// reserves reports whether arg is one of d's reserved flags, and which. It is
// one in every way of spelling that some engine's parser takes for it.
func (d Description) reserves(arg string) (string, bool) {
	name, _, _ := strings.Cut(arg, "=")
	if len(name) < 2 || name[0] != '-' || name == "--" {
		return "", false
	}
	return name, slices.ContainsFunc(d.ReservedFlags, func(flag string) bool { return spells(name, flag) })
}

// spells reports whether name, which has its dashes and no value, is a way to
// write flag.
//
//   - Dashes and underscores within a long name are the same.
//   - A name that is cut short is the whole one, for argparse.
//   - --flag.key sets a part of a flag whose value is JSON, for vLLM.
//   - --no-flag turns a flag off, for argparse and click.
//   - -flag is --flag, for Go.
//   - -n8 is -n 8, for all who follow POSIX. Letters may be another flag's: -np.
func spells(name, flag string) bool {
	const long = "--"
	name, flag = strings.ReplaceAll(name, "_", "-"), strings.ReplaceAll(flag, "_", "-")
	if strings.HasPrefix(flag, name) { // the same one, too
		return true
	}
	if !strings.HasPrefix(name, long) {
		attached := len(flag) == len("-n") && strings.HasPrefix(name, flag) && !letter(name[len(flag)])
		return attached || "-"+name == flag
	}
	whole, _, dotted := strings.Cut(name, ".")
	positive, negated := strings.CutPrefix(name, long+"no-")
	return dotted && strings.HasPrefix(flag, whole) && whole != long ||
		negated && strings.HasPrefix(flag, long+positive) && positive != ""
}

func letter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }

// Faults returns what s lacks to be launched as shape asks: a rank within it,
// an absolute directory, ports of its own for each need, an address for each
// node, and as many cards.
func (s Shard) Faults(shape Shape) Faults {
	var fs Faults
	if s.Rank < 0 || s.Rank >= len(shape.Ranks) {
		fs.Add("rank", fmt.Sprintf("is %d of %d", s.Rank, len(shape.Ranks)), "count from 0")
		return fs
	}
	need := shape.Ranks[s.Rank]
	if !filepath.IsAbs(s.Dir) {
		fs.Add("dir", fmt.Sprintf("%q is not absolute", s.Dir), "give the shard a directory of its own")
	}
	if strings.ContainsFunc(s.Dir, control) || strings.Contains(s.Dir, SecretPlaceholder) {
		fs.Add("dir", quoted(s.Dir)+" cannot be passed on", "use printable characters")
	}
	if need.ServesHTTP && s.Bind == "" {
		fs.Add("bind", "is empty", "give the address on which the engine listens")
	}
	fs.host("bind", s.Bind)
	fs.host("leader", s.Leader)
	fs.host("address", s.Address)
	fs.host("interface", s.Interface)
	for i, hca := range s.HCAs {
		fs.host(fmt.Sprintf("hcas[%d]", i), hca)
	}
	if len(shape.Ranks) > 1 && (s.Leader == "" || s.Address == "") {
		fs.Add("leader", "an address is missing", "give the addresses of rank 0's node and of this rank's")
	}
	fs.ports("ports", s.Ports, need.Ports)
	if s.Rank > 0 {
		fs.ports("leader_ports", s.LeaderPorts, shape.Ranks[0].Ports)
	}
	if len(s.Cards) != need.Cards {
		fs.Add("cards", fmt.Sprintf("there are %d", len(s.Cards)), fmt.Sprintf("the rank takes %d", need.Cards))
	}
	return fs
}

// host reports what is no name or address of a host or a device; empty is left
// to others.
func (fs *Faults) host(field, text string) {
	if !word(text) || strings.ContainsAny(text, " ,/=") || len(text) > 255 {
		fs.Add(field, quoted(text)+" is no name or address", "give one as the node knows it")
	}
}

func (fs *Faults) ports(field string, have map[string]int, needs []PortNeed) {
	for i, n := range needs {
		port := have[n.Name]
		if port < 1 || port+n.Count-1 > 65535 {
			fs.Add(field+"."+n.Name, fmt.Sprintf("is %d", port), fmt.Sprintf("set aside %d from 1 to 65535", n.Count))
			continue
		}
		for _, o := range needs[:i] {
			if other := have[o.Name]; port < other+o.Count && other < port+n.Count {
				fs.Add(field+"."+n.Name, fmt.Sprintf("is %d, and %s has that port", port, o.Name), "set aside ports for each")
			}
		}
	}
}

// quoted shows text from outside as far as it helps.
func quoted(text string) string {
	if short := shortened(text); short != text {
		return fmt.Sprintf("%q and %d bytes more", short, len(text)-len(short))
	}
	return strconv.Quote(text)
}

// shortened is the beginning of a text that is long.
func shortened(text string) string {
	const most = 120
	if len(text) <= most {
		return text
	}
	return text[:most]
}
