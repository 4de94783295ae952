package control_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/engines/sim/simtest"
	"github.com/llmgw/llmgw/fleet/control"
	"github.com/llmgw/llmgw/fleet/fleetpb"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(agentsEnv); dir != "" {
		if err := liveAsAgents(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// authority is a mandate that tests change.
type authority struct {
	mu       sync.Mutex
	mandate  control.Mandate
	outranks map[string]uint64
}

func leader() *authority {
	return &authority{mandate: control.Mandate{Level: control.Leader, Cluster: "c1", Term: 7}, outranks: map[string]uint64{}}
}

func (a *authority) Mandate() control.Mandate {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.mandate
}

func (a *authority) set(change func(m *control.Mandate)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	change(&a.mandate)
}

func (a *authority) Outranked(node string, term uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.outranks[node] = term
}

func (a *authority) outranked(node string) uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.outranks[node]
}

// world is a plane that runs, served over a network in memory. Everything of it
// is in the test's bubble.
type world struct {
	t       *testing.T
	plane   *control.Plane
	network simtest.Network
	client  *http.Client
	end     context.CancelFunc // ends Run
	ended   chan struct{}
}

func newWorld(t *testing.T, cfg control.Config, deps control.Deps) *world {
	t.Helper()
	if deps.Authority == nil {
		deps.Authority = leader()
	}
	p, err := control.New(cfg, deps)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, plane: p, ended: make(chan struct{})}
	l, err := w.network.Listen("control:7443")
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle(p.Handler())
	server := &http.Server{Handler: mux} //nolint:gosec // Configure sets the timeouts
	control.Configure(server)
	var wg sync.WaitGroup
	wg.Go(func() { _ = server.Serve(l) })
	ctx, cancel := context.WithCancel(context.Background())
	w.end = cancel
	wg.Go(func() {
		defer close(w.ended)
		if err := p.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	transport := &http.Transport{DialContext: w.network.Dial, Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(true)
	w.client = &http.Client{Transport: transport}
	t.Cleanup(func() {
		cancel()
		transport.CloseIdleConnections()
		_ = server.Close()
		wg.Wait()
		synctest.Wait()
	})
	synctest.Wait()
	return w
}

// agent is a small fake of an agent: it sends what a test says, and keeps what
// comes.
type agent struct {
	t      *testing.T
	stream *connect.BidiStreamForClientSimple[fleetpb.ConnectRequest, fleetpb.ConnectResponse]
	cancel context.CancelFunc

	mu   sync.Mutex
	got  []*fleetpb.ConnectResponse
	err  error
	done chan struct{}
	seq  uint64
}

func hello(node string) *fleetpb.Hello {
	return &fleetpb.Hello{
		ProtocolLeast: 1, ProtocolMost: 1, Node: node, Instance: "instance-" + node, Run: "run-1", AgentVersion: "1.2.3",
		Boot: "boot-1", At: timestamppb.New(time.Now()), Address: "10.0.0.1", PortFirst: 20000, PortLast: 20999,
	}
}

// dial opens a stream and registers; what comes of it is in the agent.
func (w *world) dial(h *fleetpb.Hello) *agent {
	w.t.Helper()
	a := w.open()
	if h != nil {
		a.send(&fleetpb.ConnectRequest{Message: &fleetpb.ConnectRequest_Hello{Hello: h}})
	}
	synctest.Wait()
	return a
}

func (w *world) open() *agent {
	w.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	stream, err := fleetpb.NewAgentServiceClient(w.client, "http://control:7443").Connect(ctx)
	if err != nil {
		w.t.Fatal(err)
	}
	a := &agent{t: w.t, stream: stream, cancel: cancel, done: make(chan struct{})}
	if err := stream.Send(nil); err != nil { // the headers
		w.t.Fatal(err)
	}
	go func() {
		defer close(a.done)
		for {
			msg, err := stream.Receive()
			a.mu.Lock()
			if err != nil {
				a.err = err
				a.mu.Unlock()
				return
			}
			a.got = append(a.got, msg)
			a.mu.Unlock()
		}
	}()
	w.t.Cleanup(func() {
		a.hangUp()
		<-a.done
		_ = stream.CloseResponse()
	})
	return a
}

// hangUp ends the stream without a word. The end of a context alone does not
// reach a client of HTTP/2 that waits for its own request's body.
func (a *agent) hangUp() {
	a.cancel()
	_ = a.stream.CloseRequest()
	synctest.Wait()
}

func (a *agent) send(m *fleetpb.ConnectRequest) {
	a.t.Helper()
	_ = a.stream.Send(m) // an error shows in what is received
	synctest.Wait()
}

func (a *agent) heartbeat(briefs ...*fleetpb.ShardBrief) *fleetpb.Beat {
	a.t.Helper()
	a.seq++
	a.send(&fleetpb.ConnectRequest{Message: &fleetpb.ConnectRequest_Heartbeat{Heartbeat: &fleetpb.Heartbeat{
		Sequence: a.seq, At: timestamppb.New(time.Now()), Shards: briefs,
	}}})
	for _, m := range slices.Backward(a.received()) {
		if m.GetBeat() != nil {
			return m.GetBeat()
		}
	}
	return nil
}

func (a *agent) status(s *fleetpb.ShardStatus) {
	a.t.Helper()
	a.send(&fleetpb.ConnectRequest{Message: &fleetpb.ConnectRequest_Status{Status: s}})
}

func (a *agent) answer(m *fleetpb.Answer) {
	a.t.Helper()
	a.send(&fleetpb.ConnectRequest{Message: &fleetpb.ConnectRequest_Answer{Answer: m}})
}

func (a *agent) received() []*fleetpb.ConnectResponse {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.got)
}

func (a *agent) commands() []*fleetpb.Command {
	var out []*fleetpb.Command
	for _, m := range a.received() {
		if c := m.GetCommand(); c != nil {
			out = append(out, c)
		}
	}
	return out
}

// refusal returns with what the stream ended; nil while it has not.
func (a *agent) refusal() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.err
}

func (a *agent) wantWelcome() *fleetpb.Welcome {
	a.t.Helper()
	got := a.received()
	if len(got) == 0 || got[0].GetWelcome() == nil {
		a.t.Fatalf("no welcome; got %v, error %v", got, a.refusal())
	}
	return got[0].GetWelcome()
}

func (a *agent) wantRefusal(code connect.Code, text string) {
	a.t.Helper()
	err := a.refusal()
	if connect.CodeOf(err) != code || err == nil {
		a.t.Fatalf("error %v; want code %v", err, code)
	}
	if text != "" && !strings.Contains(err.Error(), text) {
		a.t.Errorf("error %q; want %q in it", err, text)
	}
}

func (w *world) state(node string) control.State {
	n, _ := w.plane.Node(node)
	return n.State
}

func shard(replica string, generation, revision uint64, state fleetpb.ShardState) *fleetpb.ShardStatus {
	return &fleetpb.ShardStatus{Replica: replica, Generation: generation, Revision: revision, State: state}
}

func brief(s *fleetpb.ShardStatus) *fleetpb.ShardBrief {
	return &fleetpb.ShardBrief{Replica: s.GetReplica(), Rank: s.GetRank(), Generation: s.GetGeneration(), Revision: s.GetRevision(), State: s.GetState()}
}

func spec(replica string, generation uint64) engines.ShardSpec {
	return engines.ShardSpec{ID: engines.ShardID{Replica: replica}, Generation: generation, Profile: engines.Profile{Engine: "sim"}, Secret: "s3cret"}
}
