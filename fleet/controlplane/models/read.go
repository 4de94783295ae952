package models

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/llmgw/llmgw/fleet/api"
	"github.com/llmgw/llmgw/storage"
)

// poll is how often the store is asked for what other processes added and removed.
const poll = 3 * time.Second

// storeTime bounds a question to the store.
const storeTime = 10 * time.Second

// Load reads the store once and applies what it says. It does nothing without a
// store.
func (m *Models) Load(ctx context.Context) error {
	if m.deps.Store == nil {
		return nil
	}
	if err := m.begin(ctx); err != nil {
		return err
	}
	defer m.end()
	return m.load(ctx)
}

// load is Load for who has begun. While the store cannot be read, what was read last
// stays, and the error is api.ErrUnavailable.
func (m *Models) load(ctx context.Context) error {
	timed, cancel := context.WithTimeout(ctx, storeTime)
	defer cancel()
	list, err := m.deps.Store.ListModels(timed)
	s := m.now.Load()
	if err != nil {
		if s.trouble == "" && ctx.Err() == nil {
			m.log.Warn("models that were added cannot be read from the store; the catalog stays as it is", "err", err)
			m.note(s, err.Error())
		}
		return api.Unavailable(fmt.Errorf("the store does not answer, and nothing was changed: %w", err))
	}
	if s.read && slices.EqualFunc(s.rows, list, func(r row, l storage.Model) bool { return r.Model == l }) {
		if s.trouble != "" {
			m.note(s, "")
		}
		return nil
	}
	next := s.next(s.configured, m.rows(list))
	next.read, next.trouble = true, ""
	if err := m.swap(next, m.deps.Apply); err != nil {
		m.log.Error("models that were added could not be put into force", "err", err)
		return err
	}
	return nil
}

// note keeps why the store could not be read beside a catalog that stays. Who waits
// for a change of that goes on waiting.
func (m *Models) note(s *Snapshot, trouble string) {
	same := *s
	same.trouble = trouble
	m.now.Store(&same)
}

// Run follows what other processes change in the store, until ctx is done. It
// returns nil. Call it once.
func (m *Models) Run(ctx context.Context) error {
	if m.deps.Store == nil {
		<-ctx.Done()
		return nil
	}
	for {
		_ = m.Load(ctx) // it says what is wrong, and is tried again
		t := time.NewTimer(poll)
		select {
		case <-ctx.Done():
			t.Stop()
			return nil
		case <-t.C:
		}
	}
}
