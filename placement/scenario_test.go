package placement_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/placement"
)

// world is what the scenarios of testdata/scenarios act on. Its commands:
//
//	fleet               the nodes of the input alone, with nothing claimed
//	node                the nodes of the input, new or changed; see parseNode
//	remove ID
//	claim REPLICA model=M on=(NODE:CARD+CARD,…) [fabric=F] [apart=(M,…)]
//	                    [ports=N] [host=GIB]  of each shard
//	release REPLICA
//	place MODEL [WISH…] [claim]   prints the decision, and claims it; see parseWish
//	fits MODEL [WISH…]            whether an empty fleet could hold it
//	capacity
//	save, restore       a clone aside, and back to it
type world struct {
	t              *testing.T
	cluster, saved *placement.Cluster
}

func TestScenarios(t *testing.T) {
	datadriven.Walk(t, "testdata/scenarios", func(t *testing.T, path string) {
		w := &world{t: t, cluster: new(placement.Cluster)}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			w.t = t
			return w.run(d)
		})
	})
}

func (w *world) run(d *datadriven.TestData) string {
	kv, words := args(d)
	switch d.Cmd {
	case "fleet":
		w.cluster = placement.NewCluster(w.nodes(d.Input), nil)
	case "node":
		for _, n := range w.nodes(d.Input) {
			w.cluster.SetNode(n)
		}
	case "remove":
		w.cluster.RemoveNode(words[0])
	case "claim":
		w.cluster.Claim(w.claim(words[0], kv))
	case "release":
		w.cluster.Release(words[0])
	case "place":
		wish := w.parseWish(words[0], kv)
		decision := w.cluster.Place(wish)
		if decision.Placed && len(words) > 1 {
			w.cluster.Claim(wish.Claim(decision))
		}
		return decision.Explain()
	case "fits":
		if err := w.cluster.Fits(w.parseWish(words[0], kv)); err != nil {
			return err.Error() + "\n"
		}
		return "yes\n"
	case "capacity":
		return capacityText(w.cluster.Capacity())
	case "save":
		w.saved = w.cluster.Clone()
	case "restore":
		w.cluster = w.saved
	default:
		w.t.Fatalf("%s: unknown command %q", d.Pos, d.Cmd)
	}
	return ""
}

// args reads key=value arguments and the bare words.
func args(d *datadriven.TestData) (kv map[string][]string, words []string) {
	kv = make(map[string][]string)
	for _, a := range d.CmdArgs {
		if len(a.Vals) == 0 {
			words = append(words, a.Key)
			continue
		}
		kv[a.Key] = a.Vals
	}
	return kv, words
}

func (w *world) nodes(input string) []placement.Node {
	var out []placement.Node
	for line := range strings.Lines(input) {
		if fields := strings.Fields(line); len(fields) > 0 {
			out = append(out, w.parseNode(fields[0], fields[1:]))
		}
	}
	return out
}

// parseNode reads "ID key=value…" of a node that is ready, connected, and of
// which nothing else is known:
//
//	cards=8xH100:80+…   cards of a class, of so many GiB; "?" not known
//	bad=CARD:WHY,…      that may not be used
//	free=CARD:GIB,…     what is free of them, if not all; "?" not known
//	foreign=CARD:NAME:GIB,…
//	numa=N,N,…          by card
//	nvlink=CARD-CARD,…  pairs with NVLink; all others SYS; "all": all
//	fabric=NAME[:VERDICT],…  confirmed where nothing else is said
//	state=S, offline, cordon=WHY, drain=WHY, unread (its cards), unified
//	label.KEY=VALUE, engines=NAME[:WHY],…, cpu=NAME,…, ports=N
//	host=GIB[/GIB]      free, of all
//	holds=KEY, lacks=KEY, filer=KEY:ID
func (w *world) parseNode(id string, fields []string) placement.Node {
	n := placement.Node{ID: id, State: placement.Ready, Connected: true, Weights: make(map[string]placement.Holding), WeightsShared: make(map[string]string)}
	for _, field := range fields {
		key, value, _ := strings.Cut(field, "=")
		value = strings.ReplaceAll(value, "_", " ")
		switch key {
		case "cards":
			w.parseCards(&n, value)
		case "bad", "free", "foreign", "numa", "nvlink":
			w.amendCards(&n, key, value)
		case "fabric":
			for name := range strings.SplitSeq(value, ",") {
				name, verdict, found := strings.Cut(name, ":")
				f := placement.FabricMember{Name: name, Verdict: engines.Confirmed}
				if found {
					f.Verdict = engines.Verdict(verdict)
				}
				if f.Verdict == engines.Contradicted {
					f.Reason = "mlx5 0 is down"
				}
				n.Fabrics = append(n.Fabrics, f)
			}
		case "state":
			n.State = map[string]placement.NodeState{"unreachable": placement.Unreachable, "lost": placement.Lost}[value]
		case "offline":
			n.Connected = false
		case "cordon":
			n.Cordon, n.CordonReason = placement.Cordoned, value
		case "drain":
			n.Cordon, n.CordonReason = placement.Draining, value
		case "unread":
			n.CardsUnknown = true
		case "unified":
			n.Unified = true
		case "engines":
			n.Engines = make(map[engines.Name]string)
			for name := range strings.SplitSeq(value, ",") {
				name, why, _ := strings.Cut(name, ":")
				n.Engines[engines.Name(name)] = why
			}
		case "cpu":
			n.CPUFeatures = strings.Split(value, ",")
		case "ports":
			n.FreePorts = engines.Known(w.number(value))
		case "host":
			free, all, found := strings.Cut(value, "/")
			n.HostFreeBytes = w.gib(free)
			if found {
				n.HostBytes = w.gib(all)
			}
		case "holds":
			n.Weights[value] = placement.Holds
		case "lacks":
			n.Weights[value] = placement.Lacks
		case "filer":
			key, filer, _ := strings.Cut(value, ":")
			n.WeightsShared[key] = filer
		default:
			label, ok := strings.CutPrefix(key, "label.")
			if !ok {
				w.t.Fatalf("node %s: unknown field %q", id, field)
			}
			if n.Labels == nil {
				n.Labels = make(map[string]string)
			}
			n.Labels[label] = value
		}
	}
	return n
}

func (w *world) parseCards(n *placement.Node, value string) {
	for group := range strings.SplitSeq(value, "+") {
		class, memory, _ := strings.Cut(group, ":")
		count, class, _ := strings.Cut(class, "x")
		for range w.number(count) {
			at := len(n.Cards)
			n.Cards = append(n.Cards, placement.Card{
				ID: fmt.Sprintf("c%d", at), Index: at, Class: class, MemoryBytes: w.gib(memory), FreeBytes: w.gib(memory),
			})
		}
	}
}

func (w *world) amendCards(n *placement.Node, key, value string) {
	if key == "nvlink" {
		n.Links = make([][]string, len(n.Cards))
		for i := range n.Links {
			n.Links[i] = make([]string, len(n.Cards))
			for j := range n.Links[i] {
				n.Links[i][j] = "SYS"
				if value == "all" {
					n.Links[i][j] = "NV18"
				}
			}
		}
	}
	for at, item := range strings.Split(value, ",") {
		parts := strings.Split(item, ":")
		switch key {
		case "bad":
			n.Cards[w.number(parts[0])].Problem = parts[1]
		case "free":
			n.Cards[w.number(parts[0])].FreeBytes = w.gib(parts[1])
		case "foreign":
			card := &n.Cards[w.number(parts[0])]
			card.Foreign = append(card.Foreign, engines.GPUProcess{PID: 7, Name: parts[1], MemoryBytes: w.gib(parts[2])})
		case "numa":
			n.Cards[at].NUMA = engines.Known(w.number(item))
		case "nvlink":
			if a, b, pair := strings.Cut(item, "-"); pair {
				n.Links[w.number(a)][w.number(b)], n.Links[w.number(b)][w.number(a)] = "NV18", "NV18"
			}
		}
	}
}

// parseWish reads a wish for one replica, of one rank with one card unless
// something else is said:
//
//	replica=R, cards=(N,…) by rank, ports=N, host=GIB of each rank
//	bytes=GIB of each card, classes=(C,…), engine=E, cpu=(F,…)
//	weights=KEY, nodes=(ID,…), label.KEY=VALUE, spread=KEY, apart=(M,…)
func (w *world) parseWish(model string, kv map[string][]string) placement.Wish {
	wish := placement.Wish{Model: model, Replica: model + "-new", Need: placement.Need{Engine: engines.VLLM, Ranks: []placement.RankNeed{{Cards: 1}}}}
	if cards, ok := kv["cards"]; ok {
		wish.Need.Ranks = nil
		for _, n := range cards {
			wish.Need.Ranks = append(wish.Need.Ranks, placement.RankNeed{Cards: w.number(n)})
		}
	}
	for key, values := range kv {
		value := strings.ReplaceAll(values[0], "_", " ")
		switch key {
		case "cards":
		case "replica":
			wish.Replica = value
		case "ports":
			for i := range wish.Need.Ranks {
				wish.Need.Ranks[i].Ports = w.number(value)
			}
		case "host":
			for i := range wish.Need.Ranks {
				wish.Need.Ranks[i].HostBytes = w.gib(value).Or(0)
			}
		case "bytes":
			wish.Need.CardBytes = w.gib(value)
		case "classes":
			wish.Need.Classes = values
		case "engine":
			wish.Need.Engine = engines.Name(value)
		case "cpu":
			wish.Need.CPUFeatures = values
		case "weights":
			wish.WeightsKey = value
		case "nodes":
			wish.Nodes = values
		case "spread":
			wish.Spread = value
		case "apart":
			wish.Apart = values
		default:
			label, ok := strings.CutPrefix(key, "label.")
			if !ok {
				w.t.Fatalf("unknown argument %q", key)
			}
			if wish.Labels == nil {
				wish.Labels = make(map[string]string)
			}
			wish.Labels[label] = value
		}
	}
	return wish
}

func (w *world) claim(replica string, kv map[string][]string) placement.Claim {
	c := placement.Claim{Replica: replica, Model: kv["model"][0], Apart: kv["apart"]}
	if f := kv["fabric"]; f != nil {
		c.Fabric = f[0]
	}
	for _, on := range kv["on"] {
		node, cards, _ := strings.Cut(on, ":")
		shard := placement.ShardPlace{Node: node}
		if cards != "" {
			shard.Cards = strings.Split(cards, "+")
		}
		if p := kv["ports"]; p != nil {
			shard.Ports = w.number(p[0])
		}
		if h := kv["host"]; h != nil {
			shard.HostBytes = w.gib(h[0]).Or(0)
		}
		c.Shards = append(c.Shards, shard)
	}
	return c
}

func (w *world) number(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		w.t.Fatal(err)
	}
	return n
}

func (w *world) gib(text string) engines.Opt[uint64] {
	if text == "?" || text == "" {
		return engines.Opt[uint64]{}
	}
	return engines.Known(uint64(w.number(text)) << 30)
}

func capacityText(c placement.Capacity) string {
	var b strings.Builder
	fmt.Fprintf(&b, "whole nodes free: %d\n", c.WholeFree)
	for _, class := range c.Classes {
		fmt.Fprintf(&b, "%s: %d cards, %d unusable, %d taken, %d away, %d occupied, %d free\n",
			class.Class, class.Total, class.Unusable, class.Taken, class.Away, class.Occupied, class.Free)
	}
	for _, f := range c.Fabrics {
		fmt.Fprintf(&b, "fabric %s: %d members, %d contradicted, %d whole free\n", f.Fabric, f.Members, f.Contradicted, f.WholeFree)
	}
	return b.String()
}
