package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/llmgw/llmgw/cmd/internal/bench/measure"
)

// registering is how long the agents of a steady state may take to come.
const registering = 2 * time.Minute

// steady measures a server whose agents do nothing but live.
func (b *bench) steady(ctx context.Context) error {
	certs, err := newCertificates()
	if err != nil {
		return err
	}
	s, err := newServer(ctx, b.opts, filepath.Join(b.dir, "steady"), certs)
	if err != nil {
		return err
	}
	defer s.process.Stop()
	// They come over two heartbeats, so that heartbeats are spread as in a fleet
	// that has been there for a while.
	f, err := startFleet(ctx, s, certs, fleetOptions{nodes: b.opts.steady, first: 10 * time.Second})
	if err != nil {
		return err
	}
	defer f.stop()
	if _, err := until(ctx, registering, "all agents have come", func() bool { return f.Connected() == b.opts.steady }); err != nil {
		return err
	}
	if !pause(ctx, 2*b.opts.journal) { // until all are in the journal
		return context.Cause(ctx)
	}
	fmt.Fprintf(b.out, "%d agents that live, peak RSS while they came %d MiB\n", b.opts.steady, s.process.PeakRSS()>>20)
	var cores, beats []float64
	var most int64
	for range b.opts.rounds {
		w, err := b.watch(ctx, s)
		if err != nil {
			return err
		}
		fmt.Fprintf(b.out, "  %s\n", w)
		cores, beats, most = append(cores, w.cores()), append(beats, w.beatsPerSecond()), max(most, w.rss)
	}
	if n := f.Connected(); n != b.opts.steady {
		b.problem("%d of %d agents are connected", n, b.opts.steady)
	}
	if err := b.profiles(ctx, s); err != nil {
		return err
	}
	median := measure.Median(cores)
	fmt.Fprintf(b.out, "  median: %.1f %% of a core at %.0f heartbeats a second; most resident %d MiB\n", 100*median, measure.Median(beats), most>>20)
	if b.opts.cores > 0 && median > b.opts.cores {
		b.problem("%d agents cost %.1f %% of a core; want at most %.1f %%", b.opts.steady, 100*median, 100*b.opts.cores)
	}
	if b.opts.memoryMiB > 0 && most>>20 > b.opts.memoryMiB {
		b.problem("with %d agents %d MiB are resident; want at most %d MiB", b.opts.steady, most>>20, b.opts.memoryMiB)
	}
	return nil
}

// window is what one measurement of a server came to.
type window struct {
	length, cpu time.Duration
	beats       float64
	rss         int64 // the most that was seen
	goroutines  float64
}

func (w *window) cores() float64 { return w.cpu.Seconds() / w.length.Seconds() }

func (w *window) beatsPerSecond() float64 { return w.beats / w.length.Seconds() }

func (w *window) String() string {
	return fmt.Sprintf("%v: CPU %v, %.1f %% of a core, %.0f µs a heartbeat; %.0f heartbeats a second; RSS %d MiB; %.0f goroutines",
		w.length.Round(100*time.Millisecond), w.cpu.Round(time.Millisecond), 100*w.cores(), float64(w.cpu.Microseconds())/w.beats, w.beatsPerSecond(), w.rss>>20, w.goroutines)
}

const heartbeats = "llmgw_control_heartbeat_seconds_count"

// watch looks at the server for the length of one measurement.
func (b *bench) watch(ctx context.Context, s *server) (*window, error) {
	before, err := s.metrics(ctx)
	if err != nil {
		return nil, err
	}
	begun := time.Now()
	cpu, err := s.process.CPU()
	if err != nil {
		return nil, err
	}
	w := &window{}
	for time.Since(begun) < b.opts.window {
		if !pause(ctx, min(time.Second, b.opts.window-time.Since(begun))) {
			return nil, context.Cause(ctx)
		}
		w.rss = max(w.rss, s.process.RSS())
	}
	w.length = time.Since(begun)
	now, err := s.process.CPU()
	if err != nil {
		return nil, err
	}
	after, err := s.metrics(ctx)
	if err != nil {
		return nil, err
	}
	w.cpu, w.beats, w.goroutines = now-cpu, after[heartbeats]-before[heartbeats], after["go_goroutines"]
	return w, nil
}

// profiles writes where CPU and memory of the server go, if that is wanted.
func (b *bench) profiles(ctx context.Context, s *server) error {
	if b.opts.profile == "" {
		return nil
	}
	at := func(name string) string { return filepath.Join(b.opts.profile, "agents-"+name+".pprof") }
	return errors.Join(
		s.profile(ctx, "/debug/pprof/profile?seconds=20", at("cpu")),
		s.profile(ctx, "/debug/pprof/allocs?seconds=20", at("allocs")),
		s.profile(ctx, "/debug/pprof/heap?gc=1", at("heap")),
	)
}
