package vllm

import (
	"time"

	"github.com/llmgw/llmgw/engines"
)

// variableDevMode opens vLLM's development routes, /sleep and its like among them.
// Beside these it opens routes that call any method of a worker, change weights and
// tell the configuration, and the key covers none of them in the versions that the
// package was held against: whoever reaches the port can use them.
const variableDevMode = "VLLM_SERVER_DEV_MODE"

// sleepTimeout bounds how long vLLM may take to fall asleep, and to wake. The first
// sleep takes longest: memory of the host is pinned for all weights.
const sleepTimeout = 5 * time.Minute

// Sleep says how an engine sleeps that has vLLM's routes: level 1, with the weights
// in the memory of its node and without its cache. Both requests are answered when
// what they ask for is done, and do nothing where it was before. While it sleeps
// /health is 200, and requests fail or hang.
//
// Sources: vllm/entrypoints/serve/sleep/api_router.py and docs/features/sleep_mode.md
// of vllm-project/vllm.
func Sleep(s engines.Shard) *engines.Sleep {
	return &engines.Sleep{
		Port:  s.Ports[engines.PortHTTP],
		Keyed: s.Keyed,
		Sleep: "/sleep?level=1", Wake: "/wake_up",
		Check: "/is_sleeping", Asleep: `"is_sleeping":true`, Awake: `"is_sleeping":false`,
		SleepTimeout: sleepTimeout, WakeTimeout: sleepTimeout,
	}
}
