package flight_test

import (
	"context"
	"testing"
	"time"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/placement/scale"
	"github.com/llmgw/llmgw/router/gateway/flight"
	"github.com/llmgw/llmgw/storage/record"
)

// Each decision on how many replicas run is made again by itself, and one whose
// record was tampered with shows.
func TestScaleReplays(t *testing.T) {
	dir := t.TempDir()
	cfg := record.DefaultConfig()
	cfg.Dir = dir
	log, err := record.New(cfg, record.Deps{Key: record.NewKey(), Writer: "test"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	kept := make(chan error, 1)
	go func() { kept <- log.Keep(ctx) }()
	config := scale.DefaultConfig()
	config.UpWindow, config.DownWindow = time.Second, time.Second
	var s scale.Scaler
	now, want, n := time.Now(), 0, 0
	for i := range 600 {
		now = now.Add(time.Second)
		in := scale.Input{Now: now, Max: 4, Ready: want}
		switch {
		case i%200 < 20:
			in.Waiting, in.Asked = 3, engines.Known(time.Duration(0))
		case i%200 < 100:
			in.Load = engines.Known(1.25)
		default:
			in.Load, in.Idle = engines.Known(0.0), engines.Known(time.Hour)
		}
		rec := scale.Record{Config: config, Input: in, Before: s.State()}
		rec.Decision = s.Step(config, in)
		want = rec.Decision.Want
		if !rec.Decision.Changed {
			continue
		}
		if n++; n == 5 {
			rec.Decision.Want++ // not what was decided
		}
		if err := flight.Scaled(log, "m", &rec); err != nil {
			t.Fatal(err)
		}
	}
	stop()
	if err := <-kept; err != nil {
		t.Fatal(err)
	}
	reader, err := record.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close() //nolint:errcheck // only read
	report, err := flight.Replay(t.Context(), reader, flight.Options{})
	if err != nil {
		t.Fatal(err)
	}
	c := report.Scaling
	if n < 8 || c.Recorded != n || c.Replayed != n || c.Differ != 1 || c.First == nil || report.OK() || len(report.Faults) > 0 {
		t.Fatalf("%d decisions: %+v, first %+v, faults %v", n, c, c.First, report.Faults)
	}
}
