package placement

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Place returns where the replica of a wish is to go. It changes nothing: who
// acts on the decision claims it (see [Wish.Claim]). What the replica holds
// already, if anything, counts as taken. A wish that is none is not placed, and
// Why is what [Wish.Validate] says.
func (c *Cluster) Place(w Wish) Decision {
	d := Decision{Model: w.Model, Replica: w.Replica}
	if err := w.Validate(); err != nil {
		d.Why = err.Error()
		return d
	}
	s := newSearch(c, &w, false)
	s.look()
	if s.ganged {
		s.placeGang(&d)
	} else {
		s.placeOne(&d)
	}
	s.reject(&d)
	if d.CouldEver = d.Placed; !d.Placed {
		s.whyNot(&d)
		d.CouldEver = !errors.Is(c.Fits(w), ErrUnfit)
	}
	return d
}

// placeOne places a replica of one rank.
func (s *search) placeOne(d *Decision) {
	options := s.options
	slices.SortFunc(options, compareOptions)
	if len(options) == 0 {
		return
	}
	best := &options[0]
	d.Placed, d.Class, d.Score = true, best.class, best.score
	d.Shards = []ShardPlace{s.shard(best, 0)}
	d.Others = make([]string, 0, len(options)-1)
	for i := range options[1:] {
		o := &options[i+1]
		d.Others = append(d.Others, o.entry.node.ID)
		if i < MaxRunners {
			d.Runners = append(d.Runners, Runner{Class: o.class, Nodes: []string{o.entry.node.ID}, Score: o.score})
		}
	}
	if len(options) == 1 {
		d.Why = fmt.Sprintf("%s is the only node that fits", best.entry.node.ID)
		return
	}
	d.Why = fmt.Sprintf("%s is the best of %d nodes that fit: before %s by %s",
		best.entry.node.ID, len(options), options[1].entry.node.ID, difference(&best.score, &options[1].score))
}

// placeGang places a replica of several ranks.
func (s *search) placeGang(d *Decision) {
	s.form()
	d.Fabrics = s.standings()
	whole := slices.DeleteFunc(slices.Clone(s.gangs), func(g *gang) bool { return g.short > 0 })
	slices.SortFunc(whole, func(a, b *gang) int {
		return cmp.Or(a.score.Compare(&b.score), strings.Compare(a.fabric, b.fabric), strings.Compare(a.class, b.class))
	})
	if len(whole) == 0 {
		return
	}
	best := whole[0]
	d.Placed, d.Fabric, d.Class, d.Score = true, best.fabric, best.class, best.score
	for rank, o := range best.ranks {
		d.Shards = append(d.Shards, s.shard(o, rank))
	}
	taken := make(map[*entry]bool)
	for _, o := range best.ranks {
		taken[o.entry] = true
	}
	for i, g := range whole {
		if i > 0 && i <= MaxRunners {
			d.Runners = append(d.Runners, Runner{Fabric: g.fabric, Class: g.class, Nodes: g.nodes(), Score: g.score})
		}
		for _, options := range g.byType {
			for j := range options {
				if e := options[j].entry; !taken[e] {
					taken[e] = true
					d.Others = append(d.Others, e.node.ID)
				}
			}
		}
	}
	s.others = taken
	if len(whole) == 1 {
		d.Why = fmt.Sprintf("fabric %s is the only one with nodes that fit all %d ranks", best.fabric, len(best.ranks))
		return
	}
	d.Why = fmt.Sprintf("fabric %s with %s is the best of %d places: before fabric %s with %s by %s",
		best.fabric, best.what(), len(whole), whole[1].fabric, whole[1].what(), difference(&best.score, &whole[1].score))
}

// shard returns what a rank takes at its place.
func (s *search) shard(o *option, rank int) ShardPlace {
	need := s.wish.Need.Ranks[rank]
	p := ShardPlace{
		Node:  o.entry.node.ID,
		Ports: need.Ports, HostBytes: hostNeed(o.entry.node.Unified, need, s.wish.Need.On(o.class).CardBytes),
	}
	if need.Cards == 0 {
		return p
	}
	chosen := o.entry.topology.closest(s.suitable(o.entry, o.entry.class(o.class)), need.Cards)
	p.Cards = make([]string, need.Cards)
	for i, at := range chosen.cards {
		p.Cards[i] = o.entry.node.Cards[at].ID
	}
	return p
}

// reject hands over the reasons of all nodes that do not do.
func (s *search) reject(d *Decision) {
	nearest := s.nearest()
	for i, e := range s.cluster.entries {
		reasons := s.reasons[i]
		if g := nearest[e]; len(reasons) == 0 && g != nil && !s.others[e] {
			ranks := uint64(len(s.wish.Need.Ranks))
			reasons = []Reason{{Kind: FabricShort, Subject: g.fabric, Detail: g.class, Need: ranks, Have: ranks - uint64(g.short)}}
		}
		if len(reasons) > 0 {
			d.Rejected = append(d.Rejected, Rejection{Node: e.node.ID, Reasons: reasons})
		}
	}
}

// nearest returns, of the gangs that a node would be good for and that are
// short, the one that lacks least.
func (s *search) nearest() map[*entry]*gang {
	out := make(map[*entry]*gang)
	for _, g := range s.gangs {
		if g.short == 0 {
			continue
		}
		for _, options := range g.byType {
			for i := range options {
				if before := out[options[i].entry]; before == nil || g.short < before.short {
					out[options[i].entry] = g
				}
			}
		}
	}
	return out
}

// compareOptions puts the better first; of equals the one whose name is first.
func compareOptions(a, b option) int {
	if c := a.score.Compare(&b.score); c != 0 {
		return c
	}
	return a.at - b.at
}
