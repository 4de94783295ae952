package enginetest

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/llmgw/llmgw/engines"
)

// judged returns what a part of the suite finds wrong with an adapter.
func judged(t *testing.T, a engines.Adapter, part string) findings {
	t.Helper()
	s, err := newSubject(t.Context(), a, "testdata", false)
	if err != nil {
		t.Fatal(err)
	}
	s.brief, s.temp = true, t.TempDir
	i := slices.IndexFunc(contracts(), func(c contract) bool { return c.name == part })
	if i < 0 {
		t.Fatalf("the suite has no part %s", part)
	}
	return contracts()[i].judge(s)
}

// onLaunch breaks the launches of the toy that are launches.
func onLaunch(change func(engines.Shard, *engines.Launch)) toy {
	return toy{launch: func(s engines.Shard, l *engines.Launch, err *error) {
		if *err == nil {
			change(s, l)
		}
	}}
}

func toySleep(port int) *engines.Sleep {
	return &engines.Sleep{
		Port: port, Sleep: "/sleep", Wake: "/wake", Check: "/how", Asleep: "zzz", Awake: "here",
		SleepTimeout: time.Minute, WakeTimeout: time.Minute,
	}
}

// sleeper is a toy that sleeps, by its own port if there is no other.
func sleeper(port int, keyed bool) toy {
	t := onLaunch(func(s engines.Shard, l *engines.Launch) {
		if l.ServesHTTP && s.Profile.Sleep {
			l.Sleep = toySleep(cmp.Or(port, l.Ready.Probe.Port))
			l.Sleep.Keyed = keyed && s.Keyed
		}
	})
	t.describe = func(d *engines.Description) { d.Capabilities.Sleeps = true }
	return t
}

// A toy that sleeps as the contract asks is found nothing wrong with, and one that
// leaves the key out is found out.
func TestToySleeps(t *testing.T) {
	for _, keyed := range []bool{true, false} {
		s, err := newSubject(t.Context(), sleeper(0, keyed), "testdata", false)
		if err != nil {
			t.Fatal(err)
		}
		found := false
		for _, f := range anyProfile(s) {
			found = found || strings.Contains(f.contract, "sleep is asked for with the key")
			if strings.Contains(f.contract, "sleep") && keyed {
				t.Error(f)
			}
		}
		if found == keyed {
			t.Errorf("with the key %t: found out: %t", keyed, found)
		}
	}
}

// Each way to break the contract is found, by the part that looks for it, with
// what was seen.
func TestBrokenAdaptersAreFound(t *testing.T) {
	var calls atomic.Int64
	leads := func(change func(*engines.Launch)) toy {
		return onLaunch(func(s engines.Shard, l *engines.Launch) {
			if s.Rank == 0 {
				change(l)
			}
		})
	}
	describes := func(change func(*engines.Description)) toy { return toy{describe: change} }
	checks := func(change func(*engines.Check)) toy {
		return toy{check: func(cs *[]engines.Check) { change(&(*cs)[0]) }}
	}
	remove := func(args []string, flag string) []string {
		return strings.Fields(strings.Replace(strings.Join(args, " "), flag+" ", "", 1))
	}
	tests := []struct {
		name string
		toy  toy
		part string
		want string // in one of that part's findings
	}{
		{"no title", describes(func(d *engines.Description) { d.Title = "" }), "description", "title is empty"},
		{"a mode that nobody explains", describes(func(d *engines.Description) { d.Modes[0].Doc = "" }), "description", `mode "one" has no Doc`},
		{"an option that nobody explains", describes(func(d *engines.Description) { d.Options[0].Doc = "" }), "description", `option "style" has no Doc`},
		{"an option that YAML cannot have", describes(func(d *engines.Description) { d.Options[0].Key = "Style!" }), "description", `option "Style!"`},
		{"a secret by no way", describes(func(d *engines.Description) { d.Secret.By = engines.SecretUnset }), "description", "secret.by is none"},
		{"a description that changes", describes(func(d *engines.Description) { d.Version = time.Duration(calls.Add(1)).String() }), "description", "Describe differs"},
		{"a metric outside its prefix", describes(func(d *engines.Description) { d.Metrics.Prefix = "x" }), "description", "metrics"},

		{"no check", toy{check: func(cs *[]engines.Check) { *cs = nil }}, "checks", "there is none"},
		{"a check without an end", checks(func(c *engines.Check) { c.Timeout = 0 }), "checks", "timeout is 0s"},
		{"two checks of one name", toy{check: func(cs *[]engines.Check) { *cs = append(*cs, (*cs)[0]) }}, "checks", "is there twice"},
		{"since for a flag that it has not", checks(func(c *engines.Check) { c.Since = map[string]string{"--crow": "1"} }), "checks", "--crow is not in it"},
		{"since no version", checks(func(c *engines.Check) { c.Since = map[string]string{"--crowd": "new"} }), "checks", `--crowd since "new"`},
		{"checks that change", checks(func(c *engines.Check) { c.HelpLines = int(calls.Add(1)) }), "checks", "Checks differ"},

		{"a flag that the engine does not know", checks(func(c *engines.Check) { c.Command.Args = append(c.Command.Args, "--joi", "x") }), "help", "--joi (did you mean --join"},
		{"a flag that an older one does not know", checks(func(c *engines.Check) { c.Since = nil }), "help", "1.0.txt, check play: --crowd"},
		{"a variable that the engine does not know", checks(func(c *engines.Check) { c.Variables = []string{"TOY_NOTHING"} }), "help", "TOY_NOTHING"},
		{"help that is too short, and lacks a flag", checks(func(c *engines.Check) { c.HelpLines, c.Since = 99, nil }), "help", "seems to be cut off"},

		{"another launch than the golden one", leads(func(l *engines.Launch) { l.Engine.Args[1] = "--bear" }), "launch", "--bear"},
		{"a profile of its own that it refuses", toy{validate: func(_ engines.Profile, _ *engines.Shape, err *error) { *err = errors.New("no") }}, "launch", "plain: no"},

		{"an untyped refusal", toy{validate: func(p engines.Profile, _ *engines.Shape, err *error) {
			if p.CPU {
				*err = errors.New("needs a card")
			}
		}}, "profiles", "*errors.errorString: needs a card"},
		{"a refusal without advice", toy{validate: func(p engines.Profile, _ *engines.Shape, err *error) {
			if p.CPU {
				*err = engines.Faults{{Field: "cpu", Problem: "is true"}}.Err("toy")
			}
		}}, "profiles", `"cpu: is true"`},
		{"a refusal for no reason", toy{validate: func(p engines.Profile, _ *engines.Shape, err *error) {
			if p.CPU {
				*err = &engines.ProfileError{Engine: "toy"}
			}
		}}, "profiles", "0 faults"},
		{"ranks that get lost", toy{validate: func(_ engines.Profile, s *engines.Shape, err *error) {
			if *err == nil {
				s.Ranks = s.Ranks[:1]
			}
		}}, "profiles", "it has 1, the profile 2"},
		{"cards that get lost", toy{validate: func(_ engines.Profile, s *engines.Shape, err *error) {
			if *err == nil {
				s.Ranks[0].Cards = 0
			}
		}}, "profiles", "tensor × pipeline × data are 1"},
		{"nobody serves", toy{validate: func(_ engines.Profile, s *engines.Shape, err *error) {
			if *err == nil {
				s.Ranks[0].ServesHTTP = false
			}
		}}, "profiles", "rank 0 does not"},
		{"two serve", toy{validate: func(_ engines.Profile, s *engines.Shape, err *error) {
			if *err == nil && len(s.Ranks) > 1 {
				s.Ranks[1].ServesHTTP = true
			}
		}}, "profiles", "ranks[1].serves_http is true"},
		{"the profile is changed", toy{validate: func(p engines.Profile, _ *engines.Shape, _ *error) {
			if p.Options != nil {
				p.Options["style"] = "plain"
			}
		}}, "profiles", "Validate changed the profile"},
		{"faults in another order each time", toy{validate: func(p engines.Profile, _ *engines.Shape, err *error) {
			if p.CPU {
				fs := engines.Faults{{Field: "cpu", Problem: "is true", Advice: "leave it out"}, {Field: "model", Problem: "is dull", Advice: "give another"}}
				if calls.Add(1)%2 == 0 {
					slices.Reverse(fs)
				}
				*err = fs.Err("toy")
			}
		}}, "profiles", "and the second time toy: profile cannot run: "},
		{"another shape each time", toy{validate: func(_ engines.Profile, s *engines.Shape, err *error) {
			if *err == nil {
				s.Ranks[0].Ports[0].Count = int(calls.Add(1))
			}
		}}, "profiles", "Validate says {Ranks:"},
		{"the shard is changed", onLaunch(func(s engines.Shard, _ *engines.Launch) { s.Ports["more"] = 1 }), "profiles", "Launch changed the shard"},
		{"late faults", toy{launch: func(s engines.Shard, _ *engines.Launch, err *error) {
			if *err == nil && s.Profile.StopGrace > 0 {
				*err = engines.Faults{{Field: "stop_grace", Problem: "is long", Advice: "do without"}}.Err("toy")
			}
		}}, "profiles", "stop_grace: is long; do without"},
		{"launches what cannot run", toy{launch: func(_ engines.Shard, l *engines.Launch, err *error) { *err = nil }}, "profiles", "Launch returned a launch"},
		{"another launch each time", onLaunch(func(_ engines.Shard, l *engines.Launch) {
			l.Stop.Grace = time.Duration(calls.Add(1))
		}), "profiles", "the second launch differs"},

		{"a launch that is not valid", leads(func(l *engines.Launch) { l.Stop.Signal = engines.SignalUnset }), "profiles", "stop.signal is unset"},
		{"the secret as an argument", leads(func(l *engines.Launch) { l.Engine.Args = append(l.Engine.Args, "--crowd", engines.SecretPlaceholder) }), "profiles", "placeholder, and arguments are open"},
		{"a worker that serves", onLaunch(func(_ engines.Shard, l *engines.Launch) { l.ServesHTTP = true }), "profiles", "ServesHTTP is true, and false in the shape"},
		{"a probe and a line", leads(func(l *engines.Launch) { l.Ready.Log = "up" }), "profiles", "Ready has Probe and Log"},
		{"a probe of a stranger's port", leads(func(l *engines.Launch) { l.Ready.Probe.Port = 8000 }), "profiles", "port 8000; the rank has"},
		{"a probe longer than the start", leads(func(l *engines.Launch) { l.Ready.Probe.Timeout = time.Hour }), "profiles", "1h0m0s of 10m0s"},
		{"no probe", leads(func(l *engines.Launch) { l.Ready.Probe = nil }), "profiles", "Ready.Probe is nil"},
		{"the engine's default port", leads(func(l *engines.Launch) {
			for i, a := range l.Engine.Args {
				if a == "28411" {
					l.Engine.Args[i] = "8000"
				}
			}
		}), "profiles", "port 28411 is in no argument"},
		{"a port that extra args can change", describes(func(d *engines.Description) { d.ReservedFlags = remove(d.ReservedFlags, "--port") }), "profiles", "add --port to Description.ReservedFlags"},
		{"an address that extra args can change", describes(func(d *engines.Description) { d.ReservedFlags = remove(d.ReservedFlags, "--host") }), "profiles", "add --host to Description.ReservedFlags"},
		{"a key that env can change", describes(func(d *engines.Description) { d.ReservedEnv = d.ReservedEnv[1:] }), "profiles", "add TOY_KEY to Description.ReservedEnv"},
		{"cards that env can change", describes(func(d *engines.Description) { d.ReservedEnv = d.ReservedEnv[:1] }), "profiles", "add CUDA_VISIBLE_DEVICES to Description.ReservedEnv"},
		{"sleeps, and says not how", describes(func(d *engines.Description) { d.Capabilities.Sleeps = true }), "profiles", "Sleep is set: false, and asked for: true"},
		{"sleeps unasked", leads(func(l *engines.Launch) { l.Sleep = toySleep(l.Ready.Probe.Port) }), "profiles", "Sleep is set: true, and asked for: false"},
		{"sleeps on a stranger's port", sleeper(8000, true), "profiles", "port 8000; the rank has"},
		{"no key where one is asked for", leads(func(l *engines.Launch) { delete(l.Engine.Env, "TOY_KEY") }), "profiles", "the engine answers everyone"},
		{"a key that nobody asked for", leads(func(l *engines.Launch) { l.Engine.Env["TOY_KEY"] = engines.SecretPlaceholder }), "profiles", "Keyed false and Supported true"},
		{"a key in a file that nobody named", leads(func(l *engines.Launch) {
			l.Files = append(l.Files, engines.File{Name: "key", Content: engines.SecretPlaceholder})
		}), "profiles", "Secret.By is environment"},
		{"a file of the key that nothing names", toy{
			describe: func(d *engines.Description) { d.Secret.By = engines.SecretByFile },
			launch: func(s engines.Shard, l *engines.Launch, err *error) {
				if *err == nil && l.Engine.Env["TOY_KEY"] != "" {
					delete(l.Engine.Env, "TOY_KEY")
					l.Files = append(l.Files, engines.File{Name: "key", Content: engines.SecretPlaceholder})
				}
			},
		}, "profiles", "nothing tells the engine of /run/llmgw/r1-0/key"},
		{"a keyed probe of an open route", onLaunch(func(s engines.Shard, l *engines.Launch) {
			if l.Ready.Probe != nil {
				l.Ready.Probe.Keyed = s.Keyed
			}
		}), "profiles", "the probe of /health is keyed: true"},
		{"a probe without the key of a closed route", leads(func(l *engines.Launch) { l.Ready.Probe.Path = "/v1/models" }), "profiles", "the probe of /v1/models is keyed: false"},
		{"a keyed probe where there is no key", leads(func(l *engines.Launch) { l.Ready.Probe.Keyed = true }), "profiles", "the engine has no key"},
		{"extra args that do not go last", leads(func(l *engines.Launch) { l.Engine.Args = append(l.Engine.Args, "--context", "1") }), "profiles", "append Profile.ExtraArgs after everything else"},
		{"variables of the profile that get lost", leads(func(l *engines.Launch) { delete(l.Engine.Env, "SUITE_VARIABLE") }), "profiles", `SUITE_VARIABLE is "", want "a b"`},
		{"another executable", leads(func(l *engines.Launch) { l.Engine.Executable = "toy" }), "profiles", "start Profile.Executable"},
		{"set and unset", leads(func(l *engines.Launch) { l.Engine.Unset = append(l.Engine.Unset, "CUDA_VISIBLE_DEVICES") }), "profiles", "leave out of Unset"},
		{"all cards", onLaunch(func(_ engines.Shard, l *engines.Launch) { delete(l.Engine.Env, "CUDA_VISIBLE_DEVICES") }), "profiles", "there is none for 1 nvidia card"},
		{"others' cards", onLaunch(func(s engines.Shard, l *engines.Launch) {
			if _, ok := l.Engine.Env["CUDA_VISIBLE_DEVICES"]; ok {
				l.Engine.Env["CUDA_VISIBLE_DEVICES"] = "0"
			}
		}), "profiles", `CUDA_VISIBLE_DEVICES is "0"`},
		{"its own load timeout", onLaunch(func(_ engines.Shard, l *engines.Launch) { l.Ready.Timeout = time.Hour }), "profiles", "Ready.Timeout is 1h0m0s, want 20m34s"},
		{"its own grace", onLaunch(func(_ engines.Shard, l *engines.Launch) { l.Stop.Grace = time.Hour }), "profiles", "Stop.Grace is 1h0m0s, want 1m17s"},
		{"a rule for every line", onLaunch(func(_ engines.Shard, l *engines.Launch) { l.Logs[0].Match = "x*" }), "profiles", `"x*" matches the empty line`},
		{"advice with a hole", onLaunch(func(_ engines.Shard, l *engines.Launch) { l.Logs[1].Advice = "buy ${more}" }), "profiles", `no group more for "buy ${more}"`},
		{"a group that is not there", onLaunch(func(_ engines.Shard, l *engines.Launch) { l.Logs[1].Reason = "no $2" }), "profiles", `no group 2 for "no $2"`},
		{"a flag in no check", onLaunch(func(_ engines.Shard, l *engines.Launch) {
			l.Engine.Args = append([]string{"play", "--quiet"}, l.Engine.Args[1:]...)
		}), "profiles", `--quiet is not in check "play"`},
		{"a variable in no check", onLaunch(func(_ engines.Shard, l *engines.Launch) { l.Engine.Env["TOY_MOOD"] = "good" }), "profiles", `variable TOY_MOOD is not in check "play"`},
		{"a program in no check", onLaunch(func(_ engines.Shard, l *engines.Launch) {
			l.Sidecars = []engines.Sidecar{{
				Name: "head", Command: engines.Command{Executable: "head"},
				Ready: engines.Readiness{Timeout: time.Second}, Stop: engines.Stop{Signal: engines.SignalTerm},
			}}
		}), "profiles", "no check has the executable head"},
		{"a new flag for an old engine", onLaunch(func(_ engines.Shard, l *engines.Launch) {
			l.Engine.Args = append([]string{"play", "--crowd", "1"}, l.Engine.Args[1:]...)
		}), "profiles", `--crowd, which is there since 1.2, is passed to version ""`},

		{"a field that is left out in silence", toy{validate: func(p engines.Profile, s *engines.Shape, err *error) {
			if p.KVEvents {
				p.KVEvents = false
				*s, *err = toy{}.Validate(context.Background(), p)
			}
		}}, "silence", `each of ["kv events"]`},

		{"a reserved flag that goes through", toy{validate: func(p engines.Profile, s *engines.Shape, err *error) {
			if *err != nil && len(p.ExtraArgs) == 2 && p.ExtraArgs[1] == "--rank=1" {
				*err, *s = nil, engines.Shape{Ranks: []engines.RankShape{{ServesHTTP: true}}}
			}
		}}, "refusals", "the launcher's --rank=1 is accepted"},
		{"a refusal that names another field", toy{validate: func(p engines.Profile, _ *engines.Shape, err *error) {
			if p.Mode == "suite-no-such" {
				*err = engines.Faults{{Field: "model", Problem: "is odd", Advice: "change it"}}.Err("toy")
			}
		}}, "refusals", "does not speak of mode"},
		{"a shard without its port", toy{launch: func(s engines.Shard, l *engines.Launch, err *error) {
			if *err != nil && s.Rank == 0 && s.Ports[engines.PortHTTP] == 0 {
				*l, *err = toyLaunch(s), nil
			}
		}}, "refusals", "no port http is accepted"},

		{"an invalid profile that runs", toy{validate: func(p engines.Profile, s *engines.Shape, err *error) {
			if p.TensorParallel == 3 {
				*err, *s = nil, engines.Shape{Ranks: make([]engines.RankShape, 2)}
			}
		}, launch: func(s engines.Shard, l *engines.Launch, err *error) {
			if s.Profile.TensorParallel == 3 {
				*err = nil
			}
		}}, "invalid", "three-over-two can"},
		{"another fault than it had", toy{validate: func(p engines.Profile, _ *engines.Shape, err *error) {
			if p.TensorParallel == 3 {
				*err = engines.Faults{{Field: "ranks", Problem: "is odd", Advice: "change it"}}.Err("toy")
			}
		}}, "invalid", "ranks: is odd; change it"},

		{"not for several at once", onLaunch(func(_ engines.Shard, l *engines.Launch) {
			if calls.Add(1)%2 == 0 {
				l.ServesHTTP = false
			}
		}), "concurrency", "did not all get the same launch"},

		{"a sidecar that cannot be told from the engine", leads(func(l *engines.Launch) {
			l.Sidecars = []engines.Sidecar{{
				Name: "engine", Command: engines.Command{Executable: "toy"},
				Ready: engines.Readiness{Timeout: time.Second}, Stop: engines.Stop{Signal: engines.SignalTerm},
			}}
		}), "stop", "engine"},
		{"a file that is the launcher's", leads(func(l *engines.Launch) {
			l.Files = []engines.File{{Name: "shard.json"}}
		}), "stop", "shard.json"},

		{"an argument that is no text", leads(func(l *engines.Launch) { l.Engine.Args = append(l.Engine.Args, "\xff") }), "wire", "plain:"},

		{"a contract of nothing", describes(func(d *engines.Description) { d.Metrics = nil }), "metrics", "Description.Metrics is nil"},
		{"another reading", describes(func(d *engines.Description) { d.Metrics.Running.Aggregate = engines.AggregateMean }), "metrics", "running: 1.5"},
		{"a metric that no page has", describes(func(d *engines.Description) {
			d.Metrics.Preemptions = engines.Metric{Names: []string{"toy_kicked"}, Aggregate: engines.AggregateSum}
		}), "metrics", "preemptions is on none"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, f := range judged(t, tt.toy, tt.part) {
				if f.contract == "" || f.advice == "" {
					t.Errorf("it is not said what is promised, or what to do: %q", f)
				}
				got = append(got, f.String())
			}
			if !strings.Contains(strings.Join(got, "\n"), tt.want) {
				t.Errorf("part %s does not say %q; it finds\n%s", tt.part, tt.want, strings.Join(got, "\n"))
			}
		})
	}
}

// stubborn answers nothing.
type stubborn struct{ toy }

func (stubborn) Describe(context.Context) (engines.Description, error) {
	return engines.Description{}, engines.ErrUnavailable
}

func TestNothingToJudge(t *testing.T) {
	for name, tt := range map[string]struct {
		adapter engines.Adapter
		dir     string
		want    string
	}{
		"an adapter that does not describe itself": {stubborn{}, "testdata", "does not describe itself"},
		"no profiles": {toy{}, t.TempDir(), "write the one you would run first"},
	} {
		if _, err := newSubject(t.Context(), tt.adapter, tt.dir, false); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v; want %q", name, err, tt.want)
		}
	}
}
