package vllm_test

import (
	"testing"

	"github.com/llmgw/llmgw/engines/enginetest"
	"github.com/llmgw/llmgw/engines/vllm"
)

func TestAdapter(t *testing.T) { enginetest.Run(t, vllm.Adapter{}) }
