package main

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/llmgw/llmgw/cmd/internal/cli"
)

// TestMain lets the test binary be llmgw, too, so that both are built alike.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "server" {
		os.Exit(cli.Main(context.Background(), os.Args[1:], cli.Streams{Out: os.Stdout, Err: os.Stderr}))
	}
	os.Exit(m.Run())
}

func newBench(t *testing.T, opts options) (*bench, *bytes.Buffer) {
	t.Helper()
	// A child gets a signal when the thread that started it ends.
	runtime.LockOSThread()
	opts.binary = "/proc/self/exe"
	var out bytes.Buffer
	return &bench{opts: opts, dir: t.TempDir(), out: &out, log: slog.New(slog.DiscardHandler)}, &out
}

// A server that is killed has all its agents back when it is started again; no
// shard is started anew, and no node is new.
func TestRestart(t *testing.T) {
	b, out := newBench(t, options{restart: 100, back: time.Minute, journal: 100 * time.Millisecond, backoff: 500 * time.Millisecond})
	if err := b.restarts(t.Context(), killed()); err != nil {
		t.Fatal(err)
	}
	for _, p := range b.problems {
		t.Error(p)
	}
	if n := strings.Count(out.String(), "all 100 agents back"); n != 1 {
		t.Errorf("%d of 1 restart:\n%s", n, out)
	}
}

// What the agents say they have is what is read of such a machine.
func TestInventory(t *testing.T) {
	text, err := os.ReadFile("../../../../fleet/hardware/testdata/h100x8.json")
	if err != nil {
		t.Fatal(err)
	}
	var want bytes.Buffer
	for line := range bytes.Lines(text) {
		if !bytes.HasPrefix(line, []byte("//")) {
			want.Write(line)
		}
	}
	if !bytes.Equal(want.Bytes(), inventoryJSON) {
		t.Error("h100x8.json is not that of fleet/hardware/testdata without its comments; copy it")
	}
	of, err := hardware()
	if err != nil {
		t.Fatal(err)
	}
	has := inventory(of)
	if inv := has("node-7"); len(inv.GPUs) != shards || inv.Host.Hostname != "node-7" || has("node-8").Host.Hostname != "node-8" {
		t.Errorf("%d cards of host %q", len(inv.GPUs), inv.Host.Hostname)
	}
}

// Cards that work say something new with each heartbeat, and nothing that cannot be.
func TestWorking(t *testing.T) {
	of, err := hardware()
	if err != nil {
		t.Fatal(err)
	}
	at := working(of)
	for sequence := range uint64(40) {
		was, is := at("node-1", sequence), at("node-1", sequence+1)
		for i := range is.GPUs {
			was, is, idle := was.GPUs[i], is.GPUs[i], of.State.GPUs[i]
			if was.MemoryUsedBytes == is.MemoryUsedBytes || was.TemperatureC == is.TemperatureC || was.UtilizationRatio == is.UtilizationRatio {
				t.Errorf("heartbeat %d: card %d is as it was: %+v", sequence, i, is)
			}
			if is.MemoryUsedBytes.Or(0)+is.MemoryFreeBytes.Or(0) != idle.MemoryUsedBytes.Or(0)+idle.MemoryFreeBytes.Or(0) || is.UtilizationRatio.Or(2) > 1 {
				t.Errorf("heartbeat %d: card %d: %+v", sequence, i, is)
			}
		}
	}
}

func TestParseFlags(t *testing.T) {
	if o, err := parseFlags(nil); err != nil || o.restart != 500 || o.steady != 2000 || o.disturb != 500 {
		t.Errorf("%+v, %v", o, err)
	}
	for _, args := range [][]string{{"x"}, {"-steady", "-1"}, {"-d", "1ms"}, {"-rounds", "0"}, {"-back", "0s"}, {"-journal", "0s"}, {"-backoff", "0s"}} {
		if _, err := parseFlags(args); err == nil {
			t.Errorf("%q is taken", args)
		}
	}
}

func TestLatencies(t *testing.T) {
	var l latencies
	if q := l.take(); q != (quantiles{}) {
		t.Errorf("of none: %v", q)
	}
	for i := range 100 {
		l.add(time.Duration(100-i) * time.Millisecond)
	}
	if q := l.take(); q.count != 100 || q.median != 51*time.Millisecond || q.p99 != 100*time.Millisecond || q.most != 100*time.Millisecond {
		t.Errorf("%v", q)
	}
	if q := l.take(); q.count != 0 {
		t.Errorf("taken twice: %v", q)
	}
}
