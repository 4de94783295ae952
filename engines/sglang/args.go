package sglang

import (
	"encoding/json"
	"fmt"
	"net"
	"path/filepath"
	"strconv"

	"github.com/llmgw/llmgw/engines"
)

// Keys of [engines.Profile.Options].
const (
	optionTools     = "tool_call_parser"
	optionReasoning = "reasoning_parser"
)

// keyFile holds the flags that must not stand on the command line. Its name has
// to end in .yaml.
const keyFile = "sglang.yaml"

// files hands the key to the rank that serves. SGLang has no variable for it.
func files(s engines.Shard) []engines.File {
	if !keyed(s) {
		return nil
	}
	return []engines.File{{Name: keyFile, Content: "api-key: \"" + engines.SecretPlaceholder + "\"\n"}}
}

func keyed(s engines.Shard) bool { return s.Keyed && s.Rank == 0 }

// serveArgs is the command line behind the entry point.
func serveArgs(s engines.Shard) []string {
	p := s.Profile
	var a engines.Args
	if keyed(s) {
		a.Add("--config", filepath.Join(s.Dir, keyFile))
	}
	a.Add("--model-path", p.Model)
	// SGLang has one name, and answers to any.
	a.Add("--served-model-name", p.ServedNames[0])
	if s.Rank == 0 {
		a.Add("--host", s.Bind)
	} else {
		a.Add("--host", "127.0.0.1") // the stub is no endpoint
	}
	a.Number("--port", s.Ports[engines.PortHTTP])
	modelArgs(&a, p)
	spreadArgs(&a, s)
	a.Add("--enable-metrics", "--enable-cache-report")
	a.Switch("--enable-priority-scheduling", p.PriorityScheduling)
	if p.KVEvents && (s.Rank == 0 || p.DataParallel > 1) {
		a.Add("--kv-events-config", kvEvents(s))
	}
	a.Add(p.ExtraArgs...)
	return a
}

// modelArgs say what is loaded, and with how much room.
func modelArgs(a *engines.Args, p engines.Profile) {
	a.Text("--revision", p.Revision)
	a.Switch("--is-embedding", p.Task != engines.TaskGenerate)
	if p.CPU {
		a.Add("--device", "cpu")
	}
	a.Text("--dtype", p.DType)
	a.Text("--quantization", p.Quantization)
	a.Text("--kv-cache-dtype", p.KVCacheDType)
	a.Number("--context-length", p.ContextTokens)
	a.Number("--max-running-requests", p.MaxRunning)
	a.Ratio("--mem-fraction-static", p.MemoryRatio)
	a.Text("--tool-call-parser", p.Options[optionTools])
	a.Text("--reasoning-parser", p.Options[optionReasoning])
}

// spreadArgs say how the replica is spread over cards and nodes. With
// data-parallel attention SGLang's tensor parallel size is over all cards of a
// pipeline stage, and the groups lie within it.
func spreadArgs(a *engines.Args, s engines.Shard) {
	p := s.Profile
	tensor := p.TensorParallel
	switch modeOf(p) {
	case modeDP:
		a.Number("--dp-size", p.DataParallel)
	case modeDPAttention:
		tensor *= p.DataParallel
		if s.EngineVersion != "" && engines.CompareVersions(s.EngineVersion, sinceAttentionN) >= 0 {
			a.Number("--attn-dp-size", p.DataParallel)
		} else {
			a.Number("--dp-size", p.DataParallel)
			a.Add("--enable-dp-attention")
		}
	}
	a.Number("--tp-size", tensor)
	a.Number("--pp-size", p.PipelineParallel)
	if p.ExpertParallel {
		a.Number("--ep-size", tensor)
	}
	switch {
	case p.Ranks > 1:
		a.Number("--nnodes", p.Ranks)
		a.Add("--node-rank", strconv.Itoa(s.Rank), "--dist-init-addr", distAddress(s))
	case modeOf(p) == modeDPAttention:
		a.Add("--dist-init-addr", distAddress(s))
		a.Number("--nccl-port", s.Ports[portNCCL])
	case modeOf(p) == modeTP:
		a.Number("--nccl-port", s.Ports[portNCCL])
	}
}

func distAddress(s engines.Shard) string {
	host, port := s.Leader, s.LeaderPorts[portDist]
	if s.Rank == 0 {
		port = s.Ports[portDist]
	}
	if s.Profile.Ranks == 1 {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, strconv.Itoa(port))
}

// kvEvents is the value of --kv-events-config. Group r of data-parallel
// attention adds r to both ports, so the ports of a later node's groups begin
// below those that were set aside for it.
func kvEvents(s engines.Shard) string {
	before := 0
	if s.Profile.DataParallel > 1 {
		before = s.Rank * publishers(s.Profile)
	}
	value, err := json.Marshal(struct {
		Publisher string `json:"publisher"`
		Endpoint  string `json:"endpoint"`
		Replay    string `json:"replay_endpoint"`
	}{
		"zmq",
		fmt.Sprintf("tcp://*:%d", s.Ports[portKVEvents]-before),
		fmt.Sprintf("tcp://*:%d", s.Ports[portKVReplay]-before),
	})
	if err != nil {
		panic(err) // strings
	}
	return string(value)
}
