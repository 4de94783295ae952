package feed

// RunName is how the publisher knows this run of the router.
func (f *Follower) RunName() string { return f.run }

// Publish publishes what is set, in place of Run.
func (p *Publisher) Publish() { p.publish() }
