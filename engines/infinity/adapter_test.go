package infinity_test

import (
	"testing"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/engines/enginetest"
	"github.com/llmgw/llmgw/engines/infinity"
	"github.com/llmgw/llmgw/engines/internal/launch/launchtest"
)

func TestAdapter(t *testing.T) { enginetest.Run(t, infinity.Adapter{}) }

// Its page tells no load, so it is not asked for.
func TestExportsNoLoad(t *testing.T) {
	t.Parallel()
	d, err := infinity.Adapter{}.Describe(t.Context())
	if err != nil || d.Metrics != nil {
		t.Errorf("Describe has metrics %v, error %v; want none", d.Metrics, err)
	}
}

// Lines as 0.0.78 printed them.
func TestLogs(t *testing.T) {
	t.Parallel()
	l, err := infinity.Adapter{}.Launch(t.Context(), engines.Shard{
		Profile: engines.Profile{Engine: engines.Infinity, Model: "/m", ServedNames: []string{"m"}, Task: engines.TaskEmbed, CPU: true},
		Dir:     "/run", Bind: "127.0.0.1", Ports: map[string]int{engines.PortHTTP: 7997},
	})
	if err != nil {
		t.Fatal(err)
	}
	says := launchtest.Says
	launchtest.Explain(t, l.Logs, []launchtest.Line{
		says("INFO:     Started server process [28212]", engines.PhaseUnset, "", ""),
		says("INFO:     Application startup complete.", engines.PhaseListening, "", ""),
		says("INFO:     Uvicorn running on http://127.0.0.1:7997 (Press CTRL+C to quit)", engines.PhaseListening, "", ""),
		says("INFO:     Shutting down", engines.PhaseStopping, "", ""),
		says("ImportError: torch.nn is not available. install via `pip install ", engines.PhaseFailed, "the Python package torch.nn is missing", ""),
	})
}
