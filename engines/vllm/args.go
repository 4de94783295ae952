package vllm

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/llmgw/llmgw/engines"
)

// Keys of [engines.Profile.Options].
const (
	optionTools     = "tool_call_parser"
	optionReasoning = "reasoning_parser"
)

// serveArgs is the command line of vllm serve. Ranks of one replica get the
// same line but for what says which rank they are, as vLLM asks for.
func serveArgs(s engines.Shard) []string {
	p := s.Profile
	var a engines.Args
	a.Add("serve", p.Model)
	if s.Rank == 0 {
		a.Add("--host", s.Bind)
		a.Number("--port", s.Ports[engines.PortHTTP])
	}
	a.Add("--served-model-name")
	a.Add(p.ServedNames...)
	modelArgs(&a, p)
	spreadArgs(&a, s)
	// Without it no answer says how much of its prompt was cached.
	a.Add("--enable-prompt-tokens-details")
	if p.PriorityScheduling {
		a.Add("--scheduling-policy", "priority")
	}
	a.Switch("--enable-sleep-mode", p.Sleep)
	if p.KVEvents && (s.Rank == 0 || modeOf(p) == modeDP) {
		a.Add("--kv-events-config", kvEvents(s))
	}
	if seconds := int((cmp.Or(p.StopGrace, stopGrace) - headroom).Seconds()); seconds > 0 && has(s, sinceShutdown) {
		a.Number("--shutdown-timeout", seconds)
	}
	a.Add(p.ExtraArgs...)
	return a
}

// modelArgs say what is loaded, and with how much room.
func modelArgs(a *engines.Args, p engines.Profile) {
	a.Text("--revision", p.Revision)
	switch p.Task {
	case engines.TaskEmbed:
		a.Add("--runner", "pooling", "--convert", "embed")
	case engines.TaskClassify:
		a.Add("--runner", "pooling", "--convert", "classify")
	case engines.TaskRerank:
		// Rerankers are classifiers or not; what they are stands in the model.
		a.Add("--runner", "pooling")
	case engines.TaskGenerate:
		a.Add("--runner", "generate")
	}
	a.Text("--dtype", p.DType)
	a.Text("--quantization", p.Quantization)
	a.Text("--kv-cache-dtype", p.KVCacheDType)
	a.Number("--max-model-len", p.ContextTokens)
	a.Number("--max-num-seqs", p.MaxRunning)
	a.Ratio("--gpu-memory-utilization", p.MemoryRatio)
	if tools := p.Options[optionTools]; tools != "" {
		a.Add("--enable-auto-tool-choice", "--tool-call-parser", tools)
	}
	a.Text("--reasoning-parser", p.Options[optionReasoning])
}

// spreadArgs say how the replica is spread over cards and nodes.
func spreadArgs(a *engines.Args, s engines.Shard) {
	p := s.Profile
	a.Number("--tensor-parallel-size", p.TensorParallel)
	a.Number("--pipeline-parallel-size", p.PipelineParallel)
	a.Switch("--enable-expert-parallel", p.ExpertParallel)
	switch modeOf(p) {
	case modeDP:
		local := p.DataParallel / p.Ranks
		a.Number("--data-parallel-size", p.DataParallel)
		if p.Ranks == 1 {
			return
		}
		a.Number("--data-parallel-size-local", local)
		a.Add("--data-parallel-address", s.Leader)
		a.Number("--data-parallel-rpc-port", leaderPort(s, portMaster))
		if s.Rank > 0 {
			// On rank 0 this would turn off the leader's balancing.
			a.Add("--headless", "--data-parallel-start-rank", strconv.Itoa(s.Rank*local))
		}
	case modeRay:
		if byRay(p) {
			a.Add("--distributed-executor-backend", "ray")
		}
	case modeMP:
		if p.Ranks == 1 {
			return
		}
		a.Add("--distributed-executor-backend", "mp")
		a.Number("--nnodes", p.Ranks)
		a.Add("--node-rank", strconv.Itoa(s.Rank), "--master-addr", s.Leader)
		a.Number("--master-port", leaderPort(s, portMaster))
		a.Switch("--headless", s.Rank > 0)
	}
}

// leaderPort returns a port of rank 0.
func leaderPort(s engines.Shard, name string) int {
	if s.Rank == 0 {
		return s.Ports[name]
	}
	return s.LeaderPorts[name]
}

// kvEvents is the value of --kv-events-config. Engine r of a data-parallel
// replica adds r to both ports, so the ports of a later node's engines begin
// below those that were set aside for it. The wildcard makes it bind.
func kvEvents(s engines.Shard) string {
	before := s.Rank * (s.Profile.DataParallel / dataRanks(s.Profile))
	value, err := json.Marshal(struct {
		Enable    bool   `json:"enable_kv_cache_events"`
		Publisher string `json:"publisher"`
		Endpoint  string `json:"endpoint"`
		Replay    string `json:"replay_endpoint"`
	}{
		true, "zmq",
		fmt.Sprintf("tcp://*:%d", s.Ports[portKVEvents]-before),
		fmt.Sprintf("tcp://*:%d", s.Ports[portKVReplay]-before),
	})
	if err != nil {
		panic(err) // strings and a bool
	}
	return string(value)
}
