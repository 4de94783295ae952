package engines_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/engines/llamacpp"
	"github.com/llmgw/llmgw/engines/lmdeploy"
	"github.com/llmgw/llmgw/engines/sglang"
	"github.com/llmgw/llmgw/engines/tgi"
	"github.com/llmgw/llmgw/engines/trtllm"
	"github.com/llmgw/llmgw/engines/vllm"
)

func TestReading(t *testing.T) {
	tests := []struct {
		name  string
		r     engines.Reading
		value float64
		known bool
		text  string
	}{
		{"the zero value is unknown", engines.Reading{}, 0, false, "unknown"},
		{"zero is a measurement", engines.Read(0), 0, true, "0"},
		{"a value", engines.Read(0.4375), 0.4375, true, "0.4375"},
		{"NaN is no measurement", engines.Read(math.NaN()), 0, false, "unknown"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			v, ok := tt.r.Get()
			if v != tt.value || ok != tt.known || tt.r.String() != tt.text {
				t.Errorf("Get = %v, %t, String = %q; want %v, %t, %q", v, ok, tt.r, tt.value, tt.known, tt.text)
			}
			if got := tt.r.Or(7); ok && got != tt.value || !ok && got != 7 {
				t.Errorf("Or(7) = %v", got)
			}
		})
	}
	if !(engines.Load{}).Empty() || (engines.Load{Waiting: engines.Read(0)}).Empty() {
		t.Error("a load is empty only if nothing is known")
	}
}

func TestNames(t *testing.T) {
	names := engines.Names()
	if !slices.IsSorted(names) {
		t.Errorf("not sorted: %v", names)
	}
	if slices.Contains(names, engines.Auto) || !engines.VLLM.Known() || engines.Auto.Known() || engines.Name("").Known() {
		t.Error("auto and the empty name are no engines")
	}
	if !engines.Auto.Detected() || !engines.Name("").Detected() || engines.VLLM.Detected() {
		t.Error("auto and the empty name are found out")
	}
}

func TestContracts(t *testing.T) {
	prefixes := make(map[string]engines.Name)
	for _, c := range []engines.MetricContract{
		vllm.Metrics(), sglang.Metrics(), llamacpp.Metrics(), tgi.Metrics(), trtllm.Metrics(), lmdeploy.Metrics(),
	} {
		if err := c.Validate(); err != nil {
			t.Errorf("%s: %v", c.Engine, err)
		}
		if !c.Engine.Known() || !c.Running.Exported() || !c.Waiting.Exported() {
			t.Errorf("%s: not a known engine with running and waiting", c.Engine)
		}
		if other, ok := prefixes[c.Prefix]; ok {
			t.Errorf("%s and %s share the prefix %q", c.Engine, other, c.Prefix)
		}
		prefixes[c.Prefix] = c.Engine
	}
}

func TestContractValidateNamesEveryFault(t *testing.T) {
	c := engines.MetricContract{
		Path:    "metrics",
		Running: engines.Metric{Names: []string{"x:running"}},
	}
	err := c.Validate()
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{`path: "metrics"`, "prefix: is empty", "running: aggregation unset"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not say %q", err, want)
		}
	}
	if err := (engines.MetricContract{Path: "/metrics", Prefix: "x:"}).Validate(); err == nil {
		t.Error("a contract of nothing is valid")
	}
	c = vllm.Metrics()
	c.Waiting.Also = []string{"other:queue"}
	if err := c.Validate(); err == nil || !strings.Contains(err.Error(), `waiting: name "other:queue"`) {
		t.Errorf("a name outside the prefix: %v", err)
	}
}

func TestEnumsSpellThemselves(t *testing.T) {
	got := []string{
		engines.AggregateUnset.String(), engines.AggregateSum.String(), engines.AggregateMax.String(), engines.AggregateMean.String(),
		engines.PriorityUnset.String(), engines.PriorityLowFirst.String(), engines.PriorityHighFirst.String(),
	}
	want := []string{"unset", "sum", "max", "mean", "unset", "low first", "high first"}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
