package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/fleet/fleetpb"
	"github.com/llmgw/llmgw/fleet/fleettest"
	"github.com/llmgw/llmgw/fleet/pki"
)

const (
	cluster = "bench"
	// shards are as many as a node has cards.
	shards = 8
)

// certificates are an authority's and what it issues.
type certificates struct {
	authority *pki.Authority
	roots     *x509.CertPool
}

func newCertificates() (*certificates, error) {
	authority, err := pki.NewAuthority(cluster, time.Now(), pki.DefaultAuthorityLifetime)
	if err != nil {
		return nil, err
	}
	c := &certificates{authority: authority, roots: x509.NewCertPool()}
	c.roots.AddCert(authority.Certificate())
	return c, nil
}

// files are the server's.
type files struct{ cert, key, ca string }

func (c *certificates) files(dir string) (files, error) {
	root, err1 := c.authority.Pair()
	pair, err2 := c.authority.Issue(time.Now(), pki.Request{Role: pki.RoleServer, ID: "server", Hosts: []string{"127.0.0.1"}, Lifetime: pki.DefaultLifetime})
	if err := errors.Join(err1, err2); err != nil {
		return files{}, err
	}
	f := files{cert: filepath.Join(dir, "server.crt"), key: filepath.Join(dir, "server.key"), ca: filepath.Join(dir, "ca.crt")}
	return f, errors.Join(os.WriteFile(f.cert, pair.Cert, 0o600), os.WriteFile(f.key, pair.Key, 0o600), os.WriteFile(f.ca, root.Cert, 0o600))
}

// node is how a node proves itself.
func (c *certificates) node(id string) (*tls.Config, error) {
	pair, err := c.authority.Issue(time.Now(), pki.Request{Role: pki.RoleNode, ID: id, Lifetime: pki.DefaultLifetime})
	if err != nil {
		return nil, err
	}
	cert, err := tls.X509KeyPair(pair.Cert, pair.Key)
	if err != nil {
		return nil, err
	}
	return &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: c.roots, Certificates: []tls.Certificate{cert}}, nil
}

// client has its connection alone. A nil dial is that of a zero net.Dialer.
func client(proof *tls.Config, dial func(ctx context.Context, network, address string) (net.Conn, error)) *http.Client {
	return &http.Client{Transport: &http.Transport{DialContext: dial, TLSClientConfig: proof, ForceAttemptHTTP2: true}}
}

// inventoryJSON is what is read of a machine with eight H100; a test holds it
// against what package hardware reads.
//
//go:embed h100x8.json
var inventoryJSON []byte

// hardware is that of every node.
func hardware() (*engines.Inventory, error) {
	var of engines.Inventory
	if err := json.Unmarshal(inventoryJSON, &of); err != nil {
		return nil, fmt.Errorf("h100x8.json: %w", err)
	}
	return &of, nil
}

// inventory is that of a node with such hardware.
func inventory(of *engines.Inventory) func(node string) *engines.Inventory {
	return func(node string) *engines.Inventory {
		inv := *of
		inv.Host.Hostname, inv.Host.BootID = node, node+"-boot"
		return &inv
	}
}

// working is how such hardware is while its cards work: no two heartbeats say the
// same of any of them.
func working(of *engines.Inventory) func(node string, sequence uint64) engines.NodeState {
	return func(_ string, sequence uint64) engines.NodeState {
		state := of.State
		state.MemoryAvailableBytes = engines.Known(state.MemoryAvailableBytes.Or(0) - sequence%512<<20)
		state.GPUs = slices.Clone(state.GPUs)
		for i := range state.GPUs {
			g, step := &state.GPUs[i], (sequence+uint64(i))%16
			used := 70<<30 + step<<20
			g.MemoryFreeBytes = engines.Known(g.MemoryFreeBytes.Or(0) + g.MemoryUsedBytes.Or(0) - used)
			g.MemoryUsedBytes = engines.Known(used)
			g.UtilizationRatio, g.TemperatureC = engines.Known(float64(80+step)/100), engines.Known(float64(60+step))
		}
		return state
	}
}

// running is a shard for each card, that has been ready for a while.
func running(node string) []engines.ShardStatus {
	since := time.Now().Add(-time.Hour)
	out := make([]engines.ShardStatus, shards)
	for i := range out {
		port := 20000 + i
		out[i] = engines.ShardStatus{
			ID: engines.ShardID{Replica: fmt.Sprintf("chat-%s-%d", node, i)}, Generation: 3, Revision: uint64(i + 1), State: engines.ShardReady,
			Since: since, Start: fmt.Sprintf("%s-%d", node, i), Command: "sha256:2c26b46b68ffc68ff99b453c1d304134", PID: 4000 + i,
			Address: fmt.Sprintf("%s:%d", node, port), Ports: map[string]int{engines.PortHTTP: port}, Running: new(3), Waiting: new(0),
		}
	}
	return out
}

// fleet is agents that run.
type fleet struct {
	*fleettest.Fleet

	cancel context.CancelFunc
	done   chan struct{}
}

// fleetOptions are what differs between fleets.
type fleetOptions struct {
	nodes int
	first time.Duration // over which the first connections are spread
	// backoff is the longest pause before a new connection; 0: the default.
	backoff time.Duration
	dial    func(node string) func(ctx context.Context, network, address string) (net.Conn, error)
	beat    func(node string, took time.Duration)
}

// startFleet starts agents of s.
func startFleet(ctx context.Context, s *server, certs *certificates, o fleetOptions) (*fleet, error) {
	has, err := hardware()
	if err != nil {
		return nil, err
	}
	proofs := make(map[string]*tls.Config, o.nodes)
	for i := range o.nodes {
		id := nodeID(i)
		if proofs[id], err = certs.node(id); err != nil {
			return nil, err
		}
	}
	agents, err := fleettest.New(fleettest.Config{
		URL: "https://" + s.agents, Nodes: o.nodes, Inventory: inventory(has), State: working(has), Shards: running, FirstDial: o.first, BackoffMax: o.backoff, Beat: o.beat,
		Client: func(node string) *http.Client {
			if o.dial == nil {
				return client(proofs[node], nil)
			}
			return client(proofs[node], o.dial(node))
		},
	})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	f := &fleet{Fleet: agents, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(f.done)
		agents.Run(ctx)
	}()
	return f, nil
}

// nodeID is the name that package fleettest gives the i-th agent.
func nodeID(i int) string { return fmt.Sprintf("node-%d", i+1) }

func (f *fleet) stop() {
	f.cancel()
	<-f.done
}

// orders are the commands that agents got, of any result.
func (f *fleet) orders() (n int) {
	for _, a := range f.Agents() {
		for r := range fleetpb.Result_name {
			n += a.Answers(fleetpb.Result(r))
		}
	}
	return n
}
