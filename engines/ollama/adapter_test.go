package ollama_test

import (
	"testing"

	"github.com/llmgw/llmgw/engines/enginetest"
	"github.com/llmgw/llmgw/engines/ollama"
)

func TestAdapter(t *testing.T) { enginetest.Run(t, ollama.Adapter{}) }
