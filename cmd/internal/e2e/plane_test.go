package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/fleet/control"
	"github.com/llmgw/llmgw/fleet/controlplane"
	"github.com/llmgw/llmgw/storage/sqlite"
)

// runPlane is a control plane as a process: package controlplane on SQLite, which
// gives the orders that the test asks for. Its arguments are the directory of its
// store, where agents dial, and where the test asks.
func runPlane(args []string) int {
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	if err := servePlane(args[0], args[1], args[2], log); err != nil {
		log.Error("control plane", "err", err)
		return 1
	}
	return 0
}

func servePlane(dir, agents, orders string, log *slog.Logger) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	storeCfg := sqlite.DefaultConfig()
	storeCfg.Path = filepath.Join(dir, "plane.db")
	store, err := sqlite.New(storeCfg, sqlite.Deps{Logger: log})
	if err != nil {
		return err
	}
	cfg := controlplane.DefaultConfig()
	c := &cfg.Control
	c.Heartbeat, c.UnreachableAfter, c.Tick = 200*time.Millisecond, 2*time.Second, 200*time.Millisecond
	c.CommandRetry, c.JournalInterval = 300*time.Millisecond, 200*time.Millisecond
	plane, err := controlplane.New(cfg, controlplane.Deps{Store: store, Holder: "e2e", Logger: log})
	if err != nil {
		return err
	}
	path, handler := plane.Handler()
	mux := http.NewServeMux()
	mux.Handle(path, handler)
	forAgents := &http.Server{Addr: agents, Handler: mux, ReadHeaderTimeout: time.Minute}
	control.Configure(forAgents)
	forTest := &http.Server{Addr: orders, Handler: ordersHandler(plane.Control()), ReadHeaderTimeout: time.Minute}
	var wg sync.WaitGroup
	ended := make(chan error, 4)
	for _, run := range []func() error{
		forAgents.ListenAndServe, forTest.ListenAndServe,
		func() error { return store.Run(ctx) }, func() error { return plane.Run(ctx) },
	} {
		wg.Go(func() {
			if err := run(); err != nil && !errors.Is(err, http.ErrServerClosed) {
				ended <- err
			}
		})
	}
	select {
	case <-ctx.Done():
	case err = <-ended:
		stop()
	}
	_ = forTest.Close()
	// Streams are ended by the plane, which says why, and then the connections.
	within, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = forAgents.Shutdown(within)
	_ = forAgents.Close()
	wg.Wait()
	return err
}

// order is what the test asks a control plane to order.
type order struct {
	Node  string
	Start *engines.ShardSpec `json:",omitempty"`
	Stop  *control.Stop      `json:",omitempty"`
	// Drain is the shard that is to get no more requests, of the generation.
	Drain      *engines.ShardID `json:",omitempty"`
	Generation uint64           `json:",omitempty"`
}

// outcome is what became of an order.
type outcome struct {
	Already bool
	Status  *engines.ShardStatus
	// Err is why it was not done. Again: it may be ordered again as it is.
	Err   string
	Again bool
}

// view is what a test sees of a node.
type view struct {
	ID, State, Goodbye, Address, Instance, Run, Boot string
	Connected                                        bool
	Skew                                             time.Duration
	Inventory                                        *engines.Inventory
	Reading                                          engines.NodeState
	Engines                                          []control.EngineOffer
	Shards                                           []engines.ShardStatus
	Strangers                                        int
}

func ordersHandler(p *control.Plane) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /order", func(w http.ResponseWriter, r *http.Request) {
		var o order
		if err := json.NewDecoder(r.Body).Decode(&o); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		var answer control.Answer
		var err error
		switch {
		case o.Start != nil:
			answer, err = p.Start(r.Context(), o.Node, *o.Start)
		case o.Stop != nil:
			answer, err = p.Stop(r.Context(), o.Node, *o.Stop)
		default:
			answer, err = p.Drain(r.Context(), o.Node, *o.Drain, o.Generation)
		}
		out := outcome{Already: answer.Already, Status: answer.Status}
		if err != nil {
			out.Err = err.Error()
			refused, _ := errors.AsType[*control.RefusedError](err)
			out.Again = refused != nil && refused.Again || errors.Is(err, control.ErrNotConnected) ||
				errors.Is(err, control.ErrNotLeader) || errors.Is(err, control.ErrUnanswered)
		}
		_ = json.NewEncoder(w).Encode(out)
	})
	mux.HandleFunc("GET /nodes", func(w http.ResponseWriter, _ *http.Request) {
		out := []view{}
		for _, n := range p.Nodes() {
			skew, _ := n.Skew.Get()
			out = append(out, view{
				ID: n.ID, State: n.State.String(), Goodbye: n.Goodbye, Address: n.Address, Instance: n.Instance, Run: n.Run, Boot: n.Boot,
				Connected: n.Connected, Skew: skew, Inventory: n.Inventory, Reading: n.Reading, Engines: n.Engines, Shards: n.Shards,
				Strangers: len(n.Strangers),
			})
		}
		_ = json.NewEncoder(w).Encode(out)
	})
	return mux
}

// plane is a control plane under test.
type plane struct {
	*program
	agents string // where agents dial, host:port
	orders string // URL
	client *http.Client
}

// plane makes a control plane of the world and starts it.
func (w *world) plane() *plane {
	w.t.Helper()
	return w.planeAt("127.0.0.1")
}

// planeAt is plane where agents dial another address of this machine.
func (w *world) planeAt(host string) *plane {
	w.t.Helper()
	agents, orders := fmt.Sprintf("%s:%d", host, freePort(w.t)), fmt.Sprintf("127.0.0.1:%d", freePort(w.t))
	p := &plane{
		program: w.program("plane", os.Args[0], actPlane, w.dir, agents, orders),
		agents:  agents, orders: "http://" + orders, client: &http.Client{Timeout: 10 * time.Second},
	}
	w.t.Cleanup(p.client.CloseIdleConnections)
	p.start()
	return p
}

// ask asks the control plane, which may be dead at this moment.
func (p *plane) ask(path string, question, answer any) error {
	method, body := http.MethodGet, []byte(nil)
	if question != nil {
		method = http.MethodPost
		var err error
		if body, err = json.Marshal(question); err != nil {
			return err
		}
	}
	req, err := http.NewRequest(method, p.orders+path, bytes.NewReader(body)) //nolint:noctx // the client has a timeout
	if err != nil {
		return err
	}
	req.Close = true // the next one may be another process
	resp, err := p.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", resp.Status, data)
	}
	if err != nil {
		return err
	}
	return json.Unmarshal(data, answer)
}

// order orders until the order is answered, as who wants something for good does:
// whatever was killed meanwhile, the same order is given again.
func (p *plane) order(o order) outcome {
	p.t.Helper()
	var last outcome
	eventually(p.t, func() string {
		last = outcome{}
		if err := p.ask("/order", o, &last); err != nil {
			return err.Error()
		}
		if last.Again {
			return last.Err
		}
		return ""
	})
	return last
}

// done is order for what is not refused.
func (p *plane) done(o order) outcome {
	p.t.Helper()
	out := p.order(o)
	if out.Err != "" {
		p.t.Errorf("order %+v: %s", o, out.Err)
	}
	return out
}

// node returns what the control plane knows of a node; false: it does not answer,
// or has no such node.
func (p *plane) node(id string) (view, bool) {
	var all []view
	if err := p.ask("/nodes", nil, &all); err != nil {
		return view{}, false
	}
	for _, n := range all {
		if n.ID == id {
			return n, true
		}
	}
	return view{}, false
}

// awaitNode waits until the node is there and so.
func (p *plane) awaitNode(id, what string, so func(view) bool) view {
	p.t.Helper()
	var last view
	eventually(p.t, func() string {
		n, there := p.node(id)
		if !there {
			return fmt.Sprintf("node %s is not known", id)
		}
		if last = n; so(n) {
			return ""
		}
		return fmt.Sprintf("node %s is not %s; it is %+v", id, what, n)
	})
	return last
}

// shard returns the status of a shard that a control plane with a connected node
// knows.
func (n view) shard(replica string, generation uint64) engines.ShardStatus {
	for _, s := range n.Shards {
		if s.ID.Replica == replica && s.Generation == generation {
			return s
		}
	}
	return engines.ShardStatus{}
}

// awaitShard waits until a shard is in a state, by a node that is connected.
func (p *plane) awaitShard(node, replica string, generation uint64, states ...engines.ShardState) engines.ShardStatus {
	p.t.Helper()
	n := p.awaitNode(node, fmt.Sprintf("connected with %s of generation %d in %v", replica, generation, states), func(n view) bool {
		if !n.Connected {
			return false
		}
		now := n.shard(replica, generation)
		if now.State == engines.ShardFailed && !slices.Contains(states, engines.ShardFailed) {
			p.t.Fatalf("%s failed: %s; %s; %q", now.ID, now.Reason, now.Advice, now.Lines)
		}
		return slices.Contains(states, now.State)
	})
	return n.shard(replica, generation)
}

// taken are ports that freeAddress has given out.
var taken sync.Map

// freePort returns a port that nobody uses, of those that no outgoing connection
// gets: a program that is away must find its port free when it comes back.
func freePort(t *testing.T) int {
	t.Helper()
	for range 1000 {
		port := 10000 + rand.IntN(9000)
		if _, twice := taken.LoadOrStore(port, true); twice {
			continue
		}
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port)) //nolint:noctx // closed at once
		if err != nil {
			continue
		}
		_ = l.Close()
		return port
	}
	t.Fatal("there is no free port")
	return 0
}
