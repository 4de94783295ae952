package sglang_test

import (
	"testing"

	"github.com/llmgw/llmgw/engines/enginetest"
	"github.com/llmgw/llmgw/engines/sglang"
)

func TestAdapter(t *testing.T) { enginetest.Run(t, sglang.Adapter{}) }
