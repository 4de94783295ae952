package tgi_test

import (
	"testing"

	"github.com/llmgw/llmgw/engines/enginetest"
	"github.com/llmgw/llmgw/engines/tgi"
)

func TestAdapter(t *testing.T) { enginetest.Run(t, tgi.Adapter{}) }
