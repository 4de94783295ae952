package control_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/llmgw/llmgw/fleet/control"
	"github.com/llmgw/llmgw/fleet/fleetpb"
)

func TestMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := prometheus.NewRegistry()
		w := newWorld(t, control.DefaultConfig(), control.Deps{Registerer: reg, Journal: newJournal("n3")})
		w.dial(hello("n1"))
		a := w.dial(hello("n1"))
		a.hangUp()
		a = w.dial(hello("n1"))
		w.dial(hello("n2"))
		clone := hello("n2")
		clone.Instance = "another"
		w.dial(clone)
		o := give(func() (control.Answer, error) { return w.plane.Start(t.Context(), "n1", spec("r1", 1)) })
		a.answer(&fleetpb.Answer{Command: a.commands()[0].GetId(), Result: fleetpb.Result_RESULT_REFUSED, Reason: "no"})
		<-o.done
		_, _ = w.plane.Start(t.Context(), "nowhere", spec("r1", 1))
		waits := give(func() (control.Answer, error) { return w.plane.Start(t.Context(), "n1", spec("r2", 1)) })
		time.Sleep(16 * time.Second)
		a.heartbeat()
		err := testutil.GatherAndCompare(reg, strings.NewReader(`
# HELP llmgw_control_nodes Nodes, by what their silence amounts to.
# TYPE llmgw_control_nodes gauge
llmgw_control_nodes{state="expected"} 1
llmgw_control_nodes{state="lost"} 0
llmgw_control_nodes{state="ready"} 1
llmgw_control_nodes{state="unreachable"} 1
# HELP llmgw_control_streams Streams of agents that registered.
# TYPE llmgw_control_streams gauge
llmgw_control_streams 2
# HELP llmgw_control_commands_waiting Orders that have no answer yet.
# TYPE llmgw_control_commands_waiting gauge
llmgw_control_commands_waiting 1
# HELP llmgw_control_registrations_total Streams that began: of new nodes, of nodes that came back, and over streams that had not ended.
# TYPE llmgw_control_registrations_total counter
llmgw_control_registrations_total{kind="new"} 2
llmgw_control_registrations_total{kind="reconnect"} 1
llmgw_control_registrations_total{kind="takeover"} 1
`), "llmgw_control_nodes", "llmgw_control_streams", "llmgw_control_commands_waiting", "llmgw_control_registrations_total")
		if err != nil {
			t.Error(err)
		}
		for name, want := range map[string]float64{
			`llmgw_control_refused_total{reason="clash"}`:                     1,
			`llmgw_control_commands_total{order="start",result="refused"}`:    1,
			`llmgw_control_commands_total{order="start",result="unsent"}`:     1,
			`llmgw_control_commands_total{order="start",result="unanswered"}`: 0,
		} {
			if got := counter(t, reg, name); got != want {
				t.Errorf("%s %v; want %v", name, got, want)
			}
		}
		a.answer(&fleetpb.Answer{Command: a.commands()[1].GetId(), Result: fleetpb.Result_RESULT_BEGUN})
		<-waits.done
		if problems, err := testutil.GatherAndLint(reg); err != nil || len(problems) > 0 {
			t.Errorf("lint: %v, %v", problems, err)
		}
	})
}

// counter returns the value of a series as the text format spells it.
func counter(t *testing.T, reg *prometheus.Registry, series string) float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetName()+`="`+l.GetValue()+`"`)
			}
			if f.GetName()+"{"+strings.Join(labels, ",")+"}" == series {
				return m.GetCounter().GetValue()
			}
		}
	}
	t.Fatalf("no series %s", series)
	return 0
}
