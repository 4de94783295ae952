package vllm

import (
	"cmp"
	"strconv"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/engines/internal/launch"
)

// environment is that of every process of a rank, Ray's included, whose workers
// inherit it.
func environment(s engines.Shard) (env map[string]string, unset []string) {
	own := map[string]string{
		"DO_NOT_TRACK":                "1",
		"VLLM_NO_USAGE_STATS":         "1",
		"VLLM_ENGINE_READY_TIMEOUT_S": strconv.Itoa(int(cmp.Or(s.Profile.LoadTimeout, launch.LoadTimeout).Seconds())),
		// Where the parts of an engine talk to each other, which without this is
		// guessed by asking for a way to a public address.
		"VLLM_HOST_IP": "127.0.0.1",
	}
	if s.Profile.Ranks > 1 {
		own["VLLM_HOST_IP"] = s.Address
	}
	if s.Profile.KVEvents {
		own["PYTHONHASHSEED"] = "0" // block hashes are the same on all replicas
	}
	if s.Keyed && s.Rank == 0 {
		own["VLLM_API_KEY"] = engines.SecretPlaceholder
	}
	if s.Profile.Sleep {
		own[variableDevMode] = "1" // without it there is no route to sleep by
	}
	// A Kubernetes service of the name vllm makes VLLM_PORT a URL, on which
	// vLLM fails. The development mode opens routes that change the engine.
	return launch.Torch(s, own, "VLLM_PORT", "VLLM_API_KEY", "VLLM_DP_MASTER_IP", "VLLM_DP_MASTER_PORT", "VLLM_DP_RANK",
		"VLLM_DP_RANK_LOCAL", "VLLM_DP_SIZE", variableDevMode)
}
