package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/llmgw/llmgw/cmd/internal/app"
	"github.com/llmgw/llmgw/fleet/twin"
	"github.com/llmgw/llmgw/storage/record"
)

// patient is a log that makes its writer wait for the disk: virtual time can.
type patient struct {
	ctx   context.Context //nolint:containedctx // it is one call's
	log   *record.Log
	bytes int // appended since the last flush
	limit int
	err   error // the first
}

// Append takes every record.
func (p *patient) Append(t record.Type, at time.Time, payload []byte) error {
	if p.bytes += len(payload) + 64; p.bytes > p.limit {
		p.bytes = 0
		if err := p.log.Flush(p.ctx); err != nil && p.err == nil {
			p.err = err
		}
	}
	err := p.log.Append(t, at, payload)
	if err != nil && p.err == nil {
		p.err = err
	}
	return err
}

// recordRun runs t to its end with a log in dir.
func recordRun(ctx context.Context, t *twin.Twin, dir string) (r *twin.Report, err error) {
	cfg := record.DefaultConfig()
	cfg.Dir, cfg.MaxBytes = dir, 8<<30
	key, err := record.KeyFile(dir + ".key")
	if err != nil {
		return nil, err
	}
	log, err := record.New(cfg, record.Deps{Key: key, Writer: "llmgw " + app.ReadVersion().Version + " simulate"})
	if err != nil {
		return nil, err
	}
	writing, end := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	go func() { ended <- log.Run(writing) }()
	defer func() {
		end()
		if werr := <-ended; werr != nil {
			err = errors.Join(err, fmt.Errorf("--record: %w", werr))
		}
	}()
	p := &patient{ctx: ctx, log: log, limit: int(cfg.BufferBytes / 4)}
	if err := t.Record(p, key); err != nil {
		return nil, err
	}
	if r, err = t.Run(ctx); err == nil && p.err != nil {
		err = fmt.Errorf("--record: %w", p.err)
	}
	return r, err
}
