package account

import (
	"context"
	"errors"
	"time"

	"github.com/llmgw/llmgw/storage"
)

const (
	// pruneEvery is how often what is over is forgotten, and pruneMost how much in one
	// step.
	pruneEvery = 10 * time.Minute
	pruneMost  = 1000
	// keepLinks is how long after its end a link that was used can be told from one that
	// never was.
	keepLinks = 30 * 24 * time.Hour
)

// Run forgets what is over, until ctx is done, then returns nil. Nothing else needs it:
// what is over counts no more whether or not it is there. Call it once; several
// processes may do it at once.
func (s *Service) Run(ctx context.Context) error {
	ticker := time.NewTicker(pruneEvery)
	defer ticker.Stop()
	for {
		s.prune(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

func (s *Service) prune(ctx context.Context) {
	now := s.now()
	stale := storage.StaleAccounts{
		Pending: now.Add(-s.cfg.KeepPending), Sessions: now, Idle: now.Add(-s.cfg.SessionIdle), Links: now.Add(-keepLinks),
		Attempts: now.Add(-s.cfg.Throttle.Forget), Most: pruneMost,
	}
	total := 0
	for ctx.Err() == nil {
		n, more, err := s.deps.Store.PruneAccounts(ctx, stale)
		total += n
		if err != nil {
			if ctx.Err() == nil && !errors.Is(err, storage.ErrUnavailable) { // a store that is away says so itself
				s.deps.Logger.WarnContext(ctx, "accounts, sessions and links that are over could not be forgotten", "err", err)
			}
			return
		}
		if !more {
			break
		}
	}
	if total > 0 {
		s.deps.Logger.DebugContext(ctx, "accounts, sessions and links that are over were forgotten", "rows", total)
	}
}
