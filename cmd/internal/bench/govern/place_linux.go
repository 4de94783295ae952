package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/llmgw/llmgw/cmd/internal/storedsn"
	"github.com/llmgw/llmgw/storage"
)

// place is everything that runs.
type place struct {
	opts     options
	log      *slog.Logger
	dir      string
	engine   *engine
	redis    *service
	postgres *service       // nil: the store is a file
	store    storedsn.Store // ours, beside the routers'
	routers  *routers
}

func newPlace(ctx context.Context, opts options, log *slog.Logger) (p *place, err error) {
	p = &place{opts: opts, log: log}
	defer func() {
		if err != nil {
			p.close()
		}
	}()
	if p.dir, err = os.MkdirTemp("", "govern-"); err != nil {
		return nil, err
	}
	if p.engine, err = startEngine(ctx); err != nil {
		return nil, err
	}
	var address, dsn string
	if p.redis, address, err = newRedis(ctx, opts.redis, p.dir); err != nil {
		return nil, err
	}
	if opts.store == "sqlite" {
		dsn = "sqlite:" + filepath.Join(p.home(), "llmgw.db")
	} else if p.postgres, dsn, err = newPostgres(ctx, opts.bin, p.dir); err != nil {
		return nil, err
	}
	if p.store, err = storedsn.Open(storedsn.DSN(dsn), nil, nil); err != nil {
		return nil, err
	}
	if err := p.store.Open(ctx); err != nil {
		return nil, err
	}
	patience := 400 * time.Millisecond
	if opts.away > 0 {
		patience = 30 * time.Second // nothing hangs, and the machine may be busy
	}
	p.routers, err = newRouters(p.dir, opts.routers, map[string]any{
		"Engine": p.engine.url, "DSN": dsn, "Redis": address, "Patience": patience,
		"BufferRows": opts.bufferRows(), "BatchRows": min(500, opts.bufferRows()),
	})
	return p, err
}

func (p *place) close() {
	if p.routers != nil {
		for i := range p.routers.at {
			if at := p.routers.at[i].Load(); at != nil {
				at.process.Stop()
			}
		}
	}
	if p.store != nil {
		_ = p.store.Close()
	}
	for _, s := range []*service{p.redis, p.postgres} {
		if s != nil {
			s.stop()
		}
	}
	if p.engine != nil {
		p.engine.close()
	}
	if p.opts.keep {
		p.log.Info("logs are left", "dir", p.dir)
	} else if p.dir != "" {
		_ = os.RemoveAll(p.dir)
	}
}

// home is the directory of the store that is a file.
func (p *place) home() string { return filepath.Join(p.dir, "store") }

// takeStore takes the store away.
func (p *place) takeStore() error {
	if p.postgres != nil {
		p.postgres.stop()
		return nil
	}
	// Nor can one be made in its place.
	return errors.Join(os.Rename(p.home(), p.home()+".away"), os.WriteFile(p.home(), nil, 0o600))
}

// bringStore brings it back, with all that it had.
func (p *place) bringStore(ctx context.Context) error {
	if p.postgres != nil {
		return p.postgres.start(ctx)
	}
	return errors.Join(os.Remove(p.home()), os.Rename(p.home()+".away", p.home()))
}

// startAll starts the routers and waits for them.
func (p *place) startAll(ctx context.Context) error {
	for i := range p.routers.at {
		if err := p.routers.start(ctx, i); err != nil {
			return err
		}
	}
	return p.routers.ready(ctx)
}

// usage reads all rows.
func (p *place) usage(ctx context.Context) (all []storage.Usage, err error) {
	q := storage.UsageQuery{}
	for {
		rows, next, err := p.store.ListUsage(ctx, q)
		if err != nil {
			return nil, err
		}
		if all = append(all, rows...); next == "" {
			return all, nil
		}
		q.Page.After = next
	}
}

// budgets reads where budgets stand; most is what was seen before.
func (p *place) budgets(ctx context.Context, accounts []*account, most map[string]int64) (map[string]standing, error) {
	out := map[string]standing{}
	for _, a := range accounts {
		if a.budget == 0 {
			continue
		}
		st, err1 := p.store.Budget(ctx, a.period())
		grants, err2 := p.store.ListGrants(ctx, a.period())
		if err := errors.Join(err1, err2); err != nil {
			return nil, fmt.Errorf("%s: %w", a.name, err)
		}
		out[a.id] = standing{BudgetState: st, grants: grants, most: most[a.id]}
	}
	return out, nil
}

// logs looks for what should be in no log: a key, a panic, a data race.
func (p *place) logs(accounts []*account) (problems []string, err error) {
	files, err := filepath.Glob(filepath.Join(p.dir, "router-*.log"))
	if err != nil {
		return nil, err
	}
	never := map[string]string{"panic: ": "a panic", "DATA RACE": "a data race"}
	for _, a := range accounts {
		never[a.text] = "the key of " + a.name
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		for part, what := range never {
			if _, rest, ok := bytes.Cut(text, []byte(part)); ok {
				problems = append(problems, fmt.Sprintf("%s has %s: %.2000s", filepath.Base(file), what, rest))
			}
		}
	}
	return problems, nil
}
