package controlplane_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/engines/sim/simtest"
	"github.com/llmgw/llmgw/fleet/apipb"
	"github.com/llmgw/llmgw/fleet/controlplane"
	"github.com/llmgw/llmgw/fleet/fleetpb"
	"github.com/llmgw/llmgw/fleet/fleettest"
	"github.com/llmgw/llmgw/fleet/internal/convert"
	"github.com/llmgw/llmgw/placement/catalog"
	"github.com/llmgw/llmgw/storage/weights"
	"github.com/llmgw/llmgw/storage/weights/weightstest"
)

const (
	gib = 1 << 30
	// vllmOf80 is 0.92 of 80 GiB, which vLLM takes of it by default.
	vllmOf80 = 79027398246
)

// factsOf are what the headers of a model of that many layers of Llama-3-8B's say.
func factsOf(t *testing.T, layers int) *fleetpb.WeightsFound {
	t.Helper()
	model := weightstest.Llama8B()
	model.Layers = layers
	dir := t.TempDir()
	if err := model.Write(filepath.Join(dir, "m.gguf")); err != nil {
		t.Fatal(err)
	}
	facts, err := weights.Read(os.DirFS(dir), "m.gguf")
	if err != nil {
		t.Fatal(err)
	}
	return &fleetpb.WeightsFound{
		State: fleetpb.WeightsState_WEIGHTS_STATE_PRESENT, Path: "/models/m.gguf", Files: 1, Bytes: new(uint64(facts.Bytes())), Facts: convert.WeightsToWire(&facts),
	}
}

// there is an answer of a node's own that says the same.
func there(f *fleetpb.WeightsFound, shared string) *fleetpb.WeightsFound {
	return &fleetpb.WeightsFound{State: f.GetState(), Path: f.GetPath(), Files: f.GetFiles(), Bytes: f.Bytes, Facts: f.GetFacts(), Shared: shared}
}

// shelf are fake agents of one card of 80 GiB and one of 16 GiB each, in pairs on
// fabrics, which find weights.
func shelf(t *testing.T, network *simtest.Network, nodes int, find func(node string, wanted *fleetpb.WeightsWanted) *fleetpb.WeightsFound,
	used func(node, card string) uint64,
) *fleettest.Fleet {
	t.Helper()
	cards := map[string]uint64{"Large": 80 * gib, "Small": 16 * gib}
	inventory := func(node string) *engines.Inventory {
		var number int
		if _, err := fmt.Sscanf(node, "node-%d", &number); err != nil {
			t.Error(err)
		}
		fabric := fmt.Sprintf("fabric-%d", (number-1)/2)
		inv := &engines.Inventory{Fabrics: []engines.Fabric{{Name: fabric}}}
		inv.State.Fabrics = []engines.FabricState{{Name: fabric, Verdict: engines.Confirmed}}
		for i, class := range []string{"Large", "Small"} {
			inv.GPUs = append(inv.GPUs, engines.GPU{Index: i, UUID: class + "-" + node, Name: class, Vendor: engines.SimulatedCard, MemoryBytes: engines.Known(cards[class])})
			inv.State.GPUs = append(inv.State.GPUs, engines.GPUState{
				GPU: class + "-" + node, MemoryUsedBytes: engines.Known[uint64](0), MemoryFreeBytes: engines.Known(cards[class]), Health: engines.Health{State: engines.Healthy},
			})
		}
		return inv
	}
	cfg := fleettest.Config{
		URL: "http://cp:7443", Nodes: nodes, LoadTime: time.Second, StopTime: time.Second, Inventory: inventory, Weights: find,
		Engines: []engines.Name{engines.Sim, engines.LlamaCPP, engines.VLLM},
		Client:  func(string) *http.Client { return fleettest.PlainClient(network.Dial) },
	}
	if used != nil {
		cfg.State = func(node string, _ uint64) engines.NodeState {
			state := inventory(node).State
			for i := range state.GPUs {
				g := &state.GPUs[i]
				bytes := used(node, g.GPU)
				g.MemoryUsedBytes, g.MemoryFreeBytes = engines.Known(bytes), engines.Known(g.MemoryFreeBytes.Or(0)-bytes)
			}
			return state
		}
	}
	f, err := fleettest.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { defer close(done); f.Run(t.Context()) }()
	t.Cleanup(func() { <-done })
	return f
}

func loads(name, source string, engine engines.Name, count int) catalog.Model {
	return catalog.Model{
		Name: name, Source: source, Profile: &engines.Profile{Engine: engine, ContextTokens: 8192, MaxRunning: 1},
		Scaling: &catalog.Scaling{Min: count, Max: max(count, 1)},
	}
}

// class is what is planned with on a class of cards.
func class(t *testing.T, m *apipb.MemoryNeed, name string) *apipb.ClassMemory {
	t.Helper()
	i := slices.IndexFunc(m.GetClasses(), func(c *apipb.ClassMemory) bool { return c.GetClass() == name })
	if i < 0 {
		t.Fatalf("nothing is said of %s in %v", name, m)
	}
	return m.GetClasses()[i]
}

// What models need is estimated from what agents read of their weights, for each
// class of cards, and shown with its parts; what is not known says so.
func TestNeedIsEstimated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var network simtest.Network
		r := newRouters(t, loads("llama", "/models/8b", engines.LlamaCPP, 0), loads("part", "/models/8b", engines.VLLM, 0),
			loads("odd", "/models/odd", engines.LlamaCPP, 0), loads("url", "https://models.example/m.gguf", engines.LlamaCPP, 0),
			loads("bare", "some/name", engines.VLLM, 0))
		p := planeOf(t, &network, newMemory(), r)
		about := p.Placement(controlplane.About{})
		seen := factsOf(t, 32)
		shelf(t, &network, 3, func(node string, w *fleetpb.WeightsWanted) *fleetpb.WeightsFound {
			switch {
			case w.GetSource() == "/models/8b" && node == "node-2":
				return there(seen, "")
			case w.GetSource() == "/models/odd" && node == "node-1":
				return &fleetpb.WeightsFound{State: fleetpb.WeightsState_WEIGHTS_STATE_UNREADABLE, Reason: "the file lies"}
			}
			return &fleetpb.WeightsFound{State: fleetpb.WeightsState_WEIGHTS_STATE_ABSENT}
		}, nil)
		memory := func(model string) (*apipb.ReplicaNeed, *apipb.MemoryNeed) {
			need := ask(t, about.ExplainPlacement, &apipb.ExplainPlacementRequest{Model: model}).GetNeed()
			return need, need.GetMemory()
		}
		until(t, "the catalog is known", func() bool { _, known := p.Placing().View().Model("llama"); return known })
		until(t, "the weights are seen", func() bool { _, m := memory("llama"); return m.GetWeights() != nil && !m.GetLooking() })
		time.Sleep(time.Second)

		need, m := memory("llama")
		if m.GetSource() != apipb.MemorySource_MEMORY_SOURCE_ESTIMATED || m.GetWeights().GetNode() != "node-2" || m.GetWeights().GetNodes() != 1 || m.HostBytes == nil {
			t.Errorf("llama: %v", m)
		}
		large, small := class(t, m, "Large"), class(t, m, "Small")
		// Llama-3-8B at 16 bits: 13.98 GiB on the card, and 128 KiB for each of 8,192 tokens.
		if large.GetParts()[1].GetBytes() != gib || large.GetBytes() != large.GetNeedBytes() || large.GetBytes()/gib != 15 || large.GetBytes() != need.GetCardMemoryBytes() {
			t.Errorf("llama on Large: %v", large)
		}
		if small.GetNever() != "" || small.GetBytes() != large.GetBytes() {
			t.Errorf("llama on Small: %v; want that it just fits", small)
		}

		need, m = memory("part")
		large, small = class(t, m, "Large"), class(t, m, "Small")
		if got := large.GetBytes(); got != vllmOf80 || large.GetNeedBytes() >= got || need.CardMemoryBytes != nil {
			t.Errorf("part on Large: %v; want 0.92 of the card, whatever it needs", large)
		}
		if !strings.Contains(small.GetNever(), "of one of 16.0 GiB") {
			t.Errorf("part on Small: %v; want that it never fits", small)
		}
		// Of a name that no node has nothing is known, but that vLLM takes its part.
		if _, m = memory("bare"); m.GetWeights() != nil || class(t, m, "Large").GetBytes() != vllmOf80 || class(t, m, "Large").NeedBytes != nil ||
			!strings.Contains(m.GetWeightsMissing(), "3 without them") {
			t.Errorf("bare: %v", m)
		}
		for model, why := range map[string]string{"odd": "1 where they could not be read; on node-1: the file lies", "url": "is a URL"} {
			need, m := memory(model)
			if m.GetSource() != apipb.MemorySource_MEMORY_SOURCE_UNKNOWN || need.CardMemoryBytes != nil || class(t, m, "Large").Bytes != nil ||
				!strings.Contains(m.GetWeightsMissing(), why) || !strings.Contains(m.GetWhy(), "not zero: only cards are taken of which 90 % are free") {
				t.Errorf("%s: %v; want that nothing is known, and how it is placed then", model, m)
			}
		}

	})
}

// A model whose weights nobody has looked for yet is looked for when somebody wants
// to add it, and refused with a sentence if no card could hold it.
func TestFitsByEstimate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var network simtest.Network
		r := newRouters(t)
		p := planeOf(t, &network, newMemory(), r)
		found := map[string]*fleetpb.WeightsFound{"/models/8b": factsOf(t, 32), "/models/huge": factsOf(t, 32*14)}
		shelf(t, &network, 2, func(_ string, w *fleetpb.WeightsWanted) *fleetpb.WeightsFound {
			if f := found[w.GetSource()]; f != nil {
				return there(f, "")
			}
			if w.GetSource() == "/models/silent" {
				return nil
			}
			return &fleetpb.WeightsFound{State: fleetpb.WeightsState_WEIGHTS_STATE_ABSENT}
		}, nil)
		until(t, "two nodes are known", func() bool { return p.Placing().Snapshot().Cluster.Capacity().WholeFree == 2 })
		huge := loads("huge", "/models/huge", engines.LlamaCPP, 1)
		_, err := p.Fits(t.Context(), &huge)
		if err == nil || !strings.HasPrefix(err.Error(), "profile: no node that is known could run it") || !strings.Contains(err.Error(), "; what it needs is estimated, ") ||
			!strings.Contains(err.Error(), "kv cache 14.0 GiB") {
			t.Errorf("huge: %v", err)
		}
		huge.Profile.Engine = engines.VLLM
		if _, err := p.Fits(t.Context(), &huge); err == nil || !strings.Contains(err.Error(), "can never hold it (vllm needs") {
			t.Errorf("huge by vllm: %v", err)
		}
		huge.Placement = &catalog.Placement{CardMemoryBytes: gib}
		for _, m := range []catalog.Model{huge, loads("8b", "/models/8b", engines.LlamaCPP, 1), loads("none", "/models/none", engines.LlamaCPP, 1)} {
			if said, err := p.Fits(t.Context(), &m); err != nil || len(said) != 0 {
				t.Errorf("%s: %q, %v; want it to fit", m.Name, said, err)
			}
		}
		// Nodes that do not answer hold nobody up for long.
		began := time.Now()
		silent := loads("silent", "/models/silent", engines.LlamaCPP, 1)
		if said, err := p.Fits(t.Context(), &silent); err != nil || len(said) != 0 || time.Since(began) > 4*time.Second {
			t.Errorf("silent: %q, %v after %v", said, err, time.Since(began))
		}
	})
}

// A model is placed where its weights are, once nodes have said so: on a local disc,
// or in the fabric of a shared filesystem, which counts once.
func TestPlacedWhereWeightsAre(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var network simtest.Network
		r := newRouters(t)
		p := planeOf(t, &network, newMemory(), r)
		about := p.Placement(controlplane.About{})
		facts := factsOf(t, 1)
		shelf(t, &network, 4, func(node string, w *fleetpb.WeightsWanted) *fleetpb.WeightsFound {
			shared := ""
			switch {
			case w.GetSource() == "/models/local" && node == "node-3":
			case w.GetSource() == "/models/filer" && (node == "node-1" || node == "node-2"):
				shared = "nfs filer:/models/filer"
			default:
				return &fleetpb.WeightsFound{State: fleetpb.WeightsState_WEIGHTS_STATE_PARTIAL, Reason: "half of it"}
			}
			return there(facts, shared)
		}, nil)
		until(t, "four nodes are known", func() bool { return p.Placing().Snapshot().Cluster.Capacity().WholeFree == 4 })
		r.want(t, loads("local", "/models/local", engines.Sim, 1), loads("filer", "/models/filer", engines.Sim, 0))
		until(t, "it serves", func() bool { return len(r.serving("local")) == 1 })
		if on := p.Placing().View().Replicas[0].Shards[0].Node; on != "node-3" {
			t.Errorf("local is on %s; want the one node that has its weights", on)
		}
		status := ask(t, about.GetStatus, &apipb.GetStatusRequest{})
		want := map[string][]*apipb.FabricWeights{"fabric-0": {{Model: "filer", Filers: 1}}, "fabric-1": {{Model: "local", Nodes: 1}}}
		for _, f := range status.GetFabrics() {
			if diff := cmp.Diff(want[f.GetFabric()], f.GetWeights(), protocmp.Transform()); diff != "" {
				t.Errorf("%s (-want +got):\n%s", f.GetFabric(), diff)
			}
		}
	})
}

// What cards of ready replicas were seen to use is learned, for the class and the
// profile that it was seen of, counts before an estimate, and stands beside it.
func TestPeakIsLearned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var network simtest.Network
		one := loads("one", "/models/8b", engines.Sim, 1)
		one.Placement = &catalog.Placement{Classes: []string{"Large"}}
		r := newRouters(t, one)
		store := newMemory()
		p := planeOf(t, &network, store, r)
		about := p.Placement(controlplane.About{})
		var busy atomic.Uint64
		shelf(t, &network, 1, nil, func(_, card string) uint64 {
			if strings.HasPrefix(card, "Large") {
				return busy.Load()
			}
			return 0
		})
		memory := func() *apipb.MemoryNeed {
			return ask(t, about.ExplainPlacement, &apipb.ExplainPlacementRequest{Model: "one"}).GetNeed().GetMemory()
		}
		until(t, "it serves", func() bool { return len(r.serving("one")) == 1 })
		busy.Store(20 * gib)
		if m := memory(); m.GetSource() != apipb.MemorySource_MEMORY_SOURCE_UNKNOWN || !strings.Contains(m.GetWeightsMissing(), "no node looks for weights") {
			t.Errorf("at first: %v", m)
		}
		until(t, "its peak is learned", func() bool { return memory().GetSource() == apipb.MemorySource_MEMORY_SOURCE_LEARNED })
		busy.Store(21 * gib)
		until(t, "it grows", func() bool { return class(t, memory(), "Large").GetPeakBytes() == 21*gib })
		busy.Store(5 * gib)
		time.Sleep(time.Minute)
		m := memory()
		if c := class(t, m, "Large"); c.GetBytes() != 21*gib || c.GetPeakBytes() != 21*gib || c.EstimateBytes != nil || c.GetSource() != apipb.MemorySource_MEMORY_SOURCE_LEARNED {
			t.Errorf("%v; want the most that was seen", m)
		}
		if need := ask(t, about.ExplainPlacement, &apipb.ExplainPlacementRequest{Model: "one"}).GetNeed(); need.GetCardMemoryBytes() != 21*gib {
			t.Errorf("one more needs %v", need)
		}
		// Of another profile nothing was seen.
		other := one
		other.Profile = &engines.Profile{Engine: engines.Sim, MaxRunning: 7}
		other.Scaling = &catalog.Scaling{Min: 0, Max: 1}
		r.want(t, other)
		until(t, "another profile is not known", func() bool { return memory().GetSource() == apipb.MemorySource_MEMORY_SOURCE_UNKNOWN })
	})
}
