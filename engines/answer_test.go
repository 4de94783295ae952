package engines_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/llmgw/llmgw/engines"
)

func launch() engines.Launch {
	return engines.Launch{
		Engine: engines.Command{Executable: "/opt/ours", Args: []string{"serve"}, Env: map[string]string{"OURS_KEY": engines.SecretPlaceholder}, Unset: []string{"DEBUG"}},
		Files:  []engines.File{{Name: "conf/key", Content: engines.SecretPlaceholder}},
		Sidecars: []engines.Sidecar{{
			Name: "head", Command: engines.Command{Executable: "head"},
			Ready: engines.Readiness{Timeout: time.Second, Log: "^up"}, Stop: engines.Stop{Signal: engines.SignalInt},
		}},
		Ready: engines.Readiness{Timeout: time.Minute, Probe: &engines.Probe{Port: 8000, Path: "/health", Timeout: time.Second}},
		Stop:  engines.Stop{Signal: engines.SignalTerm, Grace: time.Second},
		Logs: []engines.LogRule{
			{Match: "Loading", Phase: engines.PhaseLoading},
			{Match: "out of memory", Phase: engines.PhaseFailed, Reason: "no memory", Advice: "use more cards"},
		},
	}
}

func asleep() *engines.Sleep {
	return &engines.Sleep{
		Port: 8000, Sleep: "/sleep?level=1", Wake: "/wake_up", Check: "/is_sleeping", Asleep: "true", Awake: "false",
		SleepTimeout: time.Minute, WakeTimeout: time.Minute,
	}
}

func TestLaunchValidate(t *testing.T) {
	tests := []struct {
		name   string
		change func(*engines.Launch)
		fields []string // of the faults, in order
	}{
		{"nothing is wrong", func(*engines.Launch) {}, nil},
		{"no program", func(l *engines.Launch) { l.Engine.Executable = "" }, []string{"engine.executable"}},
		{"a relative program", func(l *engines.Launch) { l.Engine.Executable = "./ours" }, []string{"engine.executable"}},
		{"the secret as an argument", func(l *engines.Launch) { l.Engine.Args = []string{"--key=" + engines.SecretPlaceholder} }, []string{"engine.args"}},
		{"the secret as a sidecar's argument", func(l *engines.Launch) { l.Sidecars[0].Command.Args = []string{engines.SecretPlaceholder} }, []string{"sidecars[0].command.args"}},
		{"NUL", func(l *engines.Launch) { l.Engine.Args = []string{"a\x00b"} }, []string{"engine.args"}},
		{"no variable", func(l *engines.Launch) { l.Engine.Env = map[string]string{"A=B": ""} }, []string{"engine.env"}},
		{"a file outside", func(l *engines.Launch) { l.Files[0].Name = "../key" }, []string{"files[0].name"}},
		{"an absolute file", func(l *engines.Launch) { l.Files[0].Name = "/etc/passwd" }, []string{"files[0].name"}},
		{"the directory itself", func(l *engines.Launch) { l.Files[0].Name = "a/.." }, []string{"files[0].name"}},
		{"one file twice", func(l *engines.Launch) { l.Files = append(l.Files, engines.File{Name: "conf/./key"}) }, []string{"files"}},
		{"port 0", func(l *engines.Launch) { l.Ready.Probe.Port = 0 }, []string{"ready.probe.port"}},
		{"port 70000", func(l *engines.Launch) { l.Ready.Probe.Port = 70000 }, []string{"ready.probe.port"}},
		{"no path", func(l *engines.Launch) { l.Ready.Probe.Path = "health" }, []string{"ready.probe.path"}},
		{"waits for ever", func(l *engines.Launch) { l.Ready.Timeout, l.Ready.Probe.Timeout = 0, 0 }, []string{"ready.timeout", "ready.probe.timeout"}},
		{"no signal", func(l *engines.Launch) { l.Stop.Signal = 0 }, []string{"stop.signal"}},
		{"an unknown signal", func(l *engines.Launch) { l.Stop.Signal = 200 }, []string{"stop.signal"}},
		{"not RE2", func(l *engines.Launch) { l.Logs[0].Match = "(?=x)" }, []string{"logs[0].match"}},
		{"an empty pattern", func(l *engines.Launch) { l.Logs[0].Match = "" }, []string{"logs[0].match"}},
		{"a failure without a reason", func(l *engines.Launch) { l.Logs[1].Reason = "" }, []string{"logs[1].reason"}},
		{"no phase", func(l *engines.Launch) { l.Logs[0].Phase = 0 }, []string{"logs[0].phase"}},
		{"waits for years", func(l *engines.Launch) {
			l.Ready.Timeout, l.Ready.Stalled, l.Ready.Probe.Timeout, l.Stop.Grace = 1<<62, 1<<62, 1<<62, 1<<62
		}, []string{"ready.timeout", "ready.stalled", "ready.probe.timeout", "stop.grace"}},
		{"a negative grace", func(l *engines.Launch) { l.Stop.Grace = -1 }, []string{"stop.grace"}},
		{"a path with a bad escape", func(l *engines.Launch) { l.Ready.Probe.Path = "/%zz" }, []string{"ready.probe.path"}},
		{"a long pattern", func(l *engines.Launch) { l.Logs[0].Match = strings.Repeat("x", 3000) }, []string{"logs[0].match"}},
		{"a pattern that becomes long", func(l *engines.Launch) { l.Ready.Log = strings.Repeat(`x{1000}`, 100) }, []string{"ready.log"}},
		{"what a terminal obeys", func(l *engines.Launch) { l.Logs[1].Advice = "\x1b]0;x\x07" }, []string{"logs[1].advice"}},
		{"very many rules", func(l *engines.Launch) { l.Logs = make([]engines.LogRule, 1<<20) }, []string{"logs"}},
		{"very many sidecars", func(l *engines.Launch) { l.Sidecars = make([]engines.Sidecar, 1<<20) }, []string{"sidecars"}},
		{"a sidecar without a name", func(l *engines.Launch) { l.Sidecars[0].Name = "" }, []string{"sidecars"}},
		{"sleeps", func(l *engines.Launch) { l.ServesHTTP, l.Sleep = true, asleep() }, nil},
		{"sleeps without a server", func(l *engines.Launch) { l.Sleep = asleep() }, []string{"sleep"}},
		{"sleeps by nothing", func(l *engines.Launch) { l.ServesHTTP, l.Sleep = true, new(engines.Sleep) }, []string{
			"sleep.port", "sleep.sleep", "sleep.wake", "sleep.check", "sleep.asleep", "sleep.sleep_timeout", "sleep.wake_timeout",
		}},
		{"asleep and awake are alike", func(l *engines.Launch) {
			l.ServesHTTP, l.Sleep = true, asleep()
			l.Sleep.Asleep, l.Sleep.Awake = "sleeping", "not sleeping"
		}, []string{"sleep.asleep"}},
		{"a sidecar's pattern", func(l *engines.Launch) { l.Sidecars[0].Ready.Log = "(" }, []string{"sidecars[0].ready.log"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := launch()
			tt.change(&l)
			assertFaults(t, l.Validate(), tt.fields)
		})
	}
}

func TestDescriptionShapeAndCheckValidate(t *testing.T) {
	described := func(change func(*engines.Description)) error {
		d := ours
		d.Version = "1"
		change(&d)
		return d.Validate()
	}
	http := []engines.PortNeed{{Name: engines.PortHTTP, Count: 1}}
	check := engines.Check{Name: "serve", Command: engines.Command{Executable: "ours"}, HelpArgs: []string{"--help"}, Timeout: time.Second}
	tests := []struct {
		name   string
		err    error
		fields []string
	}{
		{"a description", described(func(*engines.Description) {}), nil},
		{"no names", described(func(d *engines.Description) { d.Engine, d.Title, d.Version = "Ours!", "", "" }), []string{"engine", "title", "version"}},
		{"auto is no engine", described(func(d *engines.Description) { d.Engine = engines.Auto }), []string{"engine"}},
		{"a path as a name", described(func(d *engines.Description) { d.Engine = "../x" }), []string{"engine"}},
		{"a title for a terminal", described(func(d *engines.Description) { d.Title = "\x1b[2J" }), []string{"title"}},
		{"a title that is not UTF-8", described(func(d *engines.Description) { d.Title = "caf\xe9" }), []string{"title"}},
		{"very many options", described(func(d *engines.Description) { d.Options = make([]engines.Option, 1<<20) }), []string{"options"}},
		{"one mode twice", described(func(d *engines.Description) { d.Modes = []engines.Mode{{Name: "a"}, {Name: "a"}} }), []string{"modes"}},
		{"a secret with no way", described(func(d *engines.Description) { d.Secret.Supported = true }), []string{"secret.by"}},
		{"another engine's contract", described(func(d *engines.Description) {
			d.Metrics = &engines.MetricContract{Engine: "theirs", Path: "/metrics", Prefix: "x", Running: engines.Metric{Names: []string{"x"}, Aggregate: engines.AggregateSum}}
		}), []string{"metrics.engine"}},
		{"an empty contract", described(func(d *engines.Description) { d.Metrics = &engines.MetricContract{Engine: "ours"} }), []string{"metrics"}},
		{"a shape", engines.Shape{Ranks: []engines.RankShape{{Cards: 2, ServesHTTP: true, Ports: http}, {Cards: 2}}}.Validate(), nil},
		{"no ranks", engines.Shape{}.Validate(), []string{"ranks"}},
		{"a worker serves", engines.Shape{Ranks: []engines.RankShape{{}, {ServesHTTP: true, Ports: http}}}.Validate(), []string{"ranks[1].serves_http"}},
		{"serves without a port", engines.Shape{Ranks: []engines.RankShape{{ServesHTTP: true}}}.Validate(), []string{"ranks[0].ports"}},
		{"ports", engines.Shape{Ranks: []engines.RankShape{{Cards: -1, Ports: []engines.PortNeed{{Name: "a"}, {Name: "a", Count: 1}}}}}.Validate(),
			[]string{"ranks[0].cards", "ranks[0].ports[0].count", "ranks[0].ports"}},
		{"a check", check.Validate(), nil},
		{"checks", engines.ValidateChecks([]engines.Check{check}), nil},
		{"no checks", engines.ValidateChecks(nil), nil},
		{"one check twice", engines.ValidateChecks([]engines.Check{check, check}), []string{"checks"}},
		{"very many checks", engines.ValidateChecks(make([]engines.Check, 1000)), []string{"checks"}},
		{"a check without an end", engines.Check{Name: "serve", Command: check.Command, HelpArgs: check.HelpArgs, Timeout: 1 << 62}.Validate(), []string{"timeout"}},
		{"an empty check", engines.Check{}.Validate(), []string{"name", "command.executable", "help_args", "timeout"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { assertFaults(t, tt.err, tt.fields) })
	}
}

func assertFaults(t *testing.T, err error, fields []string) {
	t.Helper()
	if len(fields) == 0 {
		if err != nil {
			t.Error(err)
		}
		return
	}
	e, ok := errors.AsType[*engines.AnswerError](err)
	if !ok || !errors.Is(err, engines.ErrAnswer) {
		t.Fatalf("error %v, want an AnswerError", err)
	}
	var got []string
	for _, f := range e.Faults {
		got = append(got, f.Field)
		if f.Advice == "" && f.Field != "metrics" {
			t.Errorf("%s says not what to do", f)
		}
		if !strings.Contains(err.Error(), f.String()) {
			t.Errorf("%q lacks %q", err, f)
		}
	}
	if !slices.Equal(got, fields) {
		t.Errorf("faults %v, want those of %v", e.Faults, fields)
	}
}
