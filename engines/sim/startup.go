package sim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// ErrCrashed ends [Engine.Serve] and [Engine.Idle] when Faults.CrashAfter says so.
var ErrCrashed = errors.New("sim: crashed, as faults.crash_after asks")

// What Faults.FailLoad may be.
const (
	failMemory  = "memory"
	failContext = "context"
	failHang    = "hang"
)

// shards are the files of weights that loading is told of one by one.
const shards = 4

// Load takes Config.LoadTime and logs what a launcher looks for, in vLLM's words:
// the lines are made for pattern matching. With Faults.FailLoad it returns the
// error for which an engine gives up, or ctx's cause. Call it before
// [Engine.Serve]; a listener that is opened after it refuses connections until
// then, as vLLM's does.
func (e *Engine) Load(ctx context.Context) error {
	fail := e.Faults().FailLoad
	if e.cfg.LoadTime == 0 && fail == "" {
		return nil
	}
	weights := e.cfg.LoadTime * 3 / 4
	e.log.Info("Starting to load model " + cmp.Or(e.cfg.Weights, e.cfg.Model) + "...")
	for i := range shards {
		if err := pause(ctx, weights/shards); err != nil {
			return err
		}
		e.log.Info(fmt.Sprintf("Loading safetensors checkpoint shards: %d%% Completed | %d/%d", (i+1)*100/shards, i+1, shards))
		if i == shards/2 && fail != "" {
			return e.failLoad(ctx, fail)
		}
	}
	e.log.Info(fmt.Sprintf("Loading weights took %.2f seconds", weights.Seconds()))
	e.log.Info(fmt.Sprintf("GPU KV cache size: %d tokens", e.cfg.NumGPUBlocks*e.cfg.BlockSize))
	if err := pause(ctx, e.cfg.LoadTime-weights); err != nil {
		return err
	}
	e.log.Info(fmt.Sprintf("init engine (profile, create kv cache, warmup model) took %.2f s", (e.cfg.LoadTime - weights).Seconds()))
	return nil
}

func (e *Engine) failLoad(ctx context.Context, fail string) error {
	switch fail {
	case failMemory:
		return errors.New("sim: torch.OutOfMemoryError: CUDA out of memory, as faults.fail_load asks")
	case failContext:
		return fmt.Errorf("sim: to serve at least one request with the model's max seq len (%d) more KV cache is needed, "+
			"as faults.fail_load asks; the estimated maximum model length is %d", e.cfg.MaxModelLen, e.cfg.MaxModelLen/2)
	}
	<-ctx.Done()
	return context.Cause(ctx)
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Idle is the life of a rank that does not lead: it serves nothing until ctx is
// done, closes the engine and returns nil, or [ErrCrashed] if that is asked for.
func (e *Engine) Idle(ctx context.Context) error {
	e.crash.after(e.Faults().CrashAfter)
	defer e.Close()
	select {
	case <-ctx.Done():
		return nil
	case <-e.crash.now:
		return ErrCrashed
	}
}

// crash is when an engine ends by itself.
type crash struct {
	now  chan struct{} // closed then
	once sync.Once

	mu    sync.Mutex
	timer *time.Timer // guarded by mu; nil: never
}

// after sets when, counted from now; 0 is never.
func (c *crash) after(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.timer != nil {
		c.timer.Stop()
		c.timer = nil
	}
	if d > 0 {
		c.timer = time.AfterFunc(d, func() { c.once.Do(func() { close(c.now) }) })
	}
}
