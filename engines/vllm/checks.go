package vllm

import (
	"context"
	"maps"
	"time"

	"github.com/llmgw/llmgw/engines"
)

// Checks returns the widest command of vllm serve, whose arguments are those of
// every mode, and that of ray start.
func (Adapter) Checks(context.Context) ([]engines.Check, error) {
	mp, dp, ray := widest(modeMP), widest(modeDP), widest(modeRay)
	serve := serveLaunch(mp).Engine
	mp.Rank, dp.Rank = 1, 1
	for _, s := range []engines.Shard{mp, dp, ray} {
		more := serveLaunch(s).Engine
		serve.Args = append(serve.Args, more.Args[2:]...)
		maps.Copy(serve.Env, more.Env)
	}
	maps.Copy(serve.Env, map[string]string{"RAY_ADDRESS": rayAddress(ray), "HF_HUB_OFFLINE": "1", "HIP_VISIBLE_DEVICES": "0"})
	head := rayNode(ray)
	ray.Rank = 1
	head.Args = append(head.Args, rayNode(ray).Args[1:]...)
	maps.Copy(head.Env, map[string]string{"HF_HUB_OFFLINE": "1", "HIP_VISIBLE_DEVICES": "0"})
	return []engines.Check{
		{
			Name: "serve", Command: serve,
			HelpArgs: []string{"serve", "--help=all"}, VersionArgs: []string{"--version"},
			Since:     map[string]string{"--shutdown-timeout": sinceShutdown},
			HelpLines: 1000,
			Timeout:   5 * time.Minute,
		},
		{
			Name: "ray", Command: head,
			HelpArgs: []string{"start", "--help"}, VersionArgs: []string{"--version"},
			HelpLines: 90,
			Timeout:   time.Minute,
		},
	}, nil
}

// widest is rank 0 of a replica that leaves nothing out.
func widest(mode string) engines.Shard {
	s := engines.Shard{
		Profile: engines.Profile{
			Engine: engines.VLLM, Mode: mode, Model: "org/model", Revision: "main", ServedNames: []string{"model"},
			Task: engines.TaskClassify, Ranks: 2, TensorParallel: 2, PipelineParallel: 1, DataParallel: 1, ExpertParallel: true,
			ContextTokens: 8192, MaxRunning: 64, MemoryRatio: 0.9, DType: "bfloat16", KVCacheDType: "fp8", Quantization: "fp8",
			PriorityScheduling: true, KVEvents: true, Sleep: true,
			Options: map[string]string{optionTools: "hermes", optionReasoning: "qwen3"},
		},
		Leader: "10.0.0.1", Address: "10.0.0.1", Bind: "10.0.0.1", Interface: "eth0", HCAs: []string{"mlx5_0"},
		Cards: []engines.Card{{Vendor: engines.NVIDIA}}, Dir: "/run/llmgw/shard",
		Ports:       map[string]int{engines.PortHTTP: 8000, portMaster: 29501, portRay: 6379, portKVEvents: 5557, portKVReplay: 5657},
		LeaderPorts: map[string]int{portMaster: 29501, portRay: 6379},
		Keyed:       true, EngineVersion: sinceShutdown,
	}
	if mode == modeDP {
		s.Profile.TensorParallel, s.Profile.DataParallel = 1, 2
	}
	return s
}
