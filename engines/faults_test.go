package engines_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/llmgw/llmgw/engines"
)

// ours describes an engine that no adapter of ours launches.
var ours = engines.Description{
	Engine: "ours",
	Title:  "Ours",
	Modes: []engines.Mode{
		{Name: "one"},
		{Name: "many", MultiNode: true},
	},
	Options:       []engines.Option{{Key: "style", Values: []string{"plain", "fancy"}}, {Key: "note"}},
	ReservedFlags: []string{"--port", "--api_key", "-p"},
	ReservedEnv:   []string{"OURS_KEY"},
}

func good() engines.Profile {
	return engines.Profile{Engine: "ours", Model: "/models/m", ServedNames: []string{"m"}}
}

func TestFaultsOfProfile(t *testing.T) {
	tests := []struct {
		name   string
		change func(*engines.Profile)
		fields []string // of the faults, in order
	}{
		{"nothing is wrong", func(*engines.Profile) {}, nil},
		{"another engine", func(p *engines.Profile) { p.Engine = "theirs" }, []string{"engine"}},
		{"an unknown mode", func(p *engines.Profile) { p.Mode = "lots" }, []string{"mode"}},
		{"two ranks on one node", func(p *engines.Profile) { p.Ranks, p.TensorParallel = 2, 2 }, []string{"ranks"}},
		{"two ranks", func(p *engines.Profile) { p.Mode, p.Ranks, p.TensorParallel = "many", 2, 2 }, nil},
		{"three cards over two ranks", func(p *engines.Profile) { p.Mode, p.Ranks, p.TensorParallel = "many", 2, 3 }, []string{"ranks"}},
		{"negative sizes", func(p *engines.Profile) { p.TensorParallel, p.Ranks, p.MaxRunning = -1, -2, -3 }, []string{"ranks", "tensor_parallel", "max_running"}},
		{"absurd sizes", func(p *engines.Profile) { p.DataParallel, p.ContextTokens = 1<<40, 1<<40 }, []string{"data_parallel", "context_tokens"}},
		{"more than all memory", func(p *engines.Profile) { p.MemoryRatio = 1.5 }, []string{"memory_ratio"}},
		{"negative times", func(p *engines.Profile) { p.LoadTimeout, p.StopGrace = -time.Second, -1 }, []string{"load_timeout", "stop_grace"}},
		{"no name to be asked for", func(p *engines.Profile) { p.ServedNames = nil }, []string{"served_names"}},
		{"a name with a space", func(p *engines.Profile) { p.ServedNames = []string{"m", "a b"} }, []string{"served_names[1]"}},
		{"a model that is a flag", func(p *engines.Profile) { p.Model = "--trust-remote-code" }, []string{"model"}},
		{"a revision with a newline", func(p *engines.Profile) { p.Revision = "main\nx" }, []string{"revision"}},
		{"an unknown task", func(p *engines.Profile) { p.Task = "dream" }, []string{"task"}},
		{"options", func(p *engines.Profile) {
			p.Options = map[string]string{"style": "loud", "note": "any", "unheard": "x"}
		}, []string{"options.style", "options.unheard"}},
		{"the launcher's flags", func(p *engines.Profile) {
			p.ExtraArgs = []string{"--port=1", "--seed", "7", "--api-key", "k", "-p", "--port-range", "1", "port"}
		}, []string{"extra_args[0]", "extra_args[3]", "extra_args[5]"}},
		{"the launcher's flags, cut short", func(p *engines.Profile) {
			p.ExtraArgs = []string{"--po", "--api_k=k", "--", "--ports", "-", "--p"}
		}, []string{"extra_args[0]", "extra_args[1]", "extra_args[5]"}},
		{"the launcher's flags, in other spellings", func(p *engines.Profile) {
			p.ExtraArgs = []string{
				"-p8000", "-p=8000", "-port", "--no-port", "--port.range=1", "--api_key.x", "--po.x=1", "--no-api-key=1",
				"-pretty", "-n8", "--no-", "--portal.x", "---", "--.x", "--no-color",
			}
		}, []string{
			"extra_args[0]", "extra_args[1]", "extra_args[2]", "extra_args[3]", "extra_args[4]", "extra_args[5]", "extra_args[6]", "extra_args[7]",
		}},
		{"names that are flags", func(p *engines.Profile) { p.ServedNames = []string{"m", "--trust-remote-code"} }, []string{"served_names[1]"}},
		{"words that are flags, in the order of the fields", func(p *engines.Profile) {
			p.Revision, p.DType, p.KVCacheDType, p.Quantization = "-r", "--d", "-k", "-q"
		}, []string{"revision", "dtype", "kv_cache_dtype", "quantization"}},
		{"options that are flags", func(p *engines.Profile) { p.Options = map[string]string{"note": "--host=0.0.0.0"} }, []string{"options.note"}},
		{"options that cannot be passed on", func(p *engines.Profile) { p.Options = map[string]string{"note": "a\x00b"} }, []string{"options.note"}},
		{"options that are numbers", func(p *engines.Profile) { p.Options = map[string]string{"note": "-1"} }, nil},
		{"the secret", func(p *engines.Profile) {
			p.Model, p.ExtraArgs, p.Env = engines.SecretPlaceholder, []string{"--x=" + engines.SecretPlaceholder}, map[string]string{"X": engines.SecretPlaceholder}
		}, []string{"model", "extra_args[0]", "env.X"}},
		{"a relative program", func(p *engines.Profile) { p.Executable = "bin/ours" }, []string{"executable"}},
		{"a program that is a flag", func(p *engines.Profile) { p.Executable = "-c" }, []string{"executable"}},
		{"times without an end", func(p *engines.Profile) { p.LoadTimeout, p.StopGrace = 1<<62, engines.LongestWait+1 }, []string{"load_timeout", "stop_grace"}},
		{"variables", func(p *engines.Profile) {
			p.Env = map[string]string{"OURS_KEY": "k", "A=B": "x", "FINE": "x", "NUL": "a\x00b"}
		}, []string{"env.A=B", "env.NUL", "env.OURS_KEY"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := good()
			tt.change(&p)
			faults := ours.Faults(p)
			var fields []string
			for _, f := range faults {
				fields = append(fields, f.Field)
				if f.Problem == "" || f.Advice == "" {
					t.Errorf("%s: says not what is wrong or what to do: %q", f.Field, f)
				}
			}
			if !slices.Equal(fields, tt.fields) {
				t.Errorf("faults in %q; want %q\n%v", fields, tt.fields, faults)
			}
		})
	}
}

// An engine sleeps if it can, and with what it has to give back on one node.
func TestFaultsOfSleep(t *testing.T) {
	sleeps := ours
	sleeps.Capabilities.Sleeps = true
	for _, tt := range []struct {
		name string
		d    engines.Description
		p    engines.Profile
		want string // in the one fault; empty: none
	}{
		{"asleep", sleeps, engines.Profile{Sleep: true}, ""},
		{"one that cannot", ours, engines.Profile{Sleep: true}, "Ours cannot give its cards' memory back"},
		{"without cards", sleeps, engines.Profile{Sleep: true, CPU: true}, "beside cpu"},
		{"over nodes", sleeps, engines.Profile{Sleep: true, Mode: "many", Ranks: 2, TensorParallel: 2}, "over 2 ranks"},
		{"not asked for", ours, engines.Profile{Mode: "many", Ranks: 2, TensorParallel: 2}, ""},
	} {
		tt.p.Engine, tt.p.Model, tt.p.ServedNames = "ours", "/models/m", []string{"m"}
		fs := tt.d.Faults(tt.p)
		switch {
		case tt.want == "" && len(fs) == 0:
		case tt.want == "" || len(fs) != 1 || fs[0].Field != "sleep" || !strings.Contains(fs[0].Problem, tt.want) || fs[0].Advice == "":
			t.Errorf("%s: faults %v; want %q", tt.name, fs, tt.want)
		}
	}
}

func TestProfileError(t *testing.T) {
	var fs engines.Faults
	if err := fs.Err("ours"); err != nil {
		t.Errorf("no faults give the error %v", err)
	}
	fs.Add("ranks", "is 9", "want 8")
	fs.Add("model", "is empty", "name one")
	err := fs.Err("ours")
	var pe *engines.ProfileError
	if !errors.Is(err, engines.ErrProfile) || !errors.As(err, &pe) || len(pe.Faults) != 2 {
		t.Fatalf("%v is no profile error with two faults", err)
	}
	if want := "ours: profile cannot run: ranks: is 9; want 8, model: is empty; name one"; err.Error() != want {
		t.Errorf("Error = %q; want %q", err, want)
	}
}

// What is wrong with very much, or is very long, does not fill a log.
func TestErrorsAreBounded(t *testing.T) {
	p := good()
	long := "--port=" + strings.Repeat("x", 1<<20)
	for range 1000 {
		p.ServedNames = append(p.ServedNames, long)
		p.ExtraArgs = append(p.ExtraArgs, long)
	}
	fs := ours.Faults(p)
	text := fs.Err("ours").Error()
	if len(fs) != 2000 || len(text) > 16<<10 || !strings.HasSuffix(text, ", and 1970 more") {
		t.Errorf("%d faults make %d bytes, which end in %q", len(fs), len(text), text[max(0, len(text)-100):])
	}
}

func TestFaultsOfShard(t *testing.T) {
	shape := engines.Shape{Ranks: []engines.RankShape{
		{Cards: 1, ServesHTTP: true, Ports: []engines.PortNeed{{Name: engines.PortHTTP, Count: 1}, {Name: "meet", Count: 2}}},
		{Cards: 1},
	}}
	worker := engines.Shard{
		Rank: 1, Dir: "/run/s", Leader: "10.0.0.1", Address: "10.0.0.2",
		Cards: []engines.Card{{Vendor: engines.NVIDIA}}, LeaderPorts: map[string]int{"http": 8000, "meet": 9000},
	}
	leader := worker
	leader.Rank, leader.Bind, leader.Ports = 0, "10.0.0.1", worker.LeaderPorts
	for _, s := range []engines.Shard{leader, worker} {
		if fs := s.Faults(shape); fs != nil {
			t.Errorf("rank %d: %v", s.Rank, fs)
		}
	}
	broken := engines.Shard{Rank: 0, Dir: "here", Ports: map[string]int{"http": 8000, "meet": 65535}}
	var fields []string
	for _, f := range broken.Faults(shape) {
		fields = append(fields, f.Field)
	}
	if want := []string{"dir", "bind", "leader", "ports.meet", "cards"}; !slices.Equal(fields, want) {
		t.Errorf("faults in %q; want %q", fields, want)
	}
	hostile := leader
	hostile.Bind, hostile.Leader, hostile.Address = "-x", "a b", "10.0.0.1,10.0.0.2"
	hostile.Interface, hostile.HCAs, hostile.Dir = "eth0\n", []string{"mlx5_0", ""}, "/run/s\x00"
	hostile.Ports = map[string]int{"http": 9001, "meet": 9000}
	fields = nil
	for _, f := range hostile.Faults(shape) {
		fields = append(fields, f.Field)
	}
	if want := []string{"dir", "bind", "leader", "address", "interface", "ports.meet"}; !slices.Equal(fields, want) {
		t.Errorf("faults in %q; want %q", fields, want)
	}
	if fs := (engines.Shard{Rank: 2}).Faults(shape); len(fs) != 1 || !strings.Contains(fs[0].String(), "is 2 of 2") {
		t.Errorf("a rank too many: %v", fs)
	}
}

func TestCompareVersions(t *testing.T) {
	ordered := []string{"", "v0.9.2", "0.10", "0.10.0", "0.10.0rc1", "0.12.1", "v1", "b10587", "b11549", "b011550", "99999999999999999999999"}
	for i, a := range ordered {
		for j, b := range ordered {
			want := 0
			if i < j {
				want = -1
			} else if i > j {
				want = 1
			}
			if got := engines.CompareVersions(a, b); got != want {
				t.Errorf("CompareVersions(%q, %q) = %d; want %d", a, b, got, want)
			}
		}
	}
	if engines.CompareVersions("v0.10.0", "0.10.0") != 0 || engines.CompareVersions("b007", "b7") != 0 {
		t.Error("what is no number, and leading zeros, make a difference")
	}
}

func TestArgs(t *testing.T) {
	var a engines.Args
	a.Add("serve")
	a.Text("--model", "m")
	a.Text("--revision", "")
	a.Number("--max", 3)
	a.Number("--none", 0)
	a.Ratio("--ratio", 0.92)
	a.Ratio("--zero", 0)
	a.Switch("--on", true)
	a.Switch("--off", false)
	if want := []string{"serve", "--model", "m", "--max", "3", "--ratio", "0.92", "--on"}; !slices.Equal(a, want) {
		t.Errorf("%q; want %q", a, want)
	}
}

func TestProfileCards(t *testing.T) {
	p := engines.Profile{TensorParallel: 4, DataParallel: 2}
	if p.Cards() != 8 || p.PipelineParallel != 0 {
		t.Errorf("Cards = %d, and p became %+v", p.Cards(), p)
	}
	p.CPU = true
	if p.Cards() != 0 {
		t.Errorf("without cards it takes %d", p.Cards())
	}
}
