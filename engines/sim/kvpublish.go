package sim

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/llmgw/llmgw/engines/kvevents"
)

// KVEvents is whether and how the engine tells of its prefix cache. Names
// follow vLLM's --kv-events-config.
type KVEvents struct {
	// Enabled tells of every block that comes into the prefix cache or leaves
	// it. Default false.
	Enabled bool `yaml:"enable_kv_cache_events"`
	// Endpoint is where [Engine.Serve] publishes, tcp://HOST:PORT; port 0
	// takes a free one, which the log names. Default tcp://127.0.0.1:5557;
	// empty leaves it to [Engine.ServeKVEvents].
	Endpoint string `yaml:"endpoint"`
	// ReplayEndpoint is where it answers for batches that were missed.
	// Default empty: nowhere.
	ReplayEndpoint string `yaml:"replay_endpoint"`
	// Topic is the first frame of every message. Default empty; up to 255
	// bytes.
	Topic string `yaml:"topic"`
	// Encoding is how events are written: map (vLLM from v0.24) or array
	// (before, and SGLang). Default map.
	Encoding string `yaml:"encoding"`
	// BufferSteps is how many batches are kept for replay, within 64 MiB.
	// Default 10000; 0 keeps none; not negative.
	BufferSteps int `yaml:"buffer_steps"`
	// HWM is how many batches may wait for one subscriber; what comes beyond
	// is lost to it. Default 10000 (vLLM 100000); 1 or more.
	HWM int `yaml:"hwm"`
}

func (k KVEvents) validate() error {
	var errs []error
	endpoint := func(key, v string) {
		if v == "" {
			return
		}
		if err := kvevents.CheckEndpoint(v); err != nil {
			errs = append(errs, fmt.Errorf("kv_events.%s: %w", key, err))
		}
	}
	endpoint("endpoint", k.Endpoint)
	endpoint("replay_endpoint", k.ReplayEndpoint)
	if k.Endpoint == "" && k.ReplayEndpoint != "" {
		errs = append(errs, errors.New("kv_events.replay_endpoint: it needs an endpoint, too; want e.g. kv_events.endpoint: tcp://127.0.0.1:5557"))
	}
	if _, err := kvevents.ParseEncoding(k.Encoding); err != nil {
		errs = append(errs, fmt.Errorf("kv_events.encoding: %w", err))
	}
	if len(k.Topic) > 255 {
		errs = append(errs, fmt.Errorf("kv_events.topic: %d bytes are too many; want at most 255", len(k.Topic)))
	}
	if k.BufferSteps < 0 {
		errs = append(errs, fmt.Errorf("kv_events.buffer_steps: %d is negative; want 0 (keeps none) or more", k.BufferSteps))
	}
	if k.HWM < 1 {
		errs = append(errs, fmt.Errorf("kv_events.hwm: %d is too small; want 1 or more", k.HWM))
	}
	return errors.Join(errs...)
}

func (k KVEvents) publisher() kvevents.PublisherConfig {
	cfg := kvevents.DefaultPublisherConfig()
	cfg.Topic, cfg.BufferSteps, cfg.HWM = k.Topic, k.BufferSteps, k.HWM
	cfg.Encoding, _ = kvevents.ParseEncoding(k.Encoding) // valid
	return cfg
}

// errNoKVEvents is what ServeKVEvents says to an engine that tells nothing.
var errNoKVEvents = errors.New("sim: kv_events.enable_kv_cache_events is false")

// ServeKVEvents tells subscribers on events of the prefix cache, and answers for
// missed batches on replay, which may be nil, until ctx is done; then it closes
// both and returns nil. It is for listeners of the caller's own;
// [Engine.Serve] opens those of Config.KVEvents. It returns an error at once if
// the configuration does not enable events, or if a listener fails.
func (e *Engine) ServeKVEvents(ctx context.Context, events, replay net.Listener) error {
	if e.events == nil {
		return errNoKVEvents
	}
	return e.events.Serve(ctx, events, replay)
}

// openKVEvents serves the configured endpoints until the returned function is
// called, which waits for the end.
func (e *Engine) openKVEvents(ctx context.Context) (stop func(), err error) {
	k := e.cfg.KVEvents
	if e.events == nil || k.Endpoint == "" {
		return func() {}, nil
	}
	events, err := kvevents.Listen(ctx, k.Endpoint)
	if err != nil {
		return nil, fmt.Errorf("kv_events.endpoint: %w", err)
	}
	var replay net.Listener
	at := []any{"endpoint", "tcp://" + events.Addr().String()}
	if k.ReplayEndpoint != "" {
		if replay, err = kvevents.Listen(ctx, k.ReplayEndpoint); err != nil {
			_ = events.Close()
			return nil, fmt.Errorf("kv_events.replay_endpoint: %w", err)
		}
		at = append(at, "replay_endpoint", "tcp://"+replay.Addr().String())
	}
	e.log.Info("KV events are published", at...)
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := e.events.Serve(ctx, events, replay); err != nil {
			e.log.Error("KV events are published no more", "err", err)
		}
	}()
	return func() {
		cancel()
		<-done
	}, nil
}
