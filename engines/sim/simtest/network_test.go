package simtest_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/llmgw/llmgw/engines/sim"
	"github.com/llmgw/llmgw/engines/sim/simtest"
)

func TestMain(m *testing.M) {
	// A server of net/http that gives up a connection lingers on it for half a
	// second, longer than goleak waits.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("net/http.(*conn).closeWriteAndWait"))
}

// Hosts are told apart, under real time too.
func TestNetwork(t *testing.T) {
	var network simtest.Network
	var wg sync.WaitGroup
	defer wg.Wait()
	for _, address := range []string{"a:80", "b:80"} {
		l, err := network.Listen(address)
		if err != nil {
			t.Fatal(err)
		}
		if l.Addr().String() != address || l.Addr().Network() != "memory" {
			t.Errorf("address %v of %v", l.Addr(), l.Addr().Network())
		}
		server := &http.Server{
			ReadHeaderTimeout: time.Minute,
			Handler:           http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "I am "+address) }),
		}
		wg.Go(func() { _ = server.Serve(l) })
		defer server.Close()
	}
	transport := &http.Transport{DialContext: network.Dial}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	for _, host := range []string{"b", "a", "b"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+host, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		said, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil || string(said) != "I am "+host+":80" {
			t.Errorf("%s says %q, %v", host, said, err)
		}
	}
}

func TestNetworkErrors(t *testing.T) {
	var network simtest.Network
	l, err := network.Listen("a:80")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := network.Listen("a:80"); !errors.Is(err, syscall.EADDRINUSE) || !strings.Contains(err.Error(), "a:80") {
		t.Errorf("listening twice: %v", err)
	}
	if _, err := network.Dial(t.Context(), "tcp", "b:80"); !errors.Is(err, syscall.ECONNREFUSED) || !strings.Contains(err.Error(), "b:80") {
		t.Errorf("dialling nobody: %v", err)
	}
	why := errors.New("no patience")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	if _, err := network.Dial(ctx, "tcp", "a:80"); !errors.Is(err, why) {
		t.Errorf("dialling whom nobody accepts: %v", err)
	}
	dialled := make(chan error, 1)
	go func() {
		_, err := network.Dial(t.Context(), "tcp", "a:80")
		dialled <- err
	}()
	if err := errors.Join(l.Close(), l.Close()); err != nil {
		t.Error(err)
	}
	if err := <-dialled; !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("dialling while it closes: %v", err)
	}
	if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("accepting after Close: %v", err)
	}
	again, err := network.Listen("a:80")
	if err != nil {
		t.Fatalf("listening again: %v", err)
	}
	_ = again.Close()
}

// An engine under virtual time: an answer of a hundred tokens takes as long as on
// the card that is simulated, and none of ours.
func TestVirtualTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var network simtest.Network
		l, err := network.Listen("engine:80")
		if err != nil {
			t.Fatal(err)
		}
		engine, err := sim.New(sim.DefaultConfig(), sim.Deps{})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		served := make(chan error, 1)
		go func() { served <- engine.Serve(ctx, l) }()
		transport := &http.Transport{DialContext: network.Dial}
		begin := time.Now()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://engine/v1/completions",
			strings.NewReader(`{"model":"sim-8b","prompt":"Hello","max_tokens":100,"ignore_eos":true}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		resp, err := (&http.Client{Transport: transport}).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_, err = io.Copy(io.Discard, resp.Body)
		if took := time.Since(begin); err != nil || took < 100*time.Millisecond || took > 10*time.Second {
			t.Errorf("took %v, %v", took, err)
		}
		_ = resp.Body.Close()
		transport.CloseIdleConnections()
		stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
}
