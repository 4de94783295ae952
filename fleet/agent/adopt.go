package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/engines/process"
)

// adopters bounds how many shards are taken up at once.
const adopters = 16

// settleTime is how long a shard that was taken up may take to say that it is
// ready before the control plane is told how it is: an engine that serves is not
// to be reported as loading.
const settleTime = 1500 * time.Millisecond

// adopter takes up what an earlier run of the agent, or nobody any more, looks
// after.
type adopter struct {
	log      *slog.Logger
	runner   runner
	root     string // where the shards' directories are
	instance string
}

// adopt returns a life for each shard of which there is something. A shard is
// reported whatever is found of it: none is ended because nobody remembers why it
// runs. Of what was not begun nothing is reported.
func (a *adopter) adopt(ctx context.Context) (map[engines.ShardID]*life, error) {
	entries, err := os.ReadDir(a.root)
	if err != nil {
		return nil, err
	}
	marked, err := a.runner.Marked()
	if err != nil {
		// Without it a shard is still found by its record.
		a.log.Warn("processes could not be looked through for those of shards", "err", err)
	}
	running := make(map[engines.ShardID][]process.Marked)
	for _, m := range marked {
		if id, ours := parseProcessID(m.ID, a.instance); ours {
			running[id] = append(running[id], m)
		}
	}
	lives := make(map[engines.ShardID]*life)
	var mu sync.Mutex
	var wg sync.WaitGroup
	turns := make(chan struct{}, adopters)
	for _, e := range entries {
		id, err := parseDirName(e.Name())
		if err != nil || !e.IsDir() {
			a.log.Warn("what is no shard stands among the shards' directories", "name", e.Name())
			continue
		}
		wg.Go(func() {
			turns <- struct{}{}
			defer func() { <-turns }()
			if l := a.adoptOne(ctx, id, running[id]); l != nil {
				mu.Lock()
				defer mu.Unlock()
				lives[id] = l
			}
		})
	}
	wg.Wait()
	for id, processes := range running {
		if lives[id] == nil {
			lives[id] = a.lost(id, wish{}, processes, "its directory is gone")
		}
	}
	return lives, nil
}

// adoptOne takes up one shard. Nil: it was never begun.
func (a *adopter) adoptOne(ctx context.Context, id engines.ShardID, running []process.Marked) *life {
	log := a.log.With("shard", id.String())
	dir := filepath.Join(a.root, dirName(id))
	w, wishErr := readWish(dir)
	if wishErr == nil && w.Shard != id.String() {
		wishErr = fmt.Errorf("%w: it is of shard %s", errWish, w.Shard)
	}
	proc, found, err := a.runner.Adopt(ctx, runDir(dir))
	switch {
	case err == nil:
		status, _ := proc.Changed()
		if wishErr != nil || w.Generation != status.Generation {
			// What package process knows is enough to report the shard and to end it.
			log.Warn("shard is taken up without its ports and its address", "found", found.String(), "err", wishErr)
			w = wish{Version: 1, Shard: id.String(), Generation: status.Generation, Process: status.ID}
		}
		l := &life{wish: w, proc: proc, launched: true, adopted: true}
		if proc.Sleeps() && found != process.FoundStopping && found != process.FoundStopped {
			l.sleep.unsure, l.sleep.doubt = true, time.Now().Add(doubtTime)
		}
		switch found {
		case process.FoundStopping:
			l.stop(time.Now())
		case process.FoundStopped:
			l.ended, l.stopping = status.Since, true
			proc.Detach() // its directory is the next generation's
		default:
		}
		return l
	case errors.Is(err, process.ErrNoRecord) && len(running) == 0:
		log.Info("a start that was not begun is forgotten")
		if err := os.RemoveAll(dir); err != nil {
			log.Warn("its directory could not be removed", "err", err)
		}
		return nil
	}
	if wishErr != nil && !errors.Is(wishErr, fs.ErrNotExist) {
		log.Warn("what was wished of the shard cannot be read", "err", wishErr)
	}
	return a.lost(id, w, running, err.Error())
}

// lost is the life of a shard that cannot be looked after. It counts as failed,
// whatever of it runs, and an order to stop it ends that.
func (a *adopter) lost(id engines.ShardID, w wish, running []process.Marked, why string) *life {
	var names []string
	for _, m := range running {
		w.Generation = max(w.Generation, m.Generation)
		names = append(names, m.Member.String())
	}
	w.Version, w.Shard, w.Process = 1, id.String(), processID(id, a.instance)
	reason := "its record is lost (" + why + "), and nothing of it is seen to run"
	if len(names) > 0 {
		reason = "its record is lost (" + why + "), so that it cannot be looked after; of it run " + strings.Join(names, ", ")
	}
	a.log.Error("shard is lost", "shard", id.String(), "generation", w.Generation, "reason", reason)
	return &life{
		wish: w, lost: true, adopted: true,
		failed: refused("order it to stop, which ends what carries its name, and order another generation", "%s", reason),
	}
}

// settle waits until the shards that were taken up have been asked whether they
// are ready, and whether they sleep, for a moment at most.
func settle(ctx context.Context, lives map[engines.ShardID]*life) {
	ctx, cancel := context.WithTimeout(ctx, settleTime)
	defer cancel()
	var asking sync.WaitGroup
	defer asking.Wait()
	for _, l := range lives {
		if l.sleep.unsure {
			asking.Go(func() {
				if is, err := l.proc.Asleep(ctx); err == nil {
					l.sleep.said(is)
				}
			})
		}
	}
	for _, l := range lives {
		for l.proc != nil {
			status, changed := l.proc.Changed()
			if status.State != process.StateLoading || status.Probe != "" {
				break
			}
			select {
			case <-changed:
			case <-ctx.Done():
				return
			}
		}
	}
}
