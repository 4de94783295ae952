package peer_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/llmgw/llmgw/cmd/internal/bench/load"
	"github.com/llmgw/llmgw/cmd/internal/bench/peer"
	"github.com/llmgw/llmgw/cmd/internal/bench/wire"
)

// TestMain lets the test binary play the roles in which the package starts it.
func TestMain(m *testing.M) {
	if played, err := peer.RunRole(os.Args[1:]); played {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	// Under the race detector a program rests for a second before it ends.
	os.Setenv("GORACE", "atexit_sleep_ms=0")
	os.Exit(m.Run())
}

func TestEveryProxyPassesAnswersOn(t *testing.T) {
	// A child gets a signal when the thread that started it ends.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	dir := t.TempDir()
	engines, err := peer.Engines(t.Context(), dir, 3)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(engines.Process.Stop)
	starts := map[string]func(context.Context, string, []string) (*peer.Peer, error){
		"reverseproxy": peer.ReverseProxy, "nginx": peer.Nginx, "haproxy": peer.HAProxy,
	}
	for name, start := range starts {
		t.Run(name, func(t *testing.T) {
			p, err := start(t.Context(), dir, engines.Addrs)
			if errors.Is(err, peer.ErrNotInstalled) && os.Getenv("LLMGW_TEST_PROXIES") == "" {
				t.Skipf("%v; with LLMGW_TEST_PROXIES set it must be", err)
			}
			if err != nil {
				t.Fatal(err)
			}
			defer p.Process.Stop()
			before, err := p.Process.CPU()
			if err != nil {
				t.Fatal(err)
			}
			res, err := peer.Load(t.Context(), load.Config{
				Addrs: p.Addrs, Callers: 8, Window: 150 * time.Millisecond, Timeout: 5 * time.Second,
				Mix: []load.Shape{
					{Params: wire.Params{AnswerBytes: 1024}, PromptBytes: 100_000, Prompts: 2},
					{Params: wire.Params{Events: 10, Gap: time.Millisecond}, Stream: true, PromptBytes: 100, Prompts: 2},
				},
			})
			if err != nil || res.Whole == 0 {
				t.Fatalf("%+v, %v", res, err)
			}
			if name == "reverseproxy" {
				// It now and then closes the engine's connection under an answer
				// that begins at once ("read error during body copy: … use of
				// closed network connection"), which is its own doing.
				delete(res.Failed, load.Cut)
			}
			if res.FailedTotal() != 0 {
				t.Errorf("failed: %v", res.Failed)
			}
			after, err := p.Process.CPU()
			if err != nil || after <= before {
				t.Errorf("cpu time %v, then %v, %v", before, after, err)
			}
			if p.Process.PeakRSS() < 1<<20 {
				t.Errorf("peak RSS of %d bytes", p.Process.PeakRSS())
			}
			if n, err := p.Process.OpenFiles(); err != nil || n < 3 {
				t.Errorf("%d open files, %v", n, err)
			}
			p.Process.Stop()
			if !p.Process.Exited() {
				t.Error("still running")
			}
			if _, err := p.Process.CPU(); err == nil {
				t.Error("CPU time of a process that ended")
			}
		})
	}
}

func TestGatewayThatDoesNotStart(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	_, err := peer.Gateway(t.Context(), "llmgw", "/bin/false", t.TempDir(), "", []string{"127.0.0.1:1"})
	if err == nil {
		t.Error("a gateway that ended at once is up")
	}
	_, err = peer.Gateway(t.Context(), "llmgw", "/nowhere/llmgw", t.TempDir(), "", nil)
	if !errors.Is(err, peer.ErrNotInstalled) {
		t.Errorf("error %v", err)
	}
}
