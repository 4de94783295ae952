package kvevents_test

import (
	"context"
	"fmt"
	"time"

	"github.com/llmgw/llmgw/engines/kvevents"
)

// tail prints what an engine's cache gets and loses.
type tail struct{ done func() }

func (t tail) Apply(b *kvevents.Batch) {
	for _, e := range b.Events {
		fmt.Printf("%d: %v %v, tokens %v\n", b.Sequence, e.Kind, e.Hashes, e.Tokens)
	}
	if b.Sequence == 1 {
		t.done()
	}
}

func (tail) Reset(rank int, reason kvevents.Reason) {
	fmt.Printf("forget what rank %d has: %v\n", rank, reason)
}

// An engine tells of its cache, and a subscriber that comes later catches up by
// replay.
func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	// The engine; a real one is configured with its endpoints.
	engine, err := kvevents.NewPublisher(kvevents.DefaultPublisherConfig(), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	events, err := kvevents.Listen(ctx, "tcp://127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	replay, err := kvevents.Listen(ctx, "tcp://127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	served := make(chan error, 1)
	go func() { served <- engine.Serve(ctx, events, replay) }()
	engine.Publish(time.Now(), 0, []kvevents.Event{{
		Kind: kvevents.KindStored, Hashes: []uint64{71, 72}, Tokens: []uint32{1, 2, 3, 4}, BlockSize: 2,
	}})
	engine.Publish(time.Now(), 0, []kvevents.Event{{Kind: kvevents.KindRemoved, Hashes: []uint64{72}}})

	// The router.
	cfg := kvevents.DefaultConfig()
	cfg.Endpoint = "tcp://" + events.Addr().String()
	cfg.ReplayEndpoint = "tcp://" + replay.Addr().String()
	s, err := kvevents.New(cfg, kvevents.Deps{Handler: tail{cancel}})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := s.Run(ctx); err != nil {
		fmt.Println(err)
	}
	fmt.Println("complete:", s.Status(0).Complete)
	<-served
	// Output:
	// 0: stored [71 72], tokens [1 2 3 4]
	// 1: removed [72], tokens []
	// complete: true
}
