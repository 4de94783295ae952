package reconcile

import (
	"log/slog"
	"time"
)

// remind is after which time it is told again that a model has no place, with what
// is short by then, which changes with every node that comes.
const remind = 5 * time.Minute

// diary logs what becomes of replicas and models, each change once.
type diary struct {
	log  *slog.Logger
	told map[string]told // by replica, by model after a slash, and by stray after a tilde
}

// told is what was logged of one last.
type told struct {
	state  State
	reason string
	seen   bool
	at     time.Time // when a model was told of
}

func (d *diary) note(v *View, now time.Time) {
	for key, t := range d.told {
		t.seen = false
		d.told[key] = t
	}
	for i := range v.Replicas {
		r := &v.Replicas[i]
		reason := r.Reason
		if r.Held != "" {
			reason = r.Held + "; it works all the same"
		}
		if d.fresh(r.ID, told{state: r.State, reason: reason}) {
			d.replica(r, reason)
		}
	}
	for i := range v.Models {
		m := &v.Models[i]
		reason := m.Problem
		if m.Unplaced != nil {
			reason = m.Unplaced.Why
		}
		was := d.told["/"+m.Name]
		is := told{reason: reason, seen: true, at: was.at}
		if reason != "" && reason != was.reason && now.Sub(was.at) >= remind {
			is.at = now
			d.log.Warn("a replica has no place", "model", m.Name, "reason", reason)
		}
		if reason == "" && was.reason != "" {
			is.at = time.Time{}
			d.log.Info("every replica has a place", "model", m.Name)
		}
		d.told["/"+m.Name] = is
	}
	for i := range v.Strays {
		st := &v.Strays[i]
		key := "~" + st.Status.ID.String() + " " + st.Node
		was := d.told[key]
		d.told[key] = told{reason: st.Held, seen: true}
		if was == (told{}) || was.reason != st.Held {
			d.log.Warn("a shard runs that no row knows", "shard", st.Status.ID.String(), "node", st.Node, "state", st.Status.State.String(), "held", st.Held)
		}
	}
	for key, t := range d.told {
		if t.seen {
			continue
		}
		delete(d.told, key)
		switch key[0] {
		case '/':
		case '~':
			d.log.Info("a shard that no row knew is gone", "shard", key[1:])
		default:
			d.log.Info("a replica is gone", "replica", key, "after", t.state.String())
		}
	}
}

// fresh reports whether something is not as it was logged last.
func (d *diary) fresh(key string, now told) bool {
	was, known := d.told[key]
	now.seen = true
	d.told[key] = now
	return !known || was.state != now.state || was.reason != now.reason
}

func (d *diary) replica(r *ReplicaView, reason string) {
	var nodes []string
	for _, s := range r.Shards {
		nodes = append(nodes, s.Node)
	}
	args := []any{"replica", r.ID, "model", r.Model, "state", r.State.String(), "nodes", nodes}
	if reason != "" {
		args = append(args, "reason", reason)
	}
	if r.State == Failed || r.State == Lost || r.Held != "" {
		d.log.Warn("a replica", args...)
		return
	}
	d.log.Info("a replica", args...)
}
