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
	switch name {
	case engines.VLLM:
		return vllm.Capabilities()
	case engines.SGLang:
		return sglang.Capabilities()
	case engines.LlamaCPP:
		return llamacpp.Capabilities()
	case engines.Ollama:
		return ollama.Capabilities()
	case engines.LMDeploy:
		return lmdeploy.Capabilities()
	default:
		return engines.Capabilities{}
	}
}
