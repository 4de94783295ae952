package controlplane

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/llmgw/llmgw/placement"
	"github.com/llmgw/llmgw/placement/catalog"
)

// lookPatience is how long a question about a model that is not in the catalog waits
// for nodes that look for its weights.
const lookPatience = 3 * time.Second

// told says how a need that the model's entry does not state is known, as the end of
// a sentence; "": nothing is known of it.
func (n *modelNeed) told() string {
	if _, stated := n.stated.Get(); stated {
		return ""
	}
	for i := range n.classes {
		c := &n.classes[i]
		bytes, known := c.NeedBytes.Get()
		if !known {
			continue
		}
		parts := make([]string, 0, len(c.Parts()))
		for _, p := range c.Parts() {
			parts = append(parts, fmt.Sprintf("%s %s", p.Name, sizeText(p.Bytes.Or(0))))
		}
		return fmt.Sprintf("; what it needs is estimated, %s (%s); an entry may state it, under placement", sizeText(bytes), strings.Join(parts, ", "))
	}
	return ""
}

// Fits returns why no known node or fabric could run a model even if all were empty
// and well, as an error that begins with the key of the entry that asks for too
// much; and what else is to be said of it: that this cannot be told yet, or that
// there is no room now. It is what Deps.Fits of package models asks for. A plane that places
// nothing, or does not know its nodes yet, says nothing.
func (p *Plane) Fits(ctx context.Context, m *catalog.Model) (warnings []string, err error) {
	if p.placing == nil {
		return nil, nil
	}
	wish, runs, err := p.placing.WishFor(m)
	if !runs || err != nil {
		return nil, err
	}
	p.needs.await(ctx, lookPatience, m)
	need := p.needs.need(m)
	wish = need.need.Over(wish)
	cluster := p.placing.Cluster()
	switch err := cluster.Fits(wish); {
	case errors.Is(err, placement.ErrNotKnownYet):
		return []string{fmt.Sprintf("%s: whether it fits anywhere is not known yet: %v", m.Name, err)}, nil
	case err != nil:
		unfit, is := errors.AsType[*placement.UnfitError](err)
		if !is {
			return nil, fmt.Errorf("profile: %w", err)
		}
		return nil, fmt.Errorf("profile: no node that is known could run it, even if all were empty: %s%s", unfit.Why, need.told())
	}
	if d := cluster.Place(wish); !d.Placed {
		warnings = append(warnings, fmt.Sprintf("%s: there is no room for it now: %s%s", m.Name, d.Why, need.told()))
	}
	// Beyond mostCounted nobody has to be warned, and counting would take its time.
	const mostCounted = 64
	if _, most := m.Replicas(); most > 1 {
		if n := cluster.Most(wish, min(most, mostCounted)); n < min(most, mostCounted) {
			warnings = append(warnings, fmt.Sprintf("%s: scaling.max is %d, and all nodes that are known hold %d of it, even empty", m.Name, most, n))
		}
	}
	return warnings, nil
}
