package main

import (
	"fmt"
	"net/http"
	"net/http/httputil"
	_ "net/http/pprof" // on the default mux, for the admin listener
	"net/url"
	"os"
	"regexp"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/llmgw/llmgw/cmd/internal/bench/peer"
)

// leakVar makes the fake gateway leave a goroutine behind for every request.
const leakVar = "SOAK_TEST_LEAK"

// TestMain lets the test binary play the gateway, started as llmgw would be, and
// the roles of package peer.
func TestMain(m *testing.M) {
	if len(os.Args) == 4 && os.Args[1] == "server" {
		fmt.Fprintln(os.Stderr, fakeGateway(os.Args[3]))
		os.Exit(1)
	}
	if played, err := peer.RunRole(os.Args[1:]); played {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// fakeGateway serves what a soak looks at: calls, metrics, profiles.
func fakeGateway(file string) error {
	conf, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	find := func(pattern string) string {
		m := regexp.MustCompile(pattern).FindSubmatch(conf)
		if m == nil {
			return ""
		}
		return string(m[1])
	}
	to, err := url.Parse(find(`url: (\S+)`))
	if err != nil {
		return err
	}
	var inFlight atomic.Int64
	proxy := httputil.NewSingleHostReverseProxy(to)
	calls := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		inFlight.Add(1)
		defer inFlight.Add(-1)
		if os.Getenv(leakVar) != "" {
			go func() { select {} }()
		}
		proxy.ServeHTTP(w, r)
	})
	metrics := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, "llmgw_fake_inflight_requests{pool=\"\"} %d\n", inFlight.Load())
	})
	failed := make(chan error)
	serve := func(key string, h http.Handler) {
		s := &http.Server{Addr: find(`(?m)^` + key + `: "(.+)"`), Handler: h, ReadHeaderTimeout: time.Second}
		failed <- s.ListenAndServe()
	}
	go serve("metrics_listen", metrics)
	go serve("admin_listen", http.DefaultServeMux)
	go serve("listen", calls)
	return <-failed
}

func soakFake(t *testing.T) string {
	t.Helper()
	// A child gets a signal when the thread that started it ends.
	runtime.LockOSThread()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	opts, err := parseFlags([]string{"-llmgw", self, "-streams", "10", "-d", "300ms", "-gap", "1ms", "-settle", "2s", "-json"})
	if err != nil {
		t.Fatal(err)
	}
	out, err := runSoak(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	if out.Whole == 0 || out.After.Goroutines == nil || out.After.HeapBytes == nil || out.After.InFlight == nil {
		t.Errorf("outcome %+v", out)
	}
	return strings.Join(out.Problems, "\n")
}

func TestSoakOfACleanGateway(t *testing.T) {
	problems := soakFake(t)
	// The reverse proxy in the fake may cut a stream; see package peer's tests.
	if strings.Contains(problems, "goroutines") || strings.Contains(problems, "flight") || strings.Contains(problems, "altered") {
		t.Error(problems)
	}
}

func TestSoakFindsALeak(t *testing.T) {
	t.Setenv(leakVar, "1")
	if problems := soakFake(t); !strings.Contains(problems, "goroutines") {
		t.Errorf("problems %q; want goroutines", problems)
	}
}
