package gateway

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/llmgw/llmgw/placement/scale"
	"github.com/llmgw/llmgw/router"
	"github.com/llmgw/llmgw/router/gateway/flight"
	"github.com/llmgw/llmgw/router/openai"
	"github.com/llmgw/llmgw/router/prefix"
	"github.com/llmgw/llmgw/storage/record"
)

// Recorder is the section `recorder`: where decisions are written down, with all
// they were made on, and never a text of a prompt or an answer. See package flight.
type Recorder struct {
	// RingBytes is the memory for recent decisions, which the admin listener
	// shows under /debug/decisions. Default 4194304 (4 MiB), about the last 10,000
	// requests; 0 keeps none; otherwise at least 1048576 (1 MiB) and at most
	// 1 GiB.
	RingBytes int64 `yaml:"ring_bytes"`
	// Dir is the directory of a log of all decisions, for llmgw replay; nothing
	// else should be in it. Default "", no log. If it cannot be written to, requests
	// are served all the same.
	Dir string `yaml:"dir"`
	// KeyFile is the file with the key of the fingerprints that stand in the log for
	// request ids, tenants, sessions and prompts; it is made if it is not there.
	// Default "", which is dir with the ending .key. It is looked at with dir
	// only. Routers that share sessions should have the same file: with dir they
	// find a session's endpoint by its fingerprint.
	KeyFile string `yaml:"key_file"`
	// MaxBytes bounds the log in dir; the oldest goes first. Default 536870912
	// (512 MiB); at least 33554432 (32 MiB). A request takes some 500 bytes, and 8
	// more for each KiB of prompt.
	MaxBytes int64 `yaml:"max_bytes"`
	// MaxAge is how long a decision is kept in dir at most. Default 72h; must be
	// at least 1m.
	MaxAge time.Duration `yaml:"max_age"`
	// SyncInterval is how often what was written is made to survive a crash of the
	// machine. A crash of the process loses the last second at most, whatever
	// stands here. Default 30s; 0 leaves it to the system; negative is an error.
	SyncInterval time.Duration `yaml:"sync_interval"`
}

func defaultRecorder() Recorder {
	log := record.DefaultConfig()
	return Recorder{RingBytes: 4 << 20, MaxBytes: log.MaxBytes, MaxAge: log.MaxAge, SyncInterval: log.SyncInterval}
}

const (
	minRingBytes = 1 << 20 // so that a decision on all of 1,000 endpoints has room
	maxRingBytes = 1 << 30
)

// validateRecorder reports the faults of the section.
func (c Config) validateRecorder() []error {
	r := c.Recorder
	var errs []error
	if r.RingBytes != 0 && (r.RingBytes < minRingBytes || r.RingBytes > maxRingBytes) {
		errs = append(errs, fmt.Errorf("ring_bytes: %d is out of range; want 0 (keep none) or %d (1 MiB) to %d (1 GiB)", r.RingBytes, minRingBytes, maxRingBytes))
	}
	if r.MaxBytes < 4*record.DefaultConfig().BufferBytes {
		errs = append(errs, fmt.Errorf("max_bytes: %d is too small; want %d (32 MiB) or more", r.MaxBytes, 4*record.DefaultConfig().BufferBytes))
	}
	if r.MaxAge < time.Minute {
		errs = append(errs, fmt.Errorf("max_age: %v is too short; want 1m or more, e.g. 72h", r.MaxAge))
	}
	if r.SyncInterval < 0 {
		errs = append(errs, fmt.Errorf("sync_interval: %v is negative; want 0 (leave it to the system) or more, e.g. 30s", r.SyncInterval))
	}
	if r.KeyFile != "" && r.Dir == "" {
		errs = append(errs, fmt.Errorf("key_file: %q is for the log, but dir is empty; set both, or leave key_file out", r.KeyFile))
	}
	return under("recorder.", errs...)
}

// log is the configuration of the log's own.
func (r Recorder) log() record.Config {
	cfg := record.DefaultConfig()
	cfg.Dir, cfg.MaxBytes, cfg.MaxAge, cfg.SyncInterval = r.Dir, r.MaxBytes, r.MaxAge, r.SyncInterval
	return cfg
}

// newRecorder makes what cfg.Recorder describes; without a ring and a log there is
// none.
func (g *Gateway) newRecorder(cfg Config, deps Deps) error {
	parts := flight.Deps{Key: record.NewKey(), Pool: g.endpoints.Snapshot}
	switch {
	case deps.Log != nil:
		parts.Log, parts.Key = deps.Log, deps.Log.Key()
	case cfg.Recorder.Dir != "":
		key, err := g.recordKey(cfg.Recorder)
		if err != nil {
			return err
		}
		g.flightLog, err = record.New(cfg.Recorder.log(), record.Deps{
			Key: key, Writer: deps.Writer, Logger: g.log, Registerer: deps.Registerer,
		})
		if err != nil {
			return fmt.Errorf("gateway: %w", err)
		}
		parts.Log, parts.Key = g.flightLog, key
	}
	if n := cfg.Recorder.RingBytes; n > 0 {
		ring, err := record.NewRing(record.RingConfig{MaxBytes: n}, parts.Key)
		if err != nil {
			return fmt.Errorf("gateway: %w", err)
		}
		parts.Ring = ring
	}
	if parts.Log == nil && parts.Ring == nil {
		return nil
	}
	setup := flight.Setup{Scoring: cfg.scoring()}
	for _, p := range deps.Profiles {
		setup.Profiles = append(setup.Profiles, p.Name)
	}
	if a := cfg.admission(); a.Enabled && deps.Admitter == nil {
		setup.Admission = &a
	}
	var err error
	g.recorder, err = flight.NewRecorder(setup, parts)
	return err
}

// recordKey reads the key of the log's fingerprints. One that cannot be made, as
// where the disk is full, keeps nobody from serving.
func (g *Gateway) recordKey(cfg Recorder) (record.Key, error) {
	path := cfg.KeyFile
	if path == "" {
		path = filepath.Clean(cfg.Dir) + ".key"
	}
	err := os.MkdirAll(filepath.Dir(path), 0o700)
	if err == nil {
		var key record.Key
		if key, err = record.KeyFile(path); err == nil {
			return key, nil
		}
	}
	if errors.Is(err, record.ErrInvalid) {
		return record.Key{}, fmt.Errorf("gateway: recorder.key_file: %w", err)
	}
	g.log.Warn("the recorder's key cannot be kept; fingerprints are this process's own", "file", path, "err", err)
	return record.NewKey(), nil
}

// keepLog writes the log until ctx is done. Its end is no reason to end anything.
func (g *Gateway) keepLog(ctx context.Context) {
	if err := g.flightLog.Keep(ctx); err != nil {
		g.log.Error("the recorder's log was not written to its end", "err", err)
	}
}

// Decisions returns recent decisions, the newest first, each with its candidates,
// their signals, votes and scores, and with what became of the request: why it
// went where it did. It looks at the ring in memory (Recorder.RingBytes), and
// returns none where that is switched off. It never makes a request wait. The
// caller owns the result.
func (g *Gateway) Decisions(q flight.Query) []flight.Recent {
	if g.recorder == nil {
		return nil
	}
	return g.recorder.Recent(q, g.scheduler)
}

// recording tells the flight recorder of decisions and outcomes, then the next.
type recording struct {
	g    *Gateway
	next router.Recorder
	all  router.DecisionRecorder // next, if it is one
}

func (g *Gateway) recording(next router.Recorder, embedder router.Recorder) router.Recorder {
	all, _ := embedder.(router.DecisionRecorder)
	if g.recorder == nil && all == nil {
		return next
	}
	return recording{g: g, next: next, all: all}
}

// RecordDecision implements [router.DecisionRecorder].
func (r recording) RecordDecision(o *router.Outcome, pinned bool) {
	if r.g.recorder != nil {
		r.g.recorder.Decided(o.ID, flight.Route{Attempt: o.Attempts + 1, Pinned: pinned}, o.Decision)
	}
	if r.all != nil {
		r.all.RecordDecision(o, pinned)
	}
}

// Record implements [router.Recorder]. A request that asked for no model, such as
// for the list of them, decided nothing.
func (r recording) Record(o *router.Outcome) {
	if r.g.recorder != nil && o.Model != "" {
		r.g.ended(o)
	}
	r.next.Record(o)
}

// ended writes down what became of a request.
func (g *Gateway) ended(o *router.Outcome) {
	out := flight.Outcome{
		Path: o.Path, Model: o.Model, Served: o.Served, Band: o.Identity.Band,
		Start: o.Start, FirstContent: o.FirstContent, End: o.End,
		Status: o.Status, Result: o.Result.String(), Code: o.Code, Stream: o.Stream, Attempts: o.Attempts,
		PromptBytes: o.PromptBytes, BytesOut: o.BytesOut,
	}
	// The last decision may have found nobody after another had been asked.
	if d := o.Decision; d != nil && d.Picked >= 0 && d.Candidates[d.Picked].Endpoint.ID() == o.Endpoint {
		out.Endpoint = d.Candidates[d.Picked].Hash
	}
	if o.HasUsage {
		u := &o.Usage
		out.PromptTokens, out.CachedTokens, out.OutputTokens = recordTokens(u.PromptTokens), recordTokens(u.CachedTokens), recordTokens(u.CompletionTokens)
	}
	if p, ok := o.Prompt.(*prompt); ok && g.recorder.Logs() {
		out.Blocks, out.BlockBytes = p.recorded(), flight.BlockBytes
	}
	g.recorder.Ended(o.ID, o.Session, o.Identity.Tenant, &out)
}

func recordTokens(c openai.Count) flight.Tokens {
	n, ok := c.Get()
	if !ok {
		return flight.Tokens{}
	}
	return flight.CountTokens(n)
}

const blockChunks = flight.BlockBytes / prefix.ChunkBytes

// recorded returns a hash for each whole block of the prompt, valid until the
// prompt is given back.
func (p *prompt) recorded() []uint64 {
	p.written = p.written[:0]
	if p.model == "" || p.state == readNothing {
		return p.written
	}
	for i := blockChunks - 1; i < p.chain.Chunks(); i += blockChunks {
		p.written = append(p.written, p.chain.Hash(i))
	}
	return p.written
}

// Scaled writes a decision on how many replicas of a model are wanted into the
// recorder's log, where there is one. It never waits.
func (g *Gateway) Scaled(model string, r *scale.Record) {
	if g.flightLog == nil {
		return
	}
	if err := flight.Scaled(g.flightLog, model, r); err != nil {
		g.log.Warn("a decision of scaling was not recorded", "model", model, "err", err)
	}
}
