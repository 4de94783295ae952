package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/llmgw/llmgw/cmd/internal/bench/engine"
	"github.com/llmgw/llmgw/cmd/internal/bench/load"
	"github.com/llmgw/llmgw/cmd/internal/bench/peer"
	"github.com/llmgw/llmgw/cmd/internal/bench/wire"
)

// soak is one run.
type soak struct {
	opts    options
	engines []*engine.Engine
	peer    *peer.Peer
	logger  *slog.Logger
}

// outcome is what a run found. It passed when Problems is empty.
type outcome struct {
	Target     string                 `json:"target"`
	Seconds    float64                `json:"seconds"`
	Streams    int                    `json:"streams"`
	Concurrent int64                  `json:"concurrent"` // most answers under way at once
	Whole      int64                  `json:"whole"`
	Failed     map[load.Failure]int64 `json:"failed,omitempty"`
	HungUp     int64                  `json:"hung_up"`
	Redials    int64                  `json:"redials"`
	// AlteredPrompts counts requests that the engines refused since the prompt
	// was not the one sent.
	AlteredPrompts int64    `json:"altered_prompts"`
	PeakRSSBytes   int64    `json:"peak_rss_bytes"`
	Before         reading  `json:"before"`
	After          reading  `json:"after"`
	Problems       []string `json:"problems,omitempty"`

	log string // the end of what the target wrote
}

func (o *outcome) problem(format string, args ...any) {
	o.Problems = append(o.Problems, fmt.Sprintf(format, args...))
}

// String is the outcome in one line, and one more for each problem.
func (o *outcome) String() string {
	word := "ok"
	if len(o.Problems) > 0 {
		word = "FAILED"
	}
	var errs int64
	for f, n := range o.Failed {
		if f != load.Cut && f != load.Altered && f != load.Lost && f != load.NoDone {
			errs += n
		}
	}
	line := fmt.Sprintf("%s: %s for %.0fs, %d streams at a time (%d seen): %d whole, %d cut, %d altered, %d lost events, %d without [DONE], %d errors, "+
		"%d prompts altered; %d hung up on purpose, %d redials; peak RSS %d MiB; before: %s; after: %s",
		word, o.Target, o.Seconds, o.Streams, o.Concurrent, o.Whole, o.Failed[load.Cut], o.Failed[load.Altered], o.Failed[load.Lost],
		o.Failed[load.NoDone], errs, o.AlteredPrompts, o.HungUp, o.Redials, o.PeakRSSBytes>>20, o.Before, o.After)
	return strings.Join(append([]string{line}, o.Problems...), "\n  ")
}

// mix are short and long streams with small and large prompts, so that callers
// do not march in step. The shortest begin at once, which some proxies mistake
// for an answer to a request that they have not finished sending.
func mix(gap time.Duration) []load.Shape {
	var out []load.Shape
	for i, events := range []int{4, 16, 64, 200} {
		out = append(out, load.Shape{
			Params: wire.Params{FirstDelay: time.Duration(i) * 20 * time.Millisecond, Gap: gap, Events: events},
			Stream: true, PromptBytes: 512 << (2 * i), Prompts: 32,
		})
	}
	return out
}

// run soaks, lets everything come to rest and judges. An error means that the
// run itself did not work.
func (s *soak) run(ctx context.Context) (*outcome, error) {
	before, err := s.read(ctx)
	if err != nil {
		return nil, fmt.Errorf("before the load: %w", err)
	}
	s.logger.Info("soaking", "target", s.peer.Name, "for", s.opts.duration, "streams", s.opts.streams)
	watching, stop := context.WithCancel(ctx)
	most := make(chan int64)
	go func() { most <- s.watch(watching) }()
	res, err := load.Run(ctx, load.Config{
		Addrs: s.peer.Addrs, Mix: mix(s.opts.gap), Callers: s.opts.streams, HangUpRatio: s.opts.hangUps,
		Window: s.opts.duration, Timeout: time.Minute + 250*s.opts.gap,
	})
	stop()
	concurrent := <-most
	if err := errors.Join(err, ctx.Err()); err != nil {
		return nil, err
	}
	out := &outcome{
		Target: s.peer.Name, Seconds: s.opts.duration.Seconds(), Streams: s.opts.streams, Concurrent: concurrent,
		Whole: res.Whole, Failed: res.Failed, HungUp: res.HungUp, Redials: res.Redials, PeakRSSBytes: s.peer.Process.PeakRSS(), Before: before,
	}
	defer func() { out.log = s.peer.Process.Log() }()
	if s.peer.Process.Exited() {
		out.problem("%s ended during the run", s.peer.Name)
		return out, nil
	}
	if out.After, err = s.rest(ctx, before); err != nil {
		return nil, fmt.Errorf("after the load: %w", err)
	}
	for _, e := range s.engines {
		out.AlteredPrompts += e.Stats().PromptAltered
	}
	s.judge(out)
	return out, nil
}

// judge notes what is off.
func (s *soak) judge(o *outcome) {
	for f, n := range o.Failed {
		o.problem("%d answers failed: %s", n, f)
	}
	if o.AlteredPrompts > 0 {
		o.problem("%d prompts reached an engine altered", o.AlteredPrompts)
	}
	if o.Whole == 0 {
		o.problem("no stream was whole")
	}
	// A few callers are always between two streams.
	if o.Concurrent < int64(o.Streams)*9/10 {
		o.problem("at most %d of %d streams ran at the same time", o.Concurrent, o.Streams)
	}
	o.Problems = append(o.Problems, o.After.unrest(o.Before, s.opts)...)
}

// watch returns the most answers that the engines had under way at once before
// ctx was done.
func (s *soak) watch(ctx context.Context) (most int64) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for n := 1; ; n++ {
		select {
		case <-ctx.Done():
			return most
		case <-tick.C:
			var running int64
			for _, e := range s.engines {
				running += e.Stats().Running
			}
			most = max(most, running)
			if n%600 == 0 {
				s.logger.Info("soaking", "minute", n/600, "running", running)
			}
		}
	}
}

// rest waits until the target has come to rest, at most as long as allowed, and
// returns its last reading.
func (s *soak) rest(ctx context.Context, before reading) (reading, error) {
	for end := time.Now().Add(s.opts.settle); ; time.Sleep(500 * time.Millisecond) {
		r, err := s.read(ctx)
		if err != nil || len(r.unrest(before, s.opts)) == 0 || time.Now().After(end) {
			return r, err
		}
	}
}
