package provider

import (
	"cmp"
	"context"
	"fmt"
	"slices"
)

// sweep waits until each of some providers was asked.
type sweep struct {
	ids  map[string]int // how many answers of each; nil: one of all
	done chan struct{}
}

// Probe asks a provider now and returns it as it is after that.
func (r *Registry) Probe(ctx context.Context, id string) (View, error) {
	if err := r.await(ctx); err != nil {
		return View{}, err
	}
	if err := r.sweep(ctx, map[string]int{id: 1}); err != nil {
		return View{}, err
	}
	v, ok := r.Snapshot().ByID(id)
	if !ok {
		return View{}, fmt.Errorf("%w: %q was deleted meanwhile", ErrNotFound, id)
	}
	return v, nil
}

// Sweep asks every provider now and returns when each has answered or failed to.
func (r *Registry) Sweep(ctx context.Context) error { return r.sweep(ctx, nil) }

func (r *Registry) sweep(ctx context.Context, ids map[string]int) error {
	s := &sweep{ids: ids, done: make(chan struct{})}
	a, err := r.send(ctx, request{sweep: s, reply: make(chan reply, 1)})
	if err = cmp.Or(err, a.err); err != nil {
		return err
	}
	select {
	case <-s.done:
		return nil
	case <-r.ended:
		return fmt.Errorf("%w: it has ended", ErrNotReady)
	case <-ctx.Done():
		return fmt.Errorf("provider: sweep: %w", context.Cause(ctx))
	}
}

func (r *Registry) startSweep(s *sweep) error {
	all := s.ids == nil
	if all {
		s.ids = make(map[string]int, r.core.Len())
		r.core.Views(func(v View) { s.ids[v.ID] = 1 })
	}
	for id := range s.ids {
		if _, there := r.core.View(id); !there {
			return fmt.Errorf("%w: %q", ErrNotFound, id)
		}
		if r.plan.soon(id) && !all {
			s.ids[id]++ // who is asked already may have been asked before what the caller did
		}
	}
	if len(s.ids) == 0 {
		close(s.done)
		return nil
	}
	r.sweeps = append(r.sweeps, s)
	return nil
}

// endSweeps tells those who wait for an answer of a provider, or that it is gone.
func (r *Registry) endSweeps(id string, gone bool) {
	var over []*sweep
	r.sweeps = slices.DeleteFunc(r.sweeps, func(s *sweep) bool {
		if s.ids[id]--; s.ids[id] <= 0 || gone {
			delete(s.ids, id)
		}
		if len(s.ids) > 0 {
			return false
		}
		over = append(over, s)
		return true
	})
	if len(over) == 0 {
		return
	}
	r.publish(r.clock()) // who waited sees what came of it
	for _, s := range over {
		close(s.done)
	}
}
