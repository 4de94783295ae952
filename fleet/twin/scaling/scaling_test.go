package scaling_test

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/llmgw/llmgw/engines/sim/workload"
	"github.com/llmgw/llmgw/fleet/twin/scaling"
)

// small is a fleet of two cards a node whose engines run few sequences and take their
// time, so that few requests fill them.
func small(nodes int, models ...scaling.Model) scaling.Config {
	cfg := scaling.DefaultConfig()
	cfg.Nodes, cfg.CardsPerNode = nodes, 2
	cfg.Prompt, _ = workload.Fixed(64)
	cfg.Output, _ = workload.Fixed(16)
	cfg.Engine.MaxModelLen = 1024
	cfg.Sizes = []scaling.Size{{Name: "s", Cards: 1, LoadTime: 60 * time.Second, Speed: 0.05, MaxNumSeqs: 4, NumGPUBlocks: 1000}}
	cfg.Engine.MaxNumBatchedTokens = 512
	cfg.Models = models
	cfg.Duration = time.Hour
	return cfg
}

// steady is a client that sends at a rate for so long, from a time on.
func steady(rate float64, from, until time.Duration) []scaling.Window {
	var all []scaling.Window
	for at := from; at < until; at += 10 * time.Minute {
		all = append(all, scaling.Window{Start: at, PerSecond: rate, CV: 1})
	}
	return all
}

func run(t testing.TB, cfg scaling.Config, p scaling.Policy, rates *scaling.Rates) (*scaling.Report, []scaling.Decision) {
	t.Helper()
	tw, err := scaling.New(cfg, p, rates)
	if err != nil {
		t.Fatal(err)
	}
	r, err := tw.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if r.Served+r.Lost+r.Cut != r.Requests || r.Cut != 0 {
		t.Errorf("%d requests: %d served, %d lost, %d cut", r.Requests, r.Served, r.Lost, r.Cut)
	}
	if r.PeakCards > r.Cards || r.CardHours > float64(r.Cards)*r.Hours+1e-9 {
		t.Errorf("%d cards at once, %v card-hours, of %d in %v h", r.PeakCards, r.CardHours, r.Cards, r.Hours)
	}
	return r, tw.Decisions()
}

func near(t testing.TB, what string, have, want, slack float64) {
	t.Helper()
	if math.Abs(have-want) > slack {
		t.Errorf("%s is %v, want %v within %v", what, have, want, slack)
	}
}

// A model that is used for ten minutes of an hour: always on it serves everybody and
// has its card all the time; on demand it has it while it loads, serves and is given
// up, and those who come while it loads wait, are told when to come again, and come.
func TestOneModel(t *testing.T) {
	cfg := small(1, scaling.Model{Name: "m", Client: "c", Size: "s", Static: 1, Max: 2})
	rates := scaling.NewRates("made", map[string][]scaling.Window{"c": steady(0.2, 10*time.Minute, 20*time.Minute)})
	static, decisions := run(t, cfg, scaling.Static, rates)
	if *static.GoodShare != 1 || static.Loads != 0 || static.Refusals != 0 || static.Decisions != 0 {
		t.Errorf("%+v", static)
	}
	if len(decisions) != 1 || decisions[0].To != 1 || decisions[0].At >= 0 {
		t.Errorf("%+v", decisions)
	}
	near(t, "always on: card-hours", static.CardHours, 1, 1e-9)
	wake, decisions := run(t, cfg, scaling.OnDemand, rates)
	if wake.Loads != 1 || len(decisions) != 2 || !strings.Contains(decisions[0].Why, " for it") || !strings.Contains(decisions[1].Why, "nobody has used it") {
		t.Errorf("%d loads: %+v", wake.Loads, decisions)
	}
	// From about the first request until the idle timeout after the last.
	near(t, "on demand: card-hours", wake.CardHours, (10*time.Minute + cfg.Control.Scale.IdleTimeout).Hours(), 0.03)
	// A load takes 60 s: three tries of 10 s and eight between them take 46.
	if wake.Requests != static.Requests || wake.Lost == 0 || wake.Lost > 10 || wake.Refusals < 2*wake.Lost || wake.Good < wake.Requests-25 {
		t.Errorf("%+v", wake)
	}
	cfg.Sizes[0].LoadTime = 30 * time.Second
	if r, _ := run(t, cfg, scaling.OnDemand, rates); r.Lost != 0 || r.Refusals == 0 {
		t.Errorf("%d lost, %d refusals: all come again until it serves", r.Lost, r.Refusals)
	}
	cfg.Sizes[0].LoadTime = 5 * time.Second
	if r, _ := run(t, cfg, scaling.OnDemand, rates); r.Refusals != 0 || r.Served != r.Requests {
		t.Errorf("%d refusals: a load of 5 s is waited for", r.Refusals)
	}
}

// More models than cards: each is served in its turn.
func TestMoreModelsThanCards(t *testing.T) {
	var models []scaling.Model
	clients := map[string][]scaling.Window{}
	for i, name := range []string{"a", "b", "c", "d", "e", "f"} {
		models = append(models, scaling.Model{Name: name, Client: name, Size: "s", Max: 2})
		clients[name] = steady(0.2, time.Duration(i)*10*time.Minute, time.Duration(i+1)*10*time.Minute)
	}
	r, _ := run(t, small(1, models...), scaling.Autoscaled, scaling.NewRates("made", clients))
	if r.Loads < 6 || r.Loads > 8 || *r.LeastGoodShare < 0.75 {
		t.Errorf("%d loads for six models; %s has %.2f good", r.Loads, r.LeastGoodModel, *r.LeastGoodShare)
	}
}

// Load that one replica cannot carry is carried by several, which go when it has gone.
func TestFollowsLoad(t *testing.T) {
	cfg := small(2, scaling.Model{Name: "m", Client: "c", Size: "s", Static: 1, Max: 4})
	rates := scaling.NewRates("made", map[string][]scaling.Window{"c": append(steady(0.3, 0, 20*time.Minute), append(steady(2.5, 20*time.Minute, 40*time.Minute), steady(0.3, 40*time.Minute, time.Hour)...)...)})
	one, _ := run(t, cfg, scaling.OnDemand, rates)
	more, decisions := run(t, cfg, scaling.Autoscaled, rates)
	if *more.GoodShare < 1.3**one.GoodShare || more.PeakCards < 3 || decisions[len(decisions)-1].To > 2 {
		t.Errorf("good %.2f, with one replica %.2f; %d cards at most; %+v", *more.GoodShare, *one.GoodShare, more.PeakCards, decisions)
	}
}

func TestRates(t *testing.T) {
	const header = "trace,client,window_start_s,requests_per_s,interarrival_cv\n"
	for _, tt := range []struct{ name, text, want string }{
		{"nothing", "", "is empty"},
		{"no rows", header, "no rows"},
		{"a column is missing", "trace,client,window_start_s,requests_per_s\n", "no column interarrival_cv"},
		{"no time", header + "t,1,x,1,1\n", `line 2: window_start_s: "x"`},
		{"no window", header + "t,1,0,1,1\nt,1,601,1,1\n", `line 3: window_start_s: "601"`},
		{"no rate", header + "t,1,0,-1,1\n", `requests_per_s: "-1"`},
		{"no number", header + "t,1,0,NaN,1\n", `requests_per_s: "NaN"`},
		{"too uneven", header + "t,1,0,1,1e9\n", `interarrival_cv: "1e9"`},
		{"a short row", header + "t,1,0\n", "wrong number of fields"},
	} {
		if _, err := scaling.ReadRates(strings.NewReader(tt.text), "f"); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v; want it to say %q", tt.name, err, tt.want)
		}
	}
	rates, err := scaling.ReadRates(strings.NewReader(header+"t,1,0,1,1\n"), "f")
	if err != nil {
		t.Fatal(err)
	}
	_, err = scaling.New(small(1, scaling.Model{Name: "m", Client: "t/2", Size: "s", Max: 1}), scaling.Static, rates)
	if !errors.Is(err, scaling.ErrNoRates) || !strings.Contains(err.Error(), `f has no rates of "t/2"`) {
		t.Errorf("%v", err)
	}
}

func TestConfig(t *testing.T) {
	if err := small(1, scaling.Model{Name: "m", Client: "c", Size: "s", Static: 1, Max: 1}).Validate(); err != nil {
		t.Fatal(err)
	}
	cfg := small(0, scaling.Model{Name: "a b", Size: "x", Static: -1}, scaling.Model{Name: "m", Client: "c", Size: "s", Static: 9, Max: 1})
	cfg.Sizes = append(cfg.Sizes, scaling.Size{Name: "s", Cards: 3, LoadTime: -1, Speed: 0})
	cfg.Scale, cfg.TTFT, cfg.Retries, cfg.Control.Interval = math.NaN(), 0, -1, 0
	err := cfg.Validate()
	for _, want := range []string{
		"nodes: 0", "sizes[1].name: \"s\"", "sizes[1].cards: 3", "sizes[1].load_time: -1ns", "sizes[1].speed: 0", "models[0].name: \"a b\"", "models[0].client",
		"models[0].size: \"x\"", "models[0].static: -1", "models[0].max: 0", "the static policy takes 9 cards", "scale: NaN", "ttft: 0s", "retries: -1", "control.interval",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v\nwant it to say %q", err, want)
		}
	}
	if err := scaling.Policy("magic").Validate(); !errors.Is(err, scaling.ErrUnknownPolicy) {
		t.Error(err)
	}
}
