// Package launch holds what the launches of the built-in adapters have in
// common: how one begins, which variables name cards, and which fields of a
// profile an engine knows nothing of.
package launch

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/llmgw/llmgw/engines"
)

// Begin is how every launch begins: it validates the profile and holds the
// shard against the shape that the profile needs. The shard it returns has a
// profile with defaults.
func Begin(ctx context.Context, a engines.Adapter, engine engines.Name, s engines.Shard) (engines.Shard, error) {
	shape, err := a.Validate(ctx, s.Profile)
	if err != nil {
		return engines.Shard{}, err
	}
	if err := s.Faults(shape).Err(engine); err != nil {
		return engines.Shard{}, err
	}
	s.Profile = s.Profile.WithDefaults()
	return s, nil
}

// OneNode returns the shape of a replica of one rank, which serves HTTP and
// takes all cards of p: one port for HTTP and one for each of the other names.
func OneNode(p engines.Profile, ports ...string) engines.Shape {
	rank := engines.RankShape{
		Cards: p.Cards(), ServesHTTP: true,
		Ports: []engines.PortNeed{{Name: engines.PortHTTP, Count: 1}},
	}
	for _, name := range ports {
		rank.Ports = append(rank.Ports, engines.PortNeed{Name: name, Count: 1})
	}
	return engines.Shape{Ranks: []engines.RankShape{rank}}
}

// CardVariables returns the names of the variables by which the runtimes of
// NVIDIA and AMD are told which cards a process sees: an adapter that sets
// them keeps them for itself.
func CardVariables() []string {
	return []string{"CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"}
}

// Cards returns variables by which a process sees these cards alone, in this
// order, and those of [CardVariables] that it must not have beside them. CUDA
// counts cards by their speed unless it is told to count as the node does. No
// cards: the process sees none.
func Cards(cards []engines.Card) (env map[string]string, unset []string) {
	switch {
	case len(cards) == 0:
		return map[string]string{"CUDA_VISIBLE_DEVICES": "-1", "HIP_VISIBLE_DEVICES": "-1"}, []string{"ROCR_VISIBLE_DEVICES"}
	case cards[0].Vendor == engines.AMD:
		return map[string]string{"HIP_VISIBLE_DEVICES": list(cards, number)}, []string{"CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"}
	}
	name := uuid
	for _, c := range cards {
		if c.UUID == "" {
			name = number
		}
	}
	return map[string]string{"CUDA_VISIBLE_DEVICES": list(cards, name), "CUDA_DEVICE_ORDER": "PCI_BUS_ID"},
		[]string{"HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"}
}

// Widest returns every variable that [Cards] may set, and those of names, for
// the command of a check. Their values are examples.
func Widest(names ...string) map[string]string {
	env := map[string]string{"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": "0", "HIP_VISIBLE_DEVICES": "0"}
	for _, name := range names {
		env[name] = "1"
	}
	return env
}

func number(c engines.Card) string { return strconv.Itoa(c.Index) }

func uuid(c engines.Card) string { return c.UUID }

func list(cards []engines.Card, name func(engines.Card) string) string {
	words := make([]string, len(cards))
	for i, c := range cards {
		words[i] = name(c)
	}
	return strings.Join(words, ",")
}

// Unset returns those of names that env does not set.
func Unset(env map[string]string, names []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		_, set := env[name]
		return set
	})
}

// Environment returns the variables of an engine's process: the adapter's own,
// the profile's over them, and over these what the profile may not change.
func Environment(own, profile, fixed map[string]string) map[string]string {
	env := make(map[string]string, len(own)+len(profile)+len(fixed))
	for _, vars := range []map[string]string{own, profile, fixed} {
		maps.Copy(env, vars)
	}
	return env
}

// Ignored adds a fault for each field, by its key in YAML, that p sets and the
// engine has nothing for: what is not heeded is said, not swallowed.
func Ignored(fs *engines.Faults, title string, p engines.Profile, advice map[string]string) {
	p = p.WithDefaults()
	for _, f := range []struct {
		key   string
		value any
		set   bool
	}{
		{"revision", p.Revision, p.Revision != ""},
		{"tensor_parallel", p.TensorParallel, p.TensorParallel > 1},
		{"pipeline_parallel", p.PipelineParallel, p.PipelineParallel > 1},
		{"data_parallel", p.DataParallel, p.DataParallel > 1},
		{"expert_parallel", p.ExpertParallel, p.ExpertParallel},
		{"context_tokens", p.ContextTokens, p.ContextTokens != 0},
		{"max_running", p.MaxRunning, p.MaxRunning != 0},
		{"memory_ratio", p.MemoryRatio, p.MemoryRatio != 0},
		{"dtype", p.DType, p.DType != ""},
		{"kv_cache_dtype", p.KVCacheDType, p.KVCacheDType != ""},
		{"quantization", p.Quantization, p.Quantization != ""},
		{"priority_scheduling", p.PriorityScheduling, p.PriorityScheduling},
		{"kv_events", p.KVEvents, p.KVEvents},
		{"extra_args", p.ExtraArgs, len(p.ExtraArgs) > 0},
	} {
		if a, ignored := advice[f.key]; ignored && f.set {
			if a == "" {
				a = "leave it out"
			}
			fs.Add(f.key, fmt.Sprintf("is %v, and %s has nothing like it", f.value, title), a)
		}
	}
}
