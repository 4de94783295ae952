package vllm_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/engines/vllm"
)

// shard is one rank of a replica over two nodes.
func shard(rank int) engines.Shard {
	return engines.Shard{
		Profile: engines.Profile{
			Engine: engines.VLLM, Model: "/models/m", ServedNames: []string{"m"},
			Ranks: 2, TensorParallel: 2,
		},
		Rank: rank, Leader: "10.0.0.1", Address: "10.0.0.2", Bind: "10.0.0.2", Dir: "/run/s",
		Cards:       []engines.Card{{Vendor: engines.NVIDIA, UUID: "GPU-0"}},
		Ports:       map[string]int{engines.PortHTTP: 8000, "master": 29501, "ray": 6379},
		LeaderPorts: map[string]int{engines.PortHTTP: 8000, "master": 29501, "ray": 6379},
	}
}

func TestVersions(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, version, mode string
		ranks               int
		advice              string // "": it launches
	}{
		{"unknown", "", "mp", 2, ""},
		{"too old for anything", "0.10.2", "mp", 1, "install vLLM 0.11 or later"},
		{"too old for its own launcher", "0.11.2", "mp", 2, "install vLLM 0.12 or later, or choose mode ray"},
		{"old, one node", "0.11.2", "mp", 1, ""},
		{"old, by Ray", "v0.11.2", "ray", 2, ""},
		{"new enough", "0.12.0rc1", "mp", 2, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := shard(0)
			s.EngineVersion, s.Profile.Mode, s.Profile.Ranks, s.Profile.TensorParallel = tt.version, tt.mode, tt.ranks, tt.ranks
			_, err := vllm.Adapter{}.Launch(t.Context(), s)
			pe, refused := errors.AsType[*engines.ProfileError](err)
			switch {
			case tt.advice == "" && err != nil:
				t.Errorf("refused: %v", err)
			case tt.advice != "" && (!refused || pe.Faults[0].Field != "engine_version" || pe.Faults[0].Advice != tt.advice || !strings.Contains(pe.Faults[0].Problem, tt.version)):
				t.Errorf("%v; want the advice %q", err, tt.advice)
			}
		})
	}
}

// The time that vLLM gets to finish ends before the process is killed, and is
// not asked for where a version does not know the flag or there is no time.
func TestShutdownTimeout(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]bool{"": false, "0.17.0": false, "0.18.0": true, "0.33.0": true} {
		s := shard(0)
		s.EngineVersion = version
		l, err := vllm.Adapter{}.Launch(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		if got := slices.Contains(l.Engine.Args, "--shutdown-timeout"); got != want {
			t.Errorf("version %q: --shutdown-timeout passed: %t; want %t", version, got, want)
		}
	}
	s := shard(0)
	s.EngineVersion, s.Profile.StopGrace = "0.33.0", 1
	l, err := vllm.Adapter{}.Launch(t.Context(), s)
	if err != nil || slices.Contains(l.Engine.Args, "--shutdown-timeout") {
		t.Errorf("without time to finish, finishing is asked for: %v, error %v", l.Engine.Args, err)
	}
}

// Cards have numbers even where their lasting names are known: vLLM reads the
// variable itself, as numbers.
func TestCardsByNumber(t *testing.T) {
	t.Parallel()
	l, err := vllm.Adapter{}.Launch(t.Context(), shard(1))
	if err != nil {
		t.Fatal(err)
	}
	if got := l.Engine.Env["CUDA_VISIBLE_DEVICES"]; got != "0" {
		t.Errorf("CUDA_VISIBLE_DEVICES is %q", got)
	}
}
