package faults

import (
	"errors"
	"fmt"
	"time"

	"github.com/llmgw/llmgw/engines"
)

// Action is what a fault means for a card.
type Action string

// The actions, as configuration spells them.
const (
	// Ignore: the fault is noted and changes nothing.
	Ignore Action = "ignore"
	// RestartEngine: the engines on the card are started anew.
	RestartEngine Action = "restart-engine"
	// Exclude: nothing is placed on the card until it is well again.
	Exclude Action = "exclude"
)

// health is the state of a card that has this fault alone.
func (a Action) health() engines.HealthState {
	switch a {
	case Exclude:
		return engines.Excluded
	case RestartEngine:
		return engines.RestartEngine
	case Ignore:
	}
	return engines.Healthy
}

// Policy is what faults mean. Start from DefaultPolicy.
type Policy struct {
	// XIDs moves numbers that the NVIDIA driver writes to the kernel's log to
	// another action than that of [DefaultXIDs]. Default none.
	XIDs XIDs `yaml:"xids"`
	// OtherXIDs is for numbers that stand in neither. Default ignore: a new
	// driver may write new numbers for what is no fault of the card, and an
	// engine that breaks is started anew anyway.
	OtherXIDs Action `yaml:"other_xids"`
	// UncorrectedECC is for a volatile count of uncorrected errors above 0.
	// Default exclude; like all that is read from a card, exclude or ignore.
	UncorrectedECC Action `yaml:"uncorrected_ecc"`
	// RemapPending is for rows or pages that wait for a reset to be replaced.
	// Default exclude, so that the card is drained and can be reset.
	RemapPending Action `yaml:"remap_pending"`
	// RemapFailed is for a card that has no spare rows left. Default exclude.
	RemapFailed Action `yaml:"remap_failed"`
	// Recovery is for a driver that asks for the card or the machine to be
	// reset. Default exclude.
	Recovery Action `yaml:"recovery"`
	// NotAnswering is for a card that is on the bus and that its driver does not
	// know, or of which it tells an error in place of values. Default exclude.
	NotAnswering Action `yaml:"not_answering"`
	// CleanFor is how long a card has to read clean, without a gap, before it is
	// used again. Default 10m; must be positive.
	CleanFor time.Duration `yaml:"clean_for"`
	// MaxReturns is how often a card comes back by itself within ReturnsWithin.
	// Default 3; 0 leaves every return to an operator; not negative.
	MaxReturns int `yaml:"max_returns"`
	// ReturnsWithin is the time over which returns are counted. Default 168h, a
	// week; must be positive.
	ReturnsWithin time.Duration `yaml:"returns_within"`
}

// XIDs are numbers by the action that they ask for.
type XIDs struct {
	// Ignore are those that are noted and change nothing. Default none.
	Ignore []int `yaml:"ignore"`
	// RestartEngine are those after which the engines on the card are started
	// anew. Default none.
	RestartEngine []int `yaml:"restart_engine"`
	// Exclude are those after which nothing is placed on the card until it is well
	// again. Default none.
	Exclude []int `yaml:"exclude"`
}

// lists returns the lists with their actions.
func (x XIDs) lists() []xidList {
	return []xidList{{"ignore", Ignore, x.Ignore}, {"restart_engine", RestartEngine, x.RestartEngine}, {"exclude", Exclude, x.Exclude}}
}

type xidList struct {
	key    string
	action Action
	xids   []int
}

// DefaultXIDs returns what XIDs mean unless [Policy.XIDs] says otherwise. The
// caller owns the map.
//
// The table follows NVIDIA's catalogue of XIDs where that names an immediate
// action for the card, and the NVIDIA device plugin for what applications cause
// (13, 31, 43, 45, 68, 109). 63 and 92 are left to the counters that are read
// anyway, 154 announces the recovery action, which is read too.
func DefaultXIDs() map[int]Action {
	return map[int]Action{
		13:  Ignore,        // an application's exception in the graphics engine
		31:  Ignore,        // an application's access to memory that is not mapped
		43:  Ignore,        // an application's fault stopped its channel
		45:  Ignore,        // work was ended from outside, as when an engine is killed
		48:  Exclude,       // two bits of memory wrong: uncorrected
		62:  Exclude,       // the internal micro-controller stopped
		63:  Ignore,        // a row was remapped or a page retired
		64:  Exclude,       // … and that could not be recorded
		68:  Ignore,        // an exception in the video processor
		74:  Exclude,       // NVLink
		79:  Exclude,       // the card fell off the bus
		92:  Ignore,        // many corrected errors
		94:  RestartEngine, // an uncorrected error that hit one application only
		95:  Exclude,       // one that may have hit all
		109: Ignore,        // a context switch took too long
		119: Exclude,       // the card's own processor (GSP) does not answer
		120: Exclude,       // … or failed
		140: Exclude,       // uncorrected, in the memory of the GSP
		143: Exclude,       // the card could not be initialised
		154: Ignore,        // the recovery action has changed
	}
}

// DefaultPolicy returns the defaults.
func DefaultPolicy() Policy {
	return Policy{
		OtherXIDs:      Ignore,
		UncorrectedECC: Exclude,
		RemapPending:   Exclude,
		RemapFailed:    Exclude,
		Recovery:       Exclude,
		NotAnswering:   Exclude,
		CleanFor:       10 * time.Minute,
		MaxReturns:     3,
		ReturnsWithin:  7 * 24 * time.Hour,
	}
}

// Validate reports everything that is wrong with p, joined.
func (p Policy) Validate() error {
	var errs []error
	action := func(key string, a Action) {
		if a != Ignore && a != RestartEngine && a != Exclude {
			errs = append(errs, fmt.Errorf("%s: %q is no action; write %s, %s or %s", key, a, Ignore, RestartEngine, Exclude))
		}
	}
	listed := make(map[int]string)
	for _, l := range p.XIDs.lists() {
		for i, xid := range l.xids {
			key := fmt.Sprintf("xids.%s[%d]", l.key, i)
			if xid < 1 || xid > 999 {
				errs = append(errs, fmt.Errorf("%s: %d is no XID; they are 1 to 999", key, xid))
			}
			if first, ok := listed[xid]; ok {
				errs = append(errs, fmt.Errorf("%s: %d stands in %s already", key, xid, first))
			}
			listed[xid] = key
		}
	}
	action("other_xids", p.OtherXIDs)
	// What is read lasts, so that engines would be started anew without end.
	reads := func(key string, a Action) {
		if a != Ignore && a != Exclude {
			errs = append(errs, fmt.Errorf("%s: %q is no action for what is read from a card; write %s or %s", key, a, Ignore, Exclude))
		}
	}
	reads("uncorrected_ecc", p.UncorrectedECC)
	reads("remap_pending", p.RemapPending)
	reads("remap_failed", p.RemapFailed)
	reads("recovery", p.Recovery)
	reads("not_answering", p.NotAnswering)
	if p.CleanFor <= 0 {
		errs = append(errs, fmt.Errorf("clean_for: %v must be positive", p.CleanFor))
	}
	if p.MaxReturns < 0 {
		errs = append(errs, fmt.Errorf("max_returns: %d must not be negative", p.MaxReturns))
	}
	if p.ReturnsWithin <= 0 {
		errs = append(errs, fmt.Errorf("returns_within: %v must be positive", p.ReturnsWithin))
	}
	return errors.Join(errs...)
}

// table returns what XIDs mean by the policy; those that it lacks are
// OtherXIDs.
func (p Policy) table() map[int]Action {
	table := DefaultXIDs()
	for _, l := range p.XIDs.lists() {
		for _, xid := range l.xids {
			table[xid] = l.action
		}
	}
	return table
}
