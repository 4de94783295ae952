package plugin

import (
	"errors"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/engines/plugin/pluginpb"
)

func TestRefusalsAreForPeople(t *testing.T) {
	many := &pluginpb.Refusal{Engine: "ours"}
	for range 1000 {
		many.Faults = append(many.Faults, &pluginpb.Fault{Field: "model", Problem: "\x1b[2Jbad\nworse" + strings.Repeat("é", 1000), Advice: "x"})
	}
	err := refused(many)
	e, ok := errors.AsType[*engines.ProfileError](err)
	if !ok || len(e.Faults) != 200 || len(e.Faults[0].Problem) > mostSaid || !strings.HasPrefix(e.Faults[0].Problem, "[2Jbad worseé") {
		t.Errorf("error %.300v", err)
	}
	if strings.ContainsAny(err.Error(), "\x1b\n") {
		t.Error("a terminal would obey it")
	}
	for _, r := range []*pluginpb.Refusal{nil, {}, {Engine: "ours", Faults: []*pluginpb.Fault{nil, {Advice: "pray"}, {Field: "\x00", Problem: "\x00"}}}} {
		if err := refused(r); !errors.Is(err, engines.ErrAnswer) || errors.Is(err, engines.ErrProfile) {
			t.Errorf("%v: error %v, want that the answer is not valid", r, err)
		}
	}
}

// Whatever a program sends for an answer is judged, soon and in few words.
func FuzzAnswers(f *testing.F) {
	for _, m := range []proto.Message{
		descriptionToWire(engines.Description{Engine: "ours", Title: "Ours", Version: "1", Modes: []engines.Mode{{Name: "m"}}, Metrics: &engines.MetricContract{Path: "/metrics"}}),
		shapeToWire(engines.Shape{Ranks: []engines.RankShape{{Cards: 1, ServesHTTP: true, Ports: []engines.PortNeed{{Name: "http", Count: 1}}}}}),
		launchToWire(engines.Launch{
			Engine: engines.Command{Executable: "ours", Args: []string{"serve"}, Env: map[string]string{"A": "b"}},
			Files:  []engines.File{{Name: "../key", Content: "x"}}, Sidecars: []engines.Sidecar{{Name: "s"}},
			Ready: engines.Readiness{Timeout: time.Minute, Log: "(a{900}){9}", Probe: &engines.Probe{Port: 70000, Path: "/health"}},
			Stop:  engines.Stop{Signal: engines.SignalTerm, Grace: -1}, Logs: []engines.LogRule{{Match: "(", Phase: engines.PhaseFailed}},
		}),
		checkToWire(engines.Check{Name: "serve", HelpArgs: []string{"--help"}, Timeout: time.Second}),
		&pluginpb.Refusal{Engine: "ours", Faults: []*pluginpb.Fault{{Field: "model", Problem: "is odd"}}},
	} {
		data, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		errs := make(map[string]error)
		judge(errs, "description", data, new(pluginpb.Description), func(m *pluginpb.Description) error { return descriptionFromWire(m).Validate() })
		judge(errs, "shape", data, new(pluginpb.Shape), func(m *pluginpb.Shape) error { return shapeFromWire(m).Validate() })
		judge(errs, "launch", data, new(pluginpb.Launch), func(m *pluginpb.Launch) error { return launchFromWire(m).Validate() })
		judge(errs, "check", data, new(pluginpb.Check), func(m *pluginpb.Check) error { return checkFromWire(m).Validate() })
		judge(errs, "refusal", data, new(pluginpb.Refusal), refused)
		for of, err := range errs {
			if text := err.Error(); len(text) > 64<<10 {
				t.Errorf("what is wrong with a %s takes %d bytes", of, len(text))
			}
		}
	})
}

// judge notes what is wrong with data as a message.
func judge[M proto.Message](errs map[string]error, of string, data []byte, m M, validate func(M) error) {
	if proto.Unmarshal(data, m) != nil {
		return // which the wire does not let through
	}
	if err := validate(m); err != nil {
		errs[of] = err
	}
}
