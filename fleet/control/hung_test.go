package control_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/fleet/control"
	"github.com/llmgw/llmgw/fleet/fleetpb"
)

// answers makes the agent answer each command at once, until the test ends.
func (a *agent) answers() {
	seen := 0
	go func() {
		ticker := time.NewTicker(time.Millisecond)
		defer ticker.Stop()
		for {
			select {
			case <-a.done:
				return
			case <-ticker.C:
			}
			for _, c := range a.commands()[seen:] {
				seen++
				_ = a.stream.Send(&fleetpb.ConnectRequest{Message: &fleetpb.ConnectRequest_Answer{Answer: &fleetpb.Answer{
					Command: c.GetId(), Result: fleetpb.Result_RESULT_BEGUN,
				}}})
			}
		}
	}()
}

// An agent that keeps its connection and does not read its stream delays nobody,
// and has its stream ended when a write has taken too long.
func TestAnAgentThatDoesNotReadDelaysNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, control.DefaultConfig(), control.Deps{})
		orders, stop := w.deaf(t.Context())
		w.dial(hello("good")).answers()
		begun := time.Now()
		for range 100 {
			if _, err := w.plane.Start(t.Context(), "good", spec("r2", 1)); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(begun); took > 200*time.Millisecond { // the agent looks once a millisecond
			t.Errorf("100 orders to a good agent took %v", took)
		}
		time.Sleep(13 * time.Second)
		synctest.Wait()
		if n, _ := w.plane.Node("deaf"); n.Connected {
			t.Error("the stream of an agent that does not read is there yet")
		}
		stop()
		for _, o := range orders {
			<-o.done
			if o.err == nil {
				t.Error("an order that was not read is done")
			}
		}
	})
}

// deaf opens the stream of an agent that does not read, and gives it orders which
// are more than HTTP/2 takes for it. stop ends what waits for them.
func (w *world) deaf(ctx context.Context) (orders []*ordered, stop func()) {
	w.t.Helper()
	streaming, cancel := context.WithCancel(context.Background())
	deaf, err := fleetpb.NewAgentServiceClient(w.client, "http://control:7443").Connect(streaming)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		cancel()
		_ = deaf.CloseRequest()
		_ = deaf.CloseResponse()
		synctest.Wait()
	})
	if err := deaf.Send(&fleetpb.ConnectRequest{Message: &fleetpb.ConnectRequest_Hello{Hello: hello("deaf")}}); err != nil {
		w.t.Fatal(err)
	}
	synctest.Wait()
	large := spec("r1", 1)
	large.Profile.Env = map[string]string{"LARGE": strings.Repeat("x", 3<<20)} // two fill the window
	within, stop := context.WithTimeout(ctx, time.Minute)
	for range 3 {
		orders = append(orders, give(func() (control.Answer, error) { return w.plane.Start(within, "deaf", large) }))
	}
	return orders, stop
}

// Nor does it keep the plane from ending.
func TestAnAgentThatDoesNotReadIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, control.DefaultConfig(), control.Deps{})
		orders, stop := w.deaf(t.Context())
		defer stop()
		good := w.dial(hello("good"))
		begun := time.Now()
		w.end()
		synctest.Wait()
		good.wantRefusal(connect.CodeUnavailable, "this control plane ends")
		<-w.ended
		if took := time.Since(begun); took < time.Second || took > 1100*time.Millisecond {
			t.Errorf("Run took %v to end; want the second that agents have", took)
		}
		for _, o := range orders {
			<-o.done
			if !errors.Is(o.err, control.ErrUnanswered) {
				t.Errorf("order: %v", o.err)
			}
		}
	})
}

// frozen is a connection whose reads end at some moment, as those of a machine
// that hangs.
type frozen struct {
	net.Conn
	freeze <-chan struct{}
	closed chan struct{}
	once   sync.Once
}

func (f *frozen) Read(b []byte) (int, error) {
	select {
	case <-f.freeze:
		<-f.closed
		return 0, net.ErrClosed
	default:
		return f.Conn.Read(b)
	}
}

func (f *frozen) Close() error {
	f.once.Do(func() { close(f.closed) })
	return f.Conn.Close()
}

// A machine that hangs takes nothing from its connection. The plane ends in time
// all the same.
func TestAMachineThatHangsDelaysNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, control.DefaultConfig(), control.Deps{})
		freeze := make(chan struct{})
		transport := &http.Transport{Protocols: new(http.Protocols), DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			c, err := w.network.Dial(ctx, network, address)
			return &frozen{Conn: c, freeze: freeze, closed: make(chan struct{})}, err
		}}
		transport.Protocols.SetUnencryptedHTTP2(true)
		ordinary := w.client
		w.client = &http.Client{Transport: transport}
		hung := w.dial(hello("hung"))
		hung.wantWelcome()
		w.client = ordinary
		w.dial(hello("good")).answers()
		close(freeze)
		hung.heartbeat() // its answer is read; the next is not

		within, stop := context.WithTimeout(t.Context(), 3*time.Second)
		defer stop()
		o := give(func() (control.Answer, error) {
			return w.plane.Drain(within, "hung", engines.ShardID{Replica: "r1"}, 1)
		})
		if _, err := w.plane.Start(t.Context(), "good", spec("r2", 1)); err != nil {
			t.Error(err)
		}
		<-o.done
		begun := time.Now()
		w.end()
		<-w.ended
		if took := time.Since(begun); took > 2*time.Second {
			t.Errorf("Run took %v to end", took)
		}
		transport.CloseIdleConnections()
		time.Sleep(30 * time.Second) // the server gives the connection up
	})
}

// An agent that sends without end is read at a bounded pace.
func TestAnAgentThatSendsWithoutEndIsReadSlowly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, control.DefaultConfig(), control.Deps{})
		a := w.dial(hello("n1"))
		const flood = 4000
		begun := time.Now()
		var sent sync.WaitGroup
		sent.Go(func() {
			for i := range uint64(flood) {
				s := shard("r1", 1, i+1, fleetpb.ShardState_SHARD_STATE_LOADING)
				_ = a.stream.Send(&fleetpb.ConnectRequest{Message: &fleetpb.ConnectRequest_Status{Status: s}})
			}
		})
		sent.Wait()
		for {
			if n, _ := w.plane.Node("n1"); len(n.Shards) == 1 && n.Shards[0].Revision == flood {
				break
			}
			time.Sleep(100 * time.Millisecond)
		}
		if took := time.Since(begun); took < 3900*time.Millisecond || took > 4500*time.Millisecond {
			t.Errorf("%d messages took %v; want four seconds, after four seconds' worth at once", flood, took)
		}
		if w.state("n1") != control.Ready {
			t.Error("an agent that speaks is not ready")
		}
	})
}

// Orders to many nodes at once.
func TestManyAgents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, control.DefaultConfig(), control.Deps{})
		agents := map[string]*agent{}
		names := make([]string, 50)
		for i := range names {
			names[i] = "n" + string(rune('a'+i/26)) + string(rune('a'+i%26))
			agents[names[i]] = w.dial(hello(names[i]))
			agents[names[i]].answers()
		}
		var wg sync.WaitGroup
		for _, name := range names {
			for range 5 {
				wg.Go(func() {
					if _, err := w.plane.Start(t.Context(), name, spec("r", 1)); err != nil {
						t.Errorf("%s: %v", name, err)
					}
				})
			}
		}
		wg.Wait()
		for _, n := range w.plane.Nodes() {
			if n.State != control.Ready || !n.Connected {
				t.Errorf("node %s: %v, %v", n.ID, n.State, n.Connected)
			}
		}
		for _, a := range agents {
			if a.refusal() != nil && connect.CodeOf(a.refusal()) != connect.CodeCanceled {
				t.Error(a.refusal())
			}
		}
	})
}
