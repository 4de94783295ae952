package sglang

import (
	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/engines/internal/launch"
)

// environment is that of every rank.
func environment(s engines.Shard) (env map[string]string, unset []string) {
	own := map[string]string{
		"DO_NOT_TRACK": "1",
		// A health check costs no token and no place in the queue.
		"SGLANG_ENABLE_HEALTH_ENDPOINT_GENERATION": "false",
	}
	if s.Profile.Ranks > 1 {
		own["SGLANG_HOST_IP"] = s.Address
	}
	// A Kubernetes service of the name sglang makes SGLANG_PORT a URL, and of it
	// SGLang wants a number.
	return launch.Torch(s, own, "HOST_IP", "SGLANG_HOST_IP", "SGLANG_PORT", "SGLANG_GRPC_PORT", "SGL_FORCE_SHUTDOWN")
}
