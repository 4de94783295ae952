package launch

import (
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/llmgw/llmgw/engines"
)

// Numbered returns cards without their lasting names, for engines that read the
// variables of [Cards] themselves and understand numbers alone.
func Numbered(cards []engines.Card) []engines.Card {
	out := slices.Clone(cards)
	for i := range out {
		out[i].UUID = ""
	}
	return out
}

// Network returns the variables that name the interface between the nodes, for
// both libraries that open connections there. NCCL, whose variables RCCL reads
// as well, takes a name as the beginning of names unless "=" stands before it,
// so that eth1 is eth10 too; Gloo takes it as it is.
func Network(s engines.Shard) map[string]string {
	env := make(map[string]string)
	if s.Interface != "" {
		env["NCCL_SOCKET_IFNAME"] = "=" + s.Interface
		env["GLOO_SOCKET_IFNAME"] = s.Interface
	}
	if len(s.HCAs) > 0 {
		env["NCCL_IB_HCA"] = "=" + strings.Join(s.HCAs, ",")
	}
	return env
}

// Hub returns the variables that keep a model that is a path from being looked
// up at a hub, where a node without a way out waits for time-outs.
func Hub(model string) map[string]string {
	if !filepath.IsAbs(model) {
		return nil
	}
	return map[string]string{"HF_HUB_OFFLINE": "1"}
}

// Torch returns how a process on PyTorch gets its variables: own are the
// adapter's, the profile's go over them, and the cards of the rank over all.
// It must not have those of unset, nor what a launcher that was itself started
// by torchrun or Ray may hold, which would draw it into a foreign group.
func Torch(s engines.Shard, own map[string]string, unset ...string) (env map[string]string, without []string) {
	cards, without := Cards(Numbered(s.Cards))
	env = Environment(Network(s), Environment(Hub(s.Profile.Model), own, s.Profile.Env), cards)
	without = append(without, "GROUP_RANK", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT",
		"PROMETHEUS_MULTIPROC_DIR", "RANK", "RAY_ADDRESS", "TORCHELASTIC_RUN_ID", "WORLD_SIZE")
	without = append(without, unset...)
	without = slices.DeleteFunc(without, func(name string) bool { _, set := env[name]; return set })
	slices.Sort(without)
	return env, slices.Compact(without)
}

// LoadTimeout is how long a replica of a large model may take to become ready
// where its profile does not say: weights from a slow disk, and minutes for
// kernels and graphs.
const LoadTimeout = 30 * time.Minute

// Stalled is for how long a rank that loads may say nothing. With several
// ranks it is less than the 10 minutes after which NCCL gives up on a rank that
// did not come, so that the launcher, who knows which one, speaks first.
func Stalled(p engines.Profile) time.Duration {
	if p.Ranks > 1 {
		return 9 * time.Minute
	}
	return 15 * time.Minute
}
