package catalog_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/placement/catalog"
)

// runs is a model with how it is run, changed.
func runs(change func(m *catalog.Model)) catalog.Model {
	m := catalog.Model{
		Name: "m", Source: "/models/m", Profile: &engines.Profile{Engine: engines.VLLM},
		Scaling: &catalog.Scaling{Min: 1, Max: 1}, Placement: &catalog.Placement{},
	}
	change(&m)
	return m
}

func TestValidateRun(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(m *catalog.Model)
		want   []string
	}{
		{"as it is", func(*catalog.Model) {}, nil},
		{"a URL", func(m *catalog.Model) { m.Source = "https://models.example/m.gguf" }, nil},
		{"a name with a tag", func(m *catalog.Model) { m.Source = "qwen3:8b" }, nil},
		{"the simulated engine, any name will do", func(m *catalog.Model) { m.Profile.Engine, m.Source = engines.Sim, "anything" }, nil},
		{"a stranger's engine", func(m *catalog.Model) { m.Profile.Engine = "house-engine" }, nil},
		{"two nodes", func(m *catalog.Model) { m.Profile.Ranks, m.Profile.TensorParallel = 2, 16 }, nil},
		{"a gang without cards", func(m *catalog.Model) { m.Profile.Ranks, m.Profile.CPU = 4, true }, nil},
		{"what it takes from the entry, stated", func(m *catalog.Model) { m.Profile.Model, m.Profile.ServedNames = "/models/m", []string{"m"} }, nil},
		{"zero and zero", func(m *catalog.Model) { *m.Scaling = catalog.Scaling{} }, nil},
		{"on demand", func(m *catalog.Model) { *m.Scaling = catalog.Scaling{Max: 3} }, nil},
		{"a source alone", func(m *catalog.Model) { *m = catalog.Model{Name: "m", Source: "/models/m"} }, nil},

		{"no source", func(m *catalog.Model) { m.Source = "" }, []string{
			"models[0].source: is missing, so there is nothing to run; want a path on the nodes, an http or https URL, or a name that the engine finds by itself",
		}},
		{"a source that is a flag", func(m *catalog.Model) { m.Source = "-rf" }, []string{
			`models[0].source: "-rf" would be read as a flag or cannot be passed on; want a path, a URL or a name`,
		}},
		{"a relative source", func(m *catalog.Model) { m.Source = "../m" }, []string{`models[0].source: "../m" is relative; want the path from /, on the nodes`}},
		{"a source of another scheme", func(m *catalog.Model) { m.Source = "s3://bucket/m" }, []string{
			`models[0].source: "s3://bucket/m" cannot be fetched; want an http or https URL, a path on the nodes, or a name that the engine finds by itself`,
		}},
		{"a password in the source", func(m *catalog.Model) { m.Source = "https://me:hunter2@models.example/m" }, []string{
			"models[0].source: holds a user or a password, and a catalog is shown to everybody who asks; want the URL without them",
		}},
		{"no engine", func(m *catalog.Model) { m.Profile.Engine = "" }, []string{
			`models[0].profile.engine: "" is no engine that can be launched; want one such as vllm, sglang, llamacpp or sim`,
		}},
		{"an engine to be recognised", func(m *catalog.Model) { m.Profile.Engine = engines.Auto }, []string{
			`models[0].profile.engine: "auto" is no engine that can be launched; want one such as vllm, sglang, llamacpp or sim`,
		}},
		{"another model and name", func(m *catalog.Model) { m.Profile.Model, m.Profile.ServedNames = "/other", []string{"m", "n"} }, []string{
			`models[0].profile.model: "/other" is not the source, "/models/m", which is what the engine loads; leave it out`,
			`models[0].profile.served_names: ["m" "n"] is not the model's name, "m", which is what the engine answers to; leave it out`,
		}},
		{"a name that no engine takes", func(m *catalog.Model) { m.Name = "my model" }, []string{
			`models[0].name: "my model" is no name; use letters, digits and punctuation without spaces, no dash at the beginning`,
		}},
		{"cards that cannot be divided", func(m *catalog.Model) { m.Profile.Ranks, m.Profile.TensorParallel = 3, 8 }, []string{
			"models[0].profile.ranks: 8 cards cannot be divided over 3 ranks; make tensor × pipeline × data a multiple of it",
		}},
		{"more ranks than cards", func(m *catalog.Model) { m.Profile.Ranks = 2 }, []string{
			"models[0].profile.ranks: 1 cards cannot be divided over 2 ranks; make tensor × pipeline × data a multiple of it",
		}},
		{"no cards, divided", func(m *catalog.Model) { m.Profile.CPU, m.Profile.TensorParallel = true, 2 }, []string{
			"models[0].profile.cpu: is true beside parallel sizes that divide the model over 2 cards; leave one or the other out",
		}},
		{"negative", func(m *catalog.Model) { m.Profile.PipelineParallel, m.Profile.ContextTokens = -1, -1 }, []string{
			"models[0].profile.pipeline_parallel: is -1; want 1 to 65536",
			"models[0].profile.context_tokens: is -1; want 0 to 1073741824",
		}},
		{"memory and time", func(m *catalog.Model) { m.Profile.MemoryRatio, m.Profile.LoadTimeout = 1.5, -1 }, []string{
			"models[0].profile.memory_ratio: is 1.5; want more than 0, at most 1",
			"models[0].profile.load_timeout: is -1ns; want more than 0, at most 24h0m0s, or leave it out",
		}},
		{"variables", func(m *catalog.Model) { m.Profile.Env = map[string]string{"A-B": "", "C": engines.SecretPlaceholder} }, []string{
			"models[0].profile.env: A-B is no name of a variable; use letters, digits and _",
			"models[0].profile.env: C asks for the secret of the replica; remove it: the adapter hands the secret on",
		}},
		{"arguments", func(m *catalog.Model) { m.Profile.ExtraArgs = []string{"ok", "\x00"} }, []string{"models[0].profile.extra_args[1]: has a NUL byte; remove it"}},
		{"min over max", func(m *catalog.Model) { *m.Scaling = catalog.Scaling{Min: 2} }, []string{
			"models[0].scaling.max: 0 is less than min, 2; want at least that",
		}},
		{"negative scaling", func(m *catalog.Model) { *m.Scaling = catalog.Scaling{Min: -1} }, []string{"models[0].scaling.min: -1 is out of range; want 0 to 10000"}},
		{"too many", func(m *catalog.Model) { *m.Scaling = catalog.Scaling{Max: 10001} }, []string{"models[0].scaling.max: 10001 is out of range; want 0 to 10000"}},
		{"use and load", func(m *catalog.Model) {
			m.Scaling.IdleTimeout, m.Scaling.TargetLoad = time.Millisecond, 1.5
		}, []string{
			"models[0].scaling.idle_timeout: 1ms; want 1s to 24h0m0s, or 0 for the server's",
			"models[0].scaling.target_load: 1.5 is out of range; want more than 0 and at most 1, or 0 for the server's",
		}},
		{"no number", func(m *catalog.Model) { m.Scaling.TargetLoad = math.NaN() }, []string{
			"models[0].scaling.target_load: NaN is out of range; want more than 0 and at most 1, or 0 for the server's",
		}},
		{"pre-warming", func(m *catalog.Model) {
			ok := catalog.Prewarm{Cron: "0 8 * * 1-5", For: time.Hour}
			m.Scaling.Prewarm = []catalog.Prewarm{
				ok, {For: time.Hour}, {Cron: "0 8 * *", For: time.Hour}, {Cron: "0 0 30 2 *", For: time.Hour}, {Cron: "@daily"},
				{Cron: "@weekly", For: time.Hour, Min: 2}, {Cron: "@hourly", For: time.Minute, Timezone: "Mars/Olympus"}, {Cron: "0 0 8 * * *", For: time.Hour},
			}
		}, []string{
			`models[0].scaling.prewarm[1].cron: is missing; want five fields, as in "0 8 * * 1-5" for eight o'clock from Monday to Friday`,
			`models[0].scaling.prewarm[2].cron: "0 8 * *" is no cron expression of five fields, as "0 8 * * 1-5" is, nor one of @hourly, @daily, @weekly, @monthly, @yearly`,
			`models[0].scaling.prewarm[3].cron: "0 0 30 2 *" never fires; want days that there are`,
			`models[0].scaling.prewarm[4].for: 0s; want 1m to 744h0m0s`,
			`models[0].scaling.prewarm[5].min: 2 is out of range; want 1 to max, 1`,
			`models[0].scaling.prewarm[6].timezone: "Mars/Olympus" is not known here; want an IANA name such as Europe/Berlin, or none for UTC`,
			`models[0].scaling.prewarm[7].cron: "0 0 8 * * *" is no cron expression of five fields, as "0 8 * * 1-5" is, nor one of @hourly, @daily, @weekly, @monthly, @yearly`,
		}},
		{"pre-warmed and off", func(m *catalog.Model) {
			*m.Scaling = catalog.Scaling{Prewarm: []catalog.Prewarm{{Cron: "@daily", For: time.Hour}}}
		}, []string{
			"models[0].scaling.prewarm: stands beside a max of 0, with which none may run; raise max, or remove it",
		}},
		{"nothing to run", func(m *catalog.Model) { m.Profile = nil }, []string{
			"models[0].scaling: stands without a profile, so there is nothing to run; add a profile, or remove it",
			"models[0].placement: stands without a profile, so there is nothing to place; add a profile, or remove it",
		}},
		{"places", func(m *catalog.Model) {
			m.Aliases = []string{"me"}
			m.Placement = &catalog.Placement{
				Nodes: []string{"a", "a b", "a"}, Classes: []string{""}, Spread: " rack", Apart: []string{"me", "x*"}, Labels: map[string]string{"": "v", "zone": "a\n"},
			}
		}, []string{
			`models[0].placement.nodes[1]: "a b" is no ID of a node; want letters, digits, dots, dashes and underscores`,
			`models[0].placement.nodes[2]: "a" stands there already; list it once`,
			`models[0].placement.classes[0]: "" is empty; want 1 to 128 bytes`,
			`models[0].placement.apart[0]: "me" is this model itself; want another one: its own replicas are spread`,
			`models[0].placement.apart[1]: "x*" contains *; it is kept for patterns that match several models`,
			`models[0].placement.labels: "" is empty; want 1 to 128 bytes`,
			`models[0].placement.labels: the value of zone: "a\n" is not plain; want printable text without space at its ends`,
			`models[0].placement.spread: " rack" is not plain; want printable text without space at its ends`,
		}},
		{"cards for an engine without", func(m *catalog.Model) {
			m.Profile.CPU, m.Placement.Classes, m.Placement.CardMemoryBytes = true, []string{"H100"}, 1
		}, []string{
			"models[0].placement.classes: stands beside profile.cpu, which takes no cards; leave one of them out",
			"models[0].placement.card_memory_bytes: stands beside profile.cpu, which takes no cards; leave one of them out",
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := catalog.Validate([]catalog.Model{runs(tt.change)})
			var got []string
			if err != nil {
				got = strings.Split(err.Error(), "\n")
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("faults (-want +got):\n%s", diff)
			}
		})
	}
}

// Nothing is filled in: what was not said to run does not run.
func TestReplicas(t *testing.T) {
	for _, tt := range []struct {
		name        string
		scaling     *catalog.Scaling
		least, most int
	}{
		{"nothing said", nil, 0, 0},
		{"an empty stanza", &catalog.Scaling{}, 0, 0},
		{"a zero min", &catalog.Scaling{Max: 4}, 0, 4},
		{"both", &catalog.Scaling{Min: 2, Max: 3}, 2, 3},
	} {
		m := runs(func(m *catalog.Model) { m.Scaling = tt.scaling })
		c, err := catalog.New([]catalog.Model{m})
		if err != nil {
			t.Fatal(err)
		}
		kept, _ := c.Resolve("m")
		if least, most := kept.Replicas(); least != tt.least || most != tt.most {
			t.Errorf("%s: %d to %d, want %d to %d", tt.name, least, most, tt.least, tt.most)
		}
	}
	if least, most := (&catalog.Model{Name: "m", Scaling: &catalog.Scaling{Min: 1, Max: 1}}).Replicas(); least != 0 || most != 0 {
		t.Errorf("without a profile %d to %d run", least, most)
	}
}

func TestRunProfile(t *testing.T) {
	m := runs(func(m *catalog.Model) { m.Profile.Env = map[string]string{"A": "1"} })
	p, ok := m.RunProfile()
	want := engines.Profile{Engine: engines.VLLM, Model: "/models/m", ServedNames: []string{"m"}, Env: map[string]string{"A": "1"}}
	if diff := cmp.Diff(want, p); diff != "" || !ok {
		t.Errorf("%t (-want +got):\n%s", ok, diff)
	}
	p.Env["A"] = "2"
	if m.Profile.Env["A"] != "1" || m.Profile.Model != "" {
		t.Error("the entry was changed")
	}
	if _, ok := (&catalog.Model{Name: "m"}).RunProfile(); ok {
		t.Error("a model without a profile has one")
	}
}

func TestSourceKind(t *testing.T) {
	for source, want := range map[string]catalog.SourceKind{
		"": catalog.SourceNone, "/models/m": catalog.SourcePath, "http://h/m": catalog.SourceURL, "https://h/m": catalog.SourceURL,
		"org/name": catalog.SourceName, "https-is-a-name": catalog.SourceName,
	} {
		if got := (&catalog.Model{Source: source}).SourceKind(); got != want {
			t.Errorf("%q: %v, want %v", source, got, want)
		}
	}
}

// A catalog shares nothing with what it was made from, nor with what it hands out.
func TestCatalogOwnsHowModelsRun(t *testing.T) {
	full := fullModel(t)
	c, err := catalog.New([]catalog.Model{full, {Name: "other"}})
	if err != nil {
		t.Fatal(err)
	}
	before := fmt.Sprintf("%+v", c.Models()[0].Profile)
	for _, m := range []catalog.Model{full, c.Models()[0]} {
		m.Profile.Env["SEED"], m.Profile.ExtraArgs[0], m.Profile.Options["tool_call_parser"] = "x", "x", "x"
		*m.Prices[0].Output = 99
		m.Profile.TensorParallel, m.Scaling.Max, m.Placement.Labels["zone"], m.Placement.Nodes[0] = 99, 99, "x", "x"
	}
	kept := c.Models()[0]
	if after := fmt.Sprintf("%+v", kept.Profile); after != before {
		t.Errorf("the profile was changed:\n%s\n%s", before, after)
	}
	if kept.Scaling.Max == 99 || kept.Placement.Labels["zone"] == "x" || kept.Placement.Nodes[0] == "x" || *kept.Prices[0].Output == 99 {
		t.Errorf("changed: %+v %+v %+v", kept.Scaling, kept.Placement, kept.Prices[0])
	}
}
