package enginetest

import (
	"fmt"

	"github.com/llmgw/llmgw/engines"
)

// circumstances are where and how the ranks of a profile are launched.
type circumstances struct {
	Ranks     []int          `yaml:"ranks"`
	Version   string         `yaml:"version"`
	Keyed     bool           `yaml:"keyed"`
	Vendor    engines.Vendor `yaml:"vendor"`
	UUIDs     bool           `yaml:"uuids"`
	FirstCard int            `yaml:"first_card"`
	Bind      string         `yaml:"bind"`
	Interface string         `yaml:"interface"`
	HCAs      []string       `yaml:"hcas"`
}

// Ports are numbers that nothing else in a launch is likely to be, and those
// of a rank lie apart from those of the others, whatever the adapter asks for.
const (
	firstPort    = 28411
	portsPerRank = 101
	mostRanks    = 64 // that the suite launches; beyond it lie no ports
)

// shard returns rank of a replica of p, with everything that shape asks for.
func (c circumstances) shard(p engines.Profile, shape engines.Shape, rank int) engines.Shard {
	s := engines.Shard{
		Profile: p, Replica: "r1", Generation: 7, Rank: rank,
		Leader: address(0), Address: address(rank), Bind: c.Bind,
		Interface: c.Interface, HCAs: c.HCAs,
		Ports: ports(shape, rank), LeaderPorts: ports(shape, 0),
		Dir:   fmt.Sprintf("/run/llmgw/r1-%d", rank),
		Keyed: c.Keyed, EngineVersion: c.Version,
	}
	if s.Bind == "" {
		s.Bind = s.Address
	}
	vendor := c.Vendor
	if vendor == "" {
		vendor = engines.NVIDIA
	}
	for i := range shape.Ranks[rank].Cards {
		card := engines.Card{Vendor: vendor, Index: c.FirstCard + i}
		if c.UUIDs {
			card.UUID = fmt.Sprintf("GPU-%08d-0000-4000-8000-%012d", rank, card.Index)
		}
		s.Cards = append(s.Cards, card)
	}
	return s
}

func address(rank int) string { return fmt.Sprintf("10.0.0.%d", rank+1) }

func ports(shape engines.Shape, rank int) map[string]int {
	next := firstPort + rank*portsPerRank
	out := make(map[string]int)
	for _, need := range shape.Ranks[rank].Ports {
		out[need.Name] = next
		next += need.Count
	}
	return out
}

// launched returns the ranks that are to be launched.
func (c circumstances) launched(shape engines.Shape) ([]int, error) {
	ranks := c.Ranks
	if len(ranks) == 0 {
		for i := range shape.Ranks {
			ranks = append(ranks, i)
		}
	}
	for _, r := range ranks {
		if r < 0 || r >= min(len(shape.Ranks), mostRanks) {
			return nil, fmt.Errorf("shard.ranks: %d of %d ranks; want those from 0, and at most %d of them", r, len(shape.Ranks), mostRanks)
		}
	}
	return ranks, nil
}
