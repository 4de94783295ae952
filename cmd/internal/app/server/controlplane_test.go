package server

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	config "github.com/llmgw/llmgw/cmd/internal/config/server"
	"github.com/llmgw/llmgw/cmd/internal/storedsn"
	"github.com/llmgw/llmgw/fleet/api"
	"github.com/llmgw/llmgw/fleet/apipb"
	"github.com/llmgw/llmgw/fleet/fleettest"
	"github.com/llmgw/llmgw/fleet/pki"
	"github.com/llmgw/llmgw/storage/sqlite/sqlitetest"
)

// controlling runs a server that agents dial, and returns where it is.
func controlling(t *testing.T, cfg config.Config, log *locked) (at Addresses, stop func() error) {
	t.Helper()
	cfg.Store.DSN = storedsn.DSN("sqlite:" + sqlitetest.Database(t))
	ctx, cancel := context.WithCancel(t.Context())
	serving := make(chan Addresses, 1)
	ended := make(chan error, 1)
	go func() {
		ended <- Run(ctx, Options{
			Config: cfg.WithControlPlane("127.0.0.1:0"), Logger: slog.New(slog.NewTextHandler(log, nil)),
			Serving: func(at Addresses) { serving <- at },
		})
	}()
	stopped := false
	stop = func() error {
		if stopped {
			return nil
		}
		stopped = true
		cancel()
		return <-ended
	}
	t.Cleanup(func() { _ = stop() })
	select {
	case at = <-serving:
	case err := <-ended:
		t.Fatalf("it does not serve: %v\n%s", err, log.String())
	}
	return at, stop
}

// runFleet runs fake agents until the test ends.
func runFleet(t *testing.T, cfg fleettest.Config) *fleettest.Fleet {
	t.Helper()
	f, err := fleettest.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); f.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	return f
}

// eventually polls for what has to become so.
func eventually(t *testing.T, what string, so func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !so(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("after 30s it is still not so: %s", what)
		}
	}
}

func write(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// A server with agent_listen has nodes, which the management API shows and takes
// words about; one without says that it has none.
func TestControlPlane(t *testing.T) {
	for _, auth := range []bool{true, false} {
		var log locked
		cfg := testConfig()
		cfg.Auth.Enabled = auth
		at, stop := controlling(t, cfg, &log)
		f := runFleet(t, fleettest.Config{URL: "http://" + at.Agents, Nodes: 3, BackoffMax: time.Second})
		eventually(t, "three agents are connected", func() bool { return f.Connected() == 3 })
		client, err := api.NewClient(api.ClientConfig{URL: "http://" + at.Admin})
		if err != nil {
			t.Fatal(err)
		}
		list, err := client.Nodes.ListNodes(t.Context(), &apipb.ListNodesRequest{})
		if err != nil || len(list.GetNodes()) != 3 || list.GetTerm() != 1 {
			t.Errorf("auth %t: nodes %v, %v; want three, in term 1", auth, list, err)
		}
		set, err := client.Nodes.SetNodeTarget(t.Context(), &apipb.SetNodeTargetRequest{Node: "node-2", Target: apipb.NodeTarget_NODE_TARGET_DRAINED})
		if err != nil || set.GetNode().GetTarget() != apipb.NodeTarget_NODE_TARGET_DRAINED {
			t.Errorf("auth %t: drain: %v, %v", auth, set, err)
		}
		eventually(t, "the status has the three", func() bool {
			status, err := client.Placement.GetStatus(t.Context(), &apipb.GetStatusRequest{})
			return err == nil && status.GetStanding().GetTerm() == 1 && cmp.Equal(status.GetNodes(), []*apipb.NamedCount{
				{Name: "draining", Count: 1}, {Name: "ready", Count: 3},
			}, protocmp.Transform())
		})
		// The fleet is on the page that the router is on.
		if _, page := get(t, "http://"+at.Admin+"/metrics"); !strings.Contains(page, "\nllmgw_fleet_node_ready{node=\"node-1\"} 1\n") ||
			!strings.Contains(page, "\nllmgw_fleet_node_cordoned{node=\"node-2\",target=\"drained\"} 1\n") || !strings.Contains(page, "\nllmgw_prefix_endpoints ") {
			t.Errorf("auth %t: the metrics lack a node or the router:\n%s", auth, page)
		}
		if err := stop(); err != nil {
			t.Errorf("auth %t: %v", auth, err)
		}
	}
}

// Agents prove who they are: one with another node's certificate, or with none, is
// not taken, and both sides say why.
func TestControlPlaneTLS(t *testing.T) {
	dir := t.TempDir()
	authority, err := pki.NewAuthority("c", time.Now(), pki.DefaultAuthorityLifetime)
	if err != nil {
		t.Fatal(err)
	}
	ca := filepath.Join(dir, "ca.crt")
	root, err := authority.Pair()
	if err != nil {
		t.Fatal(err)
	}
	write(t, ca, root.Cert)
	files := func(req pki.Request) (cert, key string) {
		t.Helper()
		req.Lifetime = pki.DefaultLifetime
		pair, err := authority.Issue(time.Now(), req)
		if err != nil {
			t.Fatal(err)
		}
		cert, key = filepath.Join(dir, req.ID+".crt"), filepath.Join(dir, req.ID+".key")
		write(t, cert, pair.Cert)
		write(t, key, pair.Key)
		return cert, key
	}
	var log locked
	cfg := testConfig()
	cfg.Auth.Enabled = false
	cfg.AgentTLS.CertFile, cfg.AgentTLS.KeyFile = files(pki.Request{Role: pki.RoleServer, ID: "cp-1", Hosts: []string{"127.0.0.1"}})
	cfg.AgentTLS.CAFile = ca
	at, _ := controlling(t, cfg, &log)

	client := func(id string) func(string) *http.Client {
		cfg := pki.DefaultConfig()
		cfg.CertFile, cfg.KeyFile = files(pki.Request{Role: pki.RoleNode, ID: id})
		cfg.CAFile = ca
		r, err := pki.NewReloader(cfg, pki.Deps{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.Load(); err != nil {
			t.Fatal(err)
		}
		transport := &http.Transport{Protocols: new(http.Protocols), DialTLSContext: r.DialTLS(new(net.Dialer).DialContext, "h2")}
		transport.Protocols.SetHTTP2(true)
		return func(string) *http.Client { return &http.Client{Transport: transport} }
	}
	good := runFleet(t, fleettest.Config{URL: "https://" + at.Agents, Nodes: 1, Client: client("node-1"), BackoffMax: time.Second})
	eventually(t, "the agent is connected", func() bool { return good.Connected() == 1 })
	bad := runFleet(t, fleettest.Config{URL: "https://" + at.Agents, Nodes: 1, Client: client("gpu-9"), BackoffMax: time.Second})
	eventually(t, "the other one is refused", func() bool { return len(bad.Agent("node-1").Refusals()) > 0 })
	refusal := bad.Agent("node-1").Refusals()[0].Error()
	for _, text := range []string{"gpu-9", "node-1"} {
		if !strings.Contains(refusal, text) {
			t.Errorf("the agent is told %q, without %s", refusal, text)
		}
	}
	eventually(t, "the server says so", func() bool { return strings.Contains(log.String(), "gpu-9") })
	if bad.Connected() != 0 || good.Connected() != 1 {
		t.Errorf("%d impostors and %d agents are connected", bad.Connected(), good.Connected())
	}
}
