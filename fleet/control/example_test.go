package control_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/engines/sim/simtest"
	"github.com/llmgw/llmgw/fleet/control"
	"github.com/llmgw/llmgw/fleet/fleetpb"
)

// alone is the authority of a control plane that shares its fleet with no other.
type alone struct{}

func (alone) Mandate() control.Mandate {
	return control.Mandate{Level: control.Leader, Cluster: "home", Term: 1}
}

func (alone) Outranked(node string, term uint64) {
	fmt.Printf("node %s has heard of term %d\n", node, term)
}

// A control plane inside a program of yours: agents come to it, and it gives
// orders.
func Example() {
	plane, err := control.New(control.DefaultConfig(), control.Deps{Authority: alone{}})
	if err != nil {
		fmt.Println(err)
		return
	}
	mux := http.NewServeMux()
	mux.Handle(plane.Handler())
	server := &http.Server{Handler: mux} //nolint:gosec // Configure sets the timeouts
	control.Configure(server)

	var network simtest.Network // in a program: a socket, with TLS
	l, err := network.Listen("control:7443")
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = server.Serve(l) })
	running.Go(func() { _ = plane.Run(ctx) })
	defer running.Wait()
	defer func() { _ = server.Close() }()
	defer cancel()

	changes := plane.Watch()
	defer changes.Close()
	agent, hangUp := exampleAgent(&network)
	running.Go(agent)
	defer hangUp()
	for {
		if _, err := changes.Next(ctx); err != nil {
			fmt.Println(err)
			return
		}
		if node, there := plane.Node("gpu-1"); there && node.Connected {
			fmt.Println(node.ID, "is", node.State, "at", node.Address)
			break
		}
	}

	within, done := context.WithTimeout(ctx, 10*time.Second)
	defer done()
	order := engines.ShardSpec{ID: engines.ShardID{Replica: "chat-1"}, Generation: 1, Profile: engines.Profile{Engine: "vllm", Model: "/models/chat"}}
	answer, err := plane.Start(within, "gpu-1", order)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(answer.Status.ID, "is", answer.Status.State)

	order.Profile.Engine = "unheard-of"
	_, err = plane.Start(within, "gpu-1", order)
	if refused, ok := errors.AsType[*control.RefusedError](err); ok {
		fmt.Println("refused:", refused.Reason)
	}
	// Output:
	// gpu-1 is ready at 10.0.0.1
	// chat-1/0 is starting
	// refused: no adapter for unheard-of
}

// exampleAgent is the least that an agent does: it registers, and answers.
func exampleAgent(network *simtest.Network) (run, hangUp func()) {
	transport := &http.Transport{DialContext: network.Dial, Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(true)
	ctx, cancel := context.WithCancel(context.Background())
	client := fleetpb.NewAgentServiceClient(&http.Client{Transport: transport}, "http://control:7443")
	run = func() {
		defer transport.CloseIdleConnections()
		var stream *clientStream
		for welcome := false; !welcome; { // until the control plane runs
			var err error
			if stream, err = client.Connect(ctx); err != nil {
				return
			}
			_ = stream.Send(&fleetpb.ConnectRequest{Message: &fleetpb.ConnectRequest_Hello{Hello: &fleetpb.Hello{
				ProtocolLeast: 1, ProtocolMost: 1, Node: "gpu-1", Instance: "a", Run: "b", Address: "10.0.0.1", PortFirst: 20000, PortLast: 20999,
			}}})
			_, err = stream.Receive()
			welcome = err == nil
		}
		defer func() { _ = stream.CloseRequest(); _ = stream.CloseResponse() }()
		for {
			msg, err := stream.Receive()
			if err != nil {
				return
			}
			start := msg.GetCommand().GetStart()
			answer := &fleetpb.Answer{
				Command: msg.GetCommand().GetId(), Result: fleetpb.Result_RESULT_BEGUN, Term: 1, Generation: start.GetGeneration(),
				Status: &fleetpb.ShardStatus{Replica: start.GetReplica(), Generation: start.GetGeneration(), Revision: 1, State: fleetpb.ShardState_SHARD_STATE_STARTING},
			}
			if start.GetProfile().GetEngine() != "vllm" {
				answer.Result, answer.Status, answer.Reason = fleetpb.Result_RESULT_REFUSED, nil, "no adapter for "+start.GetProfile().GetEngine()
			}
			_ = stream.Send(&fleetpb.ConnectRequest{Message: &fleetpb.ConnectRequest_Answer{Answer: answer}})
		}
	}
	return run, cancel
}
