package demo

import (
	"bufio"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/llmgw/llmgw/cmd/internal/app/server"
	config "github.com/llmgw/llmgw/cmd/internal/config/server"
	"github.com/llmgw/llmgw/engines/process"
	"github.com/llmgw/llmgw/fleet/api"
	"github.com/llmgw/llmgw/fleet/apipb"
)

//go:embed fleet.yaml
var fleetYAML []byte

// readyTimeout is how long a fleet may take until every model answers.
const readyTimeout = time.Minute

// Fleet is a fleet that serves.
type Fleet struct {
	At     server.Addresses
	Models []string // of the catalog, in its order
	Asleep []string // those of them that begin when somebody asks
	Key    string   // empty where nobody is asked for one
	Nodes  []Node
}

// Node is a machine of a fleet.
type Node struct {
	ID, Fabric string
	// Agent is the process of its agent, and Config the agent's configuration.
	Agent  string
	Config string
	// Shards are what runs on it: for each shard its model's name.
	Shards []string
}

// RunFleet serves a fleet until ctx is done or a signal comes, which are no errors:
// this process is the control plane and its router, and a process of its own keeps
// the agents of the machines. ready is called once, when every model answers that is not
// to begin when it is asked for.
// opts.Ready is not used.
func RunFleet(ctx context.Context, opts Options, ready func(Fleet)) error {
	if _, err := process.FindMarked(); err != nil { // by which engines are ended
		return fmt.Errorf("demo: %w", err)
	}
	loaded, err := config.Parse("fleet.yaml", fleetYAML, nil)
	if err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	cfg := opts.over(loaded.WithControlPlane("127.0.0.1:0"))
	if err := cfg.Validate(); err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	dir, err := os.MkdirTemp("", "llmgw-demo-*")
	if err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	defer os.RemoveAll(dir)
	key, err := opts.keep(ctx, &cfg, dir)
	if err != nil {
		return err
	}
	f := &fleet{dir: dir, want: map[string]int{}, Fleet: Fleet{Key: key}}
	for _, m := range cfg.Gateway.Models {
		f.Models = append(f.Models, m.Name)
		if m.Scaling.Min == 0 {
			f.Asleep = append(f.Asleep, m.Name)
			continue
		}
		f.want[m.Name] = m.Scaling.Min * max(m.Profile.Ranks, 1)
	}
	serverCtx, stopServer := context.WithCancelCause(ctx)
	defer stopServer(nil)
	// Machines end after the server, whose last requests they answer.
	ended := make(chan struct{})
	var wg sync.WaitGroup
	defer wg.Wait()
	defer close(ended)
	err = server.Run(serverCtx, server.Options{
		Config: cfg, Logger: opts.Logger,
		Serving: func(at server.Addresses) {
			f.At = at
			wg.Go(func() { stopServer(f.run(serverCtx, ended, ready)) })
		},
	})
	return outcome(ctx, serverCtx, err)
}

// fleet is the machines of a demo, and what is known of them.
type fleet struct {
	Fleet
	dir  string
	want map[string]int // shards by model, of those that are not asleep
}

// run has a keeper until ended is closed. It returns what makes the demo end
// before.
func (f *fleet) run(ctx context.Context, ended <-chan struct{}, ready func(Fleet)) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	keeper := exec.Command(self, Keeper, f.dir, "http://"+f.At.Agents) //nolint:gosec,noctx // itself; it ends when its input does
	keeper.SysProcAttr = apart()
	keeper.Stderr = os.Stderr
	held, err := keeper.StdinPipe()
	if err != nil {
		return err
	}
	said, err := keeper.StdoutPipe()
	if err != nil {
		return err
	}
	if err := keeper.Start(); err != nil {
		return err
	}
	all := machinesOf(f.dir)
	agents := make(map[string]string, len(all))
	lines := bufio.NewScanner(said)
	for len(agents) < len(all) && lines.Scan() {
		id, pid, _ := strings.Cut(lines.Text(), " ")
		agents[id] = pid
	}
	for _, m := range all {
		f.Nodes = append(f.Nodes, Node{ID: m.id, Fabric: m.fabric, Agent: agents[m.id], Config: m.file("agent.yaml")})
	}
	gone := make(chan error, 1)
	go func() { // ends with the keeper, for which run waits
		_, _ = io.Copy(io.Discard, said)
		gone <- keeper.Wait()
	}()
	waiting, cancel := context.WithTimeoutCause(ctx, readyTimeout, fmt.Errorf("demo: the fleet did not serve within %v; is the machine very busy, or a firewall on its loopback?", readyTimeout))
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	answers := make(chan error, 1)
	wg.Go(func() { answers <- f.wait(waiting) })
	var failed error
	for {
		select {
		case err := <-answers:
			answers = nil
			if err == nil {
				ready(f.Fleet)
				continue
			}
			failed = err
		case err := <-gone:
			return errors.Join(errors.New("demo: what keeps the machines has ended"), err)
		case <-ended:
		}
		break
	}
	_ = held.Close()
	return errors.Join(failed, <-gone)
}

// wait returns when every replica is ready and every model has answered that is not
// asleep.
func (f *fleet) wait(ctx context.Context) error {
	transport := new(http.Transport)
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: 5 * time.Second}
	admin, err := api.NewClient(api.ClientConfig{URL: "http://" + f.At.Admin, HTTP: client})
	if err != nil {
		return err
	}
	for {
		list, err := admin.Nodes.ListNodes(ctx, &apipb.ListNodesRequest{})
		if err == nil && f.placed(list.GetNodes()) && !slices.ContainsFunc(slices.Collect(maps.Keys(f.want)), func(model string) bool { return !f.answers(ctx, client, model) }) {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// placed reports whether every machine and every replica is ready, and keeps where
// they are.
func (f *fleet) placed(nodes []*apipb.Node) bool {
	heard := 0
	ready := map[string]int{}
	on := map[string][]string{}
	for _, n := range nodes {
		if n.GetState() == apipb.NodeState_NODE_STATE_READY {
			heard++
		}
		for _, s := range n.GetShards() {
			i := slices.IndexFunc(f.Models, func(model string) bool { return strings.HasPrefix(s.GetReplica(), model+"-") })
			if i < 0 || s.GetState() != "ready" {
				continue
			}
			model := f.Models[i]
			ready[model]++
			on[n.GetId()] = append(on[n.GetId()], model)
		}
	}
	for i := range f.Nodes {
		f.Nodes[i].Shards = on[f.Nodes[i].ID]
		slices.Sort(f.Nodes[i].Shards)
	}
	return heard == len(f.Nodes) && maps.Equal(ready, f.want)
}

// answers reports whether a model answers a request.
func (f *fleet) answers(ctx context.Context, client *http.Client, model string) bool {
	body := fmt.Sprintf(`{"model": %q, "prompt": "ready?", "max_tokens": 1}`, model)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+f.At.Client+"/v1/completions", strings.NewReader(body))
	if err != nil {
		return false
	}
	req.Header.Set("Content-Type", "application/json")
	if f.Key != "" {
		req.Header.Set("Authorization", "Bearer "+f.Key)
	}
	resp, err := client.Do(req)
	if err != nil {
		return false
	}
	_ = resp.Body.Close() // read for its status only
	return resp.StatusCode == http.StatusOK
}
