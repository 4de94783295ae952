package ollama_test

import (
	"testing"

	"github.com/llmgw/llmgw/engines/enginetest"
	"github.com/llmgw/llmgw/engines/ollama"
)

func TestAdapter(t *testing.T) { enginetest.Run(t, ollama.Adapter{}) }

// It has no metrics page, so none is asked for.
func TestExportsNoLoad(t *testing.T) {
	t.Parallel()
	d, err := ollama.Adapter{}.Describe(t.Context())
	if err != nil || d.Metrics != nil {
		t.Errorf("Describe has metrics %v, error %v; want none", d.Metrics, err)
	}
}
