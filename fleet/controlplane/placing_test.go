package controlplane_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/engines/sim/simtest"
	"github.com/llmgw/llmgw/fleet/apipb"
	"github.com/llmgw/llmgw/fleet/controlplane"
	"github.com/llmgw/llmgw/fleet/feed"
	"github.com/llmgw/llmgw/fleet/fleettest"
	"github.com/llmgw/llmgw/placement/catalog"
	"github.com/llmgw/llmgw/placement/reconcile"
)

// routers are a router of a fleet that follows the feed of whichever plane there
// is, and has nothing to do; and what is wanted.
type routers struct {
	mu       sync.Mutex
	cat      *catalog.Catalog
	from     *feed.Publisher
	entries  []feed.Entry
	has      []feed.Report // what it says of its use
	statuses []feed.ModelStatus
	demand   []feed.Demand
	follower *feed.Follower
	catalogC chan struct{}
}

func newRouters(t *testing.T, models ...catalog.Model) *routers {
	t.Helper()
	r := &routers{catalogC: make(chan struct{}, 1)}
	r.want(t, models...)
	cfg := feed.DefaultConfig()
	cfg.Router = "r1"
	f, err := feed.New(cfg, feed.Deps{Sources: []feed.Source{r}, Reporter: r})
	if err != nil {
		t.Fatal(err)
	}
	r.follower = f
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := f.Run(ctx); err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	wg.Go(func() {
		for {
			s, changed := f.State()
			r.mu.Lock()
			r.entries, r.statuses = s.Entries, s.Statuses
			r.mu.Unlock()
			f.Applied(s.Version)
			select {
			case <-ctx.Done():
				return
			case <-changed:
			}
		}
	})
	t.Cleanup(func() { cancel(); wg.Wait() })
	return r
}

// Name implements [feed.Source].
func (r *routers) Name() string { return "the plane" }

// Open implements [feed.Source].
func (r *routers) Open(ctx context.Context, req *apipb.WatchFeedRequest) (feed.Stream, error) {
	r.mu.Lock()
	from := r.from
	r.mu.Unlock()
	if from == nil {
		return nil, errors.New("there is no plane")
	}
	return from.Local().Open(ctx, req)
}

// Reports implements [feed.Reporter].
func (r *routers) Reports() []feed.Report {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.has
}

// Demand implements [feed.DemandReporter].
func (r *routers) Demand() []feed.Demand {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.demand
}

// asks has the router say what it is asked for, at once.
func (r *routers) asks(demand ...feed.Demand) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.demand = demand
	r.follower.Hurry()
}

// stands is how a model stands, as the router was told.
func (r *routers) stands(model string) feed.ModelStatus {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.statuses {
		if s.Model == model {
			return s
		}
	}
	return feed.ModelStatus{}
}

// use has the router say what it has at replicas.
func (r *routers) use(reports ...feed.Report) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.has = reports
}

func (r *routers) want(t *testing.T, models ...catalog.Model) {
	t.Helper()
	cat, err := catalog.New(models)
	if err != nil {
		t.Fatal(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cat = cat
	select {
	case r.catalogC <- struct{}{}:
	default:
	}
}

// Catalog implements [reconcile.CatalogSource].
func (r *routers) Catalog() (*catalog.Catalog, []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.cat, nil
}

// C implements [reconcile.CatalogSource].
func (r *routers) C() <-chan struct{} { return r.catalogC }

// told is what the router may use, by the feed's last word.
func (r *routers) told() []feed.Entry {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.entries
}

func (r *routers) serving(model string) (addresses []string) {
	for _, e := range r.told() {
		if e.Model == model {
			addresses = append(addresses, e.Address)
		}
	}
	return addresses
}

// rack runs fake agents of eight cards, so many to a fabric.
func rack(t *testing.T, network *simtest.Network, n, perFabric int) *fleettest.Fleet {
	t.Helper()
	inventory := func(node string) *engines.Inventory {
		var number int
		if _, err := fmt.Sscanf(node, "node-%d", &number); err != nil {
			t.Error(err)
		}
		name := fmt.Sprintf("fabric-%d", (number-1)/perFabric)
		inv := &engines.Inventory{Fabrics: []engines.Fabric{{Name: name}}}
		inv.State.Fabrics = []engines.FabricState{{Name: name, Verdict: engines.Confirmed}}
		for i := range 8 {
			uuid := fmt.Sprintf("SIM-%s-%d", node, i)
			inv.GPUs = append(inv.GPUs, engines.GPU{Index: i, UUID: uuid, Name: "Simulated 80GB", Vendor: engines.SimulatedCard, MemoryBytes: engines.Known(uint64(80 << 30))})
			inv.State.GPUs = append(inv.State.GPUs, engines.GPUState{GPU: uuid, MemoryFreeBytes: engines.Known(uint64(80 << 30)), Health: engines.Health{State: engines.Healthy}})
		}
		return inv
	}
	f, err := fleettest.New(fleettest.Config{
		URL: "http://cp:7443", Nodes: n, LoadTime: 10 * time.Second, StopTime: time.Second, Inventory: inventory,
		Client: func(string) *http.Client { return fleettest.PlainClient(network.Dial) },
	})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { defer close(done); f.Run(t.Context()) }()
	t.Cleanup(func() { <-done })
	return f
}

func twoNodes(name string, count int) catalog.Model {
	return catalog.Model{
		Name: name, Source: "sim/" + name, Scaling: &catalog.Scaling{Min: count, Max: count},
		Profile: &engines.Profile{Engine: engines.Sim, Ranks: 2, TensorParallel: 16},
	}
}

func planeOf(t *testing.T, network *simtest.Network, store controlplane.Store, r *routers) *running {
	t.Helper()
	p := beginWith(t, network, controlplane.Deps{Store: store, Holder: "test", Catalog: r})
	r.mu.Lock()
	defer r.mu.Unlock()
	r.from = p.Feed()
	return p
}

// The reference cluster, over the agents' real protocol: four nodes of eight cards
// on two fabrics, a two-node replica on each, and a fifth and sixth node on a third.
// A node falls silent: lost after a minute, the replacement serves within twenty
// seconds more, on the fabric that holds all of it.
func TestReferenceCluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var network simtest.Network
		store, r := newMemory(), newRouters(t, twoNodes("big", 2))
		p := planeOf(t, &network, store, r)
		f := rack(t, &network, 6, 2)
		until(t, "two replicas serve", func() bool { return len(r.serving("big")) == 2 })
		if n := f.Starts(); n != 4 {
			t.Errorf("%d shards were started; want 4", n)
		}
		victim := p.Placing().View().Replicas[0]
		other := p.Placing().View().Replicas[1]
		died := time.Now()
		f.Agent(victim.Shards[1].Node).Silence(true)
		until(t, "it is out", func() bool { return len(r.serving("big")) == 1 })
		if took := time.Since(died); took < 55*time.Second || took > 70*time.Second {
			t.Errorf("it was lost after %v; want a minute from its last heartbeat", took)
		}
		until(t, "a replacement serves", func() bool { return len(r.serving("big")) == 2 })
		if took := time.Since(died); took > 85*time.Second {
			t.Errorf("the replacement serves after %v; want 80 s", took)
		}
		for _, v := range p.Placing().View().Replicas {
			if v.ID == other.ID && (v.Generation != other.Generation || v.Start != other.Start) {
				t.Errorf("the other replica was touched: %+v", v)
			}
		}
		starts := f.Starts()
		f.Agent(victim.Shards[1].Node).Silence(false)
		until(t, "what was lost is gone", func() bool { return len(p.Placing().View().Replicas) == 2 && len(store.replicas) == 2 })
		if n := f.Starts(); n != starts {
			t.Errorf("%d shards were started more", n-starts)
		}
	})
}

// A control plane is killed and started anew: what runs is adopted, what routers
// were told stands from its first word on, and nothing is started.
func TestAdopted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var network simtest.Network
		store, r := newMemory(), newRouters(t, twoNodes("big", 2))
		p := planeOf(t, &network, store, r)
		f := rack(t, &network, 4, 2)
		until(t, "two replicas serve", func() bool { return len(r.serving("big")) == 2 })
		before := r.told()
		time.Sleep(10 * time.Second)
		p.stop()
		time.Sleep(time.Minute)
		p = planeOf(t, &network, store, r)
		for range 300 {
			time.Sleep(100 * time.Millisecond)
			if now := r.told(); !slices.EqualFunc(before, now, func(a, b feed.Entry) bool {
				return a.Instance == b.Instance && a.Address == b.Address && a.Secret == b.Secret
			}) {
				t.Fatalf("routers were told %+v; want as before, %+v", now, before)
			}
		}
		if n := f.Starts(); n != 4 {
			t.Errorf("%d shards were started; want 4", n)
		}
		for _, v := range p.Placing().View().Replicas {
			if v.State != reconcile.Ready {
				t.Errorf("%s is %v: %s", v.ID, v.State, v.Reason)
			}
		}
	})
}

// A model that is wanted no more goes, and its rows with it.
func TestWantedNoMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var network simtest.Network
		store, r := newMemory(), newRouters(t, twoNodes("big", 1))
		p := planeOf(t, &network, store, r)
		rack(t, &network, 2, 2)
		until(t, "it serves", func() bool { return len(r.serving("big")) == 1 })
		r.want(t)
		until(t, "nothing is left", func() bool { return len(p.Placing().View().Replicas) == 0 && len(store.replicas) == 0 })
		if len(r.serving("big")) != 0 {
			t.Error("it is published")
		}
	})
}

// The store is restored from a backup of before anything ran, while a router has a
// request there: what runs is shown, ends when the request has, and what is wanted is
// placed in its stead.
func TestRowsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var network simtest.Network
		store, r := newMemory(), newRouters(t, twoNodes("big", 1))
		p := planeOf(t, &network, store, r)
		f := rack(t, &network, 2, 2)
		until(t, "it serves", func() bool { return len(r.serving("big")) == 1 })
		old := r.told()[0]
		r.use(feed.Report{Instance: old.Instance, InFlight: 1, LastByte: engines.Known(time.Duration(0))})
		time.Sleep(10 * time.Second)
		p.stop()
		clear(store.replicas)
		p = planeOf(t, &network, store, r)
		about := p.Placement(controlplane.About{})
		time.Sleep(5 * time.Minute)
		strays := ask(t, about.GetStatus, &apipb.GetStatusRequest{}).GetStrays()
		if len(strays) != 2 || strays[0].GetHeld() != "routers have requests there" || strays[0].GetStatus().GetReplica() != old.Replica ||
			len(strays[0].GetStatus().GetCards()) != 8 || strays[0].GetNode() == strays[1].GetNode() {
			t.Errorf("strays: %v", strays)
		}
		if n := f.Starts(); n != 2 || len(r.serving("big")) != 0 {
			t.Errorf("%d shards were started, and %v are told of", n, r.serving("big"))
		}
		r.use()
		until(t, "another one serves", func() bool { return len(r.serving("big")) == 1 && r.told()[0].Instance != old.Instance })
		if strays := ask(t, about.GetStatus, &apipb.GetStatusRequest{}).GetStrays(); len(strays) != 0 || f.Starts() != 4 {
			t.Errorf("%d starts, and left are %v", f.Starts(), strays)
		}
	})
}

// A model on demand sleeps until a router says that somebody asks for it, is loaded once,
// and goes back to sleep; routers are told all the way.
func TestWokenByRouters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var network simtest.Network
		sleeper, off := twoNodes("sleeper", 0), twoNodes("off", 0)
		sleeper.Scaling = &catalog.Scaling{Max: 1, IdleTimeout: time.Minute}
		store, r := newMemory(), newRouters(t, sleeper, off)
		p := planeOf(t, &network, store, r)
		f := rack(t, &network, 2, 2)
		time.Sleep(time.Minute)
		if a, b := r.stands("sleeper").State, r.stands("off").State; a != feed.ModelAsleep || b != feed.ModelOff || f.Starts() != 0 {
			t.Fatalf("%v and %v after %d starts", a, b, f.Starts())
		}
		asked := time.Now()
		r.asks(feed.Demand{Model: "sleeper", Waiting: 100, Asked: engines.Known(time.Duration(0))}, feed.Demand{Model: "off", Waiting: 1, Asked: engines.Known(time.Duration(0))})
		until(t, "it loads", func() bool { return r.stands("sleeper").State == feed.ModelLoading })
		if took := time.Since(asked); took > 2*time.Second {
			t.Errorf("it loads after %v", took)
		}
		until(t, "it serves", func() bool { return r.stands("sleeper").State == feed.ModelServing && len(r.serving("sleeper")) == 1 })
		if took := time.Since(asked); took > 15*time.Second || f.Starts() != 2 {
			t.Errorf("it serves after %v, and %d shards were started; want one load, of 10 s", took, f.Starts())
		}
		// It was used, and then no more.
		served := time.Now()
		entry := r.told()[0]
		r.use(feed.Report{Instance: entry.Instance, LastByte: engines.Known(time.Duration(0))})
		r.asks(feed.Demand{Model: "sleeper", Asked: engines.Known(time.Duration(0))})
		time.Sleep(10 * time.Second)
		r.use(feed.Report{Instance: entry.Instance})
		r.asks()
		until(t, "it sleeps", func() bool {
			return r.stands("sleeper").State == feed.ModelAsleep && len(p.Placing().View().Replicas) == 0
		})
		if took := time.Since(served); took < time.Minute || took > 90*time.Second {
			t.Errorf("it sleeps %v after it was used; want a minute and some seconds", took)
		}
		if s := r.stands("sleeper"); s.Ready.Or(0) < 9*time.Second || s.Ready.Or(0) > 15*time.Second {
			t.Errorf("it should take %v; it took 10 s before", s.Ready)
		}
	})
}

// Of a row that another version of the program wrote, and that cannot be read whole,
// the shards are known: what runs is neither lost nor started twice, and is replaced
// by one of which everything is known.
func TestRowThatCannotBeRead(t *testing.T) {
	for _, detail := range []string{`{"profile":5}`, `[]`, `{"profile":{"Engine":["sim"]},"secret":7}`} {
		synctest.Test(t, func(t *testing.T) {
			var network simtest.Network
			store, r := newMemory(), newRouters(t, twoNodes("big", 1))
			p := planeOf(t, &network, store, r)
			f := rack(t, &network, 4, 2)
			until(t, "it serves", func() bool { return len(r.serving("big")) == 1 })
			old := r.told()[0]
			time.Sleep(10 * time.Second)
			p.stop()
			for id, row := range store.replicas {
				row.Detail = []byte(detail)
				store.replicas[id] = row
			}
			p = planeOf(t, &network, store, r)
			until(t, "another one serves", func() bool {
				return len(r.serving("big")) == 1 && r.told()[0].Replica != old.Replica && len(p.Placing().View().Replicas) == 1
			})
			if now := r.told()[0]; now.Secret == "" || now.Engine != engines.Sim || f.Starts() != 4 {
				t.Errorf("%d starts, and told is %+v", f.Starts(), now)
			}
		})
	}
}
