// Program llmgw-adapter-lmdeploy is a whole engine adapter. It only says what is to
// be started, watched and stopped for LMDeploy; llmgw does it.
package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/engines/lmdeploy"
	"github.com/llmgw/llmgw/engines/plugin"
)

func main() { plugin.Serve(adapter{}) }

// adapter launches LMDeploy's api_server on one node.
type adapter struct{}

// Describe says what profiles may ask for and not touch, and what a router may rely on.
func (adapter) Describe(context.Context) (engines.Description, error) { return description(), nil }

func description() engines.Description {
	metrics := lmdeploy.Metrics() // of an engine that is not there: your own MetricContract
	return engines.Description{
		Engine:  engines.LMDeploy,
		Title:   "LMDeploy",
		Version: "1",
		Tested:  []string{"0.18.0"},
		Options: []engines.Option{
			{Key: "backend", Values: []string{"turbomind", "pytorch"}, Doc: "What computes. Default: turbomind, or pytorch for a model that it does not know."},
		},
		// The last two let strangers stop the server, and make a full one look dead.
		ReservedFlags: []string{"--server-name", "--server-port", "--api-keys", "--allow-terminate-by-client", "--max-concurrent-requests"},
		ReservedEnv:   []string{"CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"},
		Capabilities:  lmdeploy.Capabilities(),
		Metrics:       &metrics,
		// No Secret: LMDeploy takes keys as arguments, open to every user of the machine.
	}
}

// Validate finds every fault of a profile: first those that are the same for all
// engines, then LMDeploy's own. What it has nothing for is refused, not swallowed.
func (adapter) Validate(_ context.Context, p engines.Profile) (engines.Shape, error) {
	fs := description().Faults(p)
	refuse := func(wrong bool, field, problem, advice string) {
		if wrong {
			fs.Add(field, problem, advice)
		}
	}
	refuse(p.Model == "", "model", "is empty", "give a path on the node or a name on Hugging Face")
	refuse(p.Task != "" && p.Task != engines.TaskGenerate, "task", fmt.Sprintf("is %q", p.Task), "LMDeploy can generate alone; choose another engine")
	refuse(len(p.ServedNames) > 1, "served_names", fmt.Sprintf("are %d", len(p.ServedNames)), "give one: the gateway can have more names for it")
	refuse(p.CPU, "cpu", "is true", "LMDeploy needs a card")
	refuse(p.PipelineParallel > 1, "pipeline_parallel", fmt.Sprintf("is %d", p.PipelineParallel), "set tensor_parallel")
	refuse(p.DataParallel > 1, "data_parallel", fmt.Sprintf("is %d", p.DataParallel), "run several replicas")
	refuse(p.ExpertParallel, "expert_parallel", "is true", "put --ep into extra_args")
	refuse(p.MemoryRatio > 0, "memory_ratio", fmt.Sprintf("is %v", p.MemoryRatio), "put --cache-max-entry-count into extra_args: a part of what is free when the weights are loaded")
	refuse(p.PriorityScheduling, "priority_scheduling", "is true", "leave it out: LMDeploy knows no priorities")
	refuse(p.KVEvents, "kv_events", "is true", "leave it out: LMDeploy publishes none")
	if err := fs.Err(engines.LMDeploy); err != nil {
		return engines.Shape{}, err
	}
	return engines.Shape{Ranks: []engines.RankShape{{
		Cards: p.Cards(), ServesHTTP: true, Ports: []engines.PortNeed{{Name: engines.PortHTTP, Count: 1}},
	}}}, nil
}

// Launch says how one rank is started, when it is ready and how it is stopped.
func (a adapter) Launch(ctx context.Context, s engines.Shard) (engines.Launch, error) {
	p := s.Profile
	shape, err := a.Validate(ctx, p)
	if err != nil {
		return engines.Launch{}, err
	}
	fs := s.Faults(shape)
	if len(s.Cards) > 0 && s.Cards[0].Vendor == engines.AMD {
		fs.Add("cards", "are AMD's", "give it NVIDIA's: LMDeploy has no build for others here")
	}
	if err := fs.Err(engines.LMDeploy); err != nil {
		return engines.Launch{}, err
	}
	env := environment(s.Cards)
	maps.Copy(env, p.Env)
	return engines.Launch{
		Engine: engines.Command{
			Executable: cmp.Or(p.Executable, "lmdeploy"),
			Args:       append(arguments(s), p.ExtraArgs...),
			Env:        env,
		},
		ServesHTTP: true,
		Ready: engines.Readiness{ // asleep it answers 200 too
			Probe:   &engines.Probe{Port: s.Ports[engines.PortHTTP], Path: "/health", Contains: `"healthy"`, Timeout: 10 * time.Second},
			Timeout: cmp.Or(p.LoadTimeout, 30*time.Minute),
		},
		Stop: engines.Stop{Signal: engines.SignalTerm, Grace: cmp.Or(p.StopGrace, 30*time.Second)},
		Logs: []engines.LogRule{
			{Match: `error: unrecognized arguments: (.+)`, Phase: engines.PhaseFailed, Reason: "this version of LMDeploy does not know: $1", Advice: "remove it from extra_args"},
			{Match: `CUDA out of memory|OutOfMemoryError`, Phase: engines.PhaseFailed, Reason: "the card's memory is full", Advice: "lower context_tokens or max_running, or set tensor_parallel"},
			{Match: `HINT:\s+Please open`, Phase: engines.PhaseListening},
		},
	}, nil
}

// arguments leave out what the profile leaves to the engine.
func arguments(s engines.Shard) engines.Args {
	p := s.Profile.WithDefaults()
	args := engines.Args{"serve", "api_server", p.Model, "--model-name", p.ServedNames[0], "--server-name", s.Bind, "--server-port", strconv.Itoa(s.Ports[engines.PortHTTP])}
	args.Text("--backend", p.Options["backend"])
	args.Text("--revision", p.Revision)
	args.Number("--tp", p.TensorParallel)
	args.Number("--session-len", p.ContextTokens)
	args.Number("--max-batch-size", p.MaxRunning)
	args.Text("--dtype", p.DType)
	args.Text("--quant-policy", p.KVCacheDType)
	args.Text("--model-format", p.Quantization)
	return args
}

// environment shows LMDeploy its own cards alone, counted as the node does.
func environment(cards []engines.Card) map[string]string {
	names := make([]string, len(cards))
	for i, c := range cards {
		names[i] = cmp.Or(c.UUID, strconv.Itoa(c.Index))
	}
	return map[string]string{"CUDA_VISIBLE_DEVICES": strings.Join(names, ","), "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
}

// Checks names the widest command, which llmgw ctl engine-check holds against the
// help text of the LMDeploy that is installed.
func (adapter) Checks(context.Context) ([]engines.Check, error) {
	widest := engines.Shard{Bind: "127.0.0.1", Ports: map[string]int{engines.PortHTTP: 23333}, Profile: engines.Profile{
		Model: "/models/m", Revision: "main", ServedNames: []string{"m"}, TensorParallel: 2, ContextTokens: 8192, MaxRunning: 64,
		DType: "float16", KVCacheDType: "int8", Quantization: "awq", Options: map[string]string{"backend": "turbomind"},
	}}
	return []engines.Check{{
		Name:        "api_server",
		Command:     engines.Command{Executable: "lmdeploy", Args: arguments(widest), Env: environment(nil)},
		HelpArgs:    []string{"serve", "api_server", "--help"},
		VersionArgs: []string{"--version"},
		HelpLines:   100,
		Timeout:     2 * time.Minute, // it imports torch
	}}, nil
}
