package controlplane

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/llmgw/llmgw/fleet/control"
	"github.com/llmgw/llmgw/storage"
)

// maxBelieved bounds the term that is believed of an agent: with a term a second
// it is reached after thirty thousand years, and there is no way back from one.
const maxBelieved = 1 << 40

// look is how often the store is asked whether another process has begun a term.
const look = 5 * time.Second

// Bounds of the pause between two tries to begin a term.
const (
	firstPause = 100 * time.Millisecond
	lastPause  = 5 * time.Second
)

// authority is the term in whose name the plane orders, as [control.Authority].
type authority struct {
	store   Store
	cluster string // as configured; empty: the store's
	holder  string
	timeout time.Duration
	log     *slog.Logger
	// begun is called with each term before anything is done in it, ended when this
	// process leads no more. Nil: nobody is told.
	begun func(cluster string, term uint64)
	ended func()

	wake chan struct{} // has room for one: Outranked was called

	mu      sync.Mutex
	mandate control.Mandate // guarded by mu
	why     string          // guarded by mu; why it does not lead; empty: it does
	heard   uint64          // guarded by mu; the highest term that an agent spoke of
	fenced  bool            // guarded by mu; another process leads; there is no way back
}

// Mandate implements [control.Authority].
func (a *authority) Mandate() control.Mandate {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.mandate
}

// standing is the mandate, and why there is none.
func (a *authority) standing() (control.Mandate, string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.mandate, a.why
}

// Outranked implements [control.Authority].
func (a *authority) Outranked(node string, term uint64) {
	if term > maxBelieved {
		a.log.Error("a node speaks of a term that there cannot be, and is not believed; its state file is damaged, or somebody poses as it",
			"node", node, "term", term)
		return
	}
	a.mu.Lock()
	higher := term > a.heard
	a.heard = max(a.heard, term)
	a.mu.Unlock()
	if !higher {
		return
	}
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// run begins a term, and another one each time a node has heard of a higher one,
// until ctx is done. It looks now and then whether another process leads by the
// same store.
func (a *authority) run(ctx context.Context) error {
	pause := firstPause
	ticker := time.NewTicker(look)
	defer ticker.Stop()
	for {
		a.compare(ctx)
		if a.due() {
			err := a.begin(ctx)
			if err != nil && ctx.Err() == nil {
				a.refused(err)
				if !wait(ctx, pause) {
					return nil
				}
				pause = min(2*pause, lastPause)
				continue
			}
			pause = firstPause
		}
		select {
		case <-ctx.Done():
			return nil
		case <-a.wake:
		case <-ticker.C:
		}
	}
}

// compare steps back if another process has begun a term in the store. A node that
// has heard of a higher term may have heard it from that one, and to begin one
// above would be a quarrel without end.
func (a *authority) compare(ctx context.Context) {
	fence, leads := a.fence()
	if !leads {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	last, err := a.store.Term(ctx)
	if err != nil {
		return // it is away, or was made anew: then writes are fenced
	}
	if now := last.Fence(); now != fence {
		a.fencedBy(&storage.FencedError{Wrote: fence, Now: now})
	}
}

// due reports whether a term is to be begun.
func (a *authority) due() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return !a.fenced && (a.mandate.Level != control.Leader || a.heard > a.mandate.Term)
}

// begin begins a term above all that was heard of.
func (a *authority) begin(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	cluster, err := a.name(ctx)
	if err != nil {
		return err
	}
	a.mu.Lock()
	above := a.heard
	a.mu.Unlock()
	term, err := a.store.BeginTerm(ctx, storage.TermRequest{Cluster: cluster, Holder: a.holder, Above: above, At: time.Now()})
	if err != nil {
		return err
	}
	if a.begun != nil {
		a.begun(term.Cluster, term.Number)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.mandate = control.Mandate{Level: control.Leader, Cluster: term.Cluster, Term: term.Number}
	a.why = ""
	a.log.Info("this control plane leads", "cluster", term.Cluster, "term", term.Number, "above", above)
	return nil
}

// name is the cluster's: as configured, as the store has it, or a new one.
func (a *authority) name(ctx context.Context) (string, error) {
	if a.cluster != "" {
		return a.cluster, nil
	}
	switch last, err := a.store.Term(ctx); {
	case err == nil:
		return last.Cluster, nil
	case !errors.Is(err, storage.ErrNotFound):
		return "", err
	}
	return "c-" + strings.ToLower(rand.Text()[:12]), nil
}

// refused notes why no term could be begun. A plane that has one keeps it.
func (a *authority) refused(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.mandate.Level == control.Leader {
		a.log.Error("a node has heard of a higher term than this control plane's, and no new one can be begun: its orders are not followed there",
			"term", a.mandate.Term, "heard", a.heard, "err", err)
		return
	}
	a.why = "no term could be begun in the store: " + err.Error()
	a.log.Error("no term can be begun, so agents are sent away; it is tried again", "err", err)
}

// fencedBy steps back for good: another process leads by the store's own word.
func (a *authority) fencedBy(e *storage.FencedError) {
	a.mu.Lock()
	defer a.mu.Unlock()
	// What was written in a term before the present one says nothing of that.
	if a.fenced || a.mandate.Level != control.Leader || e.Wrote.Term != a.mandate.Term {
		return
	}
	a.fenced = true
	a.mandate.Level = control.Standby
	if a.ended != nil {
		a.ended()
	}
	a.why = "another control plane leads by the same store: " + e.Error()
	a.log.Error("another control plane leads by the same store; this one steps back and takes no agents until it is started anew",
		"term", e.Wrote.Term, "its_term", e.Now.Term, "its_cluster", e.Now.Cluster)
}

// Leads implements [reconcile.Authority]: another term is another time of leading.
func (a *authority) Leads() (leads bool, session uint64) {
	m := a.Mandate()
	return m.Level == control.Leader, m.Term
}

// fence is the fence of what is written now; false where this plane does not lead.
func (a *authority) fence() (storage.Fence, bool) {
	m := a.Mandate()
	return storage.Fence{Cluster: m.Cluster, Term: m.Term}, m.Level == control.Leader
}

// wait reports whether d has passed before ctx was done.
func wait(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
