package fleettest

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"time"
)

// Fleet is fake agents. Its methods may be called at the same time.
type Fleet struct {
	agents []*Agent
	byID   map[string]*Agent
}

// New returns a fleet, or what is wrong with cfg. It dials nothing: call Run.
func New(cfg Config) (*Fleet, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Inventory == nil {
		cfg.Inventory = defaultInventory
	}
	if cfg.Client == nil {
		cfg.Client = func(string) *http.Client { return PlainClient(nil) }
	}
	cfg.BackoffMin = cmp.Or(cfg.BackoffMin, 100*time.Millisecond)
	cfg.BackoffMax = max(cmp.Or(cfg.BackoffMax, 10*time.Second), cfg.BackoffMin)
	f := &Fleet{byID: make(map[string]*Agent, cfg.Nodes)}
	for i := range cfg.Nodes {
		id := fmt.Sprintf("node-%d", i+1)
		a := newAgent(id, &cfg, rand.New(rand.NewPCG(cfg.Seed, uint64(i)))) //nolint:gosec // faults, not secrets
		f.agents = append(f.agents, a)
		f.byID[id] = a
	}
	return f, nil
}

// PlainClient returns a client that speaks HTTP/2 without TLS and has its
// connections alone. Nil dials TCP.
func PlainClient(dial func(ctx context.Context, network, address string) (net.Conn, error)) *http.Client {
	t := &http.Transport{DialContext: dial, Protocols: new(http.Protocols)}
	t.Protocols.SetUnencryptedHTTP2(true)
	return &http.Client{Transport: t}
}

// Run runs all agents until ctx is done, and returns when all have ended. Call it
// once.
func (f *Fleet) Run(ctx context.Context) {
	var wg sync.WaitGroup
	for _, a := range f.agents {
		wg.Go(func() { a.run(ctx) })
	}
	wg.Wait()
}

// Agent returns the agent of a node, nil if there is none.
func (f *Fleet) Agent(node string) *Agent { return f.byID[node] }

// Agents returns all agents in the order of their numbers. The caller owns the
// slice.
func (f *Fleet) Agents() []*Agent { return append([]*Agent(nil), f.agents...) }

// Connected is how many agents have been welcomed on the stream that they have.
func (f *Fleet) Connected() int { return f.count(func(a *Agent) int { return b2i(a.Connected()) }) }

// Starts is how often a shard was started on any node.
func (f *Fleet) Starts() int { return f.count((*Agent).Starts) }

func (f *Fleet) count(of func(*Agent) int) (n int) {
	for _, a := range f.agents {
		n += of(a)
	}
	return n
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}
