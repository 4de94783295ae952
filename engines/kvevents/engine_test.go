package kvevents_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgw/llmgw/engines/kvevents"
	"github.com/llmgw/llmgw/engines/kvevents/internal/zmtp"
)

// engine is an engine that sends what a test tells it, over connections in
// memory, so that it works in a bubble.
type engine struct {
	t *testing.T

	mu      sync.Mutex
	sub     *zmtp.Conn
	kept    []batch                                            // what replay has
	hang    bool                                               // replay never ends
	more    func(last int64) (next int64, pause time.Duration) // replay goes on so, without end
	refuse  bool                                               // no connection is accepted
	asked   []uint64
	serving sync.WaitGroup
}

// batch is a message: one from another process has another payload.
type batch struct {
	seq     int64
	process int
}

func (b batch) payload() []byte {
	return kvevents.Append(nil, &kvevents.Batch{
		Time: float64(b.process), Events: []kvevents.Event{removed(uint64(b.seq))},
	}, kvevents.Array)
}

func span(process int, from, to int64) (all []batch) {
	for seq := from; seq <= to; seq++ {
		all = append(all, batch{seq, process})
	}
	return all
}

func number8(n int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(n)) }

func (e *engine) dial(_ context.Context, _, address string) (net.Conn, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.refuse {
		return nil, fmt.Errorf("refused")
	}
	client, server := net.Pipe()
	serve := e.events
	if strings.HasSuffix(address, ":5558") {
		serve = e.replay
	}
	e.serving.Go(func() {
		defer func() { _ = server.Close() }()
		serve(server)
	})
	return client, nil
}

func (e *engine) events(c net.Conn) {
	z, err := zmtp.Handshake(c, zmtp.Pub, 1<<20)
	if err != nil {
		return
	}
	frames, err := z.Read()
	if _, add, ok := zmtp.Subscription(frames); err != nil || !ok || !add {
		e.t.Errorf("no subscription but %q, %v", frames, err)
		return
	}
	e.mu.Lock()
	e.sub = z
	e.mu.Unlock()
	_, _ = z.Read() // until it is closed
}

func (e *engine) replay(c net.Conn) {
	z, err := zmtp.Handshake(c, zmtp.Router, 1<<20)
	if err != nil {
		return
	}
	frames, err := z.Read()
	if err != nil || len(frames) != 2 || len(frames[0]) != 0 || len(frames[1]) != 8 {
		e.t.Errorf("no request for replay but %q, %v", frames, err)
		return
	}
	first := binary.BigEndian.Uint64(frames[1])
	e.mu.Lock()
	e.asked = append(e.asked, first)
	kept, hang, more := slices.Clone(e.kept), e.hang, e.more
	e.mu.Unlock()
	for _, b := range kept {
		if uint64(b.seq) >= first && z.Write(nil, number8(b.seq), b.payload()) != nil {
			return
		}
	}
	for last := kept; more != nil; {
		seq, pause := more(last[len(last)-1].seq)
		last = []batch{{seq, 0}}
		time.Sleep(pause) // virtual
		if z.Write(nil, number8(seq), last[0].payload()) != nil {
			return
		}
	}
	if hang {
		_, _ = z.Read()
		return
	}
	_ = z.Write(nil, number8(-1), nil)
}

// set changes what replay has.
func (e *engine) set(kept []batch) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.kept = kept
}

// raw sends a message of any frames to the subscriber.
func (e *engine) raw(frames ...[]byte) {
	e.t.Helper()
	e.mu.Lock()
	z := e.sub
	e.mu.Unlock()
	if z == nil {
		e.t.Fatal("nobody subscribed")
	}
	if err := z.Write(frames...); err != nil {
		e.t.Errorf("send: %v", err)
	}
	synctest.Wait()
}

func (e *engine) send(batches ...batch) {
	e.t.Helper()
	for _, b := range batches {
		e.raw([]byte("kv@pod@model"), number8(b.seq), b.payload())
	}
}

// kick ends the subscriber's connection.
func (e *engine) kick() {
	e.mu.Lock()
	defer e.mu.Unlock()
	_ = e.sub.Close()
	e.sub = nil
}

// record is a handler that notes what it is told.
type record struct {
	mu   sync.Mutex
	log  []string
	last kvevents.Batch
}

func (r *record) Apply(b *kvevents.Batch) {
	r.mu.Lock()
	defer r.mu.Unlock()
	note := fmt.Sprint(b.Sequence)
	if b.Time > 0 {
		note += strings.Repeat("'", int(b.Time))
	}
	if b.Rank > 0 {
		note = fmt.Sprintf("%d:%s", b.Rank, note)
	}
	r.log = append(r.log, note)
	r.last = *b
}

func (r *record) Reset(_ int, reason kvevents.Reason) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.log = append(r.log, reason.String())
}

func (r *record) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.log, " ")
}
