package control

// Forget drops a node that has no stream, with all that is known of its shards,
// and reports whether it did: one that is connected stays, one that is not known is
// forgotten already. It comes back when its agent dials. What the journal has of it
// is for the caller to remove, and to remove first.
func (p *Plane) Forget(id string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := p.fleet.nodes[id]
	if n == nil {
		return true
	}
	if n.stream != nil {
		return false
	}
	p.fleet.forget(n)
	delete(p.unsaved, id)
	p.publish()
	return true
}
