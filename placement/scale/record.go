package scale

import "time"

// Record is one decision with all that it was made on, so that it can be made again.
type Record struct {
	Config   Config
	Input    Input
	Before   State
	Decision Decision
}

// State is what a [Scaler] knows from its steps before.
type State struct {
	Begun bool
	Last  Decision
	// Full, Spare and Short are since when replicas are full, to spare, or without a
	// place; Moved and Blocked when what is wanted was last changed by load, and held
	// back by cards. Zero: it is not so, and never was.
	Full, Spare, Short, Moved, Blocked time.Time
}

// State returns what the scaler knows.
func (s *Scaler) State() State {
	return State{Begun: s.begun, Last: s.last, Full: s.full, Spare: s.spare, Short: s.short, Moved: s.moved, Blocked: s.blocked}
}

// Replay makes the decision of a record again.
func (r *Record) Replay() Decision {
	b := &r.Before
	s := Scaler{begun: b.Begun, last: b.Last, full: b.Full, spare: b.Spare, short: b.Short, moved: b.Moved, blocked: b.Blocked}
	return s.Step(r.Config, r.Input)
}
