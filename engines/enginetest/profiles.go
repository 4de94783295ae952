package enginetest

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/llmgw/llmgw/engines"
)

// change is something that a profile of any engine may say.
type change struct {
	name  string
	apply func(*engines.Profile)
}

// changes are what profiles say, one at a time. An adapter answers each with a
// launch or with a fault.
func changes(d engines.Description) []change {
	set := func(name string, apply func(*engines.Profile)) change { return change{name, apply} }
	out := []change{
		set("cpu", func(p *engines.Profile) { p.CPU = true }),
		set("task embed", func(p *engines.Profile) { p.Task = engines.TaskEmbed }),
		set("task rerank", func(p *engines.Profile) { p.Task = engines.TaskRerank }),
		set("task classify", func(p *engines.Profile) { p.Task = engines.TaskClassify }),
		set("no model", func(p *engines.Profile) { p.Model = "" }),
		set("model by name", func(p *engines.Profile) { p.Model, p.Revision = "org/name", "main" }),
		set("two names", func(p *engines.Profile) { p.ServedNames = []string{"suite-a", "suite-b:7b"} }),
		set("tensor 2", func(p *engines.Profile) { p.TensorParallel = 2 }),
		set("pipeline 2", func(p *engines.Profile) { p.PipelineParallel = 2 }),
		set("data 2", func(p *engines.Profile) { p.DataParallel = 2 }),
		set("experts", func(p *engines.Profile) { p.ExpertParallel = true }),
		set("context", func(p *engines.Profile) { p.ContextTokens = 8192 }),
		set("running", func(p *engines.Profile) { p.MaxRunning = 16 }),
		set("memory", func(p *engines.Profile) { p.MemoryRatio = 0.85 }),
		set("dtype", func(p *engines.Profile) { p.DType = "bfloat16" }),
		set("kv dtype", func(p *engines.Profile) { p.KVCacheDType = "fp8" }),
		set("quantization", func(p *engines.Profile) { p.Quantization = "awq" }),
		set("priorities", func(p *engines.Profile) { p.PriorityScheduling = true }),
		set("kv events", func(p *engines.Profile) { p.KVEvents = true }),
		set("extra args", func(p *engines.Profile) { p.ExtraArgs = []string{"--suite-flag", "two words", "--suite-flag=-1"} }),
		set("env", func(p *engines.Profile) { p.Env = map[string]string{"SUITE_VARIABLE": "a b"} }),
		set("executable", func(p *engines.Profile) { p.Executable = "/opt/suite/bin/engine" }),
		set("load timeout", func(p *engines.Profile) { p.LoadTimeout = 1234 * time.Second }),
		set("stop grace", func(p *engines.Profile) { p.StopGrace = 77 * time.Second }),
	}
	for _, m := range d.Modes {
		out = append(out, set("mode "+m.Name, func(p *engines.Profile) { p.Mode = m.Name }))
		if m.MultiNode {
			out = append(out,
				set("two nodes by "+m.Name, func(p *engines.Profile) { p.Mode, p.Ranks, p.TensorParallel = m.Name, 2, 4 }),
				set("four nodes by "+m.Name, func(p *engines.Profile) {
					p.Mode, p.Ranks, p.TensorParallel, p.PipelineParallel = m.Name, 4, 2, 2
				}),
				set("data over two nodes by "+m.Name, func(p *engines.Profile) { p.Mode, p.Ranks, p.DataParallel = m.Name, 2, 4 }))
		}
	}
	for _, o := range d.Options {
		values := o.Values
		if len(values) == 0 {
			values = []string{"suite"}
		}
		for _, v := range values {
			out = append(out, set(o.Key+"="+v, func(p *engines.Profile) {
				p.Options = maps.Clone(p.Options)
				if p.Options == nil {
					p.Options = make(map[string]string)
				}
				p.Options[o.Key] = v
			}))
		}
	}
	return append(out, set("sleep", func(p *engines.Profile) { p.Sleep = true }))
}

// circumstancesOf are the nodes on which profiles are tried: the engine's
// version known and not, with a key and without, cards of each vendor.
func circumstancesOf(d engines.Description) []circumstances {
	newest, oldest := "", ""
	for _, v := range d.Tested {
		if newest == "" || engines.CompareVersions(v, newest) > 0 {
			newest = v
		}
		if oldest == "" || engines.CompareVersions(v, oldest) < 0 {
			oldest = v
		}
	}
	keyed := d.Secret.Supported
	return []circumstances{
		{},
		{Version: newest, Keyed: keyed, UUIDs: true, FirstCard: 4, Interface: "eth7", HCAs: []string{"mlx5_0", "mlx5_1"}},
		{Version: oldest, Vendor: engines.AMD, Keyed: keyed, Bind: "0.0.0.0"},
		{Version: newest, Vendor: engines.SimulatedCard, Keyed: !keyed},
	}
}

// anyProfile: every profile that can be written is launched as the contract
// says, or refused with a reason: each change alone, on a plain profile and on
// the author's, and each pair of changes on the plain one.
func anyProfile(s *subject) (fs findings) {
	where := circumstancesOf(s.d)
	all := changes(s.d)
	plain := engines.Profile{Engine: s.d.Engine, Model: "/models/suite", ServedNames: []string{"suite"}}
	for n, c := range where {
		s.answer(&fs, "a plain profile", plain, c)
		for i, a := range all {
			if s.brief && i%len(where) != n {
				continue
			}
			p := plain
			a.apply(&p)
			s.answer(&fs, a.name, p, c)
		}
	}
	for _, f := range s.profiles {
		s.answer(&fs, f.Name, f.Profile, f.Shard)
		for i, a := range all {
			p := f.Profile
			a.apply(&p)
			s.answer(&fs, f.Name+" with "+a.name, p, where[i%len(where)])
		}
	}
	if s.brief {
		return fs
	}
	for i, a := range all {
		for j, b := range all[:i] {
			p := plain
			b.apply(&p)
			a.apply(&p)
			s.answer(&fs, b.name+" with "+a.name, p, where[(i+j)%len(where)])
		}
	}
	return fs
}

// mostLaunched bounds the ranks of one replica that are launched.
const mostLaunched = 8

// answer holds an adapter to its answer for one profile.
func (s *subject) answer(fs *findings, name string, p engines.Profile, c circumstances) {
	before := cloneProfile(p)
	shape, err := s.adapter.Validate(s.ctx, p)
	if !reflect.DeepEqual(before, p) {
		fs.add(contractSame, name+": Validate changed the profile", "copy its maps and slices before you change them")
	}
	again, errAgain := s.adapter.Validate(s.ctx, p)
	if !reflect.DeepEqual(shape, again) || fmt.Sprint(err) != fmt.Sprint(errAgain) {
		fs.add(contractSame, fmt.Sprintf("%s: Validate says %v, and the second time %v", name, said(shape, err), said(again, errAgain)), contractSameAdvice)
	}
	if err != nil {
		s.refused(fs, name, err)
		s.refusedToo(fs, name, p, c)
		return
	}
	fs.err(contractValid, name, shape.Validate())
	if len(shape.Ranks) != p.WithDefaults().Ranks {
		fs.add("a shape has the ranks of its profile", fmt.Sprintf("%s: it has %d, the profile %d", name, len(shape.Ranks), p.WithDefaults().Ranks), "return one entry a rank, or refuse the profile")
		return
	}
	cards := 0
	for _, r := range shape.Ranks {
		cards += r.Cards
	}
	if cards != p.Cards() {
		fs.add("a shape has the cards of its profile", fmt.Sprintf("%s: %d, and tensor × pipeline × data are %d", name, cards, p.Cards()), "divide Profile.Cards over the ranks, or refuse the profile")
		return
	}
	if len(shape.Ranks) > 0 && !shape.Ranks[0].ServesHTTP {
		fs.add("rank 0 serves HTTP, and no other", name+": rank 0 does not", "set ServesHTTP in the first rank's shape")
	}
	for rank := range min(len(shape.Ranks), mostLaunched) {
		s.rank(fs, fmt.Sprintf("%s, rank %d", name, rank), c.shard(p, shape, rank), shape)
	}
}

// said is an answer of Validate for people.
func said(shape engines.Shape, err error) any {
	if err != nil {
		return err
	}
	return fmt.Sprintf("%+v", shape)
}

// rank holds an adapter to the launch of one rank of a valid profile.
func (s *subject) rank(fs *findings, at string, shard engines.Shard, shape engines.Shape) {
	before := cloneShard(shard)
	l, err := s.adapter.Launch(s.ctx, shard)
	if err != nil {
		s.refused(fs, at, err)
		pe, ok := errors.AsType[*engines.ProfileError](err)
		for i := range faultsOf(pe, ok) {
			if f := pe.Faults[i]; !ofShard(f.Field) {
				fs.add("what Validate accepts, Launch launches; it may only find fault with the shard", at+": "+f.String(), "find that fault in Validate already")
			}
		}
		return
	}
	again, err := s.adapter.Launch(s.ctx, shard)
	if err != nil || !reflect.DeepEqual(l, again) {
		fs.add(contractSame, fmt.Sprintf("%s: the second launch differs, error %v", at, err), contractSameAdvice)
	}
	if !reflect.DeepEqual(before, shard) {
		fs.add(contractSame, at+": Launch changed the shard", "copy its maps and slices before you change them")
	}
	s.rules(fs, launched{at: at, shape: shape, shard: shard, Launch: l})
}

func faultsOf(pe *engines.ProfileError, ok bool) []engines.Fault {
	if !ok {
		return nil
	}
	return pe.Faults
}

// shardFields are the keys by which faults of a shard go.
var shardFields = []string{ //nolint:gochecknoglobals // a table
	"rank", "replica", "generation", "leader", "address", "bind", "interface", "hcas", "cards", "ports", "leader_ports", "dir", "keyed", "engine_version",
}

func ofShard(field string) bool {
	first, _, _ := strings.Cut(field, ".")
	first, _, _ = strings.Cut(first, "[")
	return slices.Contains(shardFields, first)
}

// refused: a refusal says what is wrong, where, and what to do.
func (s *subject) refused(fs *findings, at string, err error) {
	const contract = "a profile that cannot run is a *engines.ProfileError that says where, what and what to do"
	pe, ok := errors.AsType[*engines.ProfileError](err)
	if !ok {
		fs.add(contract, fmt.Sprintf("%s: %T: %v", at, err, err), "return Faults.Err of the engine")
		return
	}
	if len(pe.Faults) == 0 || pe.Engine != s.d.Engine {
		fs.add(contract, fmt.Sprintf("%s: %s, engine %q", at, plural(len(pe.Faults), "fault"), pe.Engine), "return Faults.Err of the engine, with a fault")
	}
	for _, f := range pe.Faults {
		if f.Field == "" || f.Problem == "" || f.Advice == "" {
			fs.add(contract, fmt.Sprintf("%s: %q", at, f.String()), "fill in Field, Problem and Advice of every fault")
		}
	}
}

// refusedToo: what Validate refuses, Launch does not start.
func (s *subject) refusedToo(fs *findings, name string, p engines.Profile, c circumstances) {
	http := []engines.PortNeed{{Name: engines.PortHTTP, Count: 1}}
	shape := engines.Shape{Ranks: []engines.RankShape{{Cards: max(0, min(p.Cards(), 8)), ServesHTTP: true, Ports: http}}}
	_, err := s.adapter.Launch(s.ctx, c.shard(p, shape, 0))
	if err == nil {
		fs.add("what Validate refuses, Launch refuses", name+": Launch returned a launch", "begin Launch with Validate")
		return
	}
	s.refused(fs, name+", launched", err)
}

// atOnce: an adapter is asked by many at once, and answers each as if it were
// alone.
func atOnce(s *subject) (fs findings) {
	f := s.profiles[0]
	shape, err := s.adapter.Validate(s.ctx, f.Profile)
	if err != nil {
		return nil // said elsewhere
	}
	shard := f.Shard.shard(f.Profile, shape, 0)
	want, err := s.adapter.Launch(s.ctx, shard)
	if err != nil {
		return nil
	}
	const callers = 8
	same := make([]bool, callers)
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			got, err := s.adapter.Launch(s.ctx, cloneShard(shard))
			_, errShape := s.adapter.Validate(s.ctx, cloneProfile(f.Profile))
			same[i] = err == nil && errShape == nil && reflect.DeepEqual(got, want)
		})
	}
	wg.Wait()
	if slices.Contains(same, false) {
		fs.add("methods may be called by several goroutines at once", fmt.Sprintf("%d callers of %s did not all get the same launch", callers, f.Name), "keep no state in the adapter")
	}
	return fs
}

func cloneProfile(p engines.Profile) engines.Profile {
	p.ServedNames, p.ExtraArgs = slices.Clone(p.ServedNames), slices.Clone(p.ExtraArgs)
	p.Options, p.Env = maps.Clone(p.Options), maps.Clone(p.Env)
	return p
}

func cloneShard(s engines.Shard) engines.Shard {
	s.Profile = cloneProfile(s.Profile)
	s.HCAs, s.Cards = slices.Clone(s.HCAs), slices.Clone(s.Cards)
	s.Ports, s.LeaderPorts = maps.Clone(s.Ports), maps.Clone(s.LeaderPorts)
	return s
}
