package sglang

import (
	"context"
	"maps"
	"time"

	"github.com/llmgw/llmgw/engines"
)

// Checks returns the widest command by both entry points.
func (Adapter) Checks(context.Context) ([]engines.Check, error) {
	module, cli := check("python3"), check("sglang")
	module.Name, module.HelpArgs = "module", []string{"-m", "sglang.launch_server", "--help"}
	module.VersionArgs = []string{"-c", `from importlib.metadata import version; print(version("sglang"))`}
	cli.Name, cli.HelpArgs = "cli", []string{"serve", "--help"}
	cli.VersionArgs = []string{"version"}
	return []engines.Check{module, cli}, nil
}

func check(executable string) engines.Check {
	attention := widest(modeDPAttention, executable)
	worker, tp, dp := attention, widest(modeTP, executable), widest(modeDP, executable)
	worker.Rank = 1
	tp.Profile.CPU = true
	c := command(attention)
	skip := len(c.Args) - len(serveArgs(attention))
	for _, s := range []engines.Shard{worker, tp, dp, older(attention)} {
		more := command(s)
		c.Args = append(c.Args, more.Args[skip:]...)
		maps.Copy(c.Env, more.Env)
	}
	maps.Copy(c.Env, map[string]string{"HF_HUB_OFFLINE": "1", "HIP_VISIBLE_DEVICES": "0"})
	return engines.Check{
		Command:   c,
		Since:     map[string]string{"--attn-dp-size": sinceAttentionN},
		HelpLines: 1000,
		Timeout:   5 * time.Minute,
	}
}

func older(s engines.Shard) engines.Shard {
	s.EngineVersion = oldest
	return s
}

// widest is rank 0 of a replica that leaves nothing out.
func widest(mode, executable string) engines.Shard {
	p := engines.Profile{
		Engine: engines.SGLang, Executable: executable, Mode: mode, Model: "org/model", Revision: "main", ServedNames: []string{"model"},
		Task: engines.TaskEmbed, Ranks: 2, TensorParallel: 1, PipelineParallel: 1, DataParallel: 2, ExpertParallel: true,
		ContextTokens: 8192, MaxRunning: 64, MemoryRatio: 0.85, DType: "bfloat16", KVCacheDType: "fp8_e5m2", Quantization: "fp8",
		PriorityScheduling: true, KVEvents: true,
		Options: map[string]string{optionTools: "qwen25", optionReasoning: "qwen3"},
	}
	if mode != modeDPAttention {
		p.Ranks = 1
	}
	return engines.Shard{
		Profile: p,
		Leader:  "10.0.0.1", Address: "10.0.0.1", Bind: "10.0.0.1", Interface: "eth0", HCAs: []string{"mlx5_0"},
		Cards: []engines.Card{{Vendor: engines.NVIDIA}}, Dir: "/run/llmgw/shard",
		Ports:       map[string]int{engines.PortHTTP: 30000, portDist: 20000, portNCCL: 20010, portKVEvents: 5557, portKVReplay: 5657},
		LeaderPorts: map[string]int{engines.PortHTTP: 30000, portDist: 20000},
		Keyed:       true, EngineVersion: sinceAttentionN,
	}
}
