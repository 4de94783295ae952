package gateway

import (
	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/engines/llamacpp"
	"github.com/llmgw/llmgw/engines/lmdeploy"
	"github.com/llmgw/llmgw/engines/ollama"
	"github.com/llmgw/llmgw/engines/sglang"
	"github.com/llmgw/llmgw/engines/vllm"
)

// capabilities is what may be relied on in an engine of this name: in one that
// is not known, or not yet, nothing.
func capabilities(name engines.Name) engines.Capabilities {
	c, _ := native(name)
	return c
}

// native is what the gateway itself knows of an engine of this name; false: nothing.
func native(name engines.Name) (engines.Capabilities, bool) {
	switch name {
	case engines.VLLM:
		return vllm.Capabilities(), true
	case engines.SGLang:
		return sglang.Capabilities(), true
	case engines.LlamaCPP:
		return llamacpp.Capabilities(), true
	case engines.Ollama:
		return ollama.Capabilities(), true
	case engines.LMDeploy:
		return lmdeploy.Capabilities(), true
	default:
		return engines.Capabilities{}, false
	}
}
