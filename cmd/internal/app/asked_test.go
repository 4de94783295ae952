package app_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/llmgw/llmgw/cmd/internal/app"
	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/engines/plugin"
	"github.com/llmgw/llmgw/placement/catalog"
)

// asAdapter in its environment makes the test's own executable a stranger's adapter.
const asAdapter = "LLMGW_TEST_AS_ADAPTER"

func TestMain(m *testing.M) {
	if os.Getenv(asAdapter) != "" {
		plugin.Serve(mystery{})
		return
	}
	goleak.VerifyTestMain(m)
}

// mystery is an adapter whose first rank takes a card more than the others.
type mystery struct{}

func (mystery) Describe(context.Context) (engines.Description, error) {
	return engines.Description{
		Engine: "mystery", Title: "mystery", Version: "1", Modes: []engines.Mode{{Name: "all", MultiNode: true, Doc: "All of it."}},
		Capabilities: engines.Capabilities{ChecksModel: true},
		Metrics: &engines.MetricContract{
			Engine: "mystery", Path: "/load", Prefix: "mystery_", Running: engines.Metric{Names: []string{"mystery_busy"}, Aggregate: engines.AggregateSum},
		},
	}, nil
}

func (mystery) Validate(_ context.Context, p engines.Profile) (engines.Shape, error) {
	if p.Quantization != "" {
		return engines.Shape{}, &engines.ProfileError{Faults: []engines.Fault{{Field: "quantization", Problem: "is nothing that it knows", Advice: "leave it out"}}}
	}
	http := []engines.PortNeed{{Name: engines.PortHTTP, Count: 1}}
	return engines.Shape{Ranks: []engines.RankShape{{Cards: 3, ServesHTTP: true, Ports: http}, {Cards: 1, Ports: http}}}, nil
}

func (mystery) Launch(context.Context, engines.Shard) (engines.Launch, error) {
	return engines.Launch{}, errors.New("a server launches nothing")
}

func (mystery) Checks(context.Context) ([]engines.Check, error) { return nil, nil }

// asking are adapters with a directory of programs, whose host runs.
func asking(t *testing.T, change func(*plugin.Config)) (a *app.Asked, dir string) {
	t.Helper()
	dir = t.TempDir()
	t.Setenv(asAdapter, "1")
	cfg := plugin.DefaultConfig()
	cfg.Dir, cfg.Environment = dir, append(cfg.Environment, asAdapter, "GOCOVERDIR")
	if change != nil {
		change(&cfg)
	}
	host, err := plugin.New(cfg, plugin.Deps{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- host.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return app.NewAsked(app.Adapters(), host), dir
}

// install puts the test's own executable into a directory of adapters.
func install(t *testing.T, dir string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, plugin.Prefix+"mystery")
	script := fmt.Sprintf("#!/bin/sh\nexec '%s' \"$@\"\n", self)
	if err := os.WriteFile(path, []byte(script), 0o755); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
}

var run = engines.Profile{Engine: "mystery", Model: "m", ServedNames: []string{"m"}, Ranks: 2, TensorParallel: 4}

// A stranger's adapter is asked what a replica needs, what its engine can do and what
// is wrong with a model; as long as it is not there nobody says anything.
func TestAsked(t *testing.T) {
	a, dir := asking(t, nil)
	entry := catalog.Model{Name: "m", Source: "/m", Profile: &engines.Profile{Engine: "mystery", Ranks: 2, TensorParallel: 4, Quantization: "odd"}}
	if _, known, err := a.Shape(run); known || err != nil {
		t.Errorf("before it is there: %t, %v", known, err)
	}
	if _, known := a.Describe("mystery"); known || a.CheckRun(&entry) != nil {
		t.Error("before it is there something is known of it")
	}
	install(t, dir)
	shape, known, err := a.Shape(run)
	if err != nil || !known || len(shape.Ranks) != 2 || shape.Ranks[0].Cards != 3 || shape.Ranks[1].Cards != 1 {
		t.Errorf("%+v, %t, %v; want 3 and 1 cards", shape, known, err)
	}
	d, known := a.Describe("mystery")
	if !known || !d.Capabilities.ChecksModel || d.Metrics == nil || d.Metrics.Path != "/load" {
		t.Errorf("%+v, %t", d, known)
	}
	if err := a.CheckRun(&entry); err == nil || err.Error() != "profile.quantization: is nothing that it knows; leave it out" {
		t.Errorf("a profile that it does not take: %v", err)
	}
	// What is built in is asked without a program.
	if shape, known, err := a.Shape(engines.Profile{Engine: engines.Sim, Model: "m", ServedNames: []string{"m"}}); err != nil || !known || len(shape.Ranks) != 1 {
		t.Errorf("%+v, %t, %v", shape, known, err)
	}
}

// An adapter that cannot be trusted or does not come up is told of as one that may
// come up yet, and is not asked again at once.
func TestAskedInVain(t *testing.T) {
	a, dir := asking(t, func(c *plugin.Config) { c.Checksums = map[string]string{"mystery": strings.Repeat("00", 32)} })
	install(t, dir)
	_, known, first := a.Shape(run)
	if !known || !errors.Is(first, engines.ErrUnavailable) || !strings.Contains(first.Error(), "checksum") {
		t.Errorf("%t, %v; want ErrUnavailable, and why", known, first)
	}
	if _, _, again := a.Shape(run); again != first { //nolint:errorlint // the very same
		t.Errorf("asked again at once: %v", again)
	}
	if _, known := a.Describe("mystery"); known {
		t.Error("it is described")
	}
	entry := catalog.Model{Name: "m", Source: "/m", Profile: &engines.Profile{Engine: "mystery"}}
	if err := a.CheckRun(&entry); err != nil {
		t.Errorf("a model is refused for its adapter's sake: %v", err)
	}
}
