package enginetest

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/llmgw/llmgw/engines"
)

// wrong is a profile or shard that no adapter may launch, and the field that
// has to be named.
type wrong struct {
	name  string
	field string
	apply func(*engines.Profile)
}

func wrongs(d engines.Description) []wrong {
	out := []wrong{
		{"another engine", "engine", func(p *engines.Profile) { p.Engine = "suite-no-such" }},
		{"an unknown mode", "mode", func(p *engines.Profile) { p.Mode = "suite-no-such" }},
		{"an unknown option", "options.suite_no_such", func(p *engines.Profile) { p.Options = map[string]string{"suite_no_such": "1"} }},
		{"no served name", "served_names", func(p *engines.Profile) { p.ServedNames = nil }},
		{"a served name that is a flag", "served_names[0]", func(p *engines.Profile) { p.ServedNames = []string{"--suite"} }},
		{"a load without an end", "load_timeout", func(p *engines.Profile) { p.LoadTimeout = math.MaxInt64 }},
		{"a model that is a flag", "model", func(p *engines.Profile) { p.Model = "--suite" }},
		{"a revision of two words", "revision", func(p *engines.Profile) { p.Revision = "a b" }},
		{"an unknown task", "task", func(p *engines.Profile) { p.Task = "suite" }},
		{"fewer than no ranks", "ranks", func(p *engines.Profile) { p.Ranks = -1 }},
		{"no number", "memory_ratio", func(p *engines.Profile) { p.MemoryRatio = math.NaN() }},
		{"a variable that is none", "env.A=B", func(p *engines.Profile) { p.Env = map[string]string{"A=B": "x"} }},
		{"NUL", "extra_args[0]", func(p *engines.Profile) { p.ExtraArgs = []string{"a\x00"} }},
	}
	for _, flag := range d.ReservedFlags {
		for _, arg := range spellings(flag) {
			out = append(out, wrong{"the launcher's " + arg, "extra_args[1]", func(p *engines.Profile) { p.ExtraArgs = []string{"--suite", arg} }})
		}
	}
	for _, name := range d.ReservedEnv {
		out = append(out, wrong{"the launcher's " + name, "env." + name, func(p *engines.Profile) { p.Env = map[string]string{name: "1"} }})
	}
	return out
}

// spellings are ways to write a flag that some engine's parser takes for it.
func spellings(flag string) []string {
	all := []string{flag, flag + "=1"}
	if name, long := strings.CutPrefix(flag, "--"); long {
		return append(all, "--no-"+name, flag+".suite=1", "--"+strings.ReplaceAll(name, "-", "_"))
	}
	if len(flag) == len("-n") {
		all = append(all, flag+"1")
	}
	return all
}

// refuses: what cannot run or must not is refused, and the field is named.
func refuses(s *subject) (fs findings) {
	base := s.profiles[0]
	for _, w := range wrongs(s.d) {
		p := cloneProfile(base.Profile)
		w.apply(&p)
		_, err := s.adapter.Validate(s.ctx, p)
		s.mustRefuse(&fs, w.name, err, w.field, "begin Validate with Description.Faults")
		if err != nil {
			s.refusedToo(&fs, w.name, p, base.Shard)
		}
	}
	for _, f := range s.profiles {
		s.refusesShards(&fs, f)
	}
	return fs
}

// refusesShards: a shard that lacks what the shape asks for is not launched.
func (s *subject) refusesShards(fs *findings, f profileFile) {
	shape, err := s.adapter.Validate(s.ctx, f.Profile)
	if err != nil {
		return // said elsewhere
	}
	ranks := []int{0}
	if n := len(shape.Ranks); n > 1 {
		ranks = append(ranks, n-1)
	}
	for _, rank := range ranks {
		try := func(what, field string, change func(*engines.Shard)) {
			shard := f.Shard.shard(f.Profile, shape, rank)
			change(&shard)
			_, err := s.adapter.Launch(s.ctx, shard)
			s.mustRefuse(fs, fmt.Sprintf("%s, rank %d, %s", f.Name, rank, what), err, field, "ask Shard.Faults of the shape in Launch")
		}
		try("a rank too many", "rank", func(s *engines.Shard) { s.Rank = len(shape.Ranks) })
		try("a relative directory", "dir", func(s *engines.Shard) { s.Dir = "shard" })
		try("a card too many", "cards", func(s *engines.Shard) { s.Cards = append(s.Cards, engines.Card{Vendor: engines.NVIDIA, Index: 99}) })
		for _, need := range shape.Ranks[rank].Ports {
			try("no port "+need.Name, "ports."+need.Name, func(s *engines.Shard) { delete(s.Ports, need.Name) })
		}
		if rank == 0 {
			continue
		}
		try("no address", "leader", func(s *engines.Shard) { s.Leader = "" })
		for _, need := range shape.Ranks[0].Ports {
			try("no port "+need.Name+" of rank 0", "leader_ports."+need.Name, func(s *engines.Shard) { delete(s.LeaderPorts, need.Name) })
		}
	}
}

func (s *subject) mustRefuse(fs *findings, at string, err error, field, advice string) {
	if err == nil {
		fs.add("what cannot run, or is not the profile's to say, is refused", at+" is accepted", advice)
		return
	}
	s.refused(fs, at, err)
	pe, ok := errors.AsType[*engines.ProfileError](err)
	if ok && !slices.ContainsFunc(pe.Faults, func(f engines.Fault) bool { return f.Field == field }) {
		fs.add("a refusal names the field that is wrong", fmt.Sprintf("%s: %v does not speak of %s", at, err, field), advice)
	}
}

// invalidProfiles: the author's invalid profiles have the faults that they had.
func invalidProfiles(s *subject) (fs findings) {
	files, err := readProfiles(s.path("invalid"))
	if err != nil {
		fs.add("profiles can be read", err.Error(), "mend the file")
	}
	for _, f := range files {
		faults, ok := s.faults(&fs, f)
		if !ok {
			continue
		}
		var b strings.Builder
		for _, fault := range faults {
			b.WriteString(fault.String() + "\n")
		}
		s.compare(&fs, "an invalid profile has the faults of its .want file", s.path("invalid", f.Name+".want"), b.String())
	}
	if len(files) == 0 {
		s.skip = "no profile in " + s.path("invalid")
	}
	return fs
}

// faults returns what Validate, or else the launch of a rank, finds wrong.
func (s *subject) faults(fs *findings, f profileFile) ([]engines.Fault, bool) {
	shape, err := s.adapter.Validate(s.ctx, f.Profile)
	var ranks []int
	if err == nil {
		ranks, err = f.Shard.launched(shape)
	}
	for _, rank := range ranks {
		if err == nil {
			_, err = s.adapter.Launch(s.ctx, f.Shard.shard(f.Profile, shape, rank))
		}
	}
	if err == nil {
		fs.add("a profile of testdata/invalid cannot run", f.Name+" can", "move it to testdata/profiles, or mend the adapter")
		return nil, false
	}
	s.refused(fs, f.Name, err)
	pe, ok := errors.AsType[*engines.ProfileError](err)
	return faultsOf(pe, ok), ok
}
