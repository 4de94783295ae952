package prefix

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// check returns what is wrong within the index, given all chains ever sent.
func (x *Index) check(chains []*Chain) error {
	t := &x.tree
	var bytes int64
	for first, i := range t.first {
		n := t.nodes.at(i)
		if len(n.label) == 0 || n.label[0] != first || len(n.holds) == 0 {
			return fmt.Errorf("node %d: %d hashes, %d holds", i, len(n.label), len(n.holds))
		}
		if !slices.IsSortedFunc(n.holds, func(a, b ref) int { return int(a.slot) - int(b.slot) }) {
			return fmt.Errorf("node %d: holds out of order", i)
		}
		bytes += nodeBytes + labelBytes(len(n.label)) + int64(cap(n.holds))*refBytes
		for _, r := range n.holds {
			h := t.holds.at(r.hold)
			bytes += holdBytes
			if h.node != i || h.slot != r.slot || h.chunks < 1 || int(h.chunks) > len(n.label) || h.seen < 1 {
				return fmt.Errorf("node %d of %d: hold %+v", i, len(n.label), *h)
			}
		}
	}
	all := 0
	for slot, e := range x.es.all {
		if e.ghosts != nil {
			bytes += ghostBytes
		}
		var chunks int64
		last := uint64(1<<64 - 1)
		newer := int32(0)
		for j := e.oldest.newest; j != 0; j = t.holds.at(j).links[byEndpoint].older {
			h := t.holds.at(j)
			if int(h.slot) != slot || h.links[byEndpoint].newer != newer || h.stamp > last {
				return fmt.Errorf("endpoint %d: hold %d: %+v after stamp %d", slot, j, *h, last)
			}
			newer, last = j, h.stamp
			chunks += int64(h.chunks)
			all++
		}
		if chunks != e.chunks || newer != e.oldest.oldest {
			return fmt.Errorf("endpoint %d: %d chunks, counted %d; oldest %d, counted %d", slot, chunks, e.chunks, newer, e.oldest.oldest)
		}
		if e.life != 0 && e.chunks > e.capacityChunks() {
			return fmt.Errorf("endpoint %d: %d chunks, room for %d", slot, e.chunks, e.capacityChunks())
		}
		for _, c := range chains {
			if err := x.checkClosed(uint32(slot), c); err != nil {
				return err
			}
		}
	}
	newer := int32(0)
	for j := t.oldest.newest; j != 0; j = t.holds.at(j).links[byAll].older {
		if t.holds.at(j).links[byAll].newer != newer {
			return fmt.Errorf("hold %d: list of all is broken", j)
		}
		newer = j
		all--
	}
	if all != 0 || newer != t.oldest.oldest {
		return fmt.Errorf("%d holds more in lists of endpoints than in that of all", all)
	}
	if bytes != t.bytes {
		return fmt.Errorf("%d bytes counted, %d said", bytes, t.bytes)
	}
	return nil
}

// checkClosed: who holds a node holds all before it.
func (x *Index) checkClosed(slot uint32, c *Chain) error {
	whole := true
	for _, p := range x.tree.walk(nil, c) {
		n := x.tree.nodes.at(p.node)
		j := n.find(slot)
		if j != 0 && !whole {
			return fmt.Errorf("endpoint %d holds from chunk %d on, but not what is before", slot, n.start)
		}
		whole = j != 0 && int(x.tree.holds.at(j).chunks) == len(n.label)
	}
	return nil
}

// TestInvariants: whatever is sent, answered, failed, cleared and evicted, what is
// counted is what is there, and nobody holds an end without its beginning.
func TestInvariants(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		cfg := DefaultConfig()
		cfg.CapacityTokens = rapid.SampledFrom([]int64{1000, 5000, 1_000_000}).Draw(rt, "capacity")
		cfg.BytesPerToken = 1
		x, err := New(cfg, Deps{})
		if err != nil {
			rt.Fatal(err)
		}
		if rapid.Bool().Draw(rt, "small") {
			x.cfg.MaxBytes = 40_000 // below what an operator may set, so that it is met often
		}
		var ids []ID
		for range 3 {
			id, err := x.Add("m")
			if err != nil {
				rt.Fatal(err)
			}
			ids = append(ids, id)
		}
		type flight struct {
			sent  Sent
			chain *Chain
		}
		var flights []flight
		var chains []*Chain
		endpoint := rapid.Custom(func(rt *rapid.T) ID { return ids[rapid.IntRange(0, 2).Draw(rt, "endpoint")] })
		rt.Repeat(map[string]func(*rapid.T){
			"send": func(rt *rapid.T) {
				c := &Chain{}
				c.Reset(0)
				for _, l := range rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b"}), 0, 9).Draw(rt, "letters") {
					_, _ = c.WriteString(strings.Repeat(l, 110))
				}
				chains = append(chains, c)
				flights = append(flights, flight{x.Send(endpoint.Draw(rt, "to"), c), c})
			},
			"answer": func(rt *rapid.T) {
				if len(flights) == 0 {
					rt.Skip("nothing on its way")
				}
				i := rapid.IntRange(0, len(flights)-1).Draw(rt, "flight")
				f := flights[i]
				flights = slices.Delete(flights, i, i+1)
				if rapid.IntRange(0, 3).Draw(rt, "fails") == 0 {
					x.Failed(f.sent, f.chain)
					return
				}
				n := int64(f.chain.Bytes())
				x.Observe(f.sent, f.chain, Usage{
					PromptTokens: n, CachedTokens: rapid.Int64Range(0, n).Draw(rt, "cached"),
					CachedKnown: rapid.Bool().Draw(rt, "known"),
				})
			},
			"clear":   func(rt *rapid.T) { x.Clear(endpoint.Draw(rt, "clear")) },
			"evicted": func(rt *rapid.T) { x.Evicted(endpoint.Draw(rt, "of"), rapid.Int64Range(0, 2000).Draw(rt, "tokens")) },
			"told": func(rt *rapid.T) {
				x.SetCapacity(endpoint.Draw(rt, "of"), rapid.Int64Range(0, 5000).Draw(rt, "tokens"))
			},
			"renew": func(rt *rapid.T) {
				i := rapid.IntRange(0, 2).Draw(rt, "endpoint")
				x.Remove(ids[i])
				if ids[i], err = x.Add("m"); err != nil {
					rt.Fatal(err)
				}
			},
			"": func(rt *rapid.T) {
				if err := x.check(chains); err != nil {
					rt.Fatal(err)
				}
				if x.tree.bytes > x.cfg.MaxBytes {
					rt.Fatalf("%d bytes, want at most %d", x.tree.bytes, x.cfg.MaxBytes)
				}
			},
		})
	})
}
