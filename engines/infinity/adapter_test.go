package infinity_test

import (
	"testing"

	"github.com/llmgw/llmgw/engines/enginetest"
	"github.com/llmgw/llmgw/engines/infinity"
)

func TestAdapter(t *testing.T) { enginetest.Run(t, infinity.Adapter{}) }
