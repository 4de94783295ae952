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

// Error returns every fault on one line.
func (e *ProfileError) Error() string {
	texts := make([]string, len(e.Faults))
	for i, f := range e.Faults {
		texts[i] = f.String()
	}
	return fmt.Sprintf("%s: profile cannot run: %s", e.Engine, strings.Join(texts, ", "))
}

// Unwrap returns [ErrProfile].
func (e *ProfileError) Unwrap() error { return ErrProfile }

// variable is a name that every shell and engine accepts for a variable.
var variable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// Faults returns what is wrong with p for every engine alike: an engine other
// than d's, a mode or option that d does not know, numbers that no engine
// accepts, ranks over which the cards cannot be divided, and arguments or
// variables that d keeps for itself. What is special to an engine its adapter
// adds.
func (d Description) Faults(p Profile) Faults {
	var fs Faults
	p = p.WithDefaults()
	if p.Engine != d.Engine {
		fs.Add("engine", fmt.Sprintf("is %q", p.Engine), fmt.Sprintf("want %q for this adapter", d.Engine))
	}
	if strings.ContainsRune(p.Executable, 0) {
		fs.Add("executable", "has a NUL byte", "give a path or a name in PATH")
	}
	fs.mode(d, p)
	fs.names(p)
	fs.numbers(p)
	fs.options(d, p)
	fs.extra(d, p)
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
		fs.Add("mode", fmt.Sprintf("%q is not known", p.Mode), advice)
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
	for i, name := range p.ServedNames {
		if name == "" || strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
			fs.Add(fmt.Sprintf("served_names[%d]", i), fmt.Sprintf("%q is no name", name), "use letters, digits and punctuation without spaces")
		}
	}
	if strings.HasPrefix(p.Model, "-") || strings.ContainsFunc(p.Model, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		fs.Add("model", fmt.Sprintf("%q would be read as a flag or cannot be passed on", p.Model), "give a path or a name")
	}
	for key, tail := range map[string]string{"revision": p.Revision, "dtype": p.DType, "kv_cache_dtype": p.KVCacheDType, "quantization": p.Quantization} {
		if strings.HasPrefix(tail, "-") || strings.ContainsFunc(tail, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
			fs.Add(key, fmt.Sprintf("%q would be read as a flag or cannot be passed on", tail), "give one word")
		}
	}
	switch p.Task {
	case TaskGenerate, TaskEmbed, TaskRerank, TaskClassify:
	default:
		fs.Add("task", fmt.Sprintf("%q is not known", p.Task), "want generate, embed, rerank or classify")
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
	if p.LoadTimeout < 0 {
		fs.Add("load_timeout", fmt.Sprintf("is %v", p.LoadTimeout), "want more than 0, or leave it out")
	}
	if p.StopGrace < 0 {
		fs.Add("stop_grace", fmt.Sprintf("is %v", p.StopGrace), "want more than 0, or leave it out")
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
			fs.Add("options."+key, fmt.Sprintf("is %q", value), "want one of "+strings.Join(d.Options[i].Values, ", "))
		}
	}
}

func (fs *Faults) extra(d Description, p Profile) {
	for i, arg := range p.ExtraArgs {
		field := fmt.Sprintf("extra_args[%d]", i)
		if strings.ContainsRune(arg, 0) {
			fs.Add(field, "has a NUL byte", "remove it")
		}
		if flag, reserved := d.reserves(arg); reserved {
			fs.Add(field, flag+" is set by the launcher", "remove it; see the fields of the profile")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(p.Env)) {
		switch {
		case !variable.MatchString(name):
			fs.Add("env."+name, "is no name of a variable", "use letters, digits and _")
		case strings.ContainsRune(p.Env[name], 0):
			fs.Add("env."+name, "has a NUL byte", "remove it")
		case slices.Contains(d.ReservedEnv, name):
			fs.Add("env."+name, "is set by the launcher", "remove it; see the fields of the profile")
		}
	}
}

// reserves reports whether arg is one of d's reserved flags, alone or with
// "=value", and which. Dashes and underscores within a name are the same, and a
// name that one of them begins with is that one: argparse takes it for it.
func (d Description) reserves(arg string) (string, bool) {
	name, _, _ := strings.Cut(arg, "=")
	if !strings.HasPrefix(name, "-") {
		return "", false
	}
	long := strings.HasPrefix(name, "--") && len(name) > len("--")
	dashed := strings.ReplaceAll(name, "_", "-")
	same := func(flag string) bool {
		return flag == name || long && strings.HasPrefix(strings.ReplaceAll(flag, "_", "-"), dashed)
	}
	i := slices.IndexFunc(d.ReservedFlags, same)
	return name, i >= 0
}

// Faults returns what s lacks to be launched as shape asks: a rank within it,
// an absolute directory, a port for each need, an address for each node, and
// as many cards.
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
	if need.ServesHTTP && s.Bind == "" {
		fs.Add("bind", "is empty", "give the address on which the engine listens")
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

func (fs *Faults) ports(field string, have map[string]int, needs []PortNeed) {
	for _, n := range needs {
		if port := have[n.Name]; port < 1 || port+n.Count-1 > 65535 {
			fs.Add(field+"."+n.Name, fmt.Sprintf("is %d", port), fmt.Sprintf("set aside %d from 1 to 65535", n.Count))
		}
	}
}
