package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"

	"github.com/llmgw/llmgw/fleet/fleetpb"
)

// Those who misbehave beside the agents that are measured.
const (
	hung        = 1  // agents that stop reading
	slow        = 50 // agents that read a byte every 20 ms
	misbehaving = hung + slow
	silent      = 200 // connections that say nothing
	wrong       = 100 // handshakes a second with a certificate that is not the node's
)

// disturbed measures how long heartbeats wait for their answers without and with
// others that misbehave.
func (b *bench) disturbed(ctx context.Context) error {
	certs, err := newCertificates()
	if err != nil {
		return err
	}
	s, err := newServer(ctx, b.opts, filepath.Join(b.dir, "disturbed"), certs)
	if err != nil {
		return err
	}
	defer s.process.Stop()
	good := make(map[string]bool, b.opts.disturb)
	for i := range b.opts.disturb {
		good[nodeID(i)] = true
	}
	var times latencies
	misbehave := new(atomic.Bool)
	f, err := startFleet(ctx, s, certs, fleetOptions{
		nodes: b.opts.disturb + misbehaving, first: 5 * time.Second,
		dial: func(node string) func(context.Context, string, string) (net.Conn, error) {
			return dialAs(node, good, misbehave)
		},
		beat: func(node string, took time.Duration) {
			if good[node] {
				times.add(took)
			}
		},
	})
	if err != nil {
		return err
	}
	defer f.stop()
	all := b.opts.disturb + misbehaving
	if _, err := until(ctx, registering, "all agents have come", func() bool { return f.Connected() == all }); err != nil {
		return err
	}
	fmt.Fprintf(b.out, "%d agents, and beside them %d that hangs, %d that read slowly, %d connections that say nothing, %d wrong certificates a second\n",
		b.opts.disturb, hung, slow, silent, wrong)
	if err := b.beats(ctx, s, "alone", &times); err != nil {
		return err
	}
	misbehave.Store(true)
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	var d disturbances
	for range silent {
		wg.Go(func() { d.sayNothing(ctx, s.agents) })
	}
	wg.Go(func() { d.proveWrongly(ctx, s.agents, certs) })
	if err := b.beats(ctx, s, "with them", &times); err != nil {
		return err
	}
	fmt.Fprintf(b.out, "  refused meanwhile: %d handshakes of a strange authority, %d nodes with another's certificate; %d connections that said nothing were ended\n",
		d.strange.Load(), d.others.Load(), d.ended.Load())
	for id := range good {
		if n := len(f.Agent(id).Connects()); n != 1 {
			b.problem("%s was connected %d times; nothing should have ended its stream: %v", id, n, errors.Join(f.Agent(id).Refusals()...))
		}
	}
	return nil
}

// beats prints how long heartbeats waited during one measurement for each round.
func (b *bench) beats(ctx context.Context, s *server, name string, times *latencies) error {
	for range b.opts.rounds {
		times.take()
		w, err := b.watch(ctx, s)
		if err != nil {
			return err
		}
		took := times.take()
		fmt.Fprintf(b.out, "  %s: %s\n    answers to %s\n", name, w, took)
		if want := int(.9 * float64(b.opts.disturb) * w.length.Seconds() / 5); took.count < want {
			b.problem("%s: %d heartbeats had an answer; want at least %d", name, took.count, want)
		}
	}
	return nil
}

// latencies are how long answers took.
type latencies struct {
	mu   sync.Mutex
	took []time.Duration // guarded by mu
}

func (l *latencies) add(took time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.took = append(l.took, took)
}

// quantiles are latencies in short.
type quantiles struct {
	count             int
	median, p99, most time.Duration
}

func (q quantiles) String() string {
	return fmt.Sprintf("%d heartbeats: median %.1f ms, 99 %% within %.1f ms, the last %.1f ms", q.count, ms(q.median), ms(q.p99), ms(q.most))
}

func ms(d time.Duration) float64 { return d.Seconds() * 1000 }

// take returns what was added since it was last called.
func (l *latencies) take() quantiles {
	l.mu.Lock()
	took := l.took
	l.took = nil
	l.mu.Unlock()
	if len(took) == 0 {
		return quantiles{}
	}
	slices.Sort(took)
	n := len(took)
	return quantiles{count: n, median: took[n/2], p99: took[n*99/100], most: took[n-1]}
}

// dialAs returns how a node dials: of those that are not good one stops reading
// when they are to misbehave, and the others read slowly.
func dialAs(node string, good map[string]bool, misbehave *atomic.Bool) func(context.Context, string, string) (net.Conn, error) {
	if good[node] {
		return new(net.Dialer).DialContext
	}
	hangs := node == nodeID(len(good))
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &lazyConn{Conn: conn, misbehave: misbehave, hangs: hangs, closed: make(chan struct{})}, nil
	}
}

// lazyConn reads as its agent does.
type lazyConn struct {
	net.Conn

	misbehave *atomic.Bool
	hangs     bool
	once      sync.Once
	closed    chan struct{}
}

// Read reads a byte every 20 ms, or nothing until the connection is closed.
func (c *lazyConn) Read(b []byte) (int, error) {
	if !c.misbehave.Load() || len(b) == 0 {
		return c.Conn.Read(b)
	}
	var after <-chan time.Time
	if !c.hangs {
		after = time.After(20 * time.Millisecond)
	}
	select {
	case <-after:
		return c.Conn.Read(b[:1])
	case <-c.closed:
		return 0, net.ErrClosed
	}
}

func (c *lazyConn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}

// disturbances are what was done to the server.
type disturbances struct {
	strange, others, ended atomic.Int64
}

// sayNothing holds one connection at a time that is opened and says nothing.
func (d *disturbances) sayNothing(ctx context.Context, address string) {
	for ctx.Err() == nil {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
		if err != nil {
			pause(ctx, 100*time.Millisecond)
			continue
		}
		stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
		_, _ = conn.Read(make([]byte, 1)) // until the server has had enough
		if stop() {
			d.ended.Add(1)
		}
		_ = conn.Close()
	}
}

// proveWrongly shows certificates of another authority, and in turn those of
// another node.
func (d *disturbances) proveWrongly(ctx context.Context, address string, certs *certificates) {
	foreign, err1 := newCertificates()
	other, err2 := certs.node("other")
	if errors.Join(err1, err2) != nil {
		return // what is counted says so
	}
	strange, err := foreign.node(nodeID(0))
	if err != nil {
		return
	}
	strange.RootCAs = certs.roots
	ticker := time.NewTicker(time.Second / wrong)
	defer ticker.Stop()
	var wg sync.WaitGroup
	defer wg.Wait()
	for i := 0; ; i++ {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
			defer cancel()
			if i%2 == 0 {
				d.handshake(ctx, address, strange)
			} else {
				d.register(ctx, address, other)
			}
		})
	}
}

// handshake shows a certificate and waits for what the server says of it.
func (d *disturbances) handshake(ctx context.Context, address string, proof *tls.Config) {
	conn, err := (&tls.Dialer{Config: proof}).DialContext(ctx, "tcp", address)
	if err == nil {
		defer conn.Close()
		defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
		_, err = conn.Read(make([]byte, 1)) // TLS 1.3 says it behind the handshake
	}
	if err != nil && strings.Contains(err.Error(), "tls: ") && ctx.Err() == nil {
		d.strange.Add(1)
	}
}

// register claims to be a node that the certificate is not of.
func (d *disturbances) register(ctx context.Context, address string, proof *tls.Config) {
	c := client(proof, nil)
	defer c.CloseIdleConnections()
	s, err := fleetpb.NewAgentServiceClient(c, "https://"+address).Connect(ctx)
	if err != nil {
		return
	}
	defer func() { _ = s.CloseResponse() }()
	_ = s.Send(&fleetpb.ConnectRequest{Message: &fleetpb.ConnectRequest_Hello{Hello: &fleetpb.Hello{
		ProtocolLeast: 1, ProtocolMost: 1, Node: nodeID(0), Instance: "i", Run: "r", PortFirst: 1, PortLast: 2,
	}}})
	_, err = s.Receive()
	_ = s.CloseRequest()
	if connect.CodeOf(err) == connect.CodePermissionDenied {
		d.others.Add(1)
	}
}
