package control

import (
	"context"
	"time"
)

// keepJournal reads the journal when the plane begins, and saves what nodes said
// of themselves. A journal that fails is tried again after a while; no stream
// waits for it.
func (p *Plane) keepJournal(ctx context.Context) {
	if p.deps.Journal == nil {
		return
	}
	ticker := time.NewTicker(p.cfg.JournalInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.journal:
			p.readJournal(ctx)
		case <-ticker.C:
			p.readJournal(ctx)
			p.saveJournal(ctx)
		}
	}
}

// readJournal enters the nodes that the journal has, if that was not done since
// the accession.
func (p *Plane) readJournal(ctx context.Context) {
	accession, wanted := p.journalWanted()
	if !wanted {
		return
	}
	known, err := p.deps.Journal.Nodes(ctx)
	if err != nil {
		if ctx.Err() == nil {
			p.metrics.journalErrors.Inc()
			p.log.Warn("nodes that were known before could not be read; it is tried again", "err", err)
		}
		return
	}
	p.mu.Lock()
	if p.loaded || !p.fleet.accession.Equal(accession) {
		p.mu.Unlock()
		return // another accession was meanwhile
	}
	p.loaded = true
	added := p.fleet.expect(known)
	for w := range p.watchers {
		w.everything() // also that the journal was read
	}
	p.fleet.changes = p.fleet.changes[:0]
	p.mu.Unlock()
	p.log.Info("nodes that were known before", "nodes", len(known), "awaited", added)
}

func (p *Plane) journalWanted() (accession time.Time, wanted bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.fleet.accession, p.level != Standby && !p.loaded
}

// saveJournal saves the nodes that registered since it was last done. Only a
// leader does.
func (p *Plane) saveJournal(ctx context.Context) {
	nodes := p.takeUnsaved()
	if len(nodes) == 0 {
		return
	}
	err := p.deps.Journal.Save(ctx, nodes)
	if err == nil {
		return
	}
	p.mu.Lock()
	for _, n := range nodes {
		if _, known := p.fleet.nodes[n.ID]; known {
			p.unsaved[n.ID] = struct{}{}
		}
	}
	p.mu.Unlock()
	if ctx.Err() == nil {
		p.metrics.journalErrors.Inc()
		p.log.Warn("registrations could not be saved; it is tried again", "nodes", len(nodes), "err", err)
	}
}

func (p *Plane) takeUnsaved() []Known {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.level != Leader {
		return nil
	}
	now := time.Now()
	out := make([]Known, 0, len(p.unsaved))
	for _, n := range p.fleet.order {
		if _, wanted := p.unsaved[n.id]; wanted {
			out = append(out, n.reg.known(p.fleet.heardAt(n, now)))
		}
	}
	clear(p.unsaved)
	return out
}
