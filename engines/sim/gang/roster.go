package gang

import "fmt"

// roster decides who is of a gang. It is the leader's, and holds no connection.
type roster struct {
	self     Member
	joined   map[int]string // the addresses of the ranks, by rank
	loaded   map[int]bool
	gathered bool // all were there at once; from then on nobody can join
}

func newRoster(leader Member) *roster {
	return &roster{self: leader, joined: map[int]string{0: "itself"}, loaded: make(map[int]bool)}
}

// join takes m in, or says why not.
func (r *roster) join(m Member, from string) error {
	switch {
	case m.Replica != r.self.Replica:
		return fmt.Errorf("this is replica %q, not %q", r.self.Replica, m.Replica)
	case m.Generation != r.self.Generation:
		return fmt.Errorf("this is generation %d, not %d", r.self.Generation, m.Generation)
	case m.Ranks != r.self.Ranks:
		return fmt.Errorf("this replica has %d ranks, not %d", r.self.Ranks, m.Ranks)
	case m.Rank < 1 || m.Rank >= r.self.Ranks:
		return fmt.Errorf("rank %d cannot join: want 1 to %d", m.Rank, r.self.Ranks-1)
	}
	if at, taken := r.joined[m.Rank]; taken {
		return fmt.Errorf("rank %d has joined already, from %s", m.Rank, at)
	}
	r.joined[m.Rank] = from
	r.gathered = r.gathered || len(r.joined) == r.self.Ranks
	return nil
}

// leave takes a rank out. It reports whether the gang is lost: before it has
// gathered the rank can come again.
func (r *roster) leave(rank int) (lost bool) {
	if !r.gathered {
		delete(r.joined, rank)
	}
	return r.gathered
}

// load notes that a rank has loaded, and reports whether all have.
func (r *roster) load(rank int) (all bool) {
	r.loaded[rank] = true
	return r.gathered && len(r.loaded) == r.self.Ranks
}

// missing returns the ranks that have not joined, in order.
func (r *roster) missing() []int {
	return r.without(func(i int) bool { _, ok := r.joined[i]; return ok })
}

// loading returns the ranks that have not loaded, in order.
func (r *roster) loading() []int { return r.without(func(i int) bool { return r.loaded[i] }) }

func (r *roster) without(has func(int) bool) (out []int) {
	for i := range r.self.Ranks {
		if !has(i) {
			out = append(out, i)
		}
	}
	return out
}
