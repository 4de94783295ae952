package tei_test

import (
	"testing"

	"github.com/llmgw/llmgw/engines/enginetest"
	"github.com/llmgw/llmgw/engines/tei"
)

func TestAdapter(t *testing.T) { enginetest.Run(t, tei.Adapter{}) }
