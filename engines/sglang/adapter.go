package sglang

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/engines/internal/launch"
)

// Names of the ways in which a replica is spread over ranks.
const (
	modeTP          = "tp"
	modeDP          = "dp"
	modeDPAttention = "dp-attention"
)

// Names of the ports of a rank beside [engines.PortHTTP].
const (
	portDist     = "dist" // where ranks find each other
	portNCCL     = "nccl"
	portKVEvents = "kv_events"
	portKVReplay = "kv_replay"
)

// distPorts is how many ports from portDist on data-parallel attention uses, on
// the leader's node, for what its processes say to each other.
const distPorts = 7

// Versions from which on SGLang has what not every version has.
const (
	oldest          = "0.5.5"  // all flags that are passed to any version
	sinceAttentionN = "0.5.22" // --attn-dp-size instead of --dp-size with --enable-dp-attention
)

// stopGrace is the time between the signal and the kill where the profile says
// nothing: SGLang itself lets requests run on without an end.
const stopGrace = time.Minute

// probeTimeout is more than the 20 seconds for which a health check of a busy
// engine may wait where versions know no cheap one.
const probeTimeout = 25 * time.Second

// Adapter launches SGLang, 0.5.5 and later. The zero value is ready for use.
type Adapter struct{}

var _ engines.Adapter = Adapter{}

// Describe says what the adapter is.
func (Adapter) Describe(context.Context) (engines.Description, error) { return description(), nil }

func description() engines.Description {
	metrics := Metrics()
	return engines.Description{
		Engine:  engines.SGLang,
		Title:   "SGLang",
		Version: "1",
		Tested:  []string{"0.5.5", "0.5.9", "0.5.23"},
		Modes: []engines.Mode{
			{Name: modeTP, MultiNode: true, Doc: "Tensor and pipeline parallel, over any number of nodes."},
			{Name: modeDP, Doc: "Whole copies of the model on one node behind one address, which balances over them."},
			{Name: modeDPAttention, MultiNode: true, Doc: "Attention is data parallel, the rest is tensor parallel over all cards together: tensor_parallel is that of one attention group."},
		},
		Options: []engines.Option{
			{Key: optionTools, Doc: "How calls of tools are found in the output, such as qwen25. Default: they come as text."},
			{Key: optionReasoning, Doc: "How thinking is told from the answer, such as qwen3. Default: it is not."},
		},
		ReservedFlags: []string{
			"--host", "--port", "--grpc-port", "--grpc-mode", "--smg-grpc-mode", "--config", "--model-path", "--model", "--served-model-name",
			"--api-key", "--admin-api-key", "--fastapi-root-path", "--ssl-keyfile", "--ssl-certfile", "--ssl-ca-certs",
			"--nnodes", "--node-rank", "--dist-init-addr", "--nccl-init-addr", "--nccl-port", "--use-ray", "--base-gpu-id", "--gpu-id-step",
			"--tp-size", "--tensor-parallel-size", "--tp", "--pp-size", "--pipeline-parallel-size", "--pp",
			"--dp-size", "--data-parallel-size", "--dp", "--attn-dp-size", "--attention-data-parallel-size", "--enable-dp-attention",
			"--kv-events-config", "--enable-metrics",
		},
		ReservedEnv: append(launch.CardVariables(),
			"CUDA_DEVICE_ORDER", "PROMETHEUS_MULTIPROC_DIR", "SGLANG_HOST_IP", "SGLANG_PORT", "SGLANG_ENABLE_HEALTH_ENDPOINT_GENERATION"),
		Capabilities: Capabilities(),
		Metrics:      &metrics,
		Secret: engines.SecretUse{
			Supported: true, By: engines.SecretByFile,
			OpenPaths: []string{"/health", "/health_generate", "/metrics", "/metrics/"},
		},
	}
}

// Validate checks p and returns what a replica of it needs.
func (Adapter) Validate(_ context.Context, p engines.Profile) (engines.Shape, error) {
	p = p.WithDefaults()
	fs := description().Faults(p)
	if p.Model == "" {
		fs.Add("model", "is empty", "name what SGLang loads")
	}
	for i, name := range p.ServedNames {
		if strings.ContainsRune(name, ':') {
			fs.Add(fmt.Sprintf("served_names[%d]", i), fmt.Sprintf("%q has a colon, behind which SGLang looks for a LoRA", name), "use another character, such as -")
		}
	}
	mode := modeOf(p)
	switch {
	case mode == modeTP && p.DataParallel > 1:
		fs.Add("data_parallel", fmt.Sprintf("is %d in mode tp", p.DataParallel), "choose mode dp or dp-attention, or run several replicas")
	case mode != modeTP && p.DataParallel == 1:
		fs.Add("data_parallel", "is 1 in mode "+mode, "set it to 2 or more, or leave the mode out")
	case mode == modeDP && p.KVEvents:
		fs.Add("kv_events", "is true in mode dp, where versions up to 0.5.12 have all copies publish on one port", "choose mode dp-attention, or run several replicas")
	case p.KVEvents && p.Ranks > 0 && p.DataParallel > 1 && p.DataParallel%p.Ranks != 0:
		fs.Add("kv_events", fmt.Sprintf("is true with data_parallel %d over %d ranks", p.DataParallel, p.Ranks), "make data_parallel a multiple of ranks, so that each has a cache to tell of")
	}
	if p.CPU && p.Ranks > 1 {
		fs.Add("cpu", fmt.Sprintf("is true over %d ranks", p.Ranks), "run SGLang without cards on one node")
	}
	if err := fs.Err(engines.SGLang); err != nil {
		return engines.Shape{}, err
	}
	return shape(p), nil
}

func modeOf(p engines.Profile) string { return cmp.Or(p.Mode, modeTP) }

func shape(p engines.Profile) engines.Shape {
	ranks := make([]engines.RankShape, p.Ranks)
	for i := range ranks {
		r := &ranks[i]
		r.Cards = p.Cards() / p.Ranks
		need := func(name string, count int) {
			r.Ports = append(r.Ports, engines.PortNeed{Name: name, Count: count})
		}
		// A rank that serves nothing says on its port that it is ready.
		need(engines.PortHTTP, 1)
		r.ServesHTTP = i == 0
		switch {
		case i == 0 && modeOf(p) == modeDPAttention:
			need(portDist, distPorts)
		case i == 0 && p.Ranks > 1:
			need(portDist, 1)
		}
		if p.Ranks == 1 && modeOf(p) != modeDP {
			need(portNCCL, 1)
		}
		if p.KVEvents && (i == 0 || p.DataParallel > 1) {
			need(portKVEvents, publishers(p))
			need(portKVReplay, publishers(p))
		}
	}
	return engines.Shape{Ranks: ranks}
}

// publishers is how many caches a rank tells of.
func publishers(p engines.Profile) int { return max(1, p.DataParallel/p.Ranks) }

// Launch builds the launch of one rank.
func (a Adapter) Launch(ctx context.Context, s engines.Shard) (engines.Launch, error) {
	s, err := launch.Begin(ctx, a, engines.SGLang, s)
	if err != nil {
		return engines.Launch{}, err
	}
	if v := s.EngineVersion; v != "" && engines.CompareVersions(v, oldest) < 0 {
		var fs engines.Faults
		fs.Add("engine_version", fmt.Sprintf("is %s", v), "install SGLang "+oldest+" or later")
		return engines.Launch{}, fs.Err(engines.SGLang)
	}
	p := s.Profile
	l := engines.Launch{
		Engine:     command(s),
		Files:      files(s),
		ServesHTTP: s.Rank == 0,
		Ready: engines.Readiness{
			// On a rank that serves nothing a stub answers, once the rank has
			// loaded its part.
			Probe:   &engines.Probe{Port: s.Ports[engines.PortHTTP], Path: "/health", Timeout: min(probeTimeout, cmp.Or(p.LoadTimeout, launch.LoadTimeout))},
			Timeout: cmp.Or(p.LoadTimeout, launch.LoadTimeout), Stalled: launch.Stalled(p),
		},
		Stop: engines.Stop{Signal: engines.SignalTerm, Grace: cmp.Or(p.StopGrace, stopGrace)},
		Logs: logRules(),
	}
	return l, nil
}

// command is the rank's process. The module is what every version has; the
// command line of the name sglang, which looks at the model first to tell
// language models from others, is used where the executable is that.
func command(s engines.Shard) engines.Command {
	c := engines.Command{Executable: cmp.Or(s.Profile.Executable, "python3")}
	if filepath.Base(c.Executable) == "sglang" {
		c.Args = append(c.Args, "serve")
	} else {
		c.Args = append(c.Args, "-m", "sglang.launch_server")
	}
	c.Args = append(c.Args, serveArgs(s)...)
	c.Env, c.Unset = environment(s)
	return c
}
